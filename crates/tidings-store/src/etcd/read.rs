//! Lists: in key order, by object and by time.
//!
//! Lists by object and by time ask the local index for candidates, and then etcd for those records,
//! at one revision. The records themselves decide, so an answer by the index equals one that read
//! all keys. A list at the latest revision uses the index only once it has reached the cluster's
//! revision at the start of the request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::Shared;
use super::client::{TXN, signed};
use super::index::Entry;
use super::walk::Walk;
use super::wire::{KeyValue, RangeRequest, Request, Response, TxnRequest, TxnResponse};
use crate::record::{Room, hour_of};
use crate::{
    At, Change, Counts, CountsRequest, Fault, ListRequest, NewestRequest, ObjectSelector,
    PAGE_BYTES_MAX, Page, Place, ReadError, Record, Revision,
};

/// Maximum wait for the index before a request reads the whole prefix instead.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Maximum number of candidates taken from the index for one request.
const CANDIDATES_MAX: usize = 5_000;

/// Number of keys read in one transaction; etcd allows 128 operations by default.
const FETCH_LEN: usize = 100;

impl Shared {
    pub(super) async fn list(&self, request: &ListRequest) -> Result<Page, ReadError> {
        self.check_open()?;
        if let Some(object) = &request.object
            && let Some(page) = self.list_by_index(request, object).await?
        {
            return Ok(page);
        }
        self.list_by_walk(request).await
    }

