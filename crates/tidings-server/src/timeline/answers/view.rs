//! The view of a time range: rates, lanes and marks.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use futures::future::try_join3;
use serde::Serialize;
use tidings_core::floor_char_boundary;
use tidings_history::Counted;
use tidings_store::Count;

use super::super::ahead;
use super::super::gaps::Gap;
use super::super::query::{is_until_now, number, range};
use super::super::read::{self, Read};
use super::super::rules::changes::{change, is_birth};
use super::super::rules::firsts::{Earliest, Firsts, Starts};
use super::super::rules::lanes::{Group, Lane, Sort, Sums, lanes};
use super::super::rules::marks::{Mark, marks};
use super::super::rules::rates::{Rates, rates, step};
use super::super::rules::seen::Seen;
use super::super::rules::unread::{Missing, OfHour, missing};
use super::super::state::Timeline;
use super::super::visible::{Caller, Unasked};
use super::bounds::{LANES_MAX, MARKS_MAX};
use super::json::json;
use super::totals::{self, Types};
use super::{live, overview};
use crate::flow::budget::Held;
use crate::http::params;
use crate::http::query::Query;
use crate::http::request::RequestInfo;
use crate::http::status::Status;
use tidings_core::occurrences::Occurrences;

/// Memory for drawing a view, in addition to its events: counts by hour, lanes and marks.
const DRAWING: usize = 14 << 20;

/// Maximum bytes of the messages of a picture's marks, and of one of them.
const MESSAGES_MAX: usize = 64 << 10;
const MESSAGE_MAX: usize = 160;

#[derive(Serialize)]
struct View<'a> {
    from: i64,
    to: i64,
    now: i64,
    position: String,
    read: u64,
    complete: bool,
    /// The events of the range, those that were not read included; an estimate if not all were.
    total: Option<u64>,
    firsts: FirstWarnings<'a>,
    rates: Rates,
    /// What the rates count: occurrences, events or versions.
    counted: &'static str,
    gaps: Vec<Gap>,
    following: Vec<overview::Followed<'a>>,
    unasked: &'a Unasked,
    lanes: Vec<Drawn<'a>>,
    marks: Vec<Mark>,
    /// Whether a mark may stand for events of several reasons, and states that of the first.
    mixed: bool,
    reasons: Vec<&'a str>,
    /// The indices of the reasons that report a change.
    changes: Vec<usize>,
    events: Vec<Single<'a>>,
    more: More,
}

/// The first warning of each of a few reasons, the earliest one first.
#[derive(Serialize)]
struct FirstWarnings<'a> {
    /// Whether these are the first of all, and not of those that could be read.
    exact: bool,
    warnings: Vec<FirstWarning<'a>>,
}

#[derive(Serialize)]
struct FirstWarning<'a> {
    cluster: &'a str,
    #[serde(flatten)]
    first: Earliest,
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
    #[serde(flatten)]
    own: Sums,
    /// Of the object and everything below it.
    family: Sums,
}

