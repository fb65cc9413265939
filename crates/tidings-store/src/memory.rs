//! A store in memory, for tests and as the model that other backends are compared with.
//!
//! It has one lock, and nothing survives the process. The expiry of a record is written before the
//! next write of any record, or by [`Store::expire`]. There is no background thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::changes::{Bounds, Changes, Logged, Older};
use crate::clock::{Clock, Reading, SystemClock};
use crate::confirmed::Confirmed;
use crate::limits::check_size;
use crate::record::{Room, hour_of};
use crate::{
    At, BoxFuture, Change, Counts, CountsRequest, Deleted, Fault, Index, ListRequest, NewRecord,
    NewestRequest, Page, Place, REVISION_OF_NEW, ReadError, Record, Revision, Stats, Store,
    UnixMillis, Watch, WatchError, WriteError,
};

/// The store in memory; see the [module documentation](self).
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    changes: Arc<Changes>,
    state: Mutex<State>,
}

struct State {
    revision: Revision,
    records: BTreeMap<Bytes, Entry>,
    /// No record expires before.
    none_expires_before: UnixMillis,
    expired: u64,
    confirmed: Confirmed,
    closed: bool,
}

#[derive(Clone)]
struct Entry {
    record: Record,
    index: Arc<Index>,
}

impl Entry {
    fn is_live(&self, now: UnixMillis) -> bool {
        self.record.expires_at.is_none_or(|at| at > now)
    }

    fn place(&self) -> Place {
        Place {
            last_seen: self.index.last_seen,
            revision: self.record.revision,
        }
    }
}

impl Default for MemoryStore {
    /// A store on the machine's clock. It remembers at most 100,000 changes and 256 MiB of changes.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock), 100_000)
    }
}