    pub(super) async fn list_by_walk(&self, request: &ListRequest) -> Result<Page, ReadError> {
        let revision = match request.at {
            At::Latest => 0,
            // Revision 0 is the store before its first change. To etcd zero would mean the latest.
            At::Exact(0) => return self.empty_page(request),
            At::Exact(revision) => revision,
        };
        let limit = request.limit.unwrap_or(usize::MAX);
        let range = self.keys.range(&request.prefix, request.after.as_ref());
        let mut walk = Walk::new(range, revision).part_len(limit.saturating_add(1));
        let mut page = Page::default();
        let mut room = Room::of(request);
        let mut remaining = 0;
        'walk: while let Some(part) = walk.next(self).await? {
            for version in part {
                if !self.matches(request.object.as_ref(), &version) {
                    continue;
                }
                let record = self.record(version).await;
                if !self.is_live(&record) {
                    continue;
                }
                if room.is_left() {
                    room.fill(&record);
                    // Records about one object are few of each answer, which a slice would keep in
                    // memory.
                    let is_alone = request.object.is_some();
                    let record = if is_alone { apart(&record) } else { record };
                    page.records.push(record);
                    continue;
                }
                remaining += 1;
                if !request.count_remaining {
                    break 'walk;
                }
                if remaining == 1 && request.object.is_none() {
                    let counted = walk
                        .count
                        .unwrap_or(0)
                        .saturating_sub(page.records.len() as u64);
                    if let Some(ended) = self.ended_behind(request, &page, walk.revision()) {
                        remaining = counted.saturating_sub(ended);
                        break 'walk;
                    }
                    walk.keys_only();
                }
            }
        }
        page.revision = walk.revision();
        page.more = remaining > 0;
        page.remaining = request.count_remaining.then_some(remaining);
        Ok(page)
    }

    fn empty_page(&self, request: &ListRequest) -> Result<Page, ReadError> {
        let oldest = self.oldest();
        if oldest > 0 {
            return Err(ReadError::Compacted {
                requested: 0,
                oldest,
            });
        }
        Ok(Page {
            remaining: request.count_remaining.then_some(0),
            ..Page::default()
        })
    }

    /// Number of hidden keys among those that etcd counts from a page's start. A key is hidden if
    /// its version at the revision has expired. `None` if this cannot be known here.
    fn ended_behind(&self, request: &ListRequest, page: &Page, revision: Revision) -> Option<u64> {
        let reading = self.reading();
        let (now, lead) = (reading.wall, reading.lead());
        let in_range = |key: &Bytes| {
            key.starts_with(&request.prefix)
                && request.after.as_ref().is_none_or(|after| key > after)
        };
        // The index and the changes must be read as of one revision: a key that leaves the index in
        // between would be in neither.
        let (ended, index_at) = self.index.ended(now, lead, CANDIDATES_MAX)?;
        if ended.len() == CANDIDATES_MAX || index_at < revision {
            return None;
        }
        let since = self.changes.between(revision, index_at)?;
        let mut keys: BTreeSet<Bytes> = ended
            .into_iter()
            .filter(|(key, entry)| entry.revision <= revision && in_range(key))
            .map(|(key, _)| key)
            .collect();
        for logged in since {
            let previous = logged.change.previous();
            // Only a key's first change after the revision has the version at the revision as its
            // previous one.
            if let Some(previous) =
                previous.filter(|it| it.revision <= revision && in_range(&it.key))
                && let end = self.expiries.of_revision(previous.revision)
                && end.or(previous.expires_at).is_some_and(|end| end <= now)
            {
                keys.insert(previous.key.clone());
            }
        }
        debug_assert!(
            page.records
                .iter()
                .all(|record| !keys.contains(&record.key))
        );
        Some(keys.len() as u64)
    }

    fn matches(&self, object: Option<&ObjectSelector>, version: &KeyValue) -> bool {
        object.is_none_or(|object| object.matches(&(self.describe)(&version.value).index))
    }

    /// Lists by the index; `None` if the index cannot answer the request.
    pub(super) async fn list_by_index(
        &self,
        request: &ListRequest,
        object: &ObjectSelector,
    ) -> Result<Option<Page>, ReadError> {
        let Some((mut keys, revision)) = self.candidates(request, object).await? else {
            return Ok(None);
        };
        keys.retain(|key| {
            key.starts_with(&request.prefix)
                && request.after.as_ref().is_none_or(|after| key > after)
        });
        let keys: Vec<_> = keys.into_iter().collect();
        let mut room = Room::of(request);
        let mut page = Page {
            revision,
            ..Page::default()
        };
        let mut remaining = 0;
        'fetch: for part in keys.chunks(FETCH_LEN) {
            let Some(versions) = self.fetch(part, revision).await? else {
                return Ok(None);
            };
            for version in versions {
                if !self.matches(Some(object), &version) {
                    continue;
                }
                let record = self.record(version).await;
                if !self.is_live(&record) {
                    continue;
                }
                if room.is_left() {
                    room.fill(&record);
                    page.records.push(record);
                    continue;
                }
                remaining += 1;
                if !request.count_remaining {
                    break 'fetch;
                }
            }
        }
        page.more = remaining > 0;
        page.remaining = request.count_remaining.then_some(remaining);
        Ok(Some(page))
    }

    /// All keys whose records may be about the object at the request's revision, and that revision.
    /// `None` if the index cannot answer.
    async fn candidates(
        &self,
        request: &ListRequest,
        object: &ObjectSelector,
    ) -> Result<Option<(BTreeSet<Bytes>, Revision)>, ReadError> {
        let at_least = match request.at {
            At::Latest => self
                .latest(self.client.deadline())
                .await
                .map_err(Fault::from)?,
            At::Exact(revision) if revision == 0 || revision < self.oldest() => return Ok(None),
            At::Exact(revision) => revision,
        };
        if at_least > self.client.revision() || !self.index_reached(at_least).await {
            return Ok(None);
        }
        let Some(found) = self.index.about(object, &request.prefix, CANDIDATES_MAX) else {
            return Ok(None);
        };
        let mut keys: BTreeSet<_> = found.keys.into_iter().collect();
        let At::Exact(revision) = request.at else {
            return Ok(Some((keys, found.revision)));
        };
        // At an older revision the candidates are those of now and every key changed since.
        let Some(since) = self.changes.between(revision, found.revision) else {
            return Ok(None);
        };
        keys.extend(
            since
                .iter()
                .map(|logged| Change::key(&logged.change).clone()),
        );
        Ok((keys.len() <= CANDIDATES_MAX).then_some((keys, revision)))
    }

    /// Waits briefly for the index to reach a revision. Returns whether it did.
    pub(super) async fn index_reached(&self, revision: Revision) -> bool {
        let there = || self.index.revision().map(|at| at >= revision);
        match there() {
            Some(false) => {}
            known => return known.unwrap_or(false),
        }
        self.want_progress.notify_one();
        self.until_fed(revision, CATCH_UP).await;
        there().unwrap_or(false)
    }

    /// Reads some keys at a revision; `None` if etcd has compacted it.
    async fn fetch(
        &self,
        keys: &[Bytes],
        revision: Revision,
    ) -> Result<Option<Vec<KeyValue>>, ReadError> {
        let one = |key: &Bytes| {
            Request::Range(RangeRequest {
                key: self.keys.full(key),
                revision: signed(revision),
                ..RangeRequest::default()
            })
            .into()
        };
        let transaction = TxnRequest {
            success: keys.iter().map(one).collect(),
            ..TxnRequest::default()
        };
        let deadline = self.client.deadline();
        let answer: Result<TxnResponse, _> = self.client.ask(TXN, transaction, deadline).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) if failure.is_compacted() || failure.is_future() => return Ok(None),
            Err(failure) => return Err(Fault::from(failure).into()),
        };
        self.client.observe(answer.header);
        let ranges = answer
            .responses
            .into_iter()
            .filter_map(|it| match it.response {
                Some(Response::Range(range)) => range.kvs.into_iter().next(),
                _ => None,
            });
        Ok(Some(ranges.collect()))
    }

    pub(super) async fn newest(&self, request: &NewestRequest) -> Result<Page, ReadError> {
        self.check_open()?;
        // The index knows only times and keys, so other conditions need the records.
        if !request.selects()
            && let Some(page) = self.newest_by_index(request).await?
        {
            return Ok(page);
        }
        self.newest_by_walk(request).await
    }

    pub(super) async fn newest_by_walk(&self, request: &NewestRequest) -> Result<Page, ReadError> {
        let mut walk = Walk::new(self.keys.range(&request.prefix, None), 0);
        let mut newest = Newest::default();
        let mut more = false;
        while let Some(part) = walk.next(self).await? {
            for version in part {
                let index = (self.describe)(&version.value).index;
                let record = self.record(version).await;
                let place = Place {
                    last_seen: index.last_seen,
                    revision: record.revision,
                };
                let is_wanted = request.in_range(place) && request.selected(&index);
                if !is_wanted || !self.is_live(&record) {
                    continue;
                }
                more |= newest.insert(place, &record, request.limit);
            }
        }
        if request.values_only {
            more |= !newest.behind.is_empty();
            newest.behind.clear();
        }
        let place = newest.last().or(request.after);
        Ok(Page {
            revision: walk.revision(),
            more,
            place: place.filter(|_| more),
            ..newest.into_page()
        })
    }

    /// Counts records by hour and reason. It reads everything, because etcd can only count keys.
    pub(super) async fn counts(&self, request: &CountsRequest) -> Result<Counts, ReadError> {
        self.check_open()?;
        let mut walk = Walk::new(self.keys.range(&[], None), 0);
        let mut counts = BTreeMap::new();
        while let Some(part) = walk.next(self).await? {
            for version in part {
                let index = (self.describe)(&version.value).index;
                let hour = hour_of(index.last_seen);
                let record = self.record(version).await;
                if request.in_range(hour) && self.is_live(&record) {
                    *counts.entry((Reverse(hour), index.reason)).or_default() += 1;
                }
            }
        }
        Ok(Counts::of(counts, request, walk.revision()))
    }

    pub(super) async fn newest_by_index(
        &self,
        request: &NewestRequest,
    ) -> Result<Option<Page>, ReadError> {
        if self.index.revision().is_none() || request.limit > CANDIDATES_MAX {
            return Ok(None);
        }
        let latest = self
            .latest(self.client.deadline())
            .await
            .map_err(Fault::from)?;
        if !self.index_reached(latest).await {
            return Ok(None);
        }
        let now = self.reading();
        let found = self
            .index
            .newest(&request.prefix, request.since, request.limit, now);
        let Some(found) = found else { return Ok(None) };
        let mut page = Page {
            revision: found.revision,
            more: found.more,
            place: found.keys.last().map(|(_, entry)| entry.place()),
            ..Page::default()
        };
        page.place.take_if(|_| !found.more);
        let mut room = Room::limited(request.limit);
        let mut keys = found.keys.as_slice();
        while room.is_left() && !keys.is_empty() {
            let (part, rest) = keys.split_at(fetched_together(keys));
            let (part, places): (Vec<Bytes>, Vec<Place>) = part
                .iter()
                .map(|(key, entry)| (key.clone(), entry.place()))
                .unzip();
            let Some(versions) = self.fetch(&part, found.revision).await? else {
                return Ok(None);
            };
            for (version, place) in versions.into_iter().zip(places) {
                page.add_found(&mut room, self.record(version).await, place);
            }
            keys = rest;
        }
        if request.values_only {
            let behind = keys.len() + std::mem::take(&mut page.behind).len();
            if behind > 0 {
                page.more = true;
                let place = |(_, entry): &(Bytes, Entry)| entry.place();
                page.place = found.keys.iter().rev().nth(behind).map(place);
            }
            return Ok(Some(page));
        }
        let behind = keys.iter().map(|(key, entry)| (key.clone(), entry.place()));
        page.behind.extend(behind);
        Ok(Some(page))
    }
}

