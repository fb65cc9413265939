//! The table of what happened most in a range: by reason, object, namespace, node or source.
//!
//! It is counted of the events, or, if there are more reasons' events than are read, of the store's
//! counts by hour. What is not counted of all events of the range says so.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use tidings_api::codec::stored::Brief;
use tidings_core::filter::Filter;
use tidings_core::occurrences::Occurrences;
use tidings_core::reading::{is_warning, object_uid};
use tidings_core::top::{Axis, Counted as Event, Row, Table};
use tidings_history::Counted;
use tidings_store::{Count, NewestRequest, UnixMillis};

use super::super::merged::Merged;
use super::super::query::{END, is_until_now, number, range};
use super::super::read::{Part, Queries, brief};
use super::super::state::Timeline;
use super::super::visible::Caller;
use super::json::json;
use super::totals;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum rows.
const ROWS_MAX: usize = 200;
/// Maximum events read of a range, and of those last seen after it.
const EVENTS_MAX: usize = 20_000;
const LATER_MAX: usize = 2000;
/// Maximum rows that are counted by hour: those with most. Writers of events choose the reasons.
const COUNTED_MAX: usize = 20_000;
/// Maximum pages read to find one event that the user may see.
const LOOKUP_PAGES_MAX: usize = 16;
/// Parts of the range: the default, and the maximum.
const PARTS: usize = 60;
const PARTS_MAX: usize = 100;

/// What rows are made by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Reason,
    Object,
    Namespace,
    Node,
    Source,
}

impl By {
    fn of(name: Option<&str>) -> Result<Self, Status> {
        Ok(match name {
            None | Some("reason") => Self::Reason,
            Some("object") => Self::Object,
            Some("namespace") => Self::Namespace,
            Some("node") => Self::Node,
            Some("source") => Self::Source,
            Some(other) => {
                let why = format!(
                    "rows are by reason, object, namespace, node or source, not by {other:?}"
                );
                return Err(Status::bad_request(why));
            }
        })
    }

    fn key(self, cluster: usize, event: &Brief<'_>) -> Key {
        let name = match self {
            Self::Reason => event.reason,
            Self::Object => event.object,
            Self::Namespace => event.namespace,
            Self::Node => event.host,
            Self::Source => event.component,
        };
        let mut key = Key {
            name: name.to_owned(),
            ..Key::default()
        };
        match self {
            Self::Object => {
                key.cluster = cluster;
                event.kind.clone_into(&mut key.kind);
                event.object_namespace.clone_into(&mut key.namespace);
                object_uid(event.object, event.object_uid).clone_into(&mut key.uid);
            }
            Self::Namespace | Self::Node => key.cluster = cluster,
            Self::Reason | Self::Source => {}
        }
        key
    }
}

/// What a row is about. What does not distinguish rows is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    name: String,
    kind: String,
    namespace: String,
    cluster: usize,
    /// The object's uid, if several objects of this name are in the table: an object that was
    /// created again has another one.
    uid: String,
}

impl Key {
    fn without_uid(&self) -> Self {
        Self {
            uid: String::new(),
            ..self.clone()
        }
    }
}

