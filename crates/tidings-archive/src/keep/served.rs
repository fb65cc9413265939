//! A cluster's store as the API serves it: only the newest versions of events.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{
    BoxFuture, Change, Counts, CountsRequest, Deleted, Fault, ListRequest, NewRecord,
    NewestRequest, Page, ReadError, Record, Revision, Stats, Store, Watch, WatchError, WriteError,
};

use super::keeper::{KeepError, Keeper};
use super::keys::{self, EARLIEST};
use crate::version::record;

/// See the module documentation.
pub(crate) struct ServedStore {
    pub(crate) keeper: Arc<Keeper>,
}

#[derive(Debug, thiserror::Error)]
#[error("the events of a followed cluster are read-only")]
struct ReadOnly;

fn read_only<T: Send>() -> BoxFuture<'static, Result<T, WriteError>> {
    Box::pin(async { Err(Fault::Storage(Arc::new(ReadOnly)).into()) })
}

/// The record of the newest version.
fn event(record: &Record) -> Result<Record, Fault> {
    let value = record::event(&record.value).map_err(|error| Fault::Corrupt(error.to_string()))?;
    Ok(Record {
        value,
        ..record.clone()
    })
}

fn events(mut page: Page) -> Result<Page, ReadError> {
    let records = std::mem::take(&mut page.records);
    let records = records.iter().map(event).collect::<Result<_, _>>();
    page.records = records?;
    Ok(page)
}

impl ServedStore {
    fn store(&self) -> &dyn Store {
        &*self.keeper.store
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
            let forgotten = self.keeper.forget(key, expected).await;
            let (found, revision) = forgotten.map_err(|error| match error {
                KeepError::Write(error) => error,
                KeepError::Read(ReadError::Fault(fault)) => fault.into(),
                KeepError::Read(error) => Fault::Storage(Arc::new(error)).into(),
            })?;
            Ok(Deleted {
                revision,
                previous: event(&found)?,
            })
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            if keys::is_own(&key) {
                return Ok(None);
            }
            let found = self.store().get(key).await?;
            Ok(found.as_ref().map(event).transpose()?)
        })
    }

    fn revision(&self) -> Revision {
        self.store().revision()
    }

    fn list(&self, mut request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let behind = Bytes::from_static(keys::BEFORE_EVENTS);
            request.after = Some(match request.after {
                Some(after) => after.max(behind),
                None => behind,
            });
            events(self.store().list(request).await?)
        })
    }

    fn newest(&self, mut request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            request.since = Some(request.since.unwrap_or(EARLIEST).max(EARLIEST));
            events(self.store().newest(request).await?)
        })
    }

    fn counts(&self, mut request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        request.since = Some(request.since.unwrap_or(EARLIEST).max(EARLIEST));
        self.keeper.store.counts(request)
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            let watch = self.store().watch(prefix, after).await?;
            Ok(Box::new(ServedWatch(watch)) as Box<dyn Watch>)
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.keeper.store.compact(revision)
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        self.keeper.store.expire()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        self.keeper.store.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.keeper.store.close()
    }
}

struct ServedWatch(Box<dyn Watch>);

impl Watch for ServedWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async move {
            loop {
                let changes = self.0.next().await?;
                let changes = changes
                    .iter()
                    .filter_map(|change| served(change).transpose());
                let changes = changes.collect::<Result<Vec<_>, Fault>>()?;
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
        })
    }

    fn revision(&self) -> Revision {
        self.0.revision()
    }
}

/// A change of an event; `None` if its newest version did not change.
fn served(change: &Change) -> Result<Option<Arc<Change>>, Fault> {
    if keys::is_own(change.key()) {
        return Ok(None);
    }
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
            revision: *revision,
            previous: event(previous)?,
            expired: *expired,
        },
    };
    Ok(Some(Arc::new(change)))
}
