//! The versions that are yet to be sealed: a journal of where each of them is, written in the same
//! commit as the version itself.
//!
//! Invariants: an entry exists until the seal after the one that sealed it (`cursor`), or until its
//! versions expire. The numbers of entries only grow, also over restarts. When entries up to a
//! number are read, none before it can still be added. Once a cluster was sealed, it always has a
//! journal, whether or not it is being sealed, so that no version is skipped. A reader gets either
//! all entries of a range or none. It gets sealed entries only with all of their versions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tidings_history::{Gap, Version};
use tidings_store::{ListRequest, ReadError, Store, UnixMillis, WRITES_MAX, WriteError};

use crate::keep::coverage::Position;
use crate::keep::coverage::read_gaps;
use crate::keep::feed::read_cursors;
use crate::keep::feed::{ANY_EPOCH, Item, Journal, NotSealed, expiry};
use crate::keep::feed::{Cursor, LastStored};
use crate::keep::feed::{confirmed_entries, count, entries, items};
use crate::keep::json::parse;
use crate::keep::keys;
use crate::keep::report::positions;
use crate::keep::versions::{KeepError, Keeper};
use crate::version::record::Record;

/// Number of events that are put into a new journal at once.
const PAGE: usize = 100;
/// Maximum number of items of an entry that are read to find its time.
const LOOKS: usize = 8;
/// Versions to be sealed together.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The versions, by events.
    pub versions: Vec<Version>,
    /// Once they are sealed, everything before this entry is.
    pub through: u64,
    /// Versions that ended or were deleted before they were sealed.
    pub gone: u64,
    /// The positions of the cluster by namespaces, if everything up to them is in this part or an
    /// earlier one; otherwise none.
    pub positions: Vec<(String, Position)>,
    /// The latest gaps, if there are positions.
    pub gaps: Vec<Gap>,
    /// Whether these are all versions that were asked for, rather than as many as fit.
    pub is_whole: bool,
}

impl Journal {
    /// Opens the journal of a store, if it has one or is to be sealed. A new journal gets
    /// everything that is kept.
    pub(crate) async fn open(keeper: &Keeper, seal: bool) -> Result<Self, KeepError> {
        let mark = keeper.store.get(Bytes::from_static(keys::SEALED)).await?;
        let stored = keeper.store.get(Bytes::from_static(keys::FEED)).await?;
        let mut cursors = read_cursors(&*keeper.store).await?;
        let first = confirmed_entries(&keeper.store, None).await?;
        let first = first.first().map(|(number, _)| *number);
        let (mut given, mut is_believed) = (0, true);
        let mut cursor = Cursor::NONE;
        if let Some(mark) = mark {
            given = parse(&mark.value).map_err(ReadError::Fault)?;
            let stored = stored.map(|stored| Cursor::read(&stored, &mark));
            let stored = stored.transpose()?.flatten();
            is_believed = stored.is_some();
            // Another program sealed, and deleted what it sealed: it may be any of these entries.
            // It deleted none that it had not been given.
            let first = first.map_or(given, |first| first.min(given));
            cursor = stored.unwrap_or(Cursor::at(first).with_given(given));
        }
        let from = if cursor.is_none() { 0 } else { cursor.sealed };
        let (waiting, end) = count(&keeper.store, from, u64::MAX).await?;
        let named = cursors.iter().map(|(_, stored)| stored.through);
        // Numbers before the cursor are not used again, or what has them would be taken for sealed.
        let end = named.chain([given, from, end]).max().unwrap_or(0);
        let is_new = cursor.is_none() && seal;
        if is_new {
            cursor = Cursor::at(end);
        }
        let journal = Self::new(end, cursor, given);
        let is_sealed = journal.is_sealed() && !is_new;
        journal
            .waiting
            .store(if is_sealed { waiting } else { 0 }, Ordering::Relaxed);
        if !is_believed {
            // It also deleted what named cursors had not reached, and may have begun anew.
            for (_, stored) in &mut cursors {
                stored.distrust(first.unwrap_or(end), keeper.now());
            }
        }
        journal
            .set_consumers(&keeper.store, cursors, is_believed)
            .await?;
        if is_new {
            journal.enlist(keeper).await?;
        }
        if let Err(error) = journal.trim(&keeper.store).await {
            tracing::debug!(%error, "entries of the feed are deleted later");
        }
        Ok(journal)
    }

