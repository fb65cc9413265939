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
use super::super::read;
use super::super::rules::before::{Neighbour, before, began, host, namespaces, same};
use super::super::rules::changes::is_birth;
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
/// Maximum events of each further namespace that are searched for warnings and changes.
const ELSEWHERE_MAX: usize = 500;
/// The namespace of what every workload needs: name resolution, networks, volumes.
const SYSTEM: &str = "kube-system";
/// Maximum events of other objects with the same reason.
const SAME_MAX: usize = 500;
/// How long before an event other objects may have had the same reason, in milliseconds.
const SAME_BEFORE: i64 = 600_000;

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
    /// When the event, or a similar one before it, truly began.
    began: i64,
    before: Vec<Before<'a>>,
    same: Same<'a>,
}

#[derive(Serialize)]
struct Before<'a> {
    item: Item<'a>,
    why: String,
    /// When it happened before the event began: the item may have happened again since.
    at: i64,
    /// The object's events by reason, the heaviest first.
    reasons: Vec<OfReason<'a>>,
    /// Whether it says only that the event's object is new.
    birth: bool,
}

/// An object's events of one reason, and the latest of them.
#[derive(Serialize)]
struct OfReason<'a> {
    namespace: &'a str,
    name: &'a str,
    reason: &'a str,
    warning: bool,
    count: u64,
    first: i64,
    last: i64,
}

/// Other objects with the same reason.
#[derive(Serialize)]
struct Same<'a> {
    objects: usize,
    /// Whether there may be more.
    more: bool,
    /// An event of each of a few of them.
    items: Vec<Item<'a>>,
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
    let (began, others) = neighbours(visible, &key.namespace, &event).await?;
    let others: Vec<Seen<'_>> = others.iter().filter_map(seen).collect();
    let ranked = before(&event, began, &others);
    let (fellows, more) = fellows(visible, &key.namespace, &event.brief, began).await?;
    let fellows: Vec<Seen<'_>> = fellows.iter().filter_map(seen).collect();
    let found = same(&event, &fellows);
    let cause = ranked.iter().find(|neighbour| neighbour.near);
    let cause = cause.and_then(|cause| Some((others.get(cause.event)?, cause.at)));
    let cluster = &visible.source.name;
    let newest = versions(visible, &key, &record, event.brief.first).await?;
    let sentence = sentence::of_event(&event, began, cause, now);
    let told = ranked
        .into_iter()
        .filter_map(|neighbour| told(cluster, neighbour, &others));
    let items = found.events.iter().filter_map(|at| fellows.get(*at));
    let items = items.map(|seen| item(cluster, &seen.brief));
    super::json::json(&Answer {
        item: item(cluster, &event.brief),
        raw: raw(&record),
        sentence,
        versions: newest.versions,
        versions_more: newest.more,
        repeats: newest.repeats,
        began,
        before: told.collect(),
        same: Same {
            objects: found.objects,
            more,
            items: items.collect(),
        },
    })
}

/// A row of what changed before an event.
fn told<'a>(cluster: &'a str, neighbour: Neighbour, others: &[Seen<'a>]) -> Option<Before<'a>> {
    let other = others.get(neighbour.event)?;
    let reasons = neighbour.reasons.into_iter().filter_map(|reason| {
        let brief = &others.get(reason.event)?.brief;
        Some(OfReason {
            namespace: brief.namespace,
            name: brief.name,
            reason: brief.reason,
            warning: reason.warning,
            count: reason.count,
            first: reason.first,
            last: reason.last,
        })
    });
    Some(Before {
        item: item(cluster, &other.brief),
        why: neighbour.why,
        at: neighbour.at,
        reasons: reasons.collect(),
        birth: neighbour.birth,
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

/// When an event truly began, and the visible events that may be related to it: those about its
/// object, its node and its owners, the others of its namespace just before it began, and what
/// troubled or changed the namespaces that its message names and the system's.
async fn neighbours(
    visible: &Visible,
    namespace: &str,
    event: &Seen<'_>,
) -> Result<(i64, Vec<Record>), Status> {
    let brief = event.brief;
    let object = (brief.kind, brief.object_namespace, brief.object);
    let until = brief.first.saturating_add(1);
    let own = (brief.first.saturating_sub(BEFORE), until);
    let mut found = about(visible, object, own, OWN_MAX).await?;
    let began = began(event, found.iter().filter_map(seen));
    let range = (began.saturating_sub(BEFORE), began.saturating_add(1));
    let node = |brief: Brief<'_>| host(&brief).map(str::to_owned);
    let node = node(brief).or_else(|| found.iter().filter_map(read::brief).find_map(node));
    if let Some(node) = node {
        found.extend(about(visible, ("Node", "", &node), range, OWN_MAX).await?);
    }
    // A roll-out may be further in the past than the searched events of a busy namespace.
    let mut bytes = 0;
    for (kind, name) in possible_owners(brief.kind, brief.object) {
        if bytes >= ITEMS_BYTES_MAX {
            break;
        }
        let owner = (kind, brief.object_namespace, name);
        let its = about(visible, owner, range, OWN_MAX).await?;
        bytes += read::bytes_of(&its);
        found.extend(its);
    }
    let (others, _) = of_namespace(visible, Some(namespace), None, range, NEIGHBOURS_MAX).await?;
    for record in others {
        found.push(read::plain(record)?);
    }
    let mut elsewhere = namespaces(brief.message);
    elsewhere.push(SYSTEM);
    elsewhere.retain(|other| *other != namespace && visible.shows(other));
    for other in elsewhere {
        let (others, _) = of_namespace(visible, Some(other), None, range, ELSEWHERE_MAX).await?;
        for record in others {
            let matters = |brief: &Brief<'_>| {
                let is_warning = Seen::one(0, *brief).is_warning();
                (is_warning || !is_birth(brief.reason)).then_some(())
            };
            let kept = read::made_of(record, matters)?;
            found.extend(kept.map(|(record, ())| record));
        }
    }
    Ok((began, found))
}

/// The visible events with the reason of an event while it went on, in all of the cluster if all of
/// it may be seen; and whether there are more.
async fn fellows(
    visible: &Visible,
    namespace: &str,
    event: &Brief<'_>,
    began: i64,
) -> Result<(Vec<Record>, bool), Status> {
    let range = (
        began.saturating_sub(SAME_BEFORE),
        event.last.saturating_add(1),
    );
    let namespace = visible.namespaces.is_some().then_some(namespace);
    let (records, more) =
        of_namespace(visible, namespace, Some(event.reason), range, SAME_MAX).await?;
    let plain: Result<Vec<_>, _> = records.into_iter().map(read::plain).collect();
    Ok((plain?, more))
}

/// A page of the events of a namespace, or of all, that were last seen in a range, the newest
/// first; and whether there are more.
async fn of_namespace(
    visible: &Visible,
    namespace: Option<&str>,
    reason: Option<&str>,
    (from, to): (i64, i64),
    max: usize,
) -> Result<(Vec<Record>, bool), Status> {
    let prefix = namespace.map(|namespace| format!("{namespace}/"));
    let mut part = read::Part::new(
        NewestRequest {
            prefix: prefix.unwrap_or_default().into(),
            reason: reason.map(str::to_owned),
            since: Some(UnixMillis(from)),
            until: Some(UnixMillis(to)),
            ..NewestRequest::default()
        },
        None,
    );
    let page = part.read(&*visible.source.server.store, max).await?;
    Ok((page.records, !part.done))
}
