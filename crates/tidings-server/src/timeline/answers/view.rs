//! The view of a time range: rates, lanes and marks.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use futures::future::try_join3;
use serde::Serialize;
use tidings_history::Counted;
use tidings_store::Count;

use super::super::ahead;
use super::super::gaps::Gap;
use super::super::query::{is_until_now, number, range};
use super::super::read::{self, Read};
use super::super::rules::lanes::{Lane, lanes};
use super::super::rules::marks::{Mark, marks};
use super::super::rules::rates::{Rates, rates, step};
use super::super::rules::seen::Seen;
use super::super::state::Timeline;
use super::super::visible::Caller;
use super::bounds::{LANES_MAX, MARKS_MAX};
use super::json::json;
use super::totals::{self, Types};
use super::{live, overview};
use crate::flow::budget::Held;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Memory for drawing a view, in addition to its events: counts by hour, lanes and marks.
const DRAWING: usize = 14 << 20;
/// Minimum step of rates that are counted by hour.
const HOUR: i64 = 3_600_000;

#[derive(Serialize)]
struct View<'a> {
    from: i64,
    to: i64,
    now: i64,
    position: String,
    read: usize,
    complete: bool,
    total: Option<u64>,
    rates: Rates,
    gaps: Vec<Gap>,
    following: Vec<overview::Followed<'a>>,
    lanes: Vec<Drawn<'a>>,
    marks: Vec<Mark>,
    reasons: Vec<&'a str>,
    events: Vec<Name<'a>>,
    more: More,
}

#[derive(Serialize)]
struct Drawn<'a> {
    cluster: &'a str,
    namespace: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: Option<&'a str>,
    /// Whether another lane's object has the same name and another uid.
    apart: bool,
    parent: i64,
    depth: usize,
    gone: bool,
    events: u64,
    warnings: u64,
    first: i64,
    last: i64,
}

#[derive(Serialize)]
struct Name<'a> {
    namespace: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct More {
    /// The number of lanes to skip in the next page.
    next: usize,
    lanes: usize,
    events: u64,
}

/// GET /timeline/api/view
pub(in super::super) async fn view(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    Extension(held): Extension<Held>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let now = root.clock.now().as_millisecond();
    let range = range(&info.query, now)?;
    let is_until_now = is_until_now(&info.query);
    let by_reason = match info.query.get(params::BY) {
        None | Some("type") => false,
        Some("reason") => true,
        Some(other) => {
            let why = format!("rates are by type or reason, not by {other:?}");
            return Err(Status::bad_request(why));
        }
    };
    let skip = number(&info.query, params::SKIP)?.unwrap_or(0);
    // Taken before anything is read, so that concurrent changes are sent again, not missed.
    let position = live::position(&caller.clusters);
    let limit = root.options.timeline.read_limit;
    let (read, gaps, counts) = try_join3(
        read::range(&caller.clusters, &caller.filters, range, limit),
        timeline.gaps.within(&caller.clusters, range, now),
        totals::hours(&caller, range),
    )
    .await?;
    let (read, counts) = match counts.filter(|_| !read.complete) {
        Some(counts) => {
            let (read, counts) = typed(&timeline, &caller, read, counts, range).await?;
            (read, Some(counts))
        }
        None => (read, None),
    };
    let mut read = read;
    if is_until_now {
        let ahead = ahead::read(&caller.clusters, &caller.filters, range.1).await?;
        read.add_ahead(ahead, range.1 - 1);
    }
    // The pages of the store are released.
    held.shrink(read.bytes() + DRAWING);
    let mut clusters = caller.clusters.iter();
    let counts_events =
        clusters.all(|cluster| cluster.source.server.capabilities().counted == Counted::Events);
    let drawing = move || {
        let events: Vec<_> = read.seen(range).collect();
        let (rates, total) = if let Some((counts, types)) = counts {
            let counted = counted(&counts, &types, range, by_reason);
            let rates = rates(counted, range, step(range, HOUR));
            // A sealed archive counts versions, not events.
            (rates, counts_events.then(|| totals::total(&counts, range)))
        } else {
            let total = events.iter().filter(|event| event.brief.last < range.1);
            let total = read.complete.then(|| total.count() as u64);
            (rates_of(&events, range, by_reason), total)
        };
        let found = lanes(&events, skip, LANES_MAX);
        let marked = marks(&events, &found.of_events, range, MARKS_MAX);
        let mut names = Vec::new();
        let mut drawn = marked.drawn;
        for mark in &mut drawn {
            let event = mark.event.take().and_then(|at| events.get(at));
            mark.event = event.map(|event| {
                names.push(Name {
                    namespace: event.brief.namespace,
                    name: event.brief.name,
                });
                names.len() - 1
            });
        }
        json(&View {
            from: range.0,
            to: range.1,
            now,
            position,
            read: events.len(),
            complete: read.complete,
            total,
            rates,
            gaps,
            following: overview::following(&caller),
            lanes: found.drawn.iter().map(|lane| draw(&caller, lane)).collect(),
            marks: drawn,
            reasons: marked.reasons,
            events: names,
            more: More {
                next: found.next,
                lanes: found.more,
                events: marked.more,
            },
        })
    };
    timeline.places.apart(drawing).await
}

/// Counts with their types. Types of events that were not read are looked up, outside of the
/// threads for drawing: the stores may be slow, and the request may end before they answer.
async fn typed(
    timeline: &Timeline,
    caller: &Arc<Caller>,
    read: Read,
    counts: Vec<Count>,
    range: (i64, i64),
) -> Result<(Read, (Vec<Count>, Types)), Status> {
    let known = move || {
        let types = totals::types_read(&counts, &read, range);
        Ok((read, counts, types))
    };
    let (read, counts, mut types) = timeline.places.apart(known).await?;
    totals::look_up(caller, &counts, &mut types, range).await?;
    Ok((read, (counts, types)))
}

/// The counts by hour, named by type or reason.
fn counted<'a>(
    counts: &'a [Count],
    types: &'a Types,
    range: (i64, i64),
    by_reason: bool,
) -> impl Iterator<Item = (&'a str, i64, u64)> {
    counts.iter().map(move |count| {
        let reason = count.reason.as_str();
        let by = if by_reason {
            reason
        } else {
            types.get(reason).map_or("", |it| it)
        };
        (by, count.hour.0.max(range.0), count.records)
    })
}

fn rates_of(events: &[Seen<'_>], range: (i64, i64), by_reason: bool) -> Rates {
    let counted = events.iter().map(|event| {
        let brief = &event.brief;
        let by = if by_reason {
            brief.reason
        } else {
            brief.event_type
        };
        (by, brief.last, 1)
    });
    let counted = counted.filter(|(_, at, _)| *at < range.1);
    rates(counted, range, step(range, 0))
}

fn draw<'a>(caller: &'a Caller, lane: &Lane<'a>) -> Drawn<'a> {
    let cluster = caller.clusters.get(lane.object.cluster);
    let parent = lane.parent.and_then(|at| i64::try_from(at).ok());
    Drawn {
        cluster: cluster.map_or("", |cluster| &cluster.source.name),
        namespace: lane.object.namespace,
        kind: lane.object.kind,
        name: lane.object.name,
        uid: Some(lane.uid).filter(|uid| !uid.is_empty()),
        apart: lane.has_namesake,
        parent: parent.unwrap_or(-1),
        depth: lane.depth,
        gone: lane.gone,
        events: lane.events,
        warnings: lane.warnings,
        first: lane.first,
        last: lane.last,
    }
}
