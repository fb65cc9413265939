//! The versions that are yet to be sealed: a journal of where each of them is, written in the same
//! commit as the version itself.
//!
//! Invariants: an entry exists until the seal after the one that sealed it (`cursor`), or until its
//! versions expire. The numbers of entries only grow, also over restarts. When entries up to a
//! number are read, none before it can still be added. Once a cluster was sealed, it always has a
//! journal, whether or not it is being sealed, so that no version is skipped. A reader gets either
//! all entries of a range or none. It gets sealed entries only with all of their versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tidings_history::{Gap, Version};
use tidings_store::{ListRequest, ReadError, Store, UnixMillis, WRITES_MAX, WriteError};

use super::coverage::positions;
use super::cursor::{Cursor, LastStored};
use super::entries::{count, entries, items};
use super::gaps;
use super::journal::{ANY_EPOCH, Item, Journal, NotSealed};
use super::keeper::{KeepError, Keeper};
use super::keys;
use super::own::parse;
use super::position::Position;
use crate::version::record::Record;

/// Number of events that are put into a new journal at once.
const PAGE: usize = 100;
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
    pub(crate) async fn open(keeper: &Keeper, seal: bool) -> Result<Option<Self>, KeepError> {
        let mark = keeper.store.get(Bytes::from_static(keys::SEALED)).await?;
        if mark.is_none() && !seal {
            return Ok(None);
        }
        let Some(mark) = mark else {
            // Entries of an earlier attempt are not sealed.
            let (_, end) = count(&keeper.store, 0, u64::MAX).await?;
            let journal = Self::new(end, Cursor::at(end), 0);
            journal.enlist(keeper).await?;
            return Ok(Some(journal));
        };
        // What was given to be sealed before the process ended may be sealed.
        let given = parse(&mark.value).map_err(ReadError::Fault)?;
        let stored = keeper.store.get(Bytes::from_static(keys::FEED)).await?;
        let stored = stored.map(|stored| Cursor::read(&stored, mark.revision));
        let cursor = if let Some(cursor) = stored.transpose()?.flatten() {
            cursor
        } else {
            // Another program sealed, and deleted what it sealed: it may be any of these entries.
            let first = entries(&keeper.store, None).await?;
            Cursor::at(first.first().map_or(given, |(number, _)| *number))
        };
        let (waiting, end) = count(&keeper.store, cursor.sealed, u64::MAX).await?;
        let journal = Self::new(end.max(given), cursor, given);
        journal.waiting.store(waiting, Ordering::Relaxed);
        Ok(Some(journal))
    }

    /// Puts everything that is kept into the journal again, after its mark was removed.
    pub(super) async fn begin_anew(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let next = self.next.load(Ordering::Relaxed);
        *self.cursor() = Cursor::at(next);
        self.waiting.store(0, Ordering::Relaxed);
        self.enlist(keeper).await
    }

    /// Puts everything that is kept into the journal. The mark is written last. Until then this is
    /// begun again, behind the entries that exist.
    async fn enlist(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let first = self.cursor().sealed;
        *self.stored.lock().await = LastStored::of(first);
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
                self.add(&all.collect::<Vec<_>>(), found.expires_at, &mut writes);
                for writes in writes.chunks(WRITES_MAX) {
                    keeper.store.write_all(writes.to_vec()).await?;
                }
            }
        }
        self.store(&keeper.store, first).await?;
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
    /// Returns about how many versions wait to be sealed; `None` if the cluster was never sealed.
    pub fn waiting(&self) -> Option<u64> {
        let journal = self.keeper.journal.as_ref()?;
        Some(journal.waiting.load(Ordering::Relaxed))
    }

    /// Returns why the last attempt to seal failed, if it did: see
    /// [`set_failure`](Self::set_failure).
    pub fn failure(&self) -> Option<NotSealed> {
        let journal = self.keeper.journal.as_ref()?;
        journal.failure().clone()
    }

    /// Sets why the last attempt to seal failed, or that it did not. This is reported until the
    /// next attempt.
    pub fn set_failure(&self, why: Option<NotSealed>) {
        if let Some(journal) = &self.keeper.journal {
            *journal.failure() = why;
        }
    }

    /// Returns the bytes of the newest manifest, which grows with the number of files; 0 if that is
    /// not known.
    pub fn manifest_bytes(&self) -> u64 {
        let journal = self.keeper.journal.as_ref();
        journal.map_or(0, |journal| journal.manifest_bytes.load(Ordering::Relaxed))
    }

    /// Sets the bytes of the newest manifest.
    pub fn set_manifest_bytes(&self, bytes: u64) {
        if let Some(journal) = &self.keeper.journal {
            journal.manifest_bytes.store(bytes, Ordering::Relaxed);
        }
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
        let Some(journal) = &self.keeper.journal else {
            return Ok(None);
        };
        let from = journal.cursor().sealed;
        let cut = self.cut(journal).await?;
        let filling = self.fill(from, cut.end, 0, bytes_max).await?;
        let Filling {
            mut part, items, ..
        } = filling;
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

    /// Returns the number before which all entries were given to be sealed.
    pub(super) async fn given(&self) -> Result<u64, ReadError> {
        let key = Bytes::from_static(keys::SEALED);
        let mark = self.keeper.store.get(key).await?;
        Ok(mark.map_or(Ok(0), |mark| parse(&mark.value))?)
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
        let journal = self.keeper.journal.as_ref();
        journal.map_or(0, |journal| journal.cursor().sealed)
    }

    /// Returns the versions of the entries from a number on, up to a number of bytes, and before
    /// `to` if that is given. Nothing is changed. `None` if some of the entries are sealed and were
    /// removed, or if the cluster was never sealed. The entries of the last seal stay until the
    /// next one. They are not returned once one of their versions expired or was deleted. If the
    /// journal ends before the number, [`Part::through`] is less than it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn waiting_from(
        &self,
        from: u64,
        to: Option<u64>,
        bytes_max: usize,
    ) -> Result<Option<Part>, JournalError> {
        let Some(journal) = &self.keeper.journal else {
            return Ok(None);
        };
        let before = *journal.cursor();
        if from < before.first {
            return Ok(None);
        }
        // What files may have is told with each version, or not at all.
        let sealed = before.sealed.max(journal.maybe_sealed);
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
            gaps: gaps::read(&*self.keeper.store).await?,
            counted: journal.waiting.load(Ordering::Relaxed),
            end: journal.next.load(Ordering::Relaxed),
        })
    }

    /// Fills a part with the entries from a number on and before `to`, up to a number of bytes.
    /// Entries before `sealed` are sealed.
    async fn fill(
        &self,
        from: u64,
        to: u64,
        sealed: u64,
        bytes_max: usize,
    ) -> Result<Filling, JournalError> {
        let mut filling = Filling::default();
        let mut after = from.checked_sub(1).map(keys::unsealed);
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
                filling.whole += u64::from(number < sealed && filling.part.gone == 0);
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
        let id = keys::id(&item.1, item.0.as_bytes());
        let newest = self.newest(item).await?;
        let sealed_before = self.keeper.sealed_before();
        let epochs = sealed_before.as_ref().map_or(0, |before| before.epochs);
        let namespace = item
            .0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace);
        let mut found = 0_u64;
        let mut bytes = 0;
        // If the event was renamed, its newest version may be in the record after the item's.
        let last = item.2 + u64::from(item.3 != ANY_EPOCH);
        for number in item.2..=last {
            let record = match &newest {
                Some(newest) if newest.chunks == number => Some(newest.clone()),
                _ => {
                    let chunk = self.keeper.store.get(keys::chunk(&id, number)).await?;
                    chunk.and_then(|chunk| Record::decode(&chunk.value).ok())
                }
            };
            let mut is_whole = false;
            let versions = record.iter().flat_map(Record::versions).flatten();
            for mut version in versions.filter(|version| item.has(version)) {
                is_whole |= version.number == item.5;
                found += 1;
                let (epoch, number) = version.order();
                let is_sealed = sealed_before.as_ref();
                if is_sealed.is_some_and(|it| it.has(namespace, &item.1, epoch, number)) {
                    continue;
                }
                bytes += version.event.len();
                version.epoch = epoch.saturating_add(epochs);
                part.versions.push(version);
            }
            if is_whole {
                break;
            }
        }
        // An item names one version, or all of a record.
        part.gone += number_of_items.saturating_sub(found);
        Ok(bytes)
    }

    /// Returns the record with an event's newest version, whatever name it has.
    async fn newest(&self, item: &Item) -> Result<Option<Record>, JournalError> {
        let (namespace, name) = item.0.split_once('/').unwrap_or_default();
        let names = std::iter::once(name.to_owned());
        for name in names.chain(keys::elder_names(name, &item.1)) {
            let found = self.keeper.store.get(keys::event(namespace, &name)).await?;
            let record = found.and_then(|found| Record::decode(&found.value).ok());
            if let Some(record) = record.filter(|record| *record.newest.uid == *item.1) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Moves the sealer's cursor: everything before a number is sealed. A seal calls this for each
    /// part, and at its beginning for all that was sealed before. The entries of this seal stay
    /// until the next one moves the cursor; entries of former seals are removed.
    ///
    /// # Errors
    /// Errors of the store. The cursor stays if there were never such entries.
    pub async fn sealed(&self, through: u64) -> Result<(), JournalError> {
        let Some(journal) = &self.keeper.journal else {
            return Ok(());
        };
        let given = journal.next.load(Ordering::Relaxed);
        if through > given {
            return Err(JournalError::NotGiven { through, given });
        }
        Ok(journal.advance(&self.keeper.store, through).await?)
    }
}

/// Joins items of the same record, so that each record is read once. Returns them with the number
/// of items that each stands for.
fn together(items: Vec<Item>) -> Vec<(Item, u64)> {
    let mut records = BTreeMap::<_, (u64, u64, u64)>::new();
    for Item(key, uid, record, epoch, from, to) in items {
        let range = records
            .entry((key, uid, record, epoch))
            .or_insert((from, to, 0));
        *range = (range.0.min(from), range.1.max(to), range.2 + 1);
    }
    let items = records.into_iter();
    items
        .map(|((key, uid, record, epoch), (from, to, number))| {
            (Item(key, uid, record, epoch, from, to), number)
        })
        .collect()
}
