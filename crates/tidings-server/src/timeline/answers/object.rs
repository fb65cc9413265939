//! The details of one object: its events, its family, and a sentence.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use tidings_core::reading::is_cluster_scoped;
use tidings_core::{possible_owners, told_of};
use tidings_store::{NewestRequest, ObjectSelector, Record, UnixMillis};

use super::super::query::{range_with_ahead, required};
use super::super::read::{self, brief};
use super::super::rules::seen::Seen;
use super::super::rules::sentence::Summary;
use super::super::state::Timeline;
use super::super::visible::{Caller, Visible};
use super::bounds::ITEMS_BYTES_MAX;
use super::item::{Item, item};
use super::json::json;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum events about one object.
const EVENTS_MAX: usize = 100;
/// Maximum of events of one object that are summed up, of their bytes as they are stored, and of
/// the events of a page of them.
const SUMMED_MAX: usize = 20_000;
const SUMMED_BYTES_MAX: usize = 64 << 20;
const SUMMED_PAGE: usize = 500;
/// Maximum objects whose owned objects are searched, and maximum owned objects in all.
const FAMILY_MAX: usize = 50;

#[derive(Serialize)]
struct Answer<'a> {
    sentence: String,
    summary: Option<Told>,
    family: Vec<Member>,
    items: Vec<Item<'a>>,
}

/// What the sentence says, in numbers: of all events of the range or, if it is not `complete`, of
/// the last ones.
#[derive(Serialize)]
struct Told {
    events: u64,
    warnings: u64,
    occurrences: u64,
    first: i64,
    last: i64,
    complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
struct Member {
    kind: String,
    namespace: String,
    name: String,
    relation: &'static str,
}

/// GET /timeline/api/object
pub(in super::super) async fn object(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let range = range_with_ahead(&info.query, now)?;
    let kind = required(&info.query, params::KIND)?;
    let name = required(&info.query, params::NAME)?;
    let namespace = info.query.get(params::NAMESPACE).unwrap_or_default();
    let visible = only(&caller)?;
    let summed = summed(visible, (kind, namespace, name), range).await?;
    let (records, summary, complete) = summed;
    let mut family = owners(visible, (kind, namespace, name)).await?;
    family.reverse();
    family.push(member(kind, namespace, name, "self"));
    family.extend(owned(visible, (kind, namespace, name), range).await?);
    let seen = records
        .iter()
        .filter_map(|record| Some((record.revision, seen(record)?)));
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by_key(|(revision, seen)| Reverse(seen.brief.order(*revision)));
    let seen: Vec<_> = seen.into_iter().map(|(_, seen)| seen).collect();
    let cluster = &visible.source.name;
    let items = seen.iter().map(|seen| item(cluster, &seen.brief));
    json(&Answer {
        sentence: summary.sentence(name, complete, now),
        summary: (summary.events > 0).then_some(Told {
            events: summary.events,
            warnings: summary.warnings,
            occurrences: summary.occurrences,
            first: summary.first,
            last: summary.last,
            complete,
        }),
        family,
        items: items.collect(),
    })
}

/// The cluster that a request names, or the only one.
///
/// # Errors
/// 400 if several clusters are possible.
pub(super) fn only(caller: &Caller) -> Result<&Visible, Status> {
    match caller.clusters.as_slice() {
        [only] => Ok(only),
        _ => Err(Status::bad_request("cluster is required")),
    }
}

/// The event of a record, in a view of one cluster.
pub(super) fn seen(record: &Record) -> Option<Seen<'_>> {
    brief(record).map(|brief| Seen::one(0, brief))
}

/// The visible events about an object that happened in a range, the last seen first. These are the
/// latest of those last seen in it and, if there are fewer than the limit, those seen again later.
pub(super) async fn about(
    visible: &Visible,
    object: (&str, &str, &str),
    (from, to): (i64, i64),
    limit: usize,
) -> Result<Vec<Record>, Status> {
    let mut reading = Reading::of(visible, object, limit);
    // The events last seen in the range come first, because all of them are wanted. For an object
    // with many later events, those alone would use up the bound.
    let within = reading.part(from, Some(to), limit).await?;
    reading.before = to;
    let mut found = reading.part(to, None, limit - within.len()).await?;
    found.extend(within);
    Ok(found)
}

/// The latest events of an object that happened in a range, as [`about`] has them; what all of them
/// say together; and whether these were all.
async fn summed(
    visible: &Visible,
    object: (&str, &str, &str),
    (from, to): (i64, i64),
) -> Result<(Vec<Record>, Summary, bool), Status> {
    let mut reading = Reading {
        page: SUMMED_PAGE,
        left: SUMMED_MAX,
        summary: Some(Summary::default()),
        ..Reading::of(visible, object, EVENTS_MAX)
    };
    let within = reading.part(from, Some(to), EVENTS_MAX).await?;
    reading.before = to;
    let rest = EVENTS_MAX - within.len();
    let mut found = reading.part(to, None, rest).await?;
    found.extend(within);
    Ok((found, reading.summary.unwrap_or_default(), reading.complete))
}

