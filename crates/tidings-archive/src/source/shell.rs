//! Runs the state machine: carries out its steps, and passes the results to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use parking_lot::Mutex;
use tidings_api::codec;
use tidings_core::wire::Moment;
use tidings_history::timestamp;
use tidings_store::{Fault, WriteError};
use tokio::time::timeout;

use super::api_server::{ApiServer, Watching};
use super::wire::{Events, Frame};
use crate::follow::follower::{Commit, Failure, Follower, Rules, State, Step};
use crate::keep::versions::{KeepError, Keeper, With};

/// Timeout of requests for the source's identity and version, and of opening a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// Timeout of a page of a list.
const PAGE: Duration = Duration::from_secs(120);
/// The source is asked to end a watch after a random time between these, so that a dead connection
/// is noticed, and watches of many clusters do not end together.
const WATCH_MIN: u64 = 240;
const WATCH_MAX: u64 = 300;
/// How much later than asked for a watch may end.
const SLACK: Duration = Duration::from_secs(30);
/// A watch that was open for less than this counts as failed.
const WATCH_SHORT: Duration = Duration::from_secs(1);
/// After a watch has been silent for this time, the source is asked for its version, since the
/// connection may be dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// The same time for a source that sends bookmarks.
const SILENCE_BETWEEN_BOOKMARKS: Duration = Duration::from_secs(150);
/// Without bookmarks, a watch that is silent for a random time between these, in seconds, is
/// replaced: only the beginning of a watch shows that nothing is missing, and a source remembers
/// the position for five minutes by default.
const QUIET_MIN: u64 = 90;
const QUIET_MAX: u64 = 150;
/// Time after a commit for which events wait for more, if they are few. So events that follow each
/// other closely share a commit, which costs more than they do. After a silence, an event is
/// committed at once.
const BETWEEN_COMMITS: Duration = Duration::from_millis(10);
/// Maximum length of one wait by the steady clock, since the wall clock may be set meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The state and counters of following, for health and metrics.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When everything of the source was last known to be kept, in milliseconds of the steady
    /// clock. Answers of the source do not count as progress while commits fail, or if it is
    /// another cluster. While a watch is silent, they count until it is replaced.
    heard: AtomicI64,
    state: Mutex<(State, Option<String>)>,
    /// The followed namespace; empty for the whole cluster.
    pub(crate) namespace: String,
}

impl Progress {
    pub(crate) fn new(namespace: String, now: Duration) -> Self {
        Self {
            heard: AtomicI64::new(millis(now)),
            state: Mutex::new((State::Starting, None)),
            namespace,
        }
    }

    pub(crate) fn state(&self) -> (State, Option<String>) {
        self.state.lock().clone()
    }

    /// Returns the time since the last progress.
    pub(crate) fn since(&self, now: Duration) -> Duration {
        let ago = millis(now) - self.heard.load(Ordering::Relaxed);
        Duration::from_millis(ago.max(0).cast_unsigned())
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// An error's text, with the free and the needed space of the disk if that is the cause.
fn with_space(error: &KeepError, (free, needed): (Option<u64>, u64)) -> String {
    let is_full = matches!(error, KeepError::Write(WriteError::Fault(Fault::NoSpace)));
    let Some(free) = free.filter(|_| is_full) else {
        return error.to_string();
    };
    let mebibytes = |bytes: u64| bytes / (1 << 20);
    format!(
        "{error}: {} MiB are free, {} MiB are needed",
        mebibytes(free),
        mebibytes(needed)
    )
}

/// Follows one source.
pub(crate) struct Shell {
    pub(crate) name: String,
    pub(crate) source: ApiServer,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) namespace: String,
    pub(crate) progress: Arc<Progress>,
    pub(crate) rules: Rules,
    pub(crate) random: fastrand::Rng,
}

/// The changes of several messages of a watch.
#[derive(Default)]
struct Gathered {
    events: Events,
    /// The greatest version of the messages.
    version: Option<u64>,
    has_bookmarks: bool,
    /// The error that ended the watch; messages after it are left out.
    error: Option<Failure>,
}

impl From<Vec<Frame>> for Gathered {
    fn from(frames: Vec<Frame>) -> Self {
        let mut gathered = Self::default();
        for frame in frames {
            match frame {
                Frame::Event(observation) => {
                    gathered.version = gathered.version.max(Some(observation.number));
                    gathered.events.read.push(*observation);
                }
                Frame::Unreadable(unreadable, number) => {
                    gathered.version = gathered.version.max(number);
                    gathered.events.unreadable.push(*unreadable);
                }
                Frame::Bookmark(number) => {
                    gathered.has_bookmarks = true;
                    gathered.version = gathered.version.max(Some(number));
                }
                Frame::Error(failure) => {
                    gathered.error = Some(failure);
                    break;
                }
            }
        }
        gathered
    }
}

impl Shell {
    fn now(&self) -> i64 {
        self.keeper.now().0
    }

