//! Series: repeated events of events.k8s.io/v1, written rarely and never lost. client-go's
//! `eventBroadcasterImpl` (`tools/events`).
//!
//! ```text
//!             Create             Patch, at once          Patch, a heartbeat after the last, while the count is behind
//!   event ──────────▶ single ───────────────▶ series ◀──┐
//!                        │                       │ └────┘ or a refresh, within a budget
//!                        └──────────┬────────────┘
//!                                   ▼ quiet, or no room, or the end: Patch, if the count is behind
//!                               forgotten
//! ```
//!
//! [`Delivery`](crate::Delivery) does the rest: this file only decides when a series is written.
//! Delivery keeps the states of one series in order, creates missing events, and skips states that
//! a later one replaces.
//!
//! By default, counts are refreshed between heartbeats (`refresh.rs`). With a heartbeat option they
//! are not. With a heartbeat of half an hour, as in client-go, a series never causes more writes
//! than client-go makes. The start of a series (the create, and the patch of the second event)
//! makes client-go write at the same moments: client-go forgets a series no later than this code
//! does. Its passes run every six minutes and end each series that was quiet for more than six.
//!
//! In the half hour between two heartbeats of a continuing series, client-go refreshes it, ends it,
//! or begins a new one. In the twelve minutes before a last count, client-go ends the series or has
//! begun a new one. Two cases cost writes that client-go does not make: the shutdown, where
//! client-go forgets all counts that are behind, and a full cache, as client-go's is unbounded.
//!
//! Due writes are handed out only as far as the caller has room for them. The others are not lost,
//! and their series continue to count.
//!
//! Invariants: exactly one handed-out write settles each event, or the event is still counted in
//! [`SeriesStats::behind`]. Counts are absolute and only grow. Each entry that is behind has a time
//! at which it is written, and the queue finds these entries without a scan.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::occurrence::PatchForm;
use super::refresh::{Refreshes, Staleness};
use super::{InvalidSeriesOptions, Occurrence, OccurrenceKind, SeriesOptions};
use crate::cache::{Cache, CacheStats};
use crate::context::absorb;
use crate::key::{CountKey, Key, Keys, Projection};
use crate::{Event, EventContext, Monotonic, NameStamps, Now};

/// One series, or a single event that may become one.
struct Open {
    /// The first event; the stored event has its name and its note.
    first: Event,
    /// The last event, if its note differs from the first and is to be shown.
    latest: Option<Event>,
    /// The contexts of events that are counted and not yet written.
    context: Option<Arc<dyn EventContext>>,
    last: Timestamp,
    last_seen: Monotonic,
    count: i32,
    /// Events for which no write was handed out.
    behind: u64,
    /// Writes that were handed out and not lost. If there are any, the API server has the event or
    /// will have it.
    handed: u64,
    /// The earliest time of the next write.
    not_before: Monotonic,
    /// The entry's key in `Series::due`.
    due: Option<(Monotonic, u64)>,
    stale: Staleness,
}

