//! A watch that continues through whatever happens to the server or the network.
//!
//! Invariant of a watch: every change of an event after the list is given out once, while the
//! server remembers the last revision seen, from which an ended watch continues. Where the server
//! has forgotten it, the events are listed anew and those written after it are given out: once and
//! as they are by then, without those that are gone and without what an event was in between.
//! Revisions grow over all objects of a server, so that one number says how far we are.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::TryStreamExt;
use kube::core::{Status, WatchEvent};
use serde_json::Value;
use tidings_cli::event::Event;

use super::super::cluster::{CommandError, with_sources};
use super::list::Unlisted;
use super::page::{FIELD_SELECTOR, Reader, is_reached};

/// The server is asked to end a watch after this time, so that a dead connection is noticed.
const WATCH: Duration = Duration::from_secs(240);
/// What a watch may be late for.
const SLACK: Duration = Duration::from_secs(20);
/// Waits between tries to watch again.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Answers of 403 in a row that a watch which was open once outlives, some minutes of them: a
/// kube-apiserver that starts gives them until it has read its roles.
pub(super) const FORBIDDEN_MAX: u32 = 20;
/// Notices of a watch in addition to events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It was cut off and is tried again.
    Interrupted(String),
    /// It continues from where it was: nothing is missing.
    Resumed,
    /// The server had forgotten changes, and the events were listed anew: what comes next is the
    /// last state of each that changed.
    Relisted,
    /// The server counts its revisions anew, or from before, or another archive answers, or the
    /// events are sealed: which changes were given out already cannot be told.
    NewHistory,
}

/// One thing of a watch.
pub(crate) enum Watched {
    Event(Event),
    Notice(Notice),
}