    fn heard(&self) {
        let now = millis(self.keeper.clock.steady());
        self.progress.heard.store(now, Ordering::Relaxed);
    }

    /// Follows until it is dropped. Events that are not committed by then are read again next time.
    pub(crate) async fn run(mut self) {
        let mut follower = loop {
            match self.keeper.position(&self.namespace).await {
                Ok(position) => {
                    let (rules, namespace) = (self.rules.clone(), self.namespace.clone());
                    break Follower::new(rules, namespace, position, self.random.fork());
                }
                Err(error) => {
                    let why = error.to_string();
                    tracing::error!(cluster = self.name, why, "the archive cannot be read");
                    self.show(State::StorageFailed, Some(&why));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        loop {
            let (state, why) = follower.state();
            self.show(state, why);
            match follower.step() {
                Step::Wait { until } => {
                    let wait = until.saturating_sub(self.now()).max(0).cast_unsigned();
                    tokio::time::sleep(Duration::from_millis(wait).min(WAIT_MAX)).await;
                    // The clock may have been set meanwhile.
                    follower.waited(self.now().max(until));
                }
                Step::Ask => match in_time(ANSWER, self.source.ask(self.now())).await {
                    Ok(answer) => {
                        let commit = follower.answered(self.now(), answer);
                        self.commit(&mut follower, &Events::default(), commit).await;
                    }
                    Err(failure) => self.failed(&mut follower, failure).await,
                },
                Step::List { token, limit } => {
                    let asked = self.now();
                    match in_time(PAGE, self.source.list(token.as_deref(), limit)).await {
                        Ok((page, events)) => {
                            let commit = follower.listed((asked, self.now()), page);
                            if self.commit(&mut follower, &events, commit).await {
                                self.heard();
                            }
                        }
                        Err(failure) => self.failed(&mut follower, failure).await,
                    }
                }
                Step::Watch { after } => {
                    let time = Duration::from_secs(self.random.u64(WATCH_MIN..=WATCH_MAX));
                    match in_time(ANSWER, self.source.watch(after, time)).await {
                        Ok(watching) => self.watch(&mut follower, watching, time).await,
                        Err(failure) => self.failed(&mut follower, failure).await,
                    }
                }
            }
        }
    }

    async fn watch(&mut self, follower: &mut Follower, mut watching: Watching, time: Duration) {
        let clock = Arc::clone(&self.keeper.clock);
        let opened = clock.steady();
        let mut spoke = opened;
        let quiet = Duration::from_secs(self.random.u64(QUIET_MIN..=QUIET_MAX));
        let mut sends_bookmarks = false;
        let mut gathered = None;
        follower.opened();
        let (state, why) = follower.state();
        self.show(state, why);
        loop {
            let next = timeout(SILENCE, watching.next(gathered)).await;
            let now = clock.steady();
            if now.saturating_sub(opened) > time + SLACK {
                let why = "the source has not ended a watch that was to end";
                return self.failed(follower, failure(why)).await;
            }
            let frames = match next {
                Ok(Ok(Some(frames))) => frames,
                Ok(Ok(None)) if now.saturating_sub(opened) < WATCH_SHORT => {
                    return self
                        .failed(follower, failure("the source closed the watch at once"))
                        .await;
                }
                Ok(Ok(None)) => {
                    follower.alive();
                    return follower.closed();
                }
                Ok(Err(failure)) => {
                    if now.saturating_sub(opened) >= WATCH_SHORT {
                        follower.alive();
                    }
                    return self.failed(follower, failure).await;
                }
                Err(_) => {
                    let silent = now.saturating_sub(spoke);
                    if sends_bookmarks && silent > SILENCE_BETWEEN_BOOKMARKS {
                        let why = "the source sends no bookmarks any more";
                        return self.failed(follower, failure(why)).await;
                    }
                    let asked = self.now();
                    let version = match in_time(ANSWER, self.source.version()).await {
                        Ok(version) => version,
                        Err(failure) => return self.failed(follower, failure).await,
                    };
                    let reached = follower.position().and_then(|position| position.version);
                    let went_back = reached.is_some_and(|reached| version < reached);
                    if went_back || !follower.is_level(version) {
                        return follower.closed();
                    }
                    let commit = if watching.has_part() {
                        // The watch is not silent, but slow.
                        follower.watched(self.now(), None, 0)
                    } else {
                        follower.silent(self.now(), (asked, version))
                    };
                    if !self.commit(follower, &Events::default(), commit).await {
                        return;
                    }
                    self.heard();
                    if !sends_bookmarks && silent >= quiet {
                        return follower.closed();
                    }
                    continue;
                }
            };
            spoke = now;
            let Gathered {
                events,
                version,
                has_bookmarks,
                error,
            } = Gathered::from(frames);
            sends_bookmarks |= has_bookmarks;
            if version.is_some() || !events.unreadable.is_empty() {
                // A change without a readable version is passed over with the next one that has it.
                let version = version.unwrap_or(0);
                let is_level = follower.is_level(version);
                let last = events.read.last();
                let written = last.and_then(|last| written_until(&last.event, is_level));
                let commit = follower.watched(self.now(), written, version);
                if !self.commit(follower, &events, commit).await {
                    return;
                }
                self.heard();
            }
            if let Some(failure) = error {
                return self.failed(follower, failure).await;
            }
            gathered = Some(tokio::time::sleep(BETWEEN_COMMITS).deadline());
        }
    }

    async fn failed(&self, follower: &mut Follower, failure: Failure) {
        tracing::debug!(cluster = self.name, ?failure, "following was interrupted");
        let commit = follower.failed(self.now(), failure);
        self.commit(follower, &Events::default(), commit).await;
    }

    /// Commits the follower's result with these events. Returns whether it succeeded.
    async fn commit(
        &self,
        follower: &mut Follower,
        events: &Events,
        commit: Option<Commit>,
    ) -> bool {
        let Some(Commit {
            mut position,
            gap,
            listed_at,
            unswept,
        }) = commit
        else {
            return true;
        };
        let before = follower.position();
        let with = With {
            gap: gap.as_ref(),
            listed_at,
            unswept: unswept.as_ref(),
            unreadable: &events.unreadable,
            complete_until: before.map(|before| before.complete_until),
        };
        let kept = self
            .keeper
            .keep(&events.read, &self.namespace, &mut position, with);
        match kept.await {
            Ok(()) => {
                if let Some(gap) = gap {
                    let cause = gap.cause.name();
                    let from = timestamp(gap.from);
                    let to = timestamp(gap.to);
                    tracing::warn!(
                        cluster = self.name, cause, %from, %to,
                        "versions of events may be missing"
                    );
                }
                if let Some(unreadable) = events.unreadable.first() {
                    tracing::warn!(
                        cluster = self.name,
                        events = events.unreadable.len(),
                        namespace = unreadable.namespace,
                        name = unreadable.name,
                        why = unreadable.why,
                        "events cannot be read, and are not kept"
                    );
                }
                follower.committed(position);
                true
            }
            Err(error) => {
                let why = with_space(&error, self.keeper.store.free_space());
                follower.not_committed(self.now(), why);
                false
            }
        }
    }

    /// Publishes the state to health, metrics and the log.
    fn show(&self, state: State, why: Option<&str>) {
        let shown = &self.progress.state;
        let mut shown = shown.lock();
        if shown.0 == state {
            shown.1 = why.map(str::to_owned);
            return;
        }
        *shown = (state, why.map(str::to_owned));
        drop(shown);
        let cluster = &self.name;
        match state {
            State::Listing if why.is_some() => {
                tracing::warn!(cluster, state = state.name(), why, "following");
            }
            State::NotFollowed | State::Starting | State::Listing | State::Watching => {
                tracing::info!(cluster, state = state.name(), why, "following");
            }
            State::Unreachable => tracing::warn!(cluster, why, "the source cannot be followed"),
            State::Forbidden | State::OtherCluster | State::StorageFailed => {
                tracing::error!(
                    cluster,
                    state = state.name(),
                    why,
                    "events are not followed"
                );
            }
        }
    }
}

fn failure(why: &str) -> Failure {
    Failure::Other {
        why: why.to_owned(),
        retry_after: None,
    }
}

async fn in_time<T>(
    time: Duration,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(time, answer).await.unwrap_or_else(|_| {
        let why = format!("the source did not answer within {} s", time.as_secs());
        Err(failure(&why))
    })
}

/// Returns the latest of an event's times, before which it was written.
///
/// The time at which an event happened comes from its author, whose clock may be ahead. That
/// matters little for an event that was written just now, since no time is taken that is later than
/// now. For others only the source's own times count, which may be too early: a source does not
/// note when a count is increased.
fn written_until(event: &Event, is_level: bool) -> Option<i64> {
    let metadata = event.metadata.as_ref();
    let managed = metadata
        .into_iter()
        .flat_map(|metadata| &metadata.managed_fields);
    let managed = managed.filter_map(|entry| codec::time(entry.time));
    let created = metadata.and_then(|metadata| codec::time(metadata.creation_timestamp));
    let own = managed.chain(created).map(Moment::timestamp).max();
    let seen = codec::last_seen(event).filter(|_| is_level || own.is_none());
    own.max(seen).map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};

    use super::*;

    /// Another thread may have read the clock earlier than the one that noted the progress.
    #[test]
    fn progress_is_as_long_ago_as_the_clock_says() {
        let seconds = Duration::from_secs;
        let progress = Progress::new(String::new(), seconds(10));
        for (now, since) in [(9, 0), (10, 0), (13, 3)] {
            assert_eq!(progress.since(seconds(now)), seconds(since), "{now}");
        }
    }

    #[test]
    fn the_error_of_a_full_disk_says_how_much_is_free_and_how_much_is_needed() {
        let space = (Some(115 << 20), 128 << 20);
        let full = KeepError::Write(WriteError::Fault(Fault::NoSpace));
        let closed = KeepError::Write(WriteError::Fault(Fault::Closed));
        let expected = "no space left on the store's disk: 115 MiB are free, 128 MiB are needed";
        assert_eq!(with_space(&full, space), expected);
        assert_eq!(with_space(&closed, space), closed.to_string());
        assert_eq!(with_space(&full, (None, 1)), full.to_string());
    }

    #[test]
    fn the_time_of_an_author_counts_only_for_what_was_written_just_now() {
        let time = |seconds: i64| Time {
            seconds: Some(seconds),
            nanos: None,
        };
        let event = |created: Option<i64>, managed: Option<i64>| Event {
            metadata: Some(ObjectMeta {
                creation_timestamp: created.map(time),
                managed_fields: managed
                    .into_iter()
                    .map(|at| ManagedFieldsEntry {
                        time: Some(time(at)),
                        ..ManagedFieldsEntry::default()
                    })
                    .collect(),
                ..ObjectMeta::default()
            }),
            // The author's clock is an hour ahead.
            last_timestamp: Some(time(5_000)),
            ..Event::default()
        };
        for (created, managed, expected) in [
            (Some(1_000), Some(1_400), 1_400),
            (Some(1_000), None, 1_000),
            (None, None, 5_000),
        ] {
            let event = event(created, managed);
            assert_eq!(written_until(&event, false), Some(expected * 1000));
            assert_eq!(written_until(&event, true), Some(5_000_000));
        }
    }
}
