//! The details of one event: the whole object, its versions, a sentence, and what changed before
//! it.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use tidings_api::codec::Api;
use tidings_api::codec::stored::{Brief, StoredEvent};
use tidings_core::possible_owners;
use tidings_store::{NewestRequest, Record, UnixMillis};

use super::super::query::required;
use super::super::read::{self, brief};
use super::super::rules::before::{before, host};
use super::super::rules::repeats::Repeats;
use super::super::rules::seen::Seen;
use super::super::rules::sentence;
use super::super::state::Timeline;
use super::super::visible::{Caller, Visible};
use super::bounds::ITEMS_BYTES_MAX;
use super::item::{Item, item};
use super::object::{about, only, seen};
use super::versions::{ShownVersion, versions};
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;
use crate::http::stored::Key;

/// How long before an event its neighbours are searched, in milliseconds.
const BEFORE: i64 = 2 * 3_600_000;
/// Maximum events of the namespace that are searched for neighbours.
const NEIGHBOURS_MAX: usize = 1000;
/// Maximum events about the object itself, about its node, and about each of its owners.
const OWN_MAX: usize = 200;

#[derive(Serialize)]
struct Answer<'a> {
    item: Item<'a>,
    raw: Value,
    sentence: String,
    versions: Vec<ShownVersion>,
    #[serde(rename = "versionsMore")]
    versions_more: bool,
    /// The repeats by all versions, if there are more versions than these.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<Repeats>,
    before: Vec<Before<'a>>,
}

#[derive(Serialize)]
struct Before<'a> {
    item: Item<'a>,
    why: String,
    /// When it happened before the event began: the item may have happened again since.
    at: i64,
}

/// GET /timeline/api/event
pub(in super::super) async fn event(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let key = Key {
        namespace: required(&info.query, params::NAMESPACE)?.to_owned(),
        name: required(&info.query, params::NAME)?.to_owned(),
    };
    let visible = only(&caller)?;
    let not_found = || Status::not_found(Api::Core, &key.name);
    if !visible.shows(&key.namespace) {
        return Err(not_found());
    }
    let found = visible.source.server.store.get(key.bytes()).await?;
    let record = read::plain(found.ok_or_else(not_found)?)?;
    let event = seen(&record).ok_or_else(not_found)?;
    let others = neighbours(visible, &key.namespace, &event.brief).await?;
    let others: Vec<Seen<'_>> = others.iter().filter_map(seen).collect();
    let ranked = before(&event, &others);
    let cause = ranked.iter().find(|neighbour| neighbour.near);
    let cause = cause.and_then(|cause| Some((others.get(cause.event)?, cause.at)));
    let cluster = &visible.source.name;
    let newest = versions(visible, &key, &record, event.brief.first).await?;
    let sentence = sentence::of_event(&event, cause, now);
    let told = ranked.into_iter().filter_map(|neighbour| {
        let other = others.get(neighbour.event)?;
        Some(Before {
            item: item(cluster, &other.brief),
            why: neighbour.why,
            at: neighbour.at,
        })
    });
    super::json::json(&Answer {
        item: item(cluster, &event.brief),
        raw: raw(&record),
        sentence,
        versions: newest.versions,
        versions_more: newest.more,
        repeats: newest.repeats,
        before: told.collect(),
    })
}

/// The whole event, as the API serves it.
fn raw(record: &Record) -> Value {
    let mut json = Vec::new();
    let written = StoredEvent::open(&record.value, record.revision)
        .and_then(|event| event.write_json(Api::Core, true, &mut json));
    let read = written.and_then(|()| serde_json::from_slice(&json).ok());
    read.unwrap_or_default()
}

/// The visible events that may be related to an event of a namespace: those about its object, its
/// node and its owners, and the others of the namespace just before it began.
async fn neighbours(
    visible: &Visible,
    namespace: &str,
    event: &Brief<'_>,
) -> Result<Vec<Record>, Status> {
    let store = &*visible.source.server.store;
    let until = event.first.saturating_add(1);
    let range = (event.first.saturating_sub(BEFORE), until);
    let object = (event.kind, event.object_namespace, event.object);
    let mut found = about(visible, object, range, OWN_MAX).await?;
    let node = |brief: Brief<'_>| host(&brief).map(str::to_owned);
    let node = node(*event).or_else(|| found.iter().filter_map(brief).find_map(node));
    if let Some(node) = node {
        found.extend(about(visible, ("Node", "", &node), range, OWN_MAX).await?);
    }
    // A roll-out may be further in the past than the searched events of a busy namespace.
    let mut bytes = 0;
    for (kind, name) in possible_owners(event.kind, event.object) {
        if bytes >= ITEMS_BYTES_MAX {
            break;
        }
        let owner = (kind, event.object_namespace, name);
        let its = about(visible, owner, range, OWN_MAX).await?;
        bytes += read::bytes_of(&its);
        found.extend(its);
    }
    let mut part = read::Part::new(
        NewestRequest {
            prefix: format!("{namespace}/").into(),
            since: Some(UnixMillis(range.0)),
            until: Some(UnixMillis(range.1)),
            ..NewestRequest::default()
        },
        None,
    );
    for record in part.read(store, NEIGHBOURS_MAX).await?.records {
        found.push(read::plain(record)?);
    }
    Ok(found)
}
