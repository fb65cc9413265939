//! A read-only store of a sealed archive's events, for an API server.
//!
//! A watch delivers new pending versions (`watched`).
//!
//! The revision of the store is the number of a manifest with the number of pending entries shown
//! after it. The revision of a record is its resourceVersion at the source. Lists are in order of
//! [`Position`]s, which their keys encode; a single event is read by the key `namespace/name`.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{
    At, BoxFuture, Counts, CountsRequest, Deleted, ListRequest, NewRecord, NewestRequest, Page,
    ReadError, Record, Revision, Stats, Store, Watch, WatchError, WriteError,
};

use super::watch::SealedWatch;
use crate::reader::fault::Fault;
use crate::reader::keys::Position;
use crate::reader::pending::tail;
use crate::reader::plan::Selection;
use crate::reader::plan::View;
use crate::reader::state::Sealed;

/// The store of one cluster; see the module documentation.
pub(in crate::reader) struct SealedStore(pub(in crate::reader) Arc<Sealed>);

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("a sealed archive cannot be changed")]
    ReadOnly,
    #[error("the storage did not answer: {0}")]
    Unanswered(String),
}

impl From<Refused> for tidings_store::Fault {
    fn from(refused: Refused) -> Self {
        Self::Storage(Arc::new(refused))
    }
}

fn read_only<T: Send>() -> BoxFuture<'static, Result<T, WriteError>> {
    Box::pin(async { Err(WriteError::Fault(Refused::ReadOnly.into())) })
}

/// Splits the key of one event into namespace and name.
pub(in crate::reader) fn named(key: &[u8]) -> Option<(&str, &str)> {
    let (namespace, name) = std::str::from_utf8(key).ok()?.split_once('/')?;
    (!name.is_empty()).then_some((namespace, name))
}

/// What a prefix of keys selects.
enum Prefix<'a> {
    All,
    Namespace(&'a str),
    /// The event of this namespace and name.
    Name(&'a str, &'a str),
}

impl<'a> Prefix<'a> {
    fn of(prefix: &'a [u8]) -> Result<Self, Fault> {
        if prefix.is_empty() {
            return Ok(Self::All);
        }
        if let Some((namespace, name)) = named(prefix) {
            return Ok(Self::Name(namespace, name));
        }
        let namespace = std::str::from_utf8(prefix).ok();
        let namespace = namespace.and_then(|prefix| prefix.strip_suffix('/'));
        let known = "only namespaces and events are known";
        namespace.map(Self::Namespace).ok_or(Fault::Unknown(known))
    }
}

impl SealedStore {
    async fn page(&self, request: ListRequest) -> Result<Page, ReadError> {
        let request = &request;
        let read = |view: Arc<View>| async move {
            let (records, more) = list(&view, request).await?;
            if more {
                self.0.remember(Arc::clone(&view));
            }
            Ok(Page {
                records,
                revision: view.revision(),
                more,
                ..Page::default()
            })
        };
        self.0.read(request.at, read).await
    }
}

async fn list(view: &View, request: &ListRequest) -> Result<(Vec<Record>, bool), Fault> {
    let namespace = match Prefix::of(&request.prefix)? {
        Prefix::All => None,
        Prefix::Namespace(namespace) => Some(namespace.to_owned()),
        Prefix::Name(namespace, name) if request.after.is_none() => {
            let found = view.get(namespace, name).await?;
            return Ok((found.into_iter().collect(), false));
        }
        Prefix::Name(..) => return Ok((Vec::new(), false)),
    };
    let after = match &request.after {
        None => None,
        Some(key) => {
            let position = Position::of(key);
            Some(position.ok_or(Fault::Unknown(
                "a list continues only behind one of its keys",
            ))?)
        }
    };
    let selection = Selection::new(namespace, request.object.clone());
    let listed = view.list(&selection, after.as_ref(), request.limit).await?;
    Ok((listed.records, listed.more))
}

impl Store for SealedStore {
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

    fn delete(&self, _: Bytes, _: Option<Revision>) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        read_only()
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            let Some((namespace, name)) = named(&key) else {
                return Ok(None);
            };
            let read = |view: Arc<View>| async move { view.get(namespace, name).await };
            self.0.read(At::Latest, read).await
        })
    }

    fn revision(&self) -> Revision {
        self.0.newest().revision()
    }

    fn is_own(&self, revision: Revision) -> bool {
        tail::may_be(revision)
    }

    fn is_behind(&self, key: &[u8], other: &[u8]) -> bool {
        Position::of(key) > Position::of(other)
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(self.page(request))
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let request = &request;
            let read = |view: Arc<View>| async move {
                let namespace = match Prefix::of(&request.prefix)? {
                    Prefix::All => None,
                    Prefix::Namespace(namespace) => Some(namespace.to_owned()),
                    Prefix::Name(..) => {
                        return Err(Fault::Unknown("only one event has that name"));
                    }
                };
                let latest = view.newest(namespace, request).await?;
                Ok(Page {
                    records: latest.records,
                    revision: view.revision(),
                    more: latest.place.is_some(),
                    place: latest.place,
                    ..Page::default()
                })
            };
            self.0.read(At::Latest, read).await
        })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(async move {
            let request = &request;
            let read = |view: Arc<View>| async move {
                let counted = view.count(request).await?;
                Ok(Counts::of(counted, request, view.revision()))
            };
            self.0.read(At::Latest, read).await
        })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            // A name alone does not give an event's key, so a watch of one event covers its whole
            // namespace.
            let namespace = match Prefix::of(&prefix) {
                Ok(Prefix::All) => None,
                Ok(Prefix::Namespace(namespace) | Prefix::Name(namespace, _)) => Some(namespace),
                Err(fault) => return Err(WatchError::Fault(fault.into())),
            };
            let watch = SealedWatch::begin(&self.0, namespace, after).await?;
            Ok(Box::new(watch) as Box<dyn Watch>)
        })
    }

    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        read_only()
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        Box::pin(async { Ok(0) })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move {
            if let Some(why) = self.0.failure() {
                return Err(ReadError::Fault(Refused::Unanswered(why).into()));
            }
            let view = self.0.newest();
            let mut stats = Stats::default();
            stats.records = view.count_of_versions();
            stats.disk_bytes = view.manifest().bytes();
            stats.revision = view.revision();
            stats.oldest_revision = view.revision();
            Ok(stats)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