/// Keeps series of events, and decides when each is written.
///
/// After each input, call [`Series::poll_write`] until it returns `None`. Then wait for an event or
/// until [`Series::poll_timeout`]. Writes that an event causes are handed out at once. Due writes,
/// and writes at the end, are handed out up to the given maximum.
///
/// ```
/// use std::sync::Arc;
/// use tidings_core::{
///     ClusterScopedNamespace, Event, EventSource, EventType, NameStamps, NewEvent, Now, OccurrenceKind, Reference, ReferenceFields,
///     Series, SeriesOptions, TEXT_BYTES_MAX,
/// };
///
/// let names = Arc::new(NameStamps::new(1));
/// let mut series = Series::new(SeriesOptions::default(), &names)?;
/// let pod = Reference::new(ReferenceFields { kind: "Pod", namespace: "default", name: "web-0", ..Default::default() });
/// let at: jiff::Timestamp = "2024-01-01T00:00:00Z".parse()?;
/// let event = Event::new(
///     &NewEvent {
///         source: &EventSource::component("example-controller"),
///         regarding: &pod,
///         related: None,
///         event_type: EventType::Warning,
///         reason: "BackOff",
///         action: "Restarting",
///         message: &"restarting failed container",
///         annotations: None,
///         labels: None,
///         cluster_scoped_namespace: &ClusterScopedNamespace::Default,
///         text_bytes_max: TEXT_BYTES_MAX,
///     },
///     &names,
///     at,
/// );
/// for _ in 0..3 {
///     series.handle_event(Now::at(at), &event);
/// }
/// let create = series.poll_write().expect("the first is created");
/// let patch = series.poll_write().expect("the second makes it a series");
/// assert_eq!((create.kind(), patch.count()), (OccurrenceKind::Create, 2));
/// assert!(series.poll_write().is_none(), "the third waits");
/// assert!(series.finish(usize::MAX), "nothing is left for another call");
/// assert_eq!(series.poll_write().map(|patch| patch.count()), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Series {
    options: SeriesOptions,
    keys: Keys,
    open: Cache<Open>,
    /// The times at which entries are written or forgotten.
    due: BTreeMap<(Monotonic, u64), Key>,
    /// The keys of `due` whose entries are behind.
    due_behind: BTreeSet<(Monotonic, u64)>,
    last_due: u64,
    /// The queue of refreshes between heartbeats; `None` if the options have a heartbeat.
    refreshes: Option<Refreshes>,
    /// The times of client-go's next passes over all entries; set by the first call, by client-go's
    /// rules only.
    passes: Option<Passes>,
    /// The pass that is in progress.
    passing: Option<Passing>,
    writes: VecDeque<Occurrence>,
    behind: u64,
}

/// When client-go's `refreshExistingEventSeries` and `finishSeries` run next.
#[derive(Clone, Copy)]
struct Passes {
    refresh: Monotonic,
    finish: Monotonic,
}

/// A pass in progress: a refresh, a finish, or both at once.
struct Passing {
    began: Monotonic,
    refreshes: bool,
    finishes: bool,
    /// Entries that the pass has not visited.
    left: std::vec::IntoIter<Key>,
}

impl Series {
    /// Makes an empty collection of series. The seed of `names` also seeds the hashes.
    ///
    /// # Errors
    ///
    /// [`InvalidSeriesOptions`] when an option is out of its range.
    pub fn new(
        options: SeriesOptions,
        names: &Arc<NameStamps>,
    ) -> Result<Self, InvalidSeriesOptions> {
        options.validate()?;
        Ok(Self {
            keys: Keys::new(names.seed()),
            open: Cache::new(options.cache_entries_max, options.cache_bytes_max),
            due: BTreeMap::new(),
            due_behind: BTreeSet::new(),
            last_due: 0,
            refreshes: options
                .is_refreshed()
                .then(|| Refreshes::new(options.cache_entries_max)),
            passes: None,
            passing: None,
            writes: VecDeque::new(),
            behind: 0,
            options,
        })
    }

