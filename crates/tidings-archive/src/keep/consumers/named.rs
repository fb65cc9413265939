//! The feed of a followed cluster: reads entries for named cursors, and commits these.
//!
//! Invariants: an entry is passed only when all before it were read. A number without an entry is
//! taken for lost only when no commit is under way. What was read and not committed is read again
//! by the next handle.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidings_history::{
    Batch, CURSORS_MAX, Cursor, CursorName, CursorStatus, Feed, FeedError, Gap, IN_FLIGHT_MAX,
    Limits, Offset, STATE_LEN_MAX, Skip, Start, StoredGap, Version,
};
use tidings_store::{BoxFuture, Fault, ReadError, Store, UnixMillis, Write};
use tokio::sync::watch;

use super::occurrences::count;
use super::sealer::together;
use crate::keep::feed::{Amount, Consumer, Past, Stored};
use crate::keep::feed::{Item, amount};
use crate::keep::feed::{entries, entries_up_to, items};
use crate::keep::json::parse;
use crate::keep::keys;
use crate::keep::transfer::{Place, walk};
use crate::keep::versions::{KeepError, Keeper};
use crate::version::record::Record;

/// The feed of a followed cluster. Cheap to clone.
///
/// Its bounds: a cursor moves if its oldest pending version was observed more than seven days ago,
/// or if the entries behind it take more than a GiB, or an eighth of the cluster's quota. They are
/// checked every half minute while the cluster is followed.
#[derive(Clone)]
pub struct ClusterFeed {
    pub(crate) keeper: Arc<Keeper>,
}

impl From<KeepError> for FeedError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Read(error) => error.into(),
            KeepError::Write(error) => error.into(),
        }
    }
}

impl ClusterFeed {
    async fn open(&self, name: CursorName, start: Start) -> Result<Handle, FeedError> {
        let (keeper, journal) = (&self.keeper, &self.keeper.journal);
        let mut last = journal.stored.lock().await;
        let found = journal.consumers.lock().get(&name).cloned();
        if found.as_ref().is_some_and(|found| found.holder.is_some()) {
            return Err(FeedError::InUse(name));
        }
        if found.is_none() {
            if journal.consumers.lock().len() >= CURSORS_MAX {
                return Err(FeedError::TooMany);
            }
            let past = |since| Past {
                place: None,
                since,
                read: 0,
            };
            // No commit is under way: everything before this entry is in the history, and
            // everything from it on gets an entry.
            let consumer = {
                let _gate = journal.gate.write().await;
                let past = match start {
                    Start::Now => None,
                    Start::Oldest => Some(past(i64::MIN)),
                    Start::Since(since) => Some(past(since.0)),
                };
                let consumer = Consumer {
                    stored: Stored::at(journal.next(), keeper.now().0, past),
                    holder: None,
                    passed: journal.added(),
                };
                let mut consumers = journal.consumers.lock();
                consumers.insert(name.clone(), consumer.clone());
                consumer
            };
            let (through, write) = (consumer.stored.through, consumer.stored.write(&name));
            let written = journal.write_with(&keeper.store, &mut last, through, vec![write]);
            if let Err(error) = written.await {
                journal.consumers.lock().remove(&name);
                return Err(error.into());
            }
        }
        let mut consumers = journal.consumers.lock();
        let consumer = consumers.get_mut(&name);
        let Some(consumer) = consumer else {
            return Err(FeedError::Removed(name));
        };
        let number = journal.handles.fetch_add(1, Ordering::Relaxed);
        consumer.holder = Some(number);
        let stored = consumer.stored.clone();
        drop(consumers);
        Ok(Handle {
            keeper: Arc::clone(keeper),
            news: journal.news.subscribe(),
            number,
            name,
            read: stored.through,
            at: stored.at,
            past: stored.history,
            state: stored.state,
            flight: VecDeque::new(),
        })
    }