    /// Puts everything that is kept into the journal again, after its mark was removed.
    pub(in crate::keep) async fn begin_anew(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let next = self.next();
        *self.cursor() = Cursor::at(next);
        self.waiting.store(0, Ordering::Relaxed);
        self.enlist(keeper).await
    }

    /// Puts everything that is kept into the journal. The mark is written last. Until then this is
    /// begun again, behind the entries that exist.
    async fn enlist(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let first = self.cursor().sealed;
        // Nothing writes the mark meanwhile.
        let mut last = self.stored.lock().await;
        *last = LastStored::of(first);
        let mut after = Bytes::from_static(keys::BEFORE_EVENTS);
        loop {
            let request = ListRequest::default().after(after).limit(PAGE);
            let page = keeper.store.list(request).await?;
            let Some(last) = page.records.last() else {
                break;
            };
            after = last.key.clone();
            for found in &page.records {
                let Ok(newest) = Record::decode(&found.value) else {
                    continue;
                };
                let all = (0..=newest.chunks).map(|number| Item::all(&found.key, &newest, number));
                let mut writes = Vec::new();
                let end = found.expires_at.map(expiry);
                self.add(&all.collect::<Vec<_>>(), &[], end, &mut writes);
                for writes in writes.chunks(WRITES_MAX) {
                    keeper.store.write_all(writes.to_vec()).await?;
                }
            }
        }
        self.write_with(&keeper.store, &mut last, first, Vec::new())
            .await?;
        drop(last);
        self.trim(&keeper.store).await
    }
}

/// Why the journal could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Entries were reported as sealed that never existed.
    #[error("entries up to {through} cannot be sealed: there were entries up to {given} only")]
    NotGiven {
        /// The entry after the last one that was reported.
        through: u64,
        /// The entry after the last one that existed.
        given: u64,
    },
}

impl From<KeepError> for JournalError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Read(error) => error.into(),
            KeepError::Write(error) => error.into(),
        }
    }
}

/// A state of the journal, between two commits.
struct Cut {
    /// The positions of the cluster by namespaces.
    positions: Vec<(String, Position)>,
    gaps: Vec<Gap>,
    /// Number of the first entry after this state.
    end: u64,
    /// About how many versions the entries before that have.
    counted: u64,
}

/// A part that is being filled.
#[derive(Default)]
struct Filling {
    part: Part,
    /// Number of items in the part's entries.
    items: u64,
    bytes: usize,
    /// Number of the part's sealed entries of which all versions still exist.
    whole: u64,
}

/// The versions of a cluster that are yet to be sealed.
#[derive(Clone)]
pub struct Unsealed {
    pub(crate) keeper: Arc<Keeper>,
}

impl Unsealed {
    /// The journal, if the cluster is or was sealed.
    fn journal(&self) -> Option<&Journal> {
        Some(&self.keeper.journal).filter(|journal| journal.is_sealed())
    }

    /// Returns about how many versions wait to be sealed; `None` if the cluster was never sealed.
    pub fn waiting(&self) -> Option<u64> {
        let journal = self.journal()?;
        Some(journal.waiting.load(Ordering::Relaxed))
    }

    /// Returns why the last attempt to seal failed, if it did: see
    /// [`set_failure`](Self::set_failure).
    pub fn failure(&self) -> Option<NotSealed> {
        self.keeper.journal.failure().clone()
    }

    /// Sets why the last attempt to seal failed, or that it did not. This is reported until the
    /// next attempt.
    pub fn set_failure(&self, why: Option<NotSealed>) {
        *self.keeper.journal.failure() = why;
    }

