//! A cluster's store as the API serves it: only the newest versions of events, with revisions in
//! the numbers of this store.
//!
//! A number of another store is answered like a compacted one, so that the client lists again.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{
    At, BoxFuture, Change, Counts, CountsRequest, Deleted, Fault, ListRequest, NewRecord,
    NewestRequest, Page, Place, ReadError, Record, Revision, Stats, Store, Watch, WatchError,
    WriteError,
};

use super::ranges::Numbers;
use crate::keep::keys::{self, EARLIEST};
use crate::keep::versions::{KeepError, Keeper};
use crate::version::record;

/// The kept events of one followed cluster, as the store that the API server reads.
pub(crate) struct ServedStore {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) numbers: Numbers,
}

#[derive(Debug, thiserror::Error)]
#[error("the events of a followed cluster are read-only")]
struct ReadOnly;

fn read_only<T: Send>() -> BoxFuture<'static, Result<T, WriteError>> {
    Box::pin(async { Err(Fault::Storage(Arc::new(ReadOnly)).into()) })
}

/// Returns the record of the newest version of an event.
fn event(record: &Record, numbers: Numbers) -> Result<Record, Fault> {
    let value = record::event(&record.value).map_err(|error| Fault::Corrupt(error.to_string()))?;
    Ok(Record {
        value,
        revision: numbers.number(record.revision),
        ..record.clone()
    })
}

fn events(mut page: Page, numbers: Numbers) -> Result<Page, ReadError> {
    let records = std::mem::take(&mut page.records);
    let records = records.iter().map(|record| event(record, numbers));
    page.records = records.collect::<Result<_, Fault>>()?;
    page.revision = numbers.number(page.revision);
    for (_, place) in &mut page.behind {
        place.revision = numbers.number(place.revision);
    }
    page.place = page.place.map(|place| Place {
        revision: numbers.number(place.revision),
        ..place
    });
    Ok(page)
}

fn read_error(mut error: ReadError, numbers: Numbers) -> ReadError {
    match &mut error {
        ReadError::Compacted { requested, oldest } => numbers.tell([requested, oldest]),
        ReadError::Future { requested, current } => numbers.tell([requested, current]),
        _ => {}
    }
    error
}

fn watch_error(mut error: WatchError, numbers: Numbers) -> WatchError {
    match &mut error {
        WatchError::Compacted { after, oldest } => numbers.tell([after, oldest]),
        WatchError::Future { requested, current } => numbers.tell([requested, current]),
        _ => {}
    }
    error
}

fn write_error(mut error: WriteError, numbers: Numbers) -> WriteError {
    match &mut error {
        WriteError::Conflict { expected, current } => numbers.tell([expected, current]),
        WriteError::FutureRevision { requested, current } => numbers.tell([requested, current]),
        _ => {}
    }
    error
}

impl ServedStore {
    fn store(&self) -> &dyn Store {
        &*self.keeper.store
    }

    /// Returns the revision with the number in a reader's request.
    fn asked(&self, number: u64) -> Result<Revision, ReadError> {
        let revision = self.numbers.revision(number);
        revision.ok_or_else(|| ReadError::Compacted {
            requested: number,
            oldest: self.revision(),
        })
    }
}

impl Store for ServedStore {
    fn create(&self, _: Bytes, _: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        read_only()
    }

    fn update(
        &self,
        _: Bytes,
        _: NewRecord,
        _: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        read_only()
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        Box::pin(async move {
            if keys::is_own(&key) {
                return Err(WriteError::NotFound);
            }
            // No record has the revision 0.
            let expected = expected.map(|number| self.numbers.revision(number).unwrap_or(0));
            let forgotten = self.keeper.forget(key, expected).await;
            let (found, revision) = forgotten.map_err(|error| match error {
                KeepError::Write(error) => write_error(error, self.numbers),
                KeepError::Read(ReadError::Fault(fault)) => fault.into(),
                KeepError::Read(error) => Fault::Storage(Arc::new(error)).into(),
            })?;
            Ok(Deleted {
                revision: self.numbers.number(revision),
                previous: event(&found, self.numbers)?,
            })
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            if keys::is_own(&key) {
                return Ok(None);
            }
            let found = self.store().get(key).await?;
            let found = found.as_ref().map(|found| event(found, self.numbers));
            Ok(found.transpose()?)
        })
    }