/// Number of leading keys to read in one transaction, at least one. The limits are etcd's
/// operations per transaction and the bytes of a page.
fn fetched_together(keys: &[(Bytes, Entry)]) -> usize {
    let lens = keys.iter().scan(0, |len: &mut usize, (_, entry)| {
        *len += entry.value_len;
        Some(*len)
    });
    lens.take(FETCH_LEN)
        .take_while(|len| *len <= PAGE_BYTES_MAX)
        .count()
        .max(1)
}

/// Copies a record out of etcd's answer. The original is a slice of an answer with a thousand
/// records, and would keep all of them in memory.
fn apart(record: &Record) -> Record {
    Record {
        key: Bytes::copy_from_slice(&record.key),
        value: Bytes::copy_from_slice(&record.value),
        ..*record
    }
}

/// Order of the newest records: the greater is the newer; of equal places the first key is greater.
type Rank = (Place, Reverse<Bytes>);

/// The newest records seen so far in a walk. They have values as far as a page has room for them;
/// the rest are only keys.
#[derive(Default)]
struct Newest {
    records: BTreeMap<Rank, Record>,
    value_bytes: usize,
    /// Records without values, all older than those in `records`. Not empty only if the values of
    /// `records` fill a page.
    behind: BTreeSet<Rank>,
}