    async fn status(&self) -> Result<Vec<CursorStatus>, FeedError> {
        let journal = &self.keeper.journal;
        let consumers = journal.consumers.lock().clone();
        let mut all = Vec::with_capacity(consumers.len());
        for (name, consumer) in consumers {
            let stored = consumer.stored;
            let backlog = journal.added().minus(consumer.passed);
            let through = match stored.history {
                Some(past) => Offset::History(past.read),
                None => Offset::Entry(stored.through),
            };
            let mut status = CursorStatus::new(name, through);
            (status.versions, status.bytes) = (backlog.versions, backlog.bytes);
            (status.skipped, status.is_open) = (stored.skipped, consumer.holder.is_some());
            if backlog.versions > 0 {
                let time = self.first_time(stored.through).await?;
                // What is gone was observed after the last delivered version.
                status.oldest = Some(UnixMillis(time.unwrap_or(stored.at)));
            }
            all.push(status);
        }
        Ok(all)
    }

    /// Returns when the first version from an entry on was observed; `None` if the versions of the
    /// first entry are gone, or the entry is.
    async fn first_time(&self, mut from: u64) -> Result<Option<i64>, FeedError> {
        for (number, entry) in entries(&self.keeper.store, keys::before(from)).await? {
            let items = items(&entry.value)?;
            if number > from || items.iter().any(Item::is_version) {
                let time = self.keeper.time_of(&items).await?;
                return Ok(time.filter(|_| number == from));
            }
            // It has gaps only.
            from += 1;
        }
        Ok(None)
    }

    async fn skip_all(&self, name: CursorName) -> Result<bool, FeedError> {
        let (keeper, journal) = (&self.keeper, &self.keeper.journal);
        let found = journal.consumers.lock().get(&name).cloned();
        match found {
            None => return Ok(false),
            Some(found) if found.holder.is_some() => return Err(FeedError::InUse(name)),
            Some(_) => journal.skip(keeper, &name).await?,
        }
        journal.wake();
        Ok(true)
    }

    async fn take_away(&self, name: CursorName) -> Result<bool, FeedError> {
        let (keeper, journal) = (&self.keeper, &self.keeper.journal);
        let last = journal.stored.lock().await;
        if !journal.consumers.lock().contains_key(&name) {
            return Ok(false);
        }
        let delete = Write::delete(keys::cursor(name.as_str()));
        let written = keeper.store.write_all(vec![delete]).await;
        match written {
            Ok(_) | Err(tidings_store::WriteError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        journal.consumers.lock().remove(&name);
        drop(last);
        journal.wake();
        journal.trim(&keeper.store).await?;
        Ok(true)
    }
}

impl Feed for ClusterFeed {
    fn cursor(
        &self,
        name: CursorName,
        start: Start,
    ) -> BoxFuture<'_, Result<Box<dyn Cursor>, FeedError>> {
        Box::pin(async move { Ok(Box::new(self.open(name, start).await?) as Box<dyn Cursor>) })
    }

    fn cursors(&self) -> BoxFuture<'_, Result<Vec<CursorStatus>, FeedError>> {
        Box::pin(self.status())
    }

    fn skip(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>> {
        Box::pin(self.skip_all(name))
    }

    fn remove(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>> {
        Box::pin(self.take_away(name))
    }
}

/// A batch that was read.
struct InFlight {
    through: Offset,
    is_committed: bool,
    /// The history that is left after it.
    past: Option<Past>,
    /// Its first entry, and the first one after it.
    from: u64,
    entry: u64,
    /// The amount of its entries.
    passed: Amount,
    /// When its last version was observed.
    at: i64,
    /// The skip of the stored cursor that it has.
    skip: Option<Skip>,
    /// Number of versions whose entries were lost.
    lost: u64,
    /// The consumer's state, if it is committed with one.
    state: Option<String>,
}

/// A cursor that a consumer holds.
struct Handle {
    keeper: Arc<Keeper>,
    news: watch::Receiver<()>,
    name: CursorName,
    /// The handle's number.
    number: u64,
    /// The next entry to read.
    read: u64,
    /// When the last version that was read was observed.
    at: i64,
    /// The history that is left to be read.
    past: Option<Past>,
    state: String,
    flight: VecDeque<InFlight>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut consumers = self.keeper.journal.consumers.lock();
        let consumer = consumers.get_mut(&self.name);
        if let Some(consumer) = consumer.filter(|it| it.holder == Some(self.number)) {
            consumer.holder = None;
        }
    }
}

impl Handle {
    fn stored(&self) -> Result<Consumer, FeedError> {
        let found = self
            .keeper
            .journal
            .consumers
            .lock()
            .get(&self.name)
            .cloned();
        // Another one may have its name now.
        let found = found.filter(|found| found.holder == Some(self.number));
        found.ok_or_else(|| FeedError::Removed(self.name.clone()))
    }

