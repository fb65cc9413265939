//! Series: repeats in events.k8s.io/v1, written rarely and never lost. client-go's
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
//! This decides when a state is to be written. [`Delivery`](crate::Delivery) keeps the states of
//! one series in order, creates events that do not exist, and skips states that a later one
//! replaces.
//!
//! By default counts are refreshed between heartbeats (`refresh.rs`). With a heartbeat that is set,
//! they are not. One of half an hour, client-go's, then never writes more than client-go does,
//! whatever is recorded. What begins a series here (its create, and the patch of its second event)
//! makes client-go write at the same moments, as it forgets a series no later than this does, on
//! one of its passes every six minutes that finds it quiet for more than six. In the half hour
//! between two heartbeats of a series that continues, client-go refreshes it, or ends it, or begins
//! it anew; and in the twelve minutes before a last count, it ends it, or has begun it anew. Only
//! the shutdown, where client-go forgets all counts that are behind, and a full cache, where it
//! knows no bound, cost writes that client-go does not make.
//!
//! Due writes are handed out only as far as the caller has room; the rest is not lost, and
//! continues to count.
//!
//! Invariants: every event is settled by exactly one of the writes handed out, or is still counted
//! in [`SeriesStats::behind`]; counts are absolute and only grow; an entry that is behind has a
//! time at which it is written, and one look finds those that are.

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

/// One series, or an event that may become one.
struct Open {
    /// The stored event has its name and its note.
    first: Event,
    /// The last one, where its note is to be shown and is another.
    latest: Option<Event>,
    /// The kept contexts of events without a write.
    context: Option<Arc<dyn EventContext>>,
    last: Timestamp,
    last_seen: Monotonic,
    count: i32,
    /// Events that no write was handed out for.
    behind: u64,
    /// Writes that were handed out and not lost: if any, the API server has the event or will have
    /// it.
    handed: u64,
    /// When it may be written again.
    not_before: Monotonic,
    /// Its place in `due`.
    due: Option<(Monotonic, u64)>,
    stale: Staleness,
}

/// Keeps series of events, and decides when their states are written.
///
/// After each input, call [`Series::poll_write`] until it returns `None`; then wait for an event or
/// until [`Series::poll_timeout`]. Writes that an event causes are handed out at once; due writes,
/// and those at the end, only up to the given maximum.
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
    /// When which entry is to be written or forgotten.
    due: BTreeMap<(Monotonic, u64), Key>,
    /// Those of them that are behind.
    due_behind: BTreeSet<(Monotonic, u64)>,
    last_due: u64,
    /// Where counts are refreshed between heartbeats.
    refreshes: Option<Refreshes>,
    /// Of client-go's rules: the next passes over all entries, from the first call on.
    passes: Option<Passes>,
    /// The pass that is not over.
    passing: Option<Passing>,
    writes: VecDeque<Occurrence>,
    behind: u64,
}

/// client-go's `refreshExistingEventSeries` and `finishSeries`.
#[derive(Clone, Copy)]
struct Passes {
    refresh: Monotonic,
    finish: Monotonic,
}

/// One of them, or both at once.
struct Passing {
    began: Monotonic,
    refreshes: bool,
    finishes: bool,
    /// Entries to look at.
    left: std::vec::IntoIter<Key>,
}

impl Series {
    /// No series yet. The hashes are seeded as the names are.
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

    /// Takes an event. One with a waiting caller is written at once.
    ///
    /// What is due is left to [`Series::handle_timeout`], except the end of the event's own series.
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
            // A clock that was set back does not make the series older.
            open.last = open.last.max(last);
            open.last_seen = now.monotonic;
            // By client-go's rules only the second is written at once.
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
            // Once there was another note, the first one can be the last one again.
            let noted = open.latest.is_some() || event.message() != open.first.message();
            let latest = (self.options.last_note && noted).then(|| event.clone());
            let noted = latest.as_ref().map_or(0, Event::size);
            let other_size = open.latest.as_ref().map_or(0, Event::size) != noted;
            open.latest = latest;
            let first_behind = open.behind == 1;
            // Not by this event, or it would have to be kept with the first.
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

    /// Writes refreshes that are due, until there are `full` writes.
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

    /// Does what is due, until there are `writes_max` writes more; [`Series::poll_timeout`] is in
    /// the past if that was not all. Harmless when called early.
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

    /// Writes up to `writes_max` counts that are behind before their time, those first whose time
    /// comes first, or by client-go's rules those that are behind for longest.
    pub fn write_early(&mut self, now: Monotonic, writes_max: usize) {
        let due = self.due_behind.iter().take(writes_max);
        let keys: Vec<Key> = due.filter_map(|due| self.due.get(due).cloned()).collect();
        for key in keys {
            self.write(now, &key);
            self.schedule(&key);
        }
    }

    /// The next state to write. Call [`Series::lost`] if it is not written.
    pub fn poll_write(&mut self) -> Option<Occurrence> {
        self.writes.pop_front()
    }

    /// When to call [`Series::handle_timeout`].
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

    /// `occurrence` was dropped, or merged into a later one. What was never written is created by
    /// the next of its series.
    pub fn lost(&mut self, occurrence: &Occurrence) {
        if let Some(open) = self.open.peek(&occurrence.key.0)
            // It may have been forgotten since, and begun anew under another name.
            && open.first.is_same(&occurrence.first)
        {
            open.handed = open.handed.saturating_sub(1);
        }
    }

    /// Ends every series: each that is behind is written once more, with its last count. Stops when
    /// there are `writes_max` writes more; false: call it again.
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

    /// Statistics.
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

    /// Notes when the entry under `key` needs attention next. By client-go's rules it needs none by
    /// itself, and one that is behind is noted with the time since which it is.
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

    /// Ends the series under `key` if nothing was seen of it for too long.
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

    /// Ends an entry that was taken out.
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

    /// client-go's passes, as far as they are due, until there are `writes_max` writes more.
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

    /// Begins a pass if one is due, and the one before is over.
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

    /// Ends the series under `key` if the pass finds it quiet; returns whether it did.
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

    /// Writes the series under `key`, whether there is something new or not. A single event is
    /// none.
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
    /// The series that are kept.
    pub cache: CacheStats,
    /// Events for which no write was handed out yet.
    pub behind: u64,
}

#[cfg(test)]
mod tests;