    fn revision(&self) -> Revision {
        self.numbers.number(self.store().revision())
    }

    fn is_own(&self, revision: Revision) -> bool {
        self.numbers.revision(revision).is_some()
    }

    fn list(&self, mut request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let behind = Bytes::from_static(keys::BEFORE_EVENTS);
            request.after = Some(match request.after {
                Some(after) => after.max(behind),
                None => behind,
            });
            if let At::Exact(number) = request.at {
                request.at = At::Exact(self.asked(number)?);
            }
            let page = self.store().list(request).await;
            let page = page.map_err(|error| read_error(error, self.numbers))?;
            events(page, self.numbers)
        })
    }

    fn newest(&self, mut request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            if let Some(after) = &mut request.after {
                after.revision = self.asked(after.revision)?;
            }
            request.since = Some(request.since.unwrap_or(EARLIEST).max(EARLIEST));
            events(self.store().newest(request).await?, self.numbers)
        })
    }

    fn counts(&self, mut request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(async move {
            request.since = Some(request.since.unwrap_or(EARLIEST).max(EARLIEST));
            let mut counts = self.store().counts(request).await?;
            counts.revision = self.numbers.number(counts.revision);
            Ok(counts)
        })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            let numbers = self.numbers;
            let revision = numbers.revision(after);
            let revision = revision.ok_or_else(|| WatchError::Compacted {
                after,
                oldest: self.revision(),
            })?;
            let watch = self.store().watch(prefix, revision).await;
            let watch = watch.map_err(|error| watch_error(error, numbers))?;
            Ok(Box::new(ServedWatch { watch, numbers }) as Box<dyn Watch>)
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move {
            // A revision of another store is not protected from compaction here.
            let Some(revision) = self.numbers.revision(revision) else {
                return Ok(());
            };
            let compacted = self.store().compact(revision).await;
            compacted.map_err(|error| write_error(error, self.numbers))
        })
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        self.keeper.store.expire()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move {
            let mut stats = self.store().stats().await?;
            let revisions = [&mut stats.revision, &mut stats.oldest_revision];
            self.numbers.tell(revisions);
            Ok(stats)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.keeper.store.close()
    }
}

struct ServedWatch {
    watch: Box<dyn Watch>,
    numbers: Numbers,
}

impl Watch for ServedWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async move {
            let numbers = self.numbers;
            loop {
                let changes = self.watch.next().await;
                let changes = changes.map_err(|error| watch_error(error, numbers))?;
                let changes = changes
                    .iter()
                    .filter_map(|change| served(change, numbers).transpose());
                let changes = changes.collect::<Result<Vec<_>, Fault>>()?;
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
        })
    }

    fn revision(&self) -> Revision {
        self.numbers.number(self.watch.revision())
    }
}

/// Returns the change of an event; `None` if its newest version did not change.
fn served(change: &Change, numbers: Numbers) -> Result<Option<Arc<Change>>, Fault> {
    if keys::is_own(change.key()) {
        return Ok(None);
    }
    let event = |record: &Record| event(record, numbers);
    let change = match change {
        Change::Put { record, previous } => {
            let record = event(record)?;
            let previous = previous.as_ref().map(event).transpose()?;
            if previous
                .as_ref()
                .is_some_and(|previous| previous.value == record.value)
            {
                return Ok(None);
            }
            Change::Put { record, previous }
        }
        Change::Delete {
            revision,
            previous,
            expired,
        } => Change::Delete {
            revision: numbers.number(*revision),
            previous: event(previous)?,
            expired: *expired,
        },
    };
    Ok(Some(Arc::new(change)))
}
