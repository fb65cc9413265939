//! `?order=newest&limit=N`: lists the last seen events, latest first, without reading all of them.
//! `since` (inclusive) and `until` (exclusive) limit the time. An incomplete page has a continue
//! token. Each page is read at the latest revision, so an event that is seen again meanwhile is
//! missing from later pages.
//!
//! Within a second, the order is that of `tidings_core::reading::Order`: [`super::newest_order`]
//! sorts the events of a second together. A sealed archive is read for these events no further than
//! for the page, so there two events of a second may be on pages in the other order.
//!
//! kube-apiserver ignores this parameter, like every unknown one. An answer in this order therefore
//! has a header that says so; without the header it is an ordinary list. A list whose selector has
//! other conditions than one object is an ordinary list, because the events that do not match would
//! have to be read.
//!
//! The store finds all events at one revision and returns the first page of values. The other
//! values are read by their keys, at that revision, while earlier ones are sent.

use std::sync::Arc;
use std::vec;

use axum::response::Response;
use bytes::Bytes;
use futures::future::try_join_all;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_api::codec;
use tidings_api::codec::stored::StoredEvent;
use tidings_history::Numbers;
use tidings_store::{
    ListRequest, NewestRequest, PAGE_BYTES_MAX, Place, ReadError, Record, Revision, UnixMillis,
};

use super::newest_order::{Beginning, Found, MORE, SECOND_MAX, Seconds, Seen, Within};
use super::streamed::{self, Batches};
use crate::api::request::Call;
use crate::api::request::{indexed, key_prefix};
use crate::api::server::ApiServer;
use crate::http::list_options::{ListOptions, ResourceVersion};
use crate::http::negotiate::Form;
use crate::http::params;
use crate::http::status::Status;
use crate::http::stored::Stored;

/// Marks an answer in this order.
const HEADER: HeaderName = HeaderName::from_static("tidings-newest-first");
/// The value of the header for a list whose resourceVersion is not comparable to those of its
/// events: that of a sealed archive.
const SEALED: &str = "sealed";
/// Maximum length of a list in this order: the keys of its events are held in memory. A longer list
/// is sent in the usual order.
const LIMIT_MAX: usize = 500;
/// Concurrent reads by key.
const READS_AT_ONCE: usize = 4;

/// What a request in this order wants.
pub(crate) struct Wanted {
    /// The store's request. Its limit is that of the page.
    request: NewestRequest,
    from: Beginning,
}

/// The requested events, if this order applies.
///
/// # Errors
/// 400 for times that cannot be read.
pub(crate) fn wanted(call: &Call, options: &ListOptions) -> Result<Option<Wanted>, Status> {
    let query = &call.info.query;
    let selector = &options.selector;
    let object = selector.fields.only_object().map(indexed);
    let is_selected_by_index = object.is_some() || selector.fields.is_empty();
    let is_wanted = query.get(params::ORDER) == Some("newest")
        && is_selected_by_index
        && selector.labels.is_empty()
        && options.resource_version == ResourceVersion::Unset;
    let Some(limit) = options
        .limit
        .filter(|limit| is_wanted && *limit <= LIMIT_MAX)
    else {
        return Ok(None);
    };
    let from = match &options.continue_token {
        None => Beginning::default(),
        Some(token) => match Beginning::read(token) {
            Some(from) => from,
            // A token of the usual order.
            None => return Ok(None),
        },
    };
    let until = query.moment(params::UNTIL)?;
    let second_end = from.within.as_ref().map(Within::second_end);
    let request = NewestRequest {
        prefix: key_prefix(&call.info.namespace).into(),
        object,
        limit,
        since: query.moment(params::SINCE)?,
        until: until.into_iter().chain(second_end).min(),
        after: from.after,
        ..NewestRequest::default()
    };
    Ok(Some(Wanted { request, from }))
}

/// Answers with a list in this order.
pub(crate) async fn list(
    server: &Arc<ApiServer>,
    call: &Call,
    form: Form,
    wanted: Wanted,
) -> Result<Response, Status> {
    let newest = Newest {
        server: Arc::clone(server),
        wanted,
        begun: false,
        left: Vec::new().into_iter(),
        revision: 0,
        next: None,
    };
    let mut response = streamed::answer(server, call, form, newest).await?;
    let headers = response.headers_mut();
    let value = match server.capabilities().numbers {
        Numbers::Source => SEALED,
        Numbers::Store => "true",
    };
    headers.insert(HEADER, HeaderValue::from_static(value));
    Ok(response)
}

struct Newest {
    server: Arc<ApiServer>,
    wanted: Wanted,
    /// Whether the events were found.
    begun: bool,
    /// The events that are still to be returned, in order.
    left: vec::IntoIter<Found>,
    revision: Revision,
    /// The position at which the list continues, if it does.
    next: Option<String>,
}