    /// Returns the bytes of the newest manifest, which grows with the number of files; 0 if that is
    /// not known.
    pub fn manifest_bytes(&self) -> u64 {
        self.keeper.journal.manifest_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes of the newest manifest.
    pub fn set_manifest_bytes(&self, bytes: u64) {
        let known = &self.keeper.journal.manifest_bytes;
        known.store(bytes, Ordering::Relaxed);
    }

    /// Returns the longest time for which an event existed at the source after it was last seen, of
    /// those whose end was observed since the start; `None` if these are fewer than a hundred.
    pub fn longest_life(&self) -> Option<Duration> {
        self.keeper.lasted.longest()
    }

    /// Returns the versions that have waited longest, up to a number of bytes; `None` if none
    /// waits.
    ///
    /// # Errors
    /// Errors of the store, which is also written to.
    pub async fn next(&self, bytes_max: usize) -> Result<Option<Part>, JournalError> {
        let Some(journal) = self.journal() else {
            return Ok(None);
        };
        let from = journal.cursor().sealed;
        let cut = self.cut(journal).await?;
        let hidden = self.first_hidden(from).await?;
        let to = hidden.map_or(cut.end, |hidden| hidden.min(cut.end));
        let filling = self.fill(from, to, 0, bytes_max).await?;
        let Filling {
            mut part, items, ..
        } = filling;
        part.is_whole &= to == cut.end;
        if part.through == cut.end {
            part.positions = self.positions(cut.positions);
            part.gaps = cut.gaps;
        }
        if part.is_whole {
            // The count included entries that have expired, or were not written. Entries added
            // since the cut stay counted.
            let more = items.wrapping_sub(cut.counted);
            journal.waiting.fetch_add(more, Ordering::Relaxed);
        }
        if part.through == 0 {
            return Ok(None);
        }
        // This is written before anything reports them as sealed. So their numbers are not used
        // again, even if they expire before they are removed.
        journal.store(&self.keeper.store, part.through).await?;
        Ok(Some(part))
    }

    /// Returns the first entry from a number on whose versions only a clock hides that is ahead. It
    /// waits until the clock is right or confirmed: read now, its versions would count as gone.
    async fn first_hidden(&self, from: u64) -> Result<Option<u64>, ReadError> {
        let now = self.keeper.now();
        if self.keeper.store.confirmed() >= now {
            return Ok(None);
        }
        // An entry expires later than its versions.
        let is_hidden = |end: UnixMillis| end <= expiry(now);
        let mut after = keys::before(from);
        loop {
            let page = confirmed_entries(&self.keeper.store, after).await?;
            let Some((_, last)) = page.last() else {
                return Ok(None);
            };
            after = Some(last.key.clone());
            if let Some((number, _)) = page
                .iter()
                .find(|(_, entry)| entry.expires_at.is_some_and(is_hidden))
            {
                return Ok(Some(*number));
            }
        }
    }

    /// Returns positions as the archive on object storage has them.
    fn positions(&self, own: Vec<(String, Position)>) -> Vec<(String, Position)> {
        match self.keeper.sealed_before() {
            Some(before) => before.with_sealed(own),
            None => own,
        }
    }

    /// Returns the time up to which the store believes its clock: see
    /// [`EmbeddedStore::confirmed`](tidings_store::embedded::EmbeddedStore::confirmed).
    pub fn confirmed(&self) -> UnixMillis {
        self.keeper.store.confirmed()
    }

    /// Returns the first entry that is not known to be sealed. Earlier ones are sealed, or belong
    /// to another store. Zero if the cluster was never sealed.
    pub fn first(&self) -> u64 {
        self.journal().map_or(0, |journal| journal.cursor().sealed)
    }

    /// Returns the versions of the entries from a number on, up to a number of bytes, and before
    /// `to` if that is given. Nothing is changed. `None` if some of the entries are sealed and were
    /// removed, or if the cluster was never sealed. The entries of the last seal stay until the
    /// next one. They are not returned once one of their versions expired or was deleted. If the
    /// journal ends before the number, [`Part::through`] is less than it. If a former program
    /// deleted entries without a note, nothing is returned until a seal has moved the cursor: an
    /// entry that is not read may only be hidden, by a clock that is ahead.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn waiting_from(
        &self,
        from: u64,
        to: Option<u64>,
        bytes_max: usize,
    ) -> Result<Option<Part>, JournalError> {
        let Some(journal) = self.journal() else {
            return Ok(None);
        };
        let before = *journal.cursor();
        if from < before.first {
            return Ok(None);
        }
        // What files may have is told with each version, or not at all.
        let sealed = before.sealed.max(before.given);
        let cut = self.cut(journal).await?;
        let until = to.map_or(cut.end, |to| to.min(cut.end));
        let filling = self.fill(from, until, sealed, bytes_max).await?;
        let Filling {
            mut part, whole, ..
        } = filling;
        if part.is_whole {
            part.through = until;
        }
        if whole < part.through.min(sealed).saturating_sub(from) {
            return Ok(None);
        }
        if part.through == cut.end {
            part.positions = self.positions(cut.positions);
            part.gaps = cut.gaps;
        }
        // The cursor moves before entries are removed, so this check is certain.
        let now = *journal.cursor();
        let is_sealed = now.sealed > from.max(sealed) && until > from.max(sealed);
        Ok((from >= now.first && !is_sealed).then_some(part))
    }