/// Removes the uids of objects that are the only ones of their name, because not every reporter
/// writes uids.
fn named_apart(table: Table<Key>) -> Table<Key> {
    let mut uids: HashMap<Key, usize> = HashMap::new();
    for key in table.keys().filter(|key| !key.uid.is_empty()) {
        *uids.entry(key.without_uid()).or_default() += 1;
    }
    table.renamed(|key| {
        let name = key.without_uid();
        if uids.get(&name) > Some(&1) {
            key
        } else {
            name
        }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    from: i64,
    to: i64,
    now: i64,
    /// What was counted: occurrences, or events or versions by hour.
    counted: &'static str,
    /// Whether all events last seen in the range were read, or counted.
    complete: bool,
    /// Whether all events were read that were last seen after the range, and may have happened in
    /// it, too.
    later_complete: bool,
    /// The number of events that were read, if not all were.
    read: Option<u64>,
    occurrences: u64,
    events: u64,
    objects: Option<usize>,
    /// The range before, if it is compared.
    before: Option<Before>,
    rows: Vec<Line<'a>>,
    /// Further rows.
    more: usize,
}

#[derive(Serialize)]
struct Before {
    from: i64,
    to: i64,
    occurrences: u64,
    /// Whether there are events from before it, so that what it has is all that happened.
    known: bool,
    /// Whether it was read or counted as a whole. If not, nothing can be called new.
    complete: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of a row")]
struct Line<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    cluster: &'a str,
    occurrences: u64,
    warnings: u64,
    objects: Option<usize>,
    first: Option<i64>,
    last: Option<i64>,
    /// Whether these times are only known to the hour.
    by_hour: bool,
    /// Whether it still went on at the end of the range.
    going: bool,
    /// Whether the numbers of occurrences, those before, and those of the parts are estimated.
    estimated: bool,
    before_estimated: bool,
    parts_estimated: bool,
    before: u64,
    parts: &'a [u64],
}

/// GET /timeline/api/top
pub(in super::super) async fn top(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let by = By::of(info.query.get(params::BY))?;
    let (from, to) = range(&info.query, now)?;
    let is_compared = match info.query.get(params::AGAINST) {
        None => false,
        Some("before") => true,
        Some(other) => {
            let why = format!("a range is compared with the one before, not with {other:?}");
            return Err(Status::bad_request(why));
        }
    };
    let parts = number(&info.query, params::PARTS)?.unwrap_or(PARTS);
    let axis = Axis {
        from,
        to,
        parts: parts.clamp(1, PARTS_MAX),
        is_until_now: is_until_now(&info.query),
    };
    let since = if is_compared { axis.before().0 } else { from };
    let mut table = Table::new(axis, is_compared);
    let (mut read, mut counted) = (Added::ALL, "occurrences");
    let mut later = Added::ALL;
    let counts = match by {
        By::Reason => totals::hours(&caller, (since, to)).await?,
        _ => None,
    };
    if let Some(counts) = counts.filter(|counts| number_of(counts) > EVENTS_MAX as u64) {
        counted = unit(&caller);
        read.is_all = count(&caller, &counts, (since, to), &mut table).await?;
    } else {
        let until = if axis.is_until_now { END } else { to };
        read = add(&caller, by, (since, until, EVENTS_MAX), &mut table).await?;
        if until < END {
            later = add(&caller, by, (until, END, LATER_MAX), &mut table).await?;
        }
    }
    let complete = read.is_all;
    let before = if is_compared {
        Some(Before {
            from: axis.before().0,
            to: from,
            occurrences: table.total.before,
            known: has_older(&caller, axis.before().0).await?,
            complete,
        })
    } else {
        None
    };
    let total = table.total.clone();
    let rows = named_apart(table).rows();
    let lines = rows.iter().take(ROWS_MAX);
    json(&Answer {
        from,
        to,
        now,
        counted,
        complete,
        later_complete: later.is_all,
        read: (!complete).then_some(read.events),
        occurrences: total.occurrences,
        events: total.events,
        objects: total.objects(),
        before,
        rows: lines
            .map(|(key, row)| line(&caller, by, key, row, &axis))
            .collect(),
        more: rows.len().saturating_sub(ROWS_MAX),
    })
}

fn line<'a>(caller: &'a Caller, by: By, key: &'a Key, row: &'a Row, axis: &Axis) -> Line<'a> {
    let has_cluster = matches!(by, By::Object | By::Namespace | By::Node);
    let cluster = caller.clusters.get(key.cluster).filter(|_| has_cluster);
    Line {
        name: &key.name,
        kind: &key.kind,
        namespace: &key.namespace,
        uid: &key.uid,
        cluster: cluster.map_or("", |cluster| &cluster.source.name),
        occurrences: row.occurrences,
        warnings: row.warnings,
        objects: row.objects(),
        first: row.first,
        last: row.last,
        by_hour: row.is_by_hour,
        going: row.is_going_on(axis),
        estimated: row.is_estimated,
        before_estimated: row.is_before_estimated,
        parts_estimated: row.are_parts_estimated,
        before: row.before,
        parts: &row.parts,
    }
}