    async fn read(&mut self, limits: Limits) -> Result<Option<Batch>, FeedError> {
        if self.flight.len() >= IN_FLIGHT_MAX {
            return Err(FeedError::InFlight);
        }
        self.news.borrow_and_update();
        let stored = self.stored()?.stored;
        let is_told = self.flight.iter().any(|read| read.skip.is_some());
        let skip = stored.skip.map(Skip::from).filter(|_| !is_told);
        let (batch, read) = if let Some(past) = &self.past {
            self.read_past(past, stored.through, limits).await?
        } else {
            let from = self.read.max(stored.through);
            let (mut batch, mut read) = self.read_entries(from, limits).await?;
            read.skip = skip;
            if read.entry == from && skip.is_none() {
                self.read = from;
                return Ok(None);
            }
            batch.skip = match (skip, batch.skip) {
                (Some(one), Some(other)) => Some(one.joined(other)),
                (one, other) => one.or(other),
            };
            (batch, read)
        };
        self.past.clone_from(&read.past);
        (self.read, self.at) = (read.entry, read.at);
        self.flight.push_back(read);
        Ok(Some(batch))
    }

    /// Reads a batch of the history; the entry at which the feed begins is known.
    async fn read_past(
        &self,
        past: &Past,
        joins: u64,
        limits: Limits,
    ) -> Result<(Batch, InFlight), FeedError> {
        let place = past.place.as_deref().map(Place::parse);
        if matches!(place, Some(None)) {
            let what = format!("the cursor {} has no place in the history", self.name);
            return Err(ReadError::from(Fault::Corrupt(what)).into());
        }
        let place = place.flatten().unwrap_or(Place::FIRST);
        let (mut versions, mut all) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        // The event of the last version that was passed, and its count.
        let mut former = self.before(&place).await?;
        let mut take = |_: &str, record: Vec<Version>, _: Option<_>| {
            let since = UnixMillis(past.since);
            for version in record {
                let count = count(&version);
                let of_event = former.take().filter(|(uid, _)| *uid == version.uid);
                let before = of_event.map_or(Some(0), |(_, before)| before);
                former = Some((Arc::clone(&version.uid), Some(count)));
                if version.observed_at >= since {
                    bytes += version.event.len();
                    versions.push(version);
                    all.push(count.saturating_sub(before.unwrap_or(count - 1)));
                }
            }
            Ok(versions.len() >= limits.versions || bytes >= limits.bytes)
        };
        let more = walk(&self.keeper, &Bytes::new(), place, &mut take).await?;
        for version in &mut versions {
            self.keeper.in_archive(version);
        }
        let past = more.map(|more| Past {
            place: Some(more.to_string()),
            since: past.since,
            read: past.read + 1,
        });
        let through = match &past {
            Some(past) => Offset::History(past.read),
            None => Offset::Entry(joins),
        };
        let mut batch = Batch::ending(through);
        (batch.versions, batch.occurrences) = (versions, all);
        batch.is_history = true;
        let read = InFlight {
            through,
            is_committed: false,
            past,
            from: joins,
            entry: joins,
            passed: Amount::default(),
            at: self.at,
            skip: None,
            lost: 0,
            state: None,
        };
        Ok((batch, read))
    }

    /// Returns the event within which a place is, and its count before that place.
    async fn before(&self, place: &Place) -> Result<Option<(Arc<str>, Option<u64>)>, ReadError> {
        let Place::Event { number, key } = place else {
            return Ok(None);
        };
        let stored = self.keeper.store.get(key.clone().into()).await?;
        let Some(record) = stored.and_then(|stored| Record::decode(&stored.value).ok()) else {
            return Ok(None);
        };
        let uid = record.newest.uid;
        let id = keys::id(&uid, key.as_bytes());
        let count = self.keeper.count_before(&id, *number).await?;
        Ok(Some((uid, count)))
    }