impl MemoryStore {
    /// A store that remembers at most `history_len_max` changes and 256 MiB of them.
    pub fn new(clock: Arc<dyn Clock>, history_len_max: usize) -> Self {
        let bounds = Bounds {
            changes: history_len_max,
            bytes: 256 << 20,
        };
        let confirmed = Confirmed::begin(Reading::of(&*clock));
        Self {
            clock,
            changes: Arc::new(Changes::new(REVISION_OF_NEW, bounds)),
            state: Mutex::new(State {
                revision: REVISION_OF_NEW,
                records: BTreeMap::new(),
                none_expires_before: UnixMillis(i64::MAX),
                expired: 0,
                confirmed,
                closed: false,
            }),
        }
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Fault> {
        let state = self.state.lock();
        if state.closed {
            Err(Fault::Closed)
        } else {
            Ok(state)
        }
    }

    /// Runs one write after all due expiries, and publishes the changes.
    fn write<T>(
        &self,
        write: impl FnOnce(&mut State, UnixMillis, &mut Vec<Logged>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let mut state = self.state()?;
        let now = Reading::of(&*self.clock);
        let mut logged = Vec::new();
        let confirmed = state.confirmed.at(now);
        state.expire(confirmed, &mut logged);
        let result = write(&mut state, now.wall, &mut logged);
        self.changes.publish(logged, state.revision);
        result
    }

    fn put(
        &self,
        key: Bytes,
        new: NewRecord,
        expected: Option<Revision>,
    ) -> Result<Revision, WriteError> {
        check_size(&key, Some(&new))?;
        self.write(|state, now, logged| {
            let mut previous = state.records.get(&key).cloned();
            let is_over = previous.as_ref().is_some_and(|entry| !entry.is_live(now));
            let hidden = previous.take_if(|_| is_over);
            match (&previous, expected) {
                (Some(entry), None) => {
                    return Err(WriteError::AlreadyExists {
                        revision: entry.record.revision,
                    });
                }
                (None, Some(_)) => return Err(WriteError::NotFound),
                (Some(entry), Some(expected)) if entry.record.revision != expected => {
                    return Err(WriteError::Conflict {
                        expected,
                        current: entry.record.revision,
                    });
                }
                _ => {}
            }
            if let Some(expires_at) = new.expires_at.filter(|at| *at <= now) {
                return Err(WriteError::AlreadyExpired { expires_at, now });
            }
            if hidden.is_some() {
                state.remove(&key, true, logged);
                state.expired += 1;
            }
            if let Some(expires_at) = new.expires_at {
                state.none_expires_before = state.none_expires_before.min(expires_at);
            }
            state.revision += 1;
            let record = Record {
                key: key.clone(),
                value: new.value,
                revision: state.revision,
                expires_at: new.expires_at,
            };
            state.records.insert(
                key,
                Entry {
                    record: record.clone(),
                    index: Arc::new(new.index),
                },
            );
            let (previous, previous_index) =
                previous.map(|entry| (entry.record, entry.index)).unzip();
            logged.push(Logged {
                change: Arc::new(Change::Put { record, previous }),
                previous_index,
                previous_bucket: 0,
            });
            Ok(state.revision)
        })
    }

    fn remove(&self, key: &Bytes, expected: Option<Revision>) -> Result<Deleted, WriteError> {
        check_size(key, None)?;
        self.write(|state, now, logged| {
            let entry = state.records.get(key).filter(|entry| entry.is_live(now));
            let Some(entry) = entry else {
                return Err(WriteError::NotFound);
            };
            let current = entry.record.revision;
            if let Some(expected) = expected.filter(|expected| *expected != current) {
                return Err(WriteError::Conflict { expected, current });
            }
            let previous = entry.record.clone();
            state.remove(key, false, logged);
            Ok(Deleted {
                revision: state.revision,
                previous,
            })
        })
    }

    fn read(&self, request: &ListRequest) -> Result<Page, ReadError> {
        let state = self.state()?;
        let now = self.clock.now();
        let mut past = BTreeMap::new();
        let (records, revision) = match request.at {
            At::Latest => (&state.records, state.revision),
            At::Exact(requested) if requested > state.revision => {
                return Err(ReadError::Future {
                    requested,
                    current: state.revision,
                });
            }
            At::Exact(requested) => {
                let oldest = self.changes.oldest();
                let since = self
                    .changes
                    .between(requested, state.revision)
                    .ok_or(ReadError::Compacted { requested, oldest })?;
                past.clone_from(&state.records);
                for Logged {
                    change,
                    previous_index,
                    ..
                } in since.into_iter().rev()
                {
                    match (change.previous().cloned(), previous_index) {
                        (Some(record), Some(index)) => {
                            past.insert(change.key().clone(), Entry { record, index });
                        }
                        _ => {
                            past.remove(change.key());
                        }
                    }
                }
                (&past, requested)
            }
        };
        let after = request
            .after
            .clone()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let behind = records.range((after, Bound::Unbounded));
        let mut matching = behind.map(|(_, entry)| entry).filter(|entry| {
            entry.is_live(now)
                && entry.record.key.starts_with(&request.prefix)
                && request
                    .object
                    .as_ref()
                    .is_none_or(|object| object.matches(&entry.index))
        });
        let mut room = Room::of(request);
        let mut records = Vec::new();
        while room.is_left()
            && let Some(entry) = matching.next()
        {
            room.fill(&entry.record);
            records.push(entry.record.clone());
        }
        let remaining = matching.count() as u64;
        Ok(Page {
            records,
            revision,
            more: remaining > 0,
            remaining: request.count_remaining.then_some(remaining),
            ..Page::default()
        })
    }

    fn read_newest(&self, request: &NewestRequest) -> Result<Page, ReadError> {
        let state = self.state()?;
        let now = self.clock.now();
        let mut found: Vec<&Entry> = state
            .records
            .values()
            .filter(|entry| entry.is_live(now) && entry.record.key.starts_with(&request.prefix))
            .filter(|entry| request.in_range(entry.place()) && request.selected(&entry.index))
            .collect();
        found.sort_by_key(|entry| Reverse(entry.place()));
        let mut page = Page {
            revision: state.revision,
            more: found.len() > request.limit,
            ..Page::default()
        };
        let mut room = Room::limited(request.limit);
        page.place = request.after;
        for entry in found.into_iter().take(request.limit) {
            if request.values_only && room.is_full_of_values() {
                page.more = true;
                break;
            }
            page.place = Some(entry.place());
            page.add_found(&mut room, entry.record.clone(), entry.place());
        }
        page.place.take_if(|_| !page.more);
        Ok(page)
    }

    fn count(&self, request: &CountsRequest) -> Result<Counts, ReadError> {
        let state = self.state()?;
        let now = self.clock.now();
        let mut counts = BTreeMap::new();
        for entry in state.records.values().filter(|entry| entry.is_live(now)) {
            let hour = hour_of(entry.index.last_seen);
            if request.in_range(hour) {
                let reason = entry.index.reason.clone();
                *counts.entry((Reverse(hour), reason)).or_default() += 1;
            }
        }
        Ok(Counts::of(counts, request, state.revision))
    }

    fn read_stats(&self) -> Result<Stats, ReadError> {
        let state = self.state()?;
        let now = self.clock.now();
        let due = state
            .records
            .values()
            .filter_map(|entry| entry.record.expires_at)
            .filter(|at| *at <= now)
            .min();
        Ok(Stats {
            records: state.records.len() as u64,
            value_bytes: state
                .records
                .values()
                .map(|entry| entry.record.value.len() as u64)
                .sum(),
            disk_bytes: 0,
            revision: state.revision,
            oldest_revision: self.changes.oldest(),
            expiry_lag_ms: due.map_or(0, |due| now.0.abs_diff(due.0)),
            expired: state.expired,
            watches: self.changes.watches(),
            ..Stats::default()
        })
    }
}

impl State {
    fn remove(&mut self, key: &Bytes, expired: bool, logged: &mut Vec<Logged>) {
        let Some(Entry { record, index }) = self.records.remove(key) else {
            return;
        };
        self.revision += 1;
        let change = Arc::new(Change::Delete {
            revision: self.revision,
            previous: record,
            expired,
        });
        logged.push(Logged {
            change,
            previous_index: Some(index),
            previous_bucket: 0,
        });
    }

    /// Writes the expiry of all records that have expired by the confirmed time, in the order of
    /// their revisions.
    fn expire(&mut self, confirmed: UnixMillis, logged: &mut Vec<Logged>) -> u64 {
        // Every write comes here, and must not look at all records.
        if confirmed < self.none_expires_before {
            return 0;
        }
        let mut due: Vec<_> = self
            .records
            .values()
            .filter(|entry| !entry.is_live(confirmed))
            .cloned()
            .collect();
        due.sort_by_key(|entry| entry.record.revision);
        for entry in &due {
            self.remove(&entry.record.key, true, logged);
        }
        let expiries = self.records.values().filter_map(|it| it.record.expires_at);
        self.none_expires_before = expiries.min().unwrap_or(UnixMillis(i64::MAX));
        self.expired += due.len() as u64;
        due.len() as u64
    }
}

/// The older history of a store that has no history except the ring.
struct NoOlder(Arc<Changes>);

impl Older for NoOlder {
    fn read(&self, after: Revision, _: Bounds) -> Result<(Vec<Arc<Change>>, Revision), WatchError> {
        let oldest = self.0.oldest();
        Err(WatchError::Compacted { after, oldest })
    }

    fn oldest(&self) -> Result<Revision, Fault> {
        Ok(self.0.oldest())
    }
}

impl Store for MemoryStore {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move { self.put(key, record, None) })
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move { self.put(key, record, Some(expected)) })
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        Box::pin(async move { self.remove(&key, expected) })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            let now = self.clock.now();
            let state = self.state()?;
            Ok(state
                .records
                .get(&key)
                .filter(|entry| entry.is_live(now))
                .map(|entry| entry.record.clone()))
        })
    }

    fn revision(&self) -> Revision {
        self.changes.latest()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.read(&request) })
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.read_newest(&request) })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(async move { self.count(&request) })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            let current = self.changes.latest();
            if after > current {
                return Err(WatchError::Future {
                    requested: after,
                    current,
                });
            }
            self.changes
                .watch(prefix, after, Arc::new(NoOlder(Arc::clone(&self.changes))))
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move {
            let current = self.state()?.revision;
            if revision > current {
                return Err(WriteError::FutureRevision {
                    requested: revision,
                    current,
                });
            }
            self.changes.forget(revision);
            Ok(())
        })
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        Box::pin(async move {
            let before = self.state()?.expired;
            self.write(|state, _, _| Ok(state.expired - before))
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move { self.read_stats() })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.state.lock().closed = true;
            self.changes.close(Fault::Closed);
        })
    }
}