impl Newest {
    /// Adds a copy of a record. Returns whether the limit left a record out.
    fn insert(&mut self, place: Place, record: &Record, limit: usize) -> bool {
        let is_full = self.records.len() + self.behind.len() >= limit;
        let is_older =
            |(oldest, key): &Rank| (place, Reverse(&record.key)) < (*oldest, Reverse(&key.0));
        if is_full && self.oldest().is_none_or(is_older) {
            return true;
        }
        let record = apart(record);
        let rank = (place, Reverse(record.key.clone()));
        self.value_bytes += record.value.len();
        self.records.insert(rank, record);
        while let Some(oldest) = self.records.first_entry()
            && let Some(bytes) = self.value_bytes.checked_sub(oldest.get().value.len())
            && bytes >= PAGE_BYTES_MAX
        {
            self.value_bytes = bytes;
            self.behind.insert(oldest.remove_entry().0);
        }
        if self.records.len() + self.behind.len() <= limit {
            return false;
        }
        if self.behind.pop_first().is_none()
            && let Some((_, record)) = self.records.pop_first()
        {
            self.value_bytes -= record.value.len();
        }
        true
    }

    fn oldest(&self) -> Option<&Rank> {
        self.behind.first().or(self.records.keys().next())
    }

    /// Place of the oldest record found.
    fn last(&self) -> Option<Place> {
        self.oldest().map(|(place, _)| *place)
    }

    fn into_page(self) -> Page {
        let behind = self.behind.into_iter().rev();
        Page {
            records: self.records.into_values().rev().collect(),
            behind: behind.map(|(place, key)| (key.0, place)).collect(),
            ..Page::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;

    /// The limit holds whether or not the values fill a page.
    #[test]
    fn the_newest_of_a_walk_keep_no_answer_in_memory() {
        for value_len in [1000, PAGE_BYTES_MAX / 2 + 1] {
            let answer = Bytes::from(vec![b'a'; PAGE_BYTES_MAX]);
            let mut newest = Newest::default();
            for seen in [5, 1, 7, 3, 9, 2, 8, 4, 6] {
                let record = Record {
                    key: answer.slice(..8),
                    value: answer.slice(..value_len),
                    revision: seen,
                    expires_at: None,
                };
                let place = Place {
                    last_seen: UnixMillis(0),
                    revision: seen,
                };
                newest.insert(place, &record, 4);
            }
            assert_eq!(newest.last().map(|place| place.revision), Some(6));
            let page = newest.into_page();
            assert_eq!(page.found(), 4);
            assert_eq!(page.behind.is_empty(), value_len == 1000);
            assert!(answer.is_unique(), "{value_len}");
        }
    }

    #[test]
    fn what_is_older_than_a_full_page_is_left_out() {
        let mut newest = Newest::default();
        let record = |revision| Record {
            key: Bytes::from(format!("key {revision}")),
            value: Bytes::from_static(b"1"),
            revision,
            expires_at: None,
        };
        let mut insert = |seen: u64, limit| {
            let place = Place {
                last_seen: UnixMillis(0),
                revision: seen,
            };
            newest.insert(place, &record(seen), limit)
        };
        assert!(insert(1, 0), "there is no room at all");
        assert!(!insert(2, 2));
        assert!(!insert(4, 2));
        assert!(insert(1, 2), "itself");
        assert!(insert(3, 2), "the oldest");
        let found = newest.into_page().records.into_iter();
        assert_eq!(found.map(|it| it.revision).collect::<Vec<_>>(), [4, 3]);
    }
}