    /// Reads the state of the journal. Nothing is committed meanwhile: everything up to the
    /// positions has an entry before the cut, and nothing else has.
    async fn cut(&self, journal: &Journal) -> Result<Cut, ReadError> {
        let _guard = journal.gate.write().await;
        Ok(Cut {
            positions: positions(&self.keeper).await?,
            gaps: read_gaps(&*self.keeper.store).await?,
            counted: journal.waiting.load(Ordering::Relaxed),
            end: journal.next(),
        })
    }

    /// Fills a part with the entries from a number on and before `to`, up to a number of bytes.
    /// Entries before `sealed` are sealed: it ends with the first of these that is not whole, or
    /// before which one is missing.
    async fn fill(
        &self,
        from: u64,
        to: u64,
        sealed: u64,
        bytes_max: usize,
    ) -> Result<Filling, JournalError> {
        let mut filling = Filling::default();
        let mut after = keys::before(from);
        loop {
            let page = entries(&self.keeper.store, after).await?;
            let Some((_, last)) = page.last() else {
                filling.part.is_whole = true;
                return Ok(filling);
            };
            after = Some(last.key.clone());
            for (number, entry) in page {
                if number >= to {
                    filling.part.is_whole = true;
                    return Ok(filling);
                }
                if filling.bytes >= bytes_max {
                    return Ok(filling);
                }
                let items = items(&entry.value)?;
                filling.items += items.len() as u64;
                for (item, count) in together(items) {
                    let bytes = self.read(&item, count, &mut filling.part).await?;
                    filling.bytes += bytes;
                }
                filling.part.through = number + 1;
                if number < sealed {
                    // All before this one were whole.
                    if filling.part.gone > 0 || number != from + filling.whole {
                        return Ok(filling);
                    }
                    filling.whole += 1;
                }
            }
        }
    }

    /// Reads the versions of an item that stands for a number of items. Returns how many bytes they
    /// have.
    async fn read(
        &self,
        item: &Item,
        number_of_items: u64,
        part: &mut Part,
    ) -> Result<usize, JournalError> {
        let versions = self.keeper.versions_of(item).await?;
        // An item names one version, or all of a record.
        part.gone += number_of_items.saturating_sub(versions.len() as u64);
        let sealed_before = self.keeper.sealed_before();
        let namespace = keys::namespace(item.key.as_bytes());
        let mut bytes = 0;
        for mut version in versions {
            let (epoch, number) = version.order();
            let before = sealed_before.as_ref();
            if before.is_some_and(|before| before.has(&namespace, &item.uid, epoch, number)) {
                continue;
            }
            bytes += version.event.len();
            self.keeper.in_archive(&mut version);
            part.versions.push(version);
        }
        Ok(bytes)
    }

    /// Moves the sealer's cursor: everything before a number is sealed. A seal calls this for each
    /// part, and at its beginning for all that was sealed before. The entries of this seal stay
    /// until the next one moves the cursor; entries of former seals are removed.
    ///
    /// # Errors
    /// Errors of the store. The cursor stays if there were never such entries.
    pub async fn sealed(&self, through: u64) -> Result<(), JournalError> {
        let Some(journal) = self.journal() else {
            return Ok(());
        };
        let given = journal.next();
        if through > given {
            return Err(JournalError::NotGiven { through, given });
        }
        Ok(journal.advance(&self.keeper.store, through).await?)
    }
}

