//! Repeat counting: many equal events become one stored event with a count. client-go's
//! `eventLogger`.
//!
//! ```text
//!             passes: Create
//!   unwritten ───────────────▶ handed out ──┐ passes: Patch
//!       ▲                        │      ▲   │
//!       └──── all of them lost ──┘      └───┘
//! ```
//!
//! client-go tracks no such states: it patches every event whose count is above 1, whether the
//! stored event exists or not.
//!
//! Invariant: exactly one handed-out write settles each held-back repeat, or the repeat is still in
//! an entry's [`Behind`]. An entry that is evicted with such repeats hands out its last write.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;

use super::occurrence::{Correlated, Occurrence, OccurrenceKind, PatchForm};
use super::refresh::{Refreshes, Staleness, retry_at};
use crate::cache::{Cache, CacheStats};
use crate::context::absorb;
use crate::key::{CountKey, Key};
use crate::{Event, EventContext, Monotonic};

struct Counted {
    /// The first of the counted events; its name is the stored event's name.
    first: Event,
    first_timestamp: Option<Timestamp>,
    /// The latest time of all counted events. An event may be recorded after a later one.
    last_timestamp: Option<Timestamp>,
    count: i32,
    /// Occurrences that were handed out and not lost. If there are any, the API server has the
    /// event or will have it.
    handed: u64,
    /// Whether a repeat had other annotations or labels than the first event.
    metadata_changed: bool,
    /// Held-back repeats that no write has counted yet.
    behind: Option<Behind>,
    stale: Staleness,
}

/// Repeats that the spam filter held back.
struct Behind {
    last_seen: Monotonic,
    /// The last held-back repeat, if its message or metadata may differ from the first event's.
    latest: Option<Event>,
    aggregate: bool,
    /// The number of these repeats.
    events: u64,
    /// The kept contexts of these repeats.
    context: Option<Arc<dyn EventContext>>,
}

pub(super) struct Counter {
    counted: Cache<Counted>,
    refreshes: Refreshes,
    /// The last writes of evicted counts that were behind.
    evicted: VecDeque<Occurrence>,
    client_go: bool,
}

impl Counter {
    pub(super) fn new(counted: (usize, usize), client_go: bool) -> Self {
        Self {
            counted: Cache::new(counted.0, counted.1),
            refreshes: Refreshes::new(counted.0),
            evicted: VecDeque::new(),
            client_go,
        }
    }

    /// Counts `event` under `key`, and returns its write if it `passes` the spam filter. An event
    /// that does not pass is counted, too.
    pub(super) fn count(
        &mut self,
        now: Monotonic,
        key: Key,
        (event, context): (Event, Option<Arc<dyn EventContext>>),
        aggregate: bool,
        passes: bool,
    ) -> Correlated {
        if self.client_go {
            self.count_as_client_go(key, (event, context), aggregate, passes)
        } else {
            self.count_mended(now, key, (event, context), aggregate, passes)
        }
    }

    fn count_mended(
        &mut self,
        now: Monotonic,
        key: Key,
        (event, mut context): (Event, Option<Arc<dyn EventContext>>),
        aggregate: bool,
        passes: bool,
    ) -> Correlated {
        let times = event.count().max(1);
        if let Some(counted) = self.counted.get(&key) {
            counted.count = counted.count.saturating_add(times);
            counted.metadata_changed |= event.annotations() != counted.first.annotations()
                || event.labels() != counted.first.labels();
            counted.last_timestamp = counted.last_timestamp.max(event.last_timestamp());
            if !passes && counted.handed > 0 {
                let held_back = Correlated::HeldBack {
                    first: counted.first.clone(),
                    count: counted.count,
                };
                let context = context.and_then(|context| context.kept());
                self.hold_back(now, &key, (event, context), aggregate);
                return held_back;
            }
            if !passes {
                return Correlated::Filtered;
            }
            let kind = if counted.handed > 0 {
                OccurrenceKind::Patch
            } else {
                OccurrenceKind::Create
            };
            counted.handed += 1;
            // The queued refresh of this count then finds nothing to write.
            let held_back = counted.behind.take().map_or(0, |behind| {
                absorb(&mut context, behind.context.as_ref());
                behind.events
            });
            counted.stale.note_write(now, counted.count);
            return Correlated::Write(Occurrence {
                key: CountKey(key),
                // If the event has no time, no last timestamp is written.
                last_timestamp: event.last_timestamp().and(counted.last_timestamp),
                event,
                first: counted.first.clone(),
                first_timestamp: counted.first_timestamp,
                count: counted.count,
                kind,
                aggregate,
                patch: if counted.metadata_changed {
                    PatchForm::CountAndMetadata
                } else {
                    PatchForm::Count
                },
                series: None,
                events: 1 + held_back,
                held_back,
                context,
            });
        }
        let mut counted = Counted {
            first: event.clone(),
            first_timestamp: event.first_timestamp(),
            last_timestamp: event.last_timestamp(),
            count: times,
            handed: u64::from(passes),
            metadata_changed: false,
            behind: None,
            stale: Staleness::new(now),
        };
        if passes {
            counted.stale.note_write(now, times);
        }
        self.put(key.clone(), counted);
        if !passes {
            return Correlated::Filtered;
        }
        Correlated::Write(Occurrence {
            key: CountKey(key),
            first: event.clone(),
            first_timestamp: event.first_timestamp(),
            last_timestamp: event.last_timestamp(),
            count: times,
            kind: OccurrenceKind::Create,
            aggregate,
            patch: PatchForm::Nothing,
            series: None,
            events: 1,
            held_back: 0,
            context,
            event,
        })
    }