    /// Takes an event. If a caller waits for its outcome, it is written at once.
    ///
    /// Due work is left to [`Series::handle_timeout`], except the end of the event's own series.
    pub fn handle_event(&mut self, now: Now, event: &Event) {
        let (event, context) = event.split_context();
        let event = &*event;
        let awaited = context.as_ref().is_some_and(|context| context.is_awaited());
        let projection = if self.options.client_go {
            Projection::CLIENT_GO_SERIES
        } else {
            Projection::SERIES
        };
        let key = self.keys.key(event, projection);
        if self.options.client_go {
            self.begin_pass(now.monotonic);
            self.end_by_pass(now.monotonic, &key);
        } else {
            self.end_if_idle(now.monotonic, &key);
        }
        let last = event
            .last_timestamp()
            .or(event.event_time())
            .unwrap_or(now.wall);
        self.behind += 1;
        if let Some(open) = self.open.get(&key) {
            open.count = open.count.saturating_add(1);
            open.behind += 1;
            // A clock that was set back does not move the series' last time back.
            open.last = open.last.max(last);
            open.last_seen = now.monotonic;
            // By client-go's rules only the second event is written at once.
            let waits = if awaited {
                false
            } else if self.options.client_go {
                open.count > 2
            } else {
                now.monotonic < open.not_before
            };
            let context = if waits {
                context.and_then(|context| context.kept())
            } else {
                context
            };
            let earlier = std::mem::replace(&mut open.context, context);
            absorb(&mut open.context, earlier.as_ref());
            // After another note was shown, the first note can be the last one again.
            let noted = open.latest.is_some() || event.message() != open.first.message();
            let latest = (self.options.last_note && noted).then(|| event.clone());
            let noted = latest.as_ref().map_or(0, Event::size);
            let other_size = open.latest.as_ref().map_or(0, Event::size) != noted;
            open.latest = latest;
            let first_behind = open.behind == 1;
            // The key must point to the first event, which is kept anyway; otherwise this event
            // would be kept, too.
            let key = key.kept_by(&open.first);
            if !waits {
                self.write(now.monotonic, &key);
            }
            if !waits || first_behind {
                self.schedule(&key);
            }
            if first_behind && waits {
                self.arm(&key);
            }
            if other_size {
                self.open.reweigh(&key, noted);
                self.make_room();
            }
            return;
        }
        let open = Open {
            first: event.clone(),
            latest: None,
            context,
            last,
            last_seen: now.monotonic,
            count: 1,
            behind: 1,
            handed: 0,
            not_before: now.monotonic,
            due: None,
            stale: Staleness::new(now.monotonic),
        };
        self.open.insert(key.clone(), open, 0);
        self.write(now.monotonic, &key);
        self.schedule(&key);
        self.make_room();
    }

    /// Queues a count that is behind for a refresh.
    fn arm(&mut self, key: &Key) {
        if let (Some(refreshes), Some(open)) = (&mut self.refreshes, self.open.peek(key)) {
            let at = open.stale.due_at(open.last_seen, open.count);
            refreshes.arm(&mut open.stale, at, key.clone());
        }
    }

    /// Writes due refreshes, until there are `full` queued writes.
    fn refresh_due(&mut self, now: Monotonic, full: usize) {
        while self.writes.len() < full
            && let Some((due, key)) = self
                .refreshes
                .as_mut()
                .and_then(|refreshes| refreshes.pop(now))
        {
            let Some(open) = self
                .open
                .peek(&key)
                .filter(|open| open.stale.due == Some(due))
            else {
                continue;
            };
            open.stale.due = None;
            if open.behind == 0 {
                continue;
            }
            if open.stale.due_at(open.last_seen, open.count) > now {
                self.arm(&key);
                continue;
            }
            open.stale.note_refresh(now, open.count);
            if let Some(refreshes) = &mut self.refreshes {
                refreshes.spend(now);
            }
            self.write(now, &key);
            self.schedule(&key);
        }
    }

    fn make_room(&mut self) {
        while let Some((key, mut open)) = self.open.pop_excess() {
            self.forget(&key, &mut open);
        }
    }