/// Reads events about one object, within bounds.
struct Reading<'a> {
    visible: &'a Visible,
    /// The object's kind, namespace and name.
    object: (&'a str, &'a str, &'a str),
    /// Only events that began before this time are wanted.
    before: i64,
    /// The number of events in a page.
    page: usize,
    /// The number of events that may still be read.
    left: usize,
    /// The bytes of the found events.
    bytes: usize,
    /// If there is one, events are read on behind those that were found, and added to it.
    summary: Option<Summary>,
    /// How many bytes may still be read for it.
    summed: usize,
    /// Whether nothing was left unread.
    complete: bool,
}

impl<'a> Reading<'a> {
    fn of(visible: &'a Visible, object: (&'a str, &'a str, &'a str), limit: usize) -> Self {
        Self {
            visible,
            object,
            before: i64::MAX,
            page: limit,
            left: limit.saturating_mul(4),
            bytes: 0,
            summary: None,
            summed: SUMMED_BYTES_MAX,
            complete: true,
        }
    }

    /// Reads the visible events last seen at `from` or later and before `until`, the last seen
    /// first; at most `max`.
    async fn part(
        &mut self,
        since: i64,
        until: Option<i64>,
        max: usize,
    ) -> Result<Vec<Record>, Status> {
        let (kind, namespace, name) = self.object;
        let mut part = read::Part::new(
            NewestRequest {
                object: Some(ObjectSelector::Name {
                    name: name.to_owned(),
                    kind: Some(kind.to_owned()),
                    // Reporters disagree about the namespace of cluster-scoped objects.
                    namespace: (!is_cluster_scoped(kind)).then(|| namespace.to_owned()),
                }),
                since: Some(UnixMillis(since)),
                until: until.map(UnixMillis),
                ..NewestRequest::default()
            },
            None,
        );
        let (visible, before) = (self.visible, self.before);
        let mut records = Vec::new();
        while !part.done && self.left > 0 && self.summed > 0 {
            if self.summary.is_none() && (records.len() >= max || self.bytes >= ITEMS_BYTES_MAX) {
                break;
            }
            let page = part.read(&*visible.source.server.store, self.page).await?;
            self.left = self.left.saturating_sub(page.read.min(self.page));
            self.summed = self.summed.saturating_sub(read::bytes_of(&page.records));
            let found = page.records.into_iter();
            for record in found.filter(|record| visible.shows_key(&record.key)) {
                let shown = read::made_of(record, |brief| (brief.first < before).then_some(()))?;
                let Some((record, ())) = shown else { continue };
                if let (Some(summary), Some(event)) = (&mut self.summary, seen(&record)) {
                    summary.add(&event);
                }
                if records.len() < max && self.bytes < ITEMS_BYTES_MAX {
                    self.bytes += record.value.len();
                    records.push(record);
                }
            }
        }
        self.complete &= part.done;
        Ok(records)
    }
}

fn member(kind: &str, namespace: &str, name: &str, relation: &'static str) -> Member {
    Member {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        relation,
    }
}

/// The possible owners of an object, by its name, that have events; the nearest first.
async fn owners(
    visible: &Visible,
    (kind, namespace, name): (&str, &str, &str),
) -> Result<Vec<Member>, Status> {
    let mut owners = Vec::new();
    for (kind, name) in possible_owners(kind, name) {
        let mut reading = Reading::of(visible, (kind, namespace, name), 1);
        let found = reading.part(i64::MIN, None, 1).await?;
        if !found.is_empty() {
            owners.push(member(kind, namespace, name, "owner"));
        }
    }
    Ok(owners)
}

/// The objects that an object owns, directly or indirectly, by its events.
async fn owned(
    visible: &Visible,
    (kind, namespace, name): (&str, &str, &str),
    range: (i64, i64),
) -> Result<Vec<Member>, Status> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut waiting = vec![(kind.to_owned(), name.to_owned())];
    let mut asked = 0;
    while let Some((kind, name)) = waiting.pop() {
        asked += 1;
        if asked > FAMILY_MAX {
            break;
        }
        let about = about(visible, (&kind, namespace, &name), range, EVENTS_MAX).await?;
        for brief in about.iter().filter_map(brief) {
            let told = told_of(brief.kind, brief.reason, brief.message);
            let Some(told) = told else { continue };
            let owned = member(told.kind, namespace, told.name, "owned");
            if found.len() < FAMILY_MAX && seen.insert(owned.clone()) {
                if told.kind != "Pod" && told.kind != "PersistentVolumeClaim" {
                    waiting.push((owned.kind.clone(), owned.name.clone()));
                }
                found.push(owned);
            }
        }
    }
    Ok(found)
}
