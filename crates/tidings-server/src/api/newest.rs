//! `?order=newest&limit=N`: lists the last seen events, latest first, without reading the others.
//! `since` (inclusive) and `until` (exclusive) limit the time. An incomplete page has a continue
//! token. Each page is read at the latest revision, so an event that is seen again meanwhile is
//! missing from later pages.
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
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_history::Numbers;
use tidings_store::{
    ListRequest, NewestRequest, PAGE_BYTES_MAX, Place, Record, Revision, UnixMillis,
};

use super::call::Call;
use super::store_request::{indexed, key_prefix};
use super::streamed::{self, Batches};
use crate::api::server::ApiServer;
use crate::http::list_options::{ListOptions, ResourceVersion};
use crate::http::negotiate::Form;
use crate::http::params;
use crate::http::status::Status;

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

/// The prefix of continue tokens of lists in this order; other tokens have no dot.
const TOKEN: &str = "newest.";

/// The requested events, if this order applies.
///
/// # Errors
/// 400 for times that cannot be read.
pub(crate) fn wanted(call: &Call, options: &ListOptions) -> Result<Option<NewestRequest>, Status> {
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
    let after = match &options.continue_token {
        None => None,
        Some(token) => match place(token) {
            Some(place) => Some(place),
            // A token of the usual order.
            None => return Ok(None),
        },
    };
    Ok(Some(NewestRequest {
        prefix: key_prefix(&call.info.namespace).into(),
        object,
        limit,
        since: query.moment(params::SINCE)?,
        until: query.moment(params::UNTIL)?,
        after,
        ..NewestRequest::default()
    }))
}

/// The position that a token contains.
fn place(token: &str) -> Option<Place> {
    let (last_seen, revision) = token.strip_prefix(TOKEN)?.split_once('.')?;
    Some(Place {
        last_seen: UnixMillis(last_seen.parse().ok()?),
        revision: revision.parse().ok()?,
    })
}

fn token(place: Place) -> String {
    format!("{TOKEN}{}.{}", place.last_seen.0, place.revision)
}

/// Answers with a list in this order.
pub(crate) async fn list(
    server: &Arc<ApiServer>,
    call: &Call,
    form: Form,
    request: NewestRequest,
) -> Result<Response, Status> {
    let newest = Newest {
        server: Arc::clone(server),
        request,
        begun: false,
        behind: Vec::new().into_iter(),
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
    request: NewestRequest,
    /// Whether the first page was read.
    begun: bool,
    behind: vec::IntoIter<(Bytes, Revision)>,
    revision: Revision,
    /// The position at which the list continues, if it does.
    next: Option<String>,
}

impl Newest {
    /// Reads the next page of records by their keys.
    async fn read_on(&mut self) -> Result<Vec<Record>, Status> {
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = 0;
        while bytes < PAGE_BYTES_MAX && !self.behind.as_slice().is_empty() {
            let wanted: Vec<_> = self.behind.by_ref().take(READS_AT_ONCE).collect();
            let read = wanted
                .into_iter()
                .map(|(key, revision)| self.read(key, revision));
            for record in try_join_all(read).await?.into_iter().flatten() {
                bytes += record.value.len();
                records.push(record);
            }
        }
        Ok(records)
    }

    /// A record as it was at the list's revision; `None` if it has expired since.
    async fn read(&self, key: Bytes, revision: Revision) -> Result<Option<Record>, Status> {
        let store = &self.server.store;
        let current = store.get(key.clone()).await?;
        if let Some(record) = current.filter(|record| record.revision == revision) {
            return Ok(Some(record));
        }
        let then = ListRequest::prefix(key.clone()).at(self.revision).limit(1);
        let page = store.list(then).await?;
        let mut records = page.records.into_iter();
        Ok(records.find(|record| record.key == key))
    }
}

impl Batches for Newest {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Status> {
        let batch = if !self.begun {
            let page = self.server.store.newest(self.request.clone()).await?;
            self.begun = true;
            self.behind = page.behind.into_iter();
            self.revision = page.revision;
            self.next = page.place.filter(|_| page.more).map(token);
            page.records
        } else if self.is_done() {
            return Ok(None);
        } else {
            self.read_on().await?
        };
        self.server.metrics.listed(batch.len(), batch.len());
        Ok(Some(batch))
    }

    fn is_done(&self) -> bool {
        self.begun && self.behind.as_slice().is_empty()
    }

    fn restart(&mut self) {
        self.begun = false;
        self.behind = Vec::new().into_iter();
    }

    async fn look_ahead(
        &mut self,
        lengths: bool,
        mut see: impl FnMut(&Record) -> Result<(), Status> + Send,
    ) -> Result<ListMeta, Status> {
        if lengths {
            let behind = self.behind.clone();
            while !self.is_done() {
                for record in self.read_on().await? {
                    see(&record)?;
                }
            }
            self.behind = behind;
        }
        Ok(ListMeta {
            resource_version: Some(self.revision.to_string()),
            r#continue: self.next.clone(),
            ..ListMeta::default()
        })
    }
}