    /// Does the due work, until it made `writes_max` more writes. If work is left,
    /// [`Series::poll_timeout`] is in the past. An early call does no harm.
    pub fn handle_timeout(&mut self, now: Monotonic, writes_max: usize) {
        if self.options.client_go {
            return self.pass(now, writes_max);
        }
        let full = self.writes.len().saturating_add(writes_max);
        while self.writes.len() < full
            && let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            self.due_behind.remove(entry.key());
            let key = entry.remove();
            if let Some(open) = self.open.peek(&key) {
                open.due = None;
            }
            self.end_if_idle(now, &key);
            let Some(open) = self.open.peek(&key) else {
                continue;
            };
            if open.behind > 0 && now >= open.not_before {
                self.write(now, &key);
            }
            self.schedule(&key);
        }
        self.refresh_due(now, full);
    }

    /// Writes up to `writes_max` counts that are behind before they are due, in the order in which
    /// they are due. By client-go's rules, it begins with the counts that are behind for the
    /// longest.
    pub fn write_early(&mut self, now: Monotonic, writes_max: usize) {
        let due = self.due_behind.iter().take(writes_max);
        let keys: Vec<Key> = due.filter_map(|due| self.due.get(due).cloned()).collect();
        for key in keys {
            self.write(now, &key);
            self.schedule(&key);
        }
    }

    /// Returns the next write. Call [`Series::lost`] if it is not made.
    pub fn poll_write(&mut self) -> Option<Occurrence> {
        self.writes.pop_front()
    }

    /// When to call [`Series::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        if self.options.client_go {
            let passing = self.passing.as_ref().map(|passing| passing.began);
            let passes = self.passes.map(|passes| passes.refresh.min(passes.finish));
            return passing.or(passes);
        }
        let due = self.due.first_key_value().map(|((at, _), _)| *at);
        let refresh = self.refreshes.as_ref().and_then(Refreshes::poll_timeout);
        due.into_iter().chain(refresh).min()
    }

    /// Records that `occurrence` was dropped, or merged into a later one. If the event was never
    /// written, the next event of its series creates it.
    pub fn lost(&mut self, occurrence: &Occurrence) {
        if let Some(open) = self.open.peek(&occurrence.key.0)
            // The entry may have been evicted, and another begun under another name since.
            && open.first.is_same(&occurrence.first)
        {
            open.handed = open.handed.saturating_sub(1);
        }
    }

    /// Ends every series: each series that is behind is written a last time. Stops after
    /// `writes_max` more writes; then it returns false and must be called again.
    pub fn finish(&mut self, writes_max: usize) -> bool {
        let full = self.writes.len().saturating_add(writes_max);
        while self.writes.len() < full {
            let Some((key, mut open)) = self.open.pop() else {
                return true;
            };
            self.forget(&key, &mut open);
        }
        false
    }

    /// Returns counts of the series since the start.
    pub fn stats(&self) -> SeriesStats {
        SeriesStats {
            cache: self.open.stats(),
            behind: self.behind,
        }
    }

    fn write(&mut self, now: Monotonic, key: &Key) {
        if let Some(open) = self.open.peek(key) {
            self.behind -= open.behind;
            self.writes
                .push_back(open.hand_out(key, self.options.client_go));
            open.stale.note_write(now, open.count);
            if open.count > 1 {
                open.not_before = now.saturating_add(self.options.interval());
            }
        }
    }

    /// Records when the entry under `key` needs attention next. By client-go's rules an entry has
    /// no time of its own; an entry that is behind is recorded with the time since which it is.
    fn schedule(&mut self, key: &Key) {
        let Some(open) = self.open.peek(key) else {
            return;
        };
        if let Some(due) = open.due.take() {
            self.due.remove(&due);
            self.due_behind.remove(&due);
        }
        let end = open.last_seen.saturating_add(self.options.idle);
        let at = match (self.options.client_go, open.behind > 0) {
            (true, false) => return,
            (true, true) => open.last_seen,
            (false, true) => open.not_before.min(end),
            (false, false) => end,
        };
        self.last_due += 1;
        let due = (at, self.last_due);
        open.due = Some(due);
        if open.behind > 0 {
            self.due_behind.insert(due);
        }
        self.due.insert(due, key.clone());
    }

    /// Ends the series under `key` if it had no event for too long.
    fn end_if_idle(&mut self, now: Monotonic, key: &Key) {
        let idle = nanos(self.options.idle);
        if self
            .open
            .peek(key)
            .is_some_and(|open| now.nanos_since(open.last_seen) >= idle)
            && let Some(mut open) = self.open.remove(key)
        {
            self.forget(key, &mut open);
        }
    }

    /// Ends a series that was removed from the cache.
    fn forget(&mut self, key: &Key, open: &mut Open) {
        if let Some(due) = open.due.take() {
            self.due.remove(&due);
            self.due_behind.remove(&due);
        }
        if let Some(refreshes) = &mut self.refreshes {
            refreshes.disarm(&mut open.stale);
        }
        if open.behind > 0 {
            self.behind -= open.behind;
            self.writes
                .push_back(open.hand_out(key, self.options.client_go));
        }
    }

    /// Runs client-go's passes as far as they are due, until they made `writes_max` more writes.
    fn pass(&mut self, now: Monotonic, writes_max: usize) {
        self.begin_pass(now);
        let full = self.writes.len().saturating_add(writes_max);
        while self.writes.len() < full
            && let Some(passing) = &mut self.passing
        {
            let refreshes = passing.refreshes;
            let Some(key) = passing.left.next() else {
                self.passing = None;
                return;
            };
            if !self.end_by_pass(now, &key) && refreshes {
                self.refresh(now, &key);
            }
        }
    }

    /// Begins a pass if one is due and the previous one is complete.
    fn begin_pass(&mut self, now: Monotonic) {
        let after = |interval| now.saturating_add(interval);
        let passes = self.passes.get_or_insert(Passes {
            refresh: after(self.options.interval()),
            finish: after(self.options.idle),
        });
        let (refreshes, finishes) = (now >= passes.refresh, now >= passes.finish);
        if self.passing.is_some() || !(refreshes || finishes) {
            return;
        }
        if refreshes {
            passes.refresh = after(self.options.interval());
        }
        if finishes {
            passes.finish = after(self.options.idle);
        }
        self.passing = Some(Passing {
            began: now,
            refreshes,
            finishes,
            left: self.open.keys().into_iter(),
        });
    }

    /// Ends the series under `key` if it is quiet when the pass visits it; returns whether it
    /// ended.
    fn end_by_pass(&mut self, now: Monotonic, key: &Key) -> bool {
        let idle = nanos(self.options.idle);
        let finishing = self.passing.as_ref().filter(|passing| passing.finishes);
        let ends = finishing
            .zip(self.open.peek(key))
            .is_some_and(|(passing, open)| passing.began.nanos_since(open.last_seen) > idle);
        if ends {
            self.refresh(now, key);
            if let Some(mut open) = self.open.remove(key) {
                self.forget(key, &mut open);
            }
        }
        ends
    }

    /// Writes the series under `key`, even if its count is unchanged. A single event is no series,
    /// and is not written.
    fn refresh(&mut self, now: Monotonic, key: &Key) {
        if self.open.peek(key).is_some_and(|open| open.count > 1) {
            self.write(now, key);
            self.schedule(key);
        }
    }
}

impl Open {
    fn hand_out(&mut self, key: &Key, client_go: bool) -> Occurrence {
        let kind = if self.handed > 0 {
            OccurrenceKind::Patch
        } else {
            OccurrenceKind::Create
        };
        self.handed += 1;
        Occurrence {
            key: CountKey(key.clone()),
            event: self.latest.clone().unwrap_or_else(|| self.first.clone()),
            first: self.first.clone(),
            first_timestamp: self.first.first_timestamp(),
            last_timestamp: Some(self.last),
            count: self.count,
            kind,
            aggregate: false,
            patch: if client_go {
                PatchForm::ClientGoSeries
            } else {
                PatchForm::Series
            },
            series: Some(self.last),
            events: std::mem::take(&mut self.behind),
            held_back: 0,
            context: self.context.take(),
        }
    }
}

fn nanos(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Statistics of [`Series`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeriesStats {
    /// Entries and bytes of the kept series.
    pub cache: CacheStats,
    /// Events for which no write was handed out yet.
    pub behind: u64,
}

#[cfg(test)]
mod tests;