    fn count_as_client_go(
        &mut self,
        key: Key,
        (event, context): (Event, Option<Arc<dyn EventContext>>),
        aggregate: bool,
        passes: bool,
    ) -> Correlated {
        // client-go keeps an unsigned count: any other value than 0 means that the event was seen
        // before.
        let earlier = self
            .counted
            .get(&key)
            .filter(|counted| counted.count != 0)
            .map(|counted| {
                counted.count = counted.count.wrapping_add(1);
                let first = (counted.first.clone(), counted.first_timestamp);
                (first, counted.count)
            });
        let repeat = earlier.is_some();
        let ((first, first_timestamp), count) =
            earlier.unwrap_or_else(|| ((event.clone(), event.first_timestamp()), event.count()));
        if !repeat {
            self.put_as_client_go(key.clone(), first.clone(), first_timestamp, count);
        }
        if !passes {
            return Correlated::Filtered;
        }
        Correlated::Write(Occurrence {
            key: CountKey(key),
            last_timestamp: event.last_timestamp(),
            event,
            first,
            first_timestamp,
            count,
            kind: if count > 1 {
                OccurrenceKind::Patch
            } else {
                OccurrenceKind::Create
            },
            aggregate,
            patch: if repeat {
                PatchForm::ClientGo
            } else {
                PatchForm::Nothing
            },
            series: None,
            events: 1,
            held_back: 0,
            context,
        })
    }

    fn put_as_client_go(
        &mut self,
        key: Key,
        first: Event,
        first_timestamp: Option<Timestamp>,
        count: i32,
    ) {
        let counted = Counted {
            last_timestamp: first.last_timestamp(),
            first,
            first_timestamp,
            count,
            handed: 0,
            metadata_changed: false,
            behind: None,
            stale: Staleness::new(Monotonic::ZERO),
        };
        self.put(key, counted);
    }

    fn put(&mut self, key: Key, counted: Counted) {
        let extra = key.size_beside(&counted.first);
        self.counted.insert(key, counted, extra);
        self.make_room();
    }

    /// Evicts counts beyond the cache's bounds.
    fn make_room(&mut self) {
        while let Some((key, mut counted)) = self.counted.pop_excess() {
            self.refreshes.disarm(&mut counted.stale);
            let last_seen = counted.behind.as_ref().map(|behind| behind.last_seen);
            let last = last_seen.and_then(|last_seen| counted.refresh(last_seen, &key));
            self.evicted.extend(last);
        }
    }

    /// client-go's `updateState`: keeps the written event under `key`, the event's own key. A
    /// combined event is counted under another key, so each of its messages takes one more entry.
    ///
    /// client-go counts no event between a write and its answer. Here more events may have been
    /// counted meanwhile, and the answer does not undo that.
    pub(super) fn acknowledged_as_client_go(&mut self, key: Key, occurrence: &Occurrence) {
        if let Some(counted) = self.counted.peek(&key)
            && counted.first.is_same(&occurrence.first)
            && counted.count.wrapping_sub(occurrence.count) > 0
        {
            return;
        }
        self.put_as_client_go(
            key,
            occurrence.first.clone(),
            occurrence.first_timestamp,
            occurrence.count,
        );
    }

    /// Records a repeat that is counted but not written, and queues the count for a refresh.
    fn hold_back(
        &mut self,
        now: Monotonic,
        key: &Key,
        (event, context): (Event, Option<Arc<dyn EventContext>>),
        aggregate: bool,
    ) {
        let Some(counted) = self.counted.peek(key) else {
            return;
        };
        let differs = aggregate || counted.metadata_changed;
        let behind = counted.behind.get_or_insert_with(|| Behind::new(now));
        behind.last_seen = now;
        behind.latest = differs.then_some(event);
        behind.aggregate = aggregate;
        behind.events += 1;
        let earlier = std::mem::replace(&mut behind.context, context);
        absorb(&mut behind.context, earlier.as_ref());
        let at = counted.stale.due_at(now, counted.count);
        let kept = key.kept_by(&counted.first);
        self.refreshes.arm(&mut counted.stale, at, kept);
        if differs {
            self.weigh(key);
        }
    }