impl Reader {
    /// Gives out every change after a list until `take` breaks.
    ///
    /// # Errors
    /// What the server will not let us do, however often it is asked, and what `take` fails with.
    pub(crate) async fn watch(
        &self,
        listed: &str,
        mut take: impl FnMut(Watched) -> Result<ControlFlow<()>, CommandError>,
    ) -> Result<(), CommandError> {
        let mut position = Position::new(listed);
        let mut wait = Duration::ZERO;
        let mut is_interrupted = false;
        let mut is_expired = false;
        // A watch that was never open is one that is not allowed.
        let mut forbidden_left = 0;
        loop {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let outcome = if is_expired {
                self.catch_up(&mut position, is_interrupted, &mut |watched| {
                    taken(take(watched))
                })
                .await
            } else {
                self.watch_once(&mut position, &mut |watched| {
                    wait = Duration::ZERO;
                    forbidden_left = FORBIDDEN_MAX;
                    if std::mem::take(&mut is_interrupted) {
                        taken(take(Watched::Notice(Notice::Resumed)))?;
                    }
                    match watched {
                        Some(event) => taken(take(Watched::Event(event))),
                        None => Ok(()),
                    }
                })
                .await
            };
            wait = (wait * 2).clamp(WAIT_MIN, WAIT_MAX);
            match outcome {
                // The server ends a watch now and then; that is nothing to speak of.
                Ok(()) => {
                    // What a new list gave out was told as such, and not that there is no gap.
                    is_interrupted &= !std::mem::take(&mut is_expired);
                    wait = WAIT_MIN;
                }
                Err(Ended::Enough) => return Ok(()),
                Err(Ended::Output(error)) => return Err(error),
                Err(Ended::Expired) => is_expired = true,
                Err(Ended::Failed(error)) if is_final(&error, &mut forbidden_left) => {
                    return Err(self.failed(error.into()));
                }
                Err(Ended::Failed(error)) => {
                    if !std::mem::replace(&mut is_interrupted, true) {
                        let why = with_sources(&error);
                        if take(Watched::Notice(Notice::Interrupted(why)))?.is_break() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    async fn watch_once(
        &self,
        position: &mut Position,
        take: &mut impl FnMut(Option<Event>) -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let seconds = WATCH.as_secs().to_string();
        let request = self.request(&[
            (FIELD_SELECTOR, &self.filter.field_selector()),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &position.text),
            ("timeoutSeconds", &seconds),
        ])?;
        let open = self.server.client.request_events::<Value>(request);
        let mut stream = std::pin::pin!(self.server.in_time(open).await?);
        // After a notice that the watch was cut off comes one that it continues.
        take(None)?;
        loop {
            let next = tokio::time::timeout(WATCH + SLACK, stream.try_next()).await;
            let Ok(next) = next else {
                let silent = "the server has not ended a watch that was to end";
                return Err(Ended::Failed(kube::Error::Service(silent.into())));
            };
            match next? {
                None => return Ok(()),
                Some(WatchEvent::Added(value) | WatchEvent::Modified(value)) => {
                    let event = self.group.event(value);
                    position.reach(event.revision());
                    if self.filter.selects(&event) {
                        take(Some(event))?;
                    }
                }
                // Events end an hour after they were last seen: nothing happened.
                Some(WatchEvent::Deleted(value)) => position.reach(Event::new(value).revision()),
                Some(WatchEvent::Bookmark(bookmark)) => {
                    position.reach(bookmark.metadata.resource_version.parse().ok());
                }
                Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status).into()),
            }
        }
    }

    /// Gives out what was written after the position, from a new list. What ends the list is judged
    /// as what ends a watch. Where nothing was written, and no interruption was told, there is
    /// nothing to tell either.
    async fn catch_up(
        &self,
        position: &mut Position,
        is_interrupted: bool,
        take: &mut impl FnMut(Watched) -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let mut listed = match self.list_after(position.revision, None).await {
            Ok(listed) => listed,
            Err(Unlisted::Request(error)) => return Err(error.into()),
            Err(unlisted) => return Err(Ended::Output(self.failed(unlisted))),
        };
        let latest: Option<u64> = listed.revision.parse().ok();
        let is_known = |revision: u64| !listed.is_sealed && is_reached(revision, latest);
        if !position.revision.is_some_and(is_known) {
            take(Watched::Notice(Notice::NewHistory))?;
        } else if is_interrupted || !listed.events.is_empty() {
            take(Watched::Notice(Notice::Relisted))?;
        }
        tidings_cli::event::sort(&mut listed.events);
        for event in listed.events {
            take(Watched::Event(event))?;
        }
        *position = Position::new(&listed.revision);
        Ok(())
    }
}

/// How far a watch is.
struct Position {
    text: String,
    revision: Option<u64>,
}

impl Position {
    fn new(revision: &str) -> Self {
        Self {
            text: revision.to_owned(),
            revision: revision.parse().ok(),
        }
    }

    fn reach(&mut self, revision: Option<u64>) {
        if let Some(revision) = revision {
            self.text = revision.to_string();
            self.revision = Some(revision);
        }
    }
}

/// Why a watch ended before the server meant it to.
enum Ended {
    /// The server has forgotten the revision to continue from.
    Expired,
    Failed(kube::Error),
    /// What was given out is enough.
    Enough,
    Output(CommandError),
}

/// Whether a watch continues after what was taken of it.
fn taken(taken: Result<ControlFlow<()>, CommandError>) -> Result<(), Ended> {
    match taken {
        Ok(ControlFlow::Continue(())) => Ok(()),
        Ok(ControlFlow::Break(())) => Err(Ended::Enough),
        Err(error) => Err(Ended::Output(error)),
    }
}

impl From<kube::Error> for Ended {
    fn from(error: kube::Error) -> Self {
        match error {
            // 504 Timeout is what is said of a revision that the server has not reached: it counts
            // anew.
            kube::Error::Api(status) if status.code == 410 || is_from_the_future(&status) => {
                Self::Expired
            }
            error => Self::Failed(error),
        }
    }
}

fn is_from_the_future(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 504
        && causes
            .into_iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// Whether asking again will not help. Credentials may be renewed, a server that is starting may
/// know nothing yet: not even, for the remaining number of answers, what it allows.
fn is_final(error: &kube::Error, forbidden_left: &mut u32) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    if status.code != 403 {
        return matches!(status.code, 400 | 405 | 406 | 415 | 422);
    }
    let left = forbidden_left.checked_sub(1);
    *forbidden_left = left.unwrap_or(0);
    left.is_none()
}
