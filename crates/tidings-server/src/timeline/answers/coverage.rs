//! The coverage of what the caller may see: from when to when each cluster is covered, the gaps of
//! a time range, and how long events are kept.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use tidings_history::Following;

use super::super::gaps::{Gap, Kept};
use super::super::query::range;
use super::super::state::Timeline;
use super::super::visible::{Caller, Unasked, Visible};
use super::json::json;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

#[derive(Serialize)]
struct Answer<'a> {
    now: i64,
    clusters: Vec<Covered<'a>>,
    /// The latest gaps of the range, a bounded number of each cluster.
    gaps: Vec<Gap>,
    unasked: &'a Unasked,
}

/// The coverage of one cluster. Times are in milliseconds since 1970.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Covered<'a> {
    cluster: &'a str,
    /// What following does now; `None` for a server's own events, none of which can be missing.
    state: Option<&'static str>,
    /// Whether the events are those of captures.
    is_capture: bool,
    /// What is wrong. Only users who may see all of the cluster are told.
    why: Option<String>,
    /// When following began.
    since: Option<i64>,
    /// The time up to which nothing is missing, except in gaps.
    complete_until: Option<i64>,
    /// When the oldest event was last seen, about. Only users who may see all of the cluster are
    /// told.
    oldest: Option<i64>,
    /// The number of gaps of the range that are left out: the earliest ones.
    gaps_more: usize,
    #[serde(flatten)]
    kept: Kept,
    /// The visible namespaces; `None` for all.
    namespaces: Option<&'a [String]>,
}

/// GET /timeline/api/coverage
pub(in super::super) async fn coverage(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let range = range(&info.query, now)?;
    let (gaps, left_out) = timeline.gaps.within(&caller.clusters, range, now).await?;
    let mut clusters = Vec::with_capacity(caller.clusters.len());
    for (visible, gaps_more) in caller.clusters.iter().zip(left_out) {
        let kept = timeline.gaps.kept(visible, now).await?;
        clusters.push(covered(visible, gaps_more, kept));
    }
    json(&Answer {
        now,
        clusters,
        gaps,
        unasked: &caller.unasked,
    })
}

fn covered(visible: &Visible, gaps_more: usize, kept: Kept) -> Covered<'_> {
    let server = &visible.source.server;
    let following = server.followed.as_ref();
    let following = following.map(|followed| followed.history.following());
    let following = following.as_ref();
    let is_whole = visible.namespaces.is_none();
    let time = |of: fn(&Following) -> Option<i64>| following.and_then(of);
    Covered {
        cluster: &visible.source.name,
        state: following.map(|it| it.state),
        is_capture: server.options.keep_identities,
        why: following.and_then(|it| it.why.clone()).filter(|_| is_whole),
        since: time(|it| it.covered_since.map(|since| since.0)),
        complete_until: time(|it| it.complete_until.map(|until| until.0)),
        oldest: time(|it| it.kept_since.map(|since| since.0)).filter(|_| is_whole),
        gaps_more,
        kept,
        namespaces: visible.namespaces.as_deref(),
    }
}