    /// Updates the bytes of a count, and evicts counts beyond the cache's bounds.
    fn weigh(&mut self, key: &Key) {
        if let Some(counted) = self.counted.peek(key) {
            let behind = counted.behind.as_ref();
            let latest = behind.and_then(|behind| behind.latest.as_ref());
            let size = key.size_beside(&counted.first) + latest.map_or(0, Event::size);
            self.counted.reweigh(key, size);
            self.make_room();
        }
    }

    /// Returns the last write of an evicted count.
    pub(super) fn poll_evicted(&mut self) -> Option<Occurrence> {
        self.evicted.pop_front()
    }

    /// Takes the held-back repeats of `occurrence`, which was not written, back into their count,
    /// and queues it for another refresh. Returns whether the count is still in the cache.
    pub(super) fn put_back(&mut self, now: Monotonic, occurrence: &Occurrence) -> bool {
        let key = &occurrence.key.0;
        let counted = self.counted.peek(key);
        let Some(counted) = counted.filter(|counted| counted.first.is_same(&occurrence.first))
        else {
            return false;
        };
        let behind = counted.behind.get_or_insert_with(|| Behind {
            latest: (!occurrence.event.is_same(&counted.first)).then(|| occurrence.event.clone()),
            aggregate: occurrence.aggregate,
            ..Behind::new(now)
        });
        behind.events += occurrence.held_back;
        let context = occurrence.context.as_ref();
        let kept = context.and_then(|context| context.kept());
        absorb(&mut behind.context, kept.as_ref());
        let kept = key.kept_by(&counted.first);
        self.refreshes.arm(&mut counted.stale, retry_at(now), kept);
        self.weigh(key);
        true
    }

    /// Returns the next refresh that is due.
    pub(super) fn refresh(&mut self, now: Monotonic) -> Option<Occurrence> {
        while let Some((due, key)) = self.refreshes.pop(now) {
            let Some(counted) = self.counted.peek(&key) else {
                continue;
            };
            // The entry may have been evicted, and another begun since.
            if counted.stale.due != Some(due) {
                continue;
            }
            counted.stale.due = None;
            let Some(behind) = &counted.behind else {
                continue;
            };
            let at = counted.stale.due_at(behind.last_seen, counted.count);
            if at > now {
                self.refreshes.arm(&mut counted.stale, at, key);
                continue;
            }
            let refresh = counted.refresh(now, &key);
            if refresh.is_some() {
                self.refreshes.spend(now);
                return refresh;
            }
        }
        None
    }

    /// Returns the next refresh, due or not.
    pub(super) fn refresh_any(&mut self, now: Monotonic) -> Option<Occurrence> {
        while let Some((due, key)) = self.refreshes.pop_any() {
            if let Some(counted) = self.counted.peek(&key)
                && counted.stale.due == Some(due)
            {
                counted.stale.due = None;
                let refresh = counted.refresh(now, &key);
                if refresh.is_some() {
                    return refresh;
                }
            }
        }
        None
    }

    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        if !self.evicted.is_empty() {
            return Some(Monotonic::from_nanos(i64::MIN));
        }
        self.refreshes.poll_timeout()
    }

    /// Records that the write of `occurrence` did not happen.
    pub(super) fn lost(&mut self, occurrence: &Occurrence) {
        if let Some(counted) = self.counted.peek(&occurrence.key.0)
            // The entry may have been evicted, and another begun under another name since.
            && counted.first.is_same(&occurrence.first)
        {
            counted.handed = counted.handed.saturating_sub(1);
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.counted.stats()
    }
}

impl Behind {
    /// Makes a record without repeats.
    fn new(now: Monotonic) -> Self {
        Self {
            last_seen: now,
            latest: None,
            aggregate: false,
            events: 0,
            context: None,
        }
    }
}

impl Counted {
    /// Makes the write of a count that is behind, which settles the held-back repeats.
    fn refresh(&mut self, now: Monotonic, key: &Key) -> Option<Occurrence> {
        let behind = self.behind.take()?;
        let kind = if self.handed > 0 {
            OccurrenceKind::Patch
        } else {
            OccurrenceKind::Create
        };
        self.handed += 1;
        self.stale.note_refresh(now, self.count);
        Some(Occurrence {
            key: CountKey(key.clone()),
            event: behind.latest.unwrap_or_else(|| self.first.clone()),
            first: self.first.clone(),
            first_timestamp: self.first_timestamp,
            last_timestamp: self.last_timestamp,
            count: self.count,
            kind,
            aggregate: behind.aggregate,
            patch: if self.metadata_changed {
                PatchForm::CountAndMetadata
            } else {
                PatchForm::Count
            },
            series: None,
            events: behind.events,
            held_back: behind.events,
            context: behind.context,
        })
    }
}