/// The event of a mark that stands for one.
#[derive(Serialize)]
struct Single<'a> {
    namespace: &'a str,
    name: &'a str,
    /// The beginning of the message's first line, as long as there is room in the answer.
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
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
    let by_reason = is_by_reason(&info.query)?;
    let of_events = is_of_events(&info.query)?;
    let arranged = arranged(&info.query)?;
    let skip = number(&info.query, params::SKIP)?.unwrap_or(0);
    // Taken before anything is read, so that concurrent changes are sent again, not missed.
    let position = live::position(&caller.clusters);
    let limit = root.options.timeline.read_limit;
    let (read, (gaps, _), counts) = try_join3(
        read::range(&caller.clusters, &caller.filter, range, limit),
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
        let ahead = ahead::read(&caller.clusters, &caller.filter, range.1).await?;
        read.add_ahead(ahead, range.1 - 1);
    }
    // The pages of the store are released.
    held.shrink(read.bytes() + DRAWING);
    let mut clusters = caller.clusters.iter();
    let counts_events =
        clusters.all(|cluster| cluster.source.server.capabilities().counted == Counted::Events);
    let drawing = move || {
        let events: Vec<_> = read.seen(range).collect();
        let missing = counts
            .as_ref()
            .map(|(counts, _)| unread(counts, &read, &events, range));
        let types = counts.as_ref().map(|(_, types)| types);
        let counted = match missing {
            Some(_) if !counts_events => "versions",
            _ if of_events => "events",
            _ => "occurrences",
        };
        let mut rates = rates_of(
            &events,
            missing.as_deref(),
            types,
            range,
            by_reason,
            counted == "occurrences",
        );
        rates.estimated |= !read.complete;
        let number = events.iter().map(|event| event.events).sum();
        let total = match &missing {
            // A sealed archive counts versions, not events.
            Some(missing) => counts_events.then(|| {
                let missing = missing.iter().map(|one| one.occurrences.count);
                number + missing.sum::<u64>()
            }),
            None => read.complete.then_some(number),
        };
        let firsts = firsts(&caller, &read, &events);
        let found = lanes(&events, arranged, skip, LANES_MAX);
        let marked = marks(&events, &found.of_events, range, MARKS_MAX);
        let mut drawn = marked.drawn;
        let names = named(&mut drawn, &events);
        let changes = marked.reasons.iter().enumerate();
        let changes = changes.filter(|(_, reason)| change(reason).is_some() && !is_birth(reason));
        json(&View {
            from: range.0,
            to: range.1,
            now,
            position,
            read: number,
            complete: read.complete,
            total,
            firsts,
            rates,
            counted,
            gaps,
            following: overview::following(&caller),
            unasked: &caller.unasked,
            lanes: found.drawn.iter().map(|lane| draw(&caller, lane)).collect(),
            marks: drawn,
            mixed: marked.mixed,
            changes: changes.map(|(at, _)| at).collect(),
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

/// Whether rates are by reason, not by type.
fn is_by_reason(query: &Query) -> Result<bool, Status> {
    match query.get(params::BY) {
        None | Some("type") => Ok(false),
        Some("reason") => Ok(true),
        Some(other) => {
            let why = format!("rates are by type or reason, not by {other:?}");
            Err(Status::bad_request(why))
        }
    }
}

/// Whether rates count events, not their occurrences.
fn is_of_events(query: &Query) -> Result<bool, Status> {
    match query.get(params::COUNT) {
        None | Some("occurrences") => Ok(false),
        Some("events") => Ok(true),
        Some(other) => {
            let why = format!("rates count occurrences or events, not {other:?}");
            Err(Status::bad_request(why))
        }
    }
}

/// The order of the lanes, and what they are put together by.
fn arranged(query: &Query) -> Result<(Sort, Group), Status> {
    let refused = |what: &str, name: &str, known: &str| {
        Status::bad_request(format!("{what} is one of {known}, not {name:?}"))
    };
    let sort = match query.get(params::SORT) {
        None => Sort::default(),
        Some(name) => Sort::named(name)
            .ok_or_else(|| refused("sort", name, "trouble, first, latest, name"))?,
    };
    let group = match query.get(params::GROUP) {
        None => Group::default(),
        Some(name) => {
            Group::named(name).ok_or_else(|| refused("group", name, "owner, namespace, node"))?
        }
    };
    Ok((sort, group))
}

/// The names of the events of marks, which then have their places among these. If there is not
/// enough room for all messages, warnings have theirs.
fn named<'a>(marks: &mut [Mark], events: &[Seen<'a>]) -> Vec<Single<'a>> {
    let mut names = Vec::new();
    let mut room = MESSAGES_MAX;
    let mut order: Vec<&mut Mark> = marks.iter_mut().collect();
    order.sort_by_key(|mark| !mark.warning);
    for mark in order {
        let event = mark.event.take().and_then(|at| events.get(at));
        mark.event = event.map(|event| {
            let line = event.brief.message.lines().next().unwrap_or_default();
            let end = floor_char_boundary(line, MESSAGE_MAX.min(room));
            let message = line.get(..end).unwrap_or_default();
            room -= message.len();
            names.push(Single {
                namespace: event.brief.namespace,
                name: event.brief.name,
                message,
            });
            names.len() - 1
        });
    }
    names
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

/// The events of a range that are counted and were not read.
fn unread<'a>(
    counts: &'a [Count],
    read: &Read,
    events: &[Seen<'a>],
    range: (i64, i64),
) -> Vec<Missing<'a>> {
    let counted = counts.iter().map(|count| OfHour {
        reason: count.reason.as_str(),
        hour: count.hour.0,
        events: count.records,
    });
    let counted: Vec<_> = counted.collect();
    let events = events.iter();
    let known = events.map(|event| (event.brief.reason, event.brief.last, event.events));
    missing(&counted, known, &read.unread, range)
}

/// Rates by type or reason, of occurrences, or of events where each was last seen. A sealed archive
/// counts versions: then each event that was read is one.
fn rates_of<'a>(
    events: &[Seen<'a>],
    missing: Option<&[Missing<'a>]>,
    types: Option<&'a Types>,
    range: (i64, i64),
    by_reason: bool,
    of_occurrences: bool,
) -> Rates {
    let read = events.iter().map(|event| {
        let brief = &event.brief;
        let by = if by_reason {
            brief.reason
        } else {
            brief.event_type
        };
        let occurrences = if of_occurrences {
            Occurrences {
                first: brief.first,
                last: brief.last,
                count: brief.count,
            }
        } else {
            Occurrences {
                count: event.events,
                ..Occurrences::once(brief.last)
            }
        };
        (by, occurrences)
    });
    let unread = missing.unwrap_or_default().iter().map(|one| {
        let type_of = || types.and_then(|types| types.get(one.reason));
        let by = if by_reason {
            one.reason
        } else {
            type_of().map_or("", |it| it)
        };
        (by, one.occurrences)
    });
    rates(read.chain(unread), range, step(range))
}

/// The first warnings of the events that were read, and of those that were looked at beyond them.
fn firsts<'a>(caller: &'a Caller, read: &Read, events: &[Seen<'_>]) -> FirstWarnings<'a> {
    let mut firsts: Firsts = read.firsts.clone();
    let starts = Starts::of(events);
    for event in events {
        firsts.add(event, read.complete.then_some(&starts));
    }
    let warnings = firsts.found().into_iter().map(|first| {
        let cluster = caller.clusters.get(first.cluster);
        FirstWarning {
            cluster: cluster.map_or("", |cluster| &cluster.source.name),
            first,
        }
    });
    FirstWarnings {
        exact: read.has_all_warnings,
        warnings: warnings.collect(),
    }
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
        own: lane.own,
        family: lane.family,
    }
}
