//! Lists the events of a time range in pages, the last seen first.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;

use super::super::merged::{Found, Merged};
use super::super::query::{number, range_with_ahead};
use super::super::read::brief;
use super::super::state::Timeline;
use super::super::visible::Caller;
use super::bounds::ITEMS_BYTES_MAX;
use super::item::{Item, item};
use super::json::json;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Default number of events in a page.
const LIMIT: usize = 100;
/// Maximum events in a page.
const LIMIT_MAX: usize = 500;

#[derive(Serialize)]
struct Page<'a> {
    items: Vec<Item<'a>>,
    r#continue: Option<String>,
    complete: bool,
}

/// GET /timeline/api/events
pub(in super::super) async fn events(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let now = root.clock.now().as_millisecond();
    let (from, mut to) = range_with_ahead(&info.query, now)?;
    let limit = number(&info.query, params::LIMIT)?.unwrap_or(LIMIT);
    let limit = limit.clamp(1, LIMIT_MAX);
    // Number of events with the latest time of this range that earlier pages already contained:
    // those still to be skipped, and all of them.
    let (mut skip, mut behind) = (0, 0);
    if let Some(token) = info.query.get(params::CONTINUE) {
        let (last, skipped) = token
            .split_once('.')
            .and_then(|(last, skip)| Some((last.parse::<i64>().ok()?, skip.parse().ok()?)))
            .ok_or_else(|| Status::bad_request("the continue token is not one of events"))?;
        to = to.min(last.saturating_add(1));
        (skip, behind) = (skipped, skipped);
    }
    let budget = root.options.timeline.read_limit;
    let mut merged = Merged::of(&caller.clusters, &caller.filter, (from, to), budget);
    let mut found: Vec<Found> = Vec::new();
    let mut bytes = 0;
    let mut is_more = false;
    'pages: while let Some(page) = merged.next().await? {
        for event in page {
            if skip > 0 && event.last + 1 >= to {
                skip -= 1;
            } else if found.len() < limit && bytes < ITEMS_BYTES_MAX {
                bytes += event.record.value.len();
                found.push(event);
            } else {
                is_more = true;
                break 'pages;
            }
        }
    }
    let next = match (merged.cut, found.last()) {
        (None, Some(last)) if is_more => {
            let same = found.iter().filter(|event| event.last == last.last).count();
            // Also counts those of the previous page, if all events of this one have the same time.
            let before = if last.last + 1 == to { behind } else { 0 };
            Some(format!("{}.{}", last.last, same + before))
        }
        // Only if it is at least one step further; otherwise the list would not advance.
        (Some(reached), _) if reached + 1 < to => Some(format!("{reached}.0")),
        _ => None,
    };
    let briefs = found
        .iter()
        .filter_map(|event| Some((event, brief(&event.record)?)));
    let mut briefs: Vec<_> = briefs.collect();
    briefs.sort_by_key(|(event, brief)| Reverse(brief.order(event.record.revision)));
    let items = briefs.iter().filter_map(|(event, brief)| {
        let cluster = caller.clusters.get(event.cluster)?;
        Some(item(&cluster.source.name, brief))
    });
    json(&Page {
        items: items.collect(),
        complete: merged.cut.is_none(),
        r#continue: next,
    })
}