/// What was added to a table.
struct Added {
    /// The number of events that were read.
    events: u64,
    /// Whether these are all.
    is_all: bool,
}

impl Added {
    const ALL: Self = Self {
        events: 0,
        is_all: true,
    };
}

/// Adds the events that were last seen in a range, at most `limit`.
async fn add(
    caller: &Caller,
    by: By,
    (from, to, limit): (i64, i64, usize),
    table: &mut Table<Key>,
) -> Result<Added, Status> {
    let mut merged = Merged::of(&caller.clusters, &caller.filter, (from, to), limit);
    let mut events = 0;
    while let Some(found) = merged.next().await? {
        events += found.len() as u64;
        for event in &found {
            let Some(brief) = brief(&event.record) else {
                continue;
            };
            table.add(
                by.key(event.cluster, &brief),
                &counted(event.cluster, &brief),
            );
        }
    }
    Ok(Added {
        events,
        is_all: merged.cut.is_none(),
    })
}

/// An event as the table counts it.
fn counted<'a>(cluster: usize, event: &Brief<'a>) -> Event<impl Hash + use<'a>> {
    Event {
        occurrences: Occurrences {
            first: event.first,
            last: event.last,
            count: event.count,
        },
        is_warning: is_warning(event.event_type),
        object: (cluster, event.kind, event.object_namespace, event.object),
    }
}

fn number_of(counts: &[Count]) -> u64 {
    counts.iter().map(|count| count.records).sum()
}

/// What the clusters' counts have.
fn unit(caller: &Caller) -> &'static str {
    let mut clusters = caller.clusters.iter();
    let counts_events =
        clusters.all(|cluster| cluster.source.server.capabilities().counted == Counted::Events);
    if counts_events { "events" } else { "versions" }
}

/// Adds counts by hour, with the type of each reason. Returns whether these are all: of too many
/// reasons, those with the fewest events are left out.
async fn count(
    caller: &Caller,
    counts: &[Count],
    range: (i64, i64),
    table: &mut Table<Key>,
) -> Result<bool, Status> {
    let mut types = totals::Types::default();
    totals::look_up(caller, counts, &mut types, range).await?;
    let mut reasons = HashMap::<&str, u64>::new();
    for count in counts {
        *reasons.entry(&count.reason).or_default() += count.records;
    }
    let is_all = reasons.len() <= COUNTED_MAX;
    if !is_all {
        let mut most: Vec<_> = reasons.into_iter().collect();
        most.select_nth_unstable_by(COUNTED_MAX, |one, other| other.1.cmp(&one.1));
        most.truncate(COUNTED_MAX);
        reasons = most.into_iter().collect();
    }
    for count in counts {
        if !reasons.contains_key(&*count.reason) {
            continue;
        }
        let key = Key {
            name: count.reason.clone(),
            ..Key::default()
        };
        let is_warning = types.get(&count.reason).is_some_and(|it| is_warning(it));
        table.count(key, count.hour.0, count.records, is_warning);
    }
    Ok(is_all)
}

/// Whether each cluster has a visible event last seen before a moment.
async fn has_older(caller: &Caller, moment: i64) -> Result<bool, Status> {
    for visible in &caller.clusters {
        let Queries { requests, of } = Queries::of(visible, &Filter::default());
        let mut is_there = false;
        for query in requests {
            let request = NewestRequest {
                until: Some(UnixMillis(moment)),
                ..query
            };
            let mut part = Part::new(request, of.clone());
            let store = &*visible.source.server.store;
            for _ in 0..LOOKUP_PAGES_MAX {
                is_there |= !part.read(store, 1).await?.records.is_empty();
                if is_there || part.done {
                    break;
                }
            }
        }
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}