    /// Reads entries from a number on.
    async fn read_entries(
        &self,
        from: u64,
        limits: Limits,
    ) -> Result<(Batch, InFlight), FeedError> {
        let journal = &self.keeper.journal;
        let store = &self.keeper.store;
        // A batch has fewer versions than its limit if some of these entries are gone.
        let read = || entries_up_to(store, keys::before(from), limits.versions);
        let mut page = read().await?;
        let is_consecutive = |page: &[(u64, tidings_store::Record)]| {
            let mut numbers = page.iter().map(|(number, _)| *number);
            numbers
                .by_ref()
                .zip(from..)
                .all(|(number, expected)| number == expected)
        };
        if !is_consecutive(&page) {
            // A commit may be under way that has the missing number. At this moment none is.
            let end = {
                let _gate = journal.gate.write().await;
                journal.next()
            };
            page = read().await?;
            page.retain(|(number, _)| *number < end);
        }
        let mut batch = Batch::ending(Offset::Entry(from));
        let mut read = InFlight {
            through: batch.through,
            is_committed: false,
            past: None,
            from,
            entry: from,
            passed: Amount::default(),
            at: self.at,
            skip: None,
            lost: 0,
            state: None,
        };
        let mut bytes = 0;
        for (number, entry) in page {
            if limits
                .through
                .is_some_and(|end| Offset::Entry(number) >= end)
            {
                break;
            }
            let is_begun = read.entry > from;
            let found = items(&entry.value)?;
            let gaps = if found.is_empty() {
                self.gaps(number).await?
            } else {
                Vec::new()
            };
            // Skips and gaps are before the versions of a batch.
            if is_begun && (number > read.entry || !gaps.is_empty()) {
                break;
            }
            let (versions, gone) = self.versions(&found).await?;
            let times = || versions.iter().map(|(version, _)| version.observed_at.0);
            let first = times().min();
            if limits.until.is_some_and(|until| first >= Some(until.0)) {
                break;
            }
            if number > read.entry {
                // An entry has at least one version.
                read.lost = number - read.entry;
                batch.skip = Some(Skip {
                    from: UnixMillis(read.at),
                    to: UnixMillis(first.unwrap_or(read.at).max(read.at)),
                    versions: read.lost,
                });
            }
            read.at = times().max().unwrap_or(read.at).max(read.at);
            for (version, occurrences) in versions {
                bytes += version.event.len();
                batch.versions.push(version);
                batch.occurrences.push(occurrences);
            }
            batch.gaps.extend(gaps);
            batch.gone += gone;
            read.passed = read.passed.plus(amount(&found, entry.value.len()));
            read.entry = number + 1;
            if batch.versions.len() >= limits.versions || bytes >= limits.bytes {
                break;
            }
        }
        read.through = Offset::Entry(read.entry);
        batch.through = read.through;
        Ok((batch, read))
    }

    /// Reads the gaps that a commit had, which took this number.
    async fn gaps(&self, number: u64) -> Result<Vec<Gap>, FeedError> {
        let found = self.keeper.store.get(keys::feed_gaps(number)).await?;
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        let gaps: Vec<StoredGap> = parse(&found.value).map_err(ReadError::Fault)?;
        Ok(gaps.into_iter().map(Gap::from).collect())
    }

    /// Reads the versions of an entry and their occurrences, in the order of the source. Also
    /// returns how many are gone.
    async fn versions(&self, items: &[Item]) -> Result<(Vec<(Version, u64)>, u64), FeedError> {
        let items = items.iter().filter(|item| item.is_version()).cloned();
        let (mut all, mut gone) = (Vec::new(), 0);
        for (item, number) in together(items.collect()) {
            let found = self.keeper.occurrences_of(&item).await?;
            gone += number.saturating_sub(found.len() as u64);
            all.extend(found);
        }
        all.sort_by_key(|(version, _)| version.order());
        for (version, _) in &mut all {
            self.keeper.in_archive(version);
        }
        Ok((all, gone))
    }

