//! A watch that continues across failures of the server and the network.
//!
//! Invariants: every change of an event after the list is passed on once, while the server
//! remembers the last seen revision, from which an ended watch continues. If the server has
//! forgotten that revision, the events are listed again and those written after it are passed on:
//! once, in their present state, without deleted events and intermediate states. Revisions grow
//! over all objects of a server, so one number is the position.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::TryStreamExt;
use kube::core::{Status, WatchEvent};
use serde_json::Value;
use tidings_cli::event::Event;

use super::super::cluster::{CommandError, with_sources};
use super::list::Unlisted;
use super::page::{FIELD_SELECTOR, Reader, is_reached};

/// Requested lifetime of a watch, so that a dead connection is noticed.
const WATCH: Duration = Duration::from_secs(240);
/// How much longer than requested a watch may last.
const SLACK: Duration = Duration::from_secs(20);
/// Minimum wait before a watch is tried again.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Answers of 403 in a row after which a watch that was open before fails; they take some minutes.
/// A starting kube-apiserver gives them until it has read its roles.
pub(super) const FORBIDDEN_MAX: u32 = 20;
/// Notices of a watch, in addition to events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The watch was cut off and is tried again, for this reason.
    Interrupted(String),
    /// The watch continues at its position: no change is missing.
    Resumed,
    /// The server had forgotten changes, and the events were listed again. The next events are the
    /// present states of those that changed.
    Relisted,
    /// It is unknown which changes were passed on already. The server's revisions began anew or
    /// went back, another archive answers, or the events are sealed.
    NewHistory,
}

/// An event or a notice of a watch.
pub(crate) enum Watched {
    Event(Event),
    Notice(Notice),
}

impl Reader {
    /// Passes on every change after a list until `take` breaks.
    ///
    /// # Errors
    /// Answers of the server that would be the same if asked again, and what `take` returns as an
    /// error.
    pub(crate) async fn watch(
        &self,
        listed: &str,
        mut take: impl FnMut(Watched) -> Result<ControlFlow<()>, CommandError>,
    ) -> Result<(), CommandError> {
        let mut position = Position::new(listed);
        let mut wait = Duration::ZERO;
        let mut is_interrupted = false;
        let mut is_expired = false;
        // A watch that was never open is not allowed.
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
                // The server ends a watch now and then, which is not reported.
                Ok(()) => {
                    // If the events were listed again, that was reported, and not that there is no
                    // gap.
                    is_interrupted &= !std::mem::take(&mut is_expired);
                    wait = WAIT_MIN;
                }
                Err(Ended::Enough) => return Ok(()),
                Err(Ended::Output(error)) => return Err(error),
                Err(Ended::Expired) => is_expired = true,
                Err(Ended::Failed(error)) if is_final(&error, forbidden_left) => {
                    return Err(self.failed(error.into()));
                }
                Err(Ended::Failed(error)) => {
                    if is_forbidden(&error) {
                        forbidden_left -= 1;
                    }
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
        // After an interruption was reported, the continuation is reported.
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
                // Events expire an hour after they were last seen, so a deletion is no news.
                Some(WatchEvent::Deleted(value)) => position.reach(Event::new(value).revision()),
                Some(WatchEvent::Bookmark(bookmark)) => {
                    position.reach(bookmark.metadata.resource_version.parse().ok());
                }
                Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status).into()),
            }
        }
    }

    /// Lists the events again, and passes on those written after the position. Errors are handled
    /// as those of a watch. If there are none, and no interruption was reported, nothing is
    /// reported.
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

/// The position of a watch.
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

/// Why a watch ended early.
enum Ended {
    /// The server has forgotten the revision of the position.
    Expired,
    Failed(kube::Error),
    /// `take` wants no more.
    Enough,
    Output(CommandError),
}

/// The continuation of a watch after a call of `take`.
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
            // 504 Timeout is the answer for a revision that the server has not reached, because its
            // revisions began anew.
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

/// Whether a retry will not help. Credentials may be renewed, and a starting server may not know
/// its objects. For the remaining number of answers, it may not know its roles either.
fn is_final(error: &kube::Error, forbidden_left: u32) -> bool {
    match error {
        kube::Error::Api(status) if status.code == 403 => forbidden_left == 0,
        kube::Error::Api(status) => matches!(status.code, 400 | 405 | 406 | 415 | 422),
        _ => false,
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
