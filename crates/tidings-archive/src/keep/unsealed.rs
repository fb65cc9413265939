//! The versions that are yet to be sealed: a journal of where each of them is, written in the same
//! commit as the version itself.
//!
//! Invariants: an entry exists until the sealer reports that everything up to it is sealed, or
//! until its versions expire. The numbers of entries only grow, also over restarts. When entries up
//! to a number are read, none before it can still be added. Once a cluster was sealed, it always
//! has a journal, whether or not it is being sealed, so that no version is skipped. A reader of
//! waiting entries never gets a part from which entries were removed. The exception is the entries
//! of the last seal, which stay known (`kept`): these are returned if all of their versions still
//! exist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tidings_history::{Gap, Version};
use tidings_store::{
    Expected, Fault, ListRequest, NewRecord, ReadError, Record as Stored, Store, UnixMillis,
    WRITES_MAX, Write, WriteError,
};

use super::coverage::positions;
use super::gaps;
use super::journal::{ANY_EPOCH, Item, Journal, NotSealed};
use super::keeper::{KeepError, Keeper};
use super::kept::{Entry, Kept};
use super::keys;
use super::own::{json, parse};
use super::position::Position;
use crate::version::record::Record;

/// Number of events that are put into a new journal at once.
const PAGE: usize = 100;
/// Number of entries that are read at once.
const ENTRIES_READ: usize = 500;

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
            let journal = Self::new(0);
            journal.enlist(keeper).await?;
            return Ok(Some(journal));
        };
        // What was given to be sealed before the process ended may be sealed.
        let mut journal = Self::new(parse(&mark.value).map_err(ReadError::Fault)?);
        journal.count(keeper).await?;
        Ok(Some(journal))
    }

    /// Counts the versions that wait.
    async fn count(&mut self, keeper: &Keeper) -> Result<(), ReadError> {
        let mut after = None;
        loop {
            let page = entries(keeper, after).await?;
            let Some((number, last)) = page.last() else {
                return Ok(());
            };
            let next = number.saturating_add(1);
            *self.next.get_mut() = next.max(*self.next.get_mut());
            for (_, entry) in &page {
                *self.waiting.get_mut() += items(&entry.value)?.len() as u64;
            }
            after = Some(last.key.clone());
        }
    }

    /// Puts everything that is kept into the journal again, after its mark was removed.
    pub(super) async fn begin_anew(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let next = self.next.load(Ordering::Relaxed);
        *self.kept() = Kept::new(next);
        self.waiting.store(0, Ordering::Relaxed);
        self.enlist(keeper).await
    }

    /// Puts everything that is kept into the journal. The mark is written last. Until then this is
    /// begun again, over the entries that exist.
    async fn enlist(&self, keeper: &Keeper) -> Result<(), KeepError> {
        let first = self.next.load(Ordering::Relaxed);
        let begun = Bytes::from_static(keys::UNSEALED);
        keeper.delete_below(&begun).await?;
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
        let mark = Write::put(keys::SEALED, NewRecord::new(json(&first)));
        keeper.store.write_all(vec![mark]).await?;
        Ok(())
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
struct Filling {
    part: Part,
    /// Number of items in the part's entries.
    items: u64,
    /// The part's entries, if all of their versions still exist.
    read: Vec<Entry>,
    bytes: usize,
    /// The part has no entry from this number on.
    to: u64,
    /// The part has no further entries once its versions have this number of bytes.
    bytes_max: usize,
}

impl Filling {
    fn new(to: u64, bytes_max: usize) -> Self {
        Self {
            part: Part::default(),
            items: 0,
            read: Vec::new(),
            bytes: 0,
            to,
            bytes_max,
        }
    }
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
        let cut = self.cut(journal).await?;
        let mut filling = Filling::new(cut.end, bytes_max);
        self.fill_from(0, &mut filling).await?;
        let Filling {
            mut part,
            items,
            read,
            ..
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
        if self.given().await? < part.through {
            let mark = NewRecord::new(json(&part.through));
            self.keeper
                .store
                .write_all(vec![Write::put(keys::SEALED, mark)])
                .await?;
        }
        let mut kept = journal.kept();
        if part.gone == 0 {
            kept.give(read, part.through);
        } else {
            kept.give_none();
        }
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

    /// Returns the first entry that the journal still has. Earlier ones are sealed, or belong to
    /// another store. Zero if the cluster was never sealed.
    pub fn first(&self) -> u64 {
        let journal = self.keeper.journal.as_ref();
        journal.map_or(0, |journal| journal.kept().taken_out())
    }

    /// Returns the versions of the entries from a number on, up to a number of bytes, and before
    /// `to` if that is given. Nothing is changed. `None` if some of the entries may have been
    /// removed, because they are sealed, or if the cluster was never sealed. Of the entries that
    /// the last seal removed, the last four MiB stay known until the next seal removes some or the
    /// process ends, as long as none of their versions expires or is deleted. If the journal ends
    /// before the number, [`Part::through`] is less than it.
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
        let since = journal.kept().since(from);
        let Some((kept, rest)) = since else {
            return Ok(None);
        };
        let cut = self.cut(journal).await?;
        let until = to.map_or(cut.end, |to| to.min(cut.end));
        let mut filling = Filling::new(until, bytes_max);
        let has_room = self.fill(kept, &mut filling).await?;
        if filling.part.gone > 0 {
            // The sealed files have these versions, and this part would have fewer.
            return Ok(None);
        }
        if has_room {
            self.fill_from(rest, &mut filling).await?;
        }
        let mut part = filling.part;
        if part.is_whole {
            part.through = until;
        }
        if part.through == cut.end {
            part.positions = self.positions(cut.positions);
            part.gaps = cut.gaps;
        }
        // Removed entries are noted before they are removed, so this check is certain.
        let is_there = journal.kept().had_all(rest, until);
        Ok(is_there.then_some(part))
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

    /// Adds the journal's entries from a number on to a part, as many as it may have.
    async fn fill_from(&self, from: u64, filling: &mut Filling) -> Result<(), JournalError> {
        let mut after = from.checked_sub(1).map(keys::unsealed);
        loop {
            let page = entries(&self.keeper, after).await?;
            let Some((_, last)) = page.last() else {
                filling.part.is_whole = true;
                return Ok(());
            };
            after = Some(last.key.clone());
            let page = page.into_iter().map(|(number, found)| Entry {
                number,
                items: found.value,
            });
            if !self.fill(page.collect(), filling).await? {
                return Ok(());
            }
        }
    }

    /// Adds entries to a part, as many as it may have. Returns whether more may follow.
    async fn fill(&self, entries: Vec<Entry>, filling: &mut Filling) -> Result<bool, JournalError> {
        for entry in entries {
            if entry.number >= filling.to {
                filling.part.is_whole = true;
                return Ok(false);
            }
            if filling.bytes >= filling.bytes_max {
                return Ok(false);
            }
            let items = items(&entry.items)?;
            filling.items += items.len() as u64;
            for (item, count) in together(items) {
                let bytes = self.read(&item, count, &mut filling.part).await?;
                filling.bytes += bytes;
            }
            filling.part.through = entry.number + 1;
            if filling.part.gone == 0 {
                filling.read.push(entry);
            } else {
                filling.read.clear();
            }
        }
        Ok(true)
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

    /// Notes that everything before a number is sealed, and removes it. It is still returned to
    /// readers that ask from an earlier number: see [`Self::waiting_from`]. A seal calls this for
    /// each part, and at its beginning for all that was sealed before.
    ///
    /// # Errors
    /// Errors of the store. Nothing is removed if there were never such entries.
    pub async fn sealed(&self, through: u64) -> Result<(), JournalError> {
        let Some(journal) = &self.keeper.journal else {
            return Ok(());
        };
        let given = journal.next.load(Ordering::Relaxed);
        if through > given {
            return Err(JournalError::NotGiven { through, given });
        }
        journal.kept().take_out(through);
        loop {
            let page = entries(&self.keeper, None).await?;
            let sealed = page.iter().filter(|(number, _)| *number < through);
            let mut writes = Vec::new();
            let mut versions = 0;
            for (_, entry) in sealed {
                versions += items(&entry.value)?.len() as u64;
                let expected = Expected::At(entry.revision);
                writes.push(Write::delete(entry.key.clone()).expecting(expected));
            }
            if writes.is_empty() {
                return Ok(());
            }
            match self.keeper.store.write_all(writes).await {
                Ok(_) => {
                    let less = |waiting: u64| Some(waiting.saturating_sub(versions));
                    // Subtracting always succeeds, since the function always returns a value.
                    let _ =
                        journal
                            .waiting
                            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                }
                // One of the entries expired.
                Err(WriteError::NotFound | WriteError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads the first entries, or those after a key, each with its number.
async fn entries(keeper: &Keeper, after: Option<Bytes>) -> Result<Vec<(u64, Stored)>, ReadError> {
    let mut request = ListRequest::prefix(keys::UNSEALED).limit(ENTRIES_READ);
    request.after = after;
    let found = keeper.store.list(request).await?.records.into_iter();
    let numbered = found.map(|entry| {
        let number = keys::unsealed_number(&entry.key).ok_or_else(|| {
            let key = entry.key.escape_ascii();
            Fault::Corrupt(format!("no entry of the feed has the key {key}"))
        })?;
        Ok((number, entry))
    });
    numbered.collect()
}

fn items(value: &[u8]) -> Result<Vec<Item>, ReadError> {
    Ok(parse(value)?)
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