impl Keeper {
    /// Reads the versions that an item names and that still exist.
    pub(in crate::keep) async fn versions_of(
        &self,
        item: &Item,
    ) -> Result<Vec<Version>, ReadError> {
        Ok(self.versions_after(item).await?.1)
    }

    /// Reads the versions that an item names and that still exist, newest first, the version before
    /// them if it is in a record that was read, and the number of the record of the oldest of them.
    pub(super) async fn versions_after(
        &self,
        item: &Item,
    ) -> Result<(Option<Version>, Vec<Version>, u64), ReadError> {
        let id = keys::id(&item.uid, item.key.as_bytes());
        let newest = self.newest_of(item).await?;
        let (mut found, mut others, mut first) = (Vec::new(), Vec::new(), item.record);
        // If the event was renamed, its newest version may be in the record after the item's.
        let last = item.record + u64::from(item.epoch != ANY_EPOCH);
        for number in item.record..=last {
            let chunk;
            let record = match &newest {
                Some(newest) if newest.chunks == number => Some(newest),
                _ => {
                    let stored = self.store.get(keys::chunk(&id, number)).await?;
                    chunk = stored.and_then(|stored| Record::decode(&stored.value).ok());
                    chunk.as_ref()
                }
            };
            let versions = record.into_iter().flat_map(Record::versions).flatten();
            let is_none = found.is_empty();
            for version in versions {
                let of = if item.has(&version) {
                    &mut found
                } else {
                    &mut others
                };
                of.push(version);
            }
            if is_none && !found.is_empty() {
                first = number;
            }
            if found.iter().any(|version| version.number == item.to) {
                break;
            }
        }
        found.sort_by_key(|version| std::cmp::Reverse(version.order()));
        let oldest = found.last().map(Version::order);
        let before = others.into_iter().filter(|it| Some(it.order()) < oldest);
        Ok((before.max_by_key(Version::order), found, first))
    }

    /// Returns the record with an event's newest version, whatever name it has.
    async fn newest_of(&self, item: &Item) -> Result<Option<Record>, ReadError> {
        let (namespace, name) = item.key.split_once('/').unwrap_or_default();
        let names = std::iter::once(name.to_owned());
        for name in names.chain(keys::elder_names(name, &item.uid)) {
            let found = self.store.get(keys::event(namespace, &name)).await?;
            let record = found.and_then(|found| Record::decode(&found.value).ok());
            if let Some(record) = record.filter(|record| *record.newest.uid == *item.uid) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Gives a version the epoch that it has in an archive which this store continues.
    pub(in crate::keep) fn in_archive(&self, version: &mut Version) {
        let epochs = self.sealed_before().map_or(0, |before| before.epochs);
        version.epoch = version.epoch.saturating_add(epochs);
    }

    /// Returns when the first version of an entry that is still there was observed, in milliseconds
    /// since 1970.
    pub(in crate::keep) async fn time_of(&self, items: &[Item]) -> Result<Option<i64>, ReadError> {
        for item in items.iter().filter(|item| item.is_version()).take(LOOKS) {
            if let Some(version) = self.versions_of(item).await?.first() {
                return Ok(Some(version.observed_at.0));
            }
        }
        Ok(None)
    }
}

/// Joins items of the same record, so that each record is read once. Returns them with the number
/// of items that each stands for.
pub(in crate::keep) fn together(items: Vec<Item>) -> Vec<(Item, u64)> {
    let mut records = BTreeMap::<_, (Item, u64)>::new();
    for item in items {
        let id = (item.key.clone(), item.uid.clone(), item.record, item.epoch);
        match records.entry(id) {
            Entry::Vacant(free) => {
                free.insert((item, 1));
            }
            Entry::Occupied(mut known) => {
                let (all, number) = known.get_mut();
                all.from = all.from.min(item.from);
                all.to = all.to.max(item.to);
                *number += 1;
            }
        }
    }
    records.into_values().collect()
}