impl Newest {
    /// Finds the events of the page, all at one revision.
    async fn find(&mut self) -> Result<(), Status> {
        let Wanted { request, from } = &self.wanted;
        let has_source_numbers = matches!(self.server.capabilities().numbers, Numbers::Source);
        let taken = from.within.as_ref().map_or(0, |within| within.taken);
        let wanted = request.limit + taken;
        if let Some(revision) = from.within.as_ref().map(Within::revision)
            && !self.server.store.is_own(revision)
        {
            // The token is one of another store.
            let oldest = self.server.store.revision();
            let requested = revision;
            return Err(ReadError::Compacted { requested, oldest }.into());
        }
        let mut more = MORE.into_iter();
        let (mut seconds, revision, stopped) = loop {
            let more = if has_source_numbers {
                Some(0)
            } else {
                more.next()
            };
            let limit = wanted + more.unwrap_or(SECOND_MAX);
            let request = NewestRequest {
                limit,
                ..request.clone()
            };
            let page = self.server.store.newest(request).await?;
            let records = page.records.into_iter().map(found);
            let mut all: Vec<Found> = records.collect::<Result<_, _>>()?;
            all.extend(page.behind.into_iter().map(found_without_record));
            let is_all = !page.more || all.len() < limit;
            let seconds = Seconds::of(all, from);
            let stopped = page.place.filter(|_| page.more);
            if is_all
                || has_source_numbers
                || limit >= wanted + SECOND_MAX
                || seconds.are_whole(wanted)
            {
                break (seconds, page.revision, stopped);
            }
        };
        self.revision = revision;
        for event in seconds.inexact(wanted) {
            if let Some(record) = self.read(&event.key, event.place.revision).await? {
                event.seen = seen(&record)?;
            }
        }
        let limit = if has_source_numbers {
            usize::MAX
        } else {
            request.limit
        };
        let (events, next) = seconds.page(limit, stopped);
        self.left = events.into_iter();
        self.next = next.map(|next| next.token());
        self.begun = true;
        Ok(())
    }

    /// Returns the next events, and reads those without a record by their keys.
    async fn read_on(&mut self) -> Result<Vec<Record>, Status> {
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = 0;
        while bytes < PAGE_BYTES_MAX && !self.left.as_slice().is_empty() {
            let wanted: Vec<_> = self.left.by_ref().take(READS_AT_ONCE).collect();
            let read = wanted.into_iter().map(async |event| match event.record {
                Some(record) => Ok(Some(record)),
                None => self.read(&event.key, event.place.revision).await,
            });
            for record in try_join_all(read).await?.into_iter().flatten() {
                bytes += record.value.len();
                records.push(record);
            }
        }
        Ok(records)
    }

    /// A record as it was at the list's revision; `None` if it has expired since.
    async fn read(&self, key: &Bytes, revision: Revision) -> Result<Option<Record>, Status> {
        let store = &self.server.store;
        let current = store.get(key.clone()).await?;
        if let Some(record) = current.filter(|record| record.revision == revision) {
            return Ok(Some(record));
        }
        let then = ListRequest::prefix(key.clone()).at(self.revision).limit(1);
        let page = store.list(then).await?;
        let mut records = page.records.into_iter();
        Ok(records.find(|record| record.key == *key))
    }
}

/// An event that the store found.
fn found(record: Record) -> Result<Found, Status> {
    let seen = seen(&record)?;
    let millis = seen.1.map_or(0, Timestamp::as_millisecond);
    Ok(Found {
        key: record.key.clone(),
        place: Place {
            last_seen: UnixMillis(millis),
            revision: record.revision,
        },
        seen,
        record: Some(record),
    })
}

fn found_without_record((key, place): (Bytes, Place)) -> Found {
    Found {
        key,
        place,
        seen: (None, Timestamp::from_millisecond(place.last_seen.0).ok()),
        record: None,
    }
}

/// When the event in a record was first and last seen.
fn seen(record: &Record) -> Result<Seen, Status> {
    let stored = StoredEvent::open(&record.value, record.revision);
    let times = match stored.and_then(|stored| stored.times()) {
        Some(times) => times,
        None => codec::times(&Stored::decode(record.clone())?.event),
    };
    Ok(times.seen())
}

impl Batches for Newest {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Status> {
        if !self.begun {
            self.find().await?;
        } else if self.is_done() {
            return Ok(None);
        }
        let batch = self.read_on().await?;
        self.server.metrics.listed(batch.len(), batch.len());
        Ok(Some(batch))
    }

    fn is_done(&self) -> bool {
        self.begun && self.left.as_slice().is_empty()
    }

    fn restart(&mut self) {
        self.begun = false;
        self.left = Vec::new().into_iter();
    }

    async fn look_ahead(
        &mut self,
        lengths: bool,
        mut see: impl FnMut(&Record) -> Result<(), Status> + Send,
    ) -> Result<ListMeta, Status> {
        if lengths {
            let left = self.left.clone();
            while !self.is_done() {
                for record in self.read_on().await? {
                    see(&record)?;
                }
            }
            self.left = left;
        }
        Ok(ListMeta {
            resource_version: Some(self.revision.to_string()),
            r#continue: self.next.clone(),
            ..ListMeta::default()
        })
    }
}