    async fn write(&mut self, through: Offset, state: Option<String>) -> Result<Offset, FeedError> {
        let len = state.as_ref().map_or(0, String::len);
        if len > STATE_LEN_MAX {
            return Err(FeedError::LongState(len));
        }
        let mut flight = self.flight.iter();
        let ended = flight.position(|read| read.through == through && !read.is_committed);
        let ended = ended.ok_or(FeedError::NotRead(through))?;
        let mut done = self.flight.iter().enumerate();
        let done = done.position(|(at, read)| at != ended && !read.is_committed);
        let done = done.unwrap_or(self.flight.len());
        let (keeper, journal) = (&self.keeper, &self.keeper.journal);
        let mut last = journal.stored.lock().await;
        let former = self.stored()?;
        let mut next = former.stored.clone();
        let mut passed = former.passed;
        let mut is_moved = false;
        for (at, read) in self.flight.iter().enumerate().take(done) {
            // The state is that of the last batch that the cursor passes.
            let of_batch = if at == ended { &state } else { &read.state };
            if let Some(state) = of_batch {
                next.state.clone_from(state);
            }
            next.history.clone_from(&read.past);
            // The bounds may have moved the cursor into a batch, or behind it.
            is_moved |= next.through != read.from;
            next.through = next.through.max(read.entry);
            passed = passed.plus(read.passed);
            next.at = next.at.max(read.at);
            next.skipped = next.skipped.saturating_add(read.lost);
            if let Some(told) = read.skip {
                next.end_skip(told);
            }
        }
        let write = next.write(&self.name);
        let written = journal.write_with(&keeper.store, &mut last, next.through, vec![write]);
        written.await?;
        let at = match &next.history {
            Some(past) => Offset::History(past.read),
            None => Offset::Entry(next.through),
        };
        if is_moved {
            passed = journal
                .added()
                .minus(journal.backlog(&keeper.store, next.through).await?);
        }
        self.state.clone_from(&next.state);
        let through = next.through;
        if let Some(consumer) = journal.consumers.lock().get_mut(&self.name) {
            (consumer.stored, consumer.passed) = (next, passed);
        }
        if let Some(read) = self.flight.get_mut(ended) {
            (read.is_committed, read.state) = (true, state);
        }
        self.flight.drain(..done);
        drop(last);
        if through > former.stored.through
            && let Err(error) = journal.trim(&keeper.store).await
        {
            tracing::debug!(%error, "entries of the feed are deleted later");
        }
        Ok(at)
    }
}

impl Handle {
    async fn write_state(&mut self, state: String) -> Result<(), FeedError> {
        if state.len() > STATE_LEN_MAX {
            return Err(FeedError::LongState(state.len()));
        }
        let (keeper, journal) = (&self.keeper, &self.keeper.journal);
        let mut last = journal.stored.lock().await;
        let mut next = self.stored()?.stored;
        next.state = state;
        let write = next.write(&self.name);
        let written = journal.write_with(&keeper.store, &mut last, next.through, vec![write]);
        written.await?;
        self.state.clone_from(&next.state);
        if let Some(consumer) = journal.consumers.lock().get_mut(&self.name) {
            consumer.stored = next;
        }
        Ok(())
    }
}

impl Cursor for Handle {
    fn next(&mut self, limits: Limits) -> BoxFuture<'_, Result<Option<Batch>, FeedError>> {
        Box::pin(self.read(limits))
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // The handle holds the journal, so its sender exists.
            let _ = self.news.changed().await;
        })
    }

    fn commit(
        &mut self,
        through: Offset,
        state: Option<String>,
    ) -> BoxFuture<'_, Result<Offset, FeedError>> {
        Box::pin(self.write(through, state))
    }

    fn store(&mut self, state: String) -> BoxFuture<'_, Result<(), FeedError>> {
        Box::pin(self.write_state(state))
    }

    fn state(&self) -> &str {
        &self.state
    }
}
