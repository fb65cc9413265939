//! The overview: the user, the clusters, and the period that has events.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};
use tidings_history::{Counted, Following, Reads};
use tidings_store::{NewestRequest, ReadError, Store, UnixMillis};

use super::super::read::{self, Part};
use super::super::state::{Entrance, Timeline};
use super::super::visible::{Caller, Visible};
use super::bounds::{LANES_MAX, MARKS_MAX};
use super::json::json;
use crate::http::status::Status;

/// Precision of the oldest event's time, in milliseconds.
const PRECISION: i64 = 60_000;
/// Maximum events read of a cluster to find this period, however many namespaces are visible. If
/// there are no more, all are read.
const LOOKED_AT_MAX: usize = 10_000;
/// Maximum events read of a part of the namespaces to find out whether there are more.
const SCANNED_MAX: usize = 2000;
/// Events of a page of these, and of those beside the oldest one.
const SCANNED_PAGE: usize = 500;
/// The year 1900; no event is older.
const OLDEST: i64 = -2_208_988_800_000;

/// GET /timeline/api/overview
pub(in super::super) async fn overview(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let now = root.clock.now().as_millisecond();
    // The request's memory suffices for a page of one cluster at a time.
    let mut clusters = Vec::with_capacity(caller.clusters.len());
    for visible in &caller.clusters {
        clusters.push(cluster(visible, now).await?);
    }
    json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": now,
        "user": caller.user.name,
        "login": match timeline.entrance {
            Entrance::Login => "token",
            Entrance::Link { .. } => "code",
        },
        "session": caller.session.as_ref().map(|session| session.ends),
        "clusters": clusters,
        "limits": {
            "read": root.options.timeline.read_limit,
            "marks": MARKS_MAX,
            "lanes": LANES_MAX,
        },
    }))
}

/// The state of following of a cluster.
#[derive(Serialize)]
pub(super) struct Followed<'a> {
    cluster: &'a str,
    /// Whether new events of the cluster appear here.
    live: bool,
    /// The activity; `None` for a server's own events.
    state: Option<&'static str>,
    /// The problem, if there is one. Its text may name anything in the cluster, so it is shown only
    /// to users who may see all of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Counts of the cluster's events, shown only to users who may see all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

/// Counts of a cluster's stored events and versions.
#[derive(Serialize)]
struct Kept {
    /// The number of events; `None` in a sealed archive, which counts only versions.
    events: Option<u64>,
    /// The number of versions observed so far; in a sealed archive, the number in its files.
    versions: u64,
    bytes: u64,
    /// When following began, if it is known.
    since: Option<i64>,
}

/// The state of following of each cluster in the view.
pub(super) fn following(caller: &Caller) -> Vec<Followed<'_>> {
    let followed = caller.clusters.iter().map(|visible| {
        let following = following_of(visible);
        Followed {
            cluster: &visible.source.name,
            live: is_live(following.as_ref()),
            state: following.as_ref().map(|it| it.state),
            kept: kept(visible, following.as_ref()),
            why: following
                .and_then(|it| it.why)
                .filter(|_| visible.namespaces.is_none()),
        }
    });
    followed.collect()
}

/// A cluster's state of following; `None` for a server's own events.
fn following_of(visible: &Visible) -> Option<Following> {
    let followed = visible.source.server.followed.as_ref();
    followed.map(|followed| followed.history.following())
}

fn is_live(following: Option<&Following>) -> bool {
    following.is_none_or(|following| following.why.is_none())
}

/// The counts of a cluster, if all of it is visible.
fn kept(visible: &Visible, following: Option<&Following>) -> Option<Kept> {
    let following = following.filter(|_| visible.namespaces.is_none())?;
    let counted = visible.source.server.capabilities().counted;
    Some(Kept {
        events: (counted == Counted::Events).then_some(following.events),
        versions: following.versions,
        bytes: following.stored_bytes,
        since: following.covered_since.map(|since| since.0),
    })
}

async fn cluster(visible: &Visible, now: i64) -> Result<Value, Status> {
    let server = &visible.source.server;
    let unread = |error: ReadError| Status::from_read(&error, None);
    let following = following_of(visible);
    let is_remote = server.capabilities().reads == Reads::Remote;
    let events = match (&visible.namespaces, &following) {
        (Some(_), _) => None,
        // The statistics of such a store would count other records, too.
        (None, Some(following)) => Some(following.events),
        (None, None) => Some(server.store.stats().await.map_err(unread)?.records),
    };
    let mut looks = Looks::at(visible);
    let to = looks.edge(None).await?;
    let scanned_max = match events {
        _ if is_remote => 0,
        None => SCANNED_MAX,
        Some(events) if events <= LOOKED_AT_MAX as u64 => LOOKED_AT_MAX,
        Some(_) => 0,
    };
    let (from, exact) = match to {
        Some(to) => {
            let (from, exact) = looks.oldest(to, scanned_max).await?;
            (Some(from), exact)
        }
        None => (None, true),
    };
    Ok(json!({
        "name": visible.source.name,
        "from": from,
        "fromIsExact": exact,
        "to": to,
        "events": events,
        "kept": kept(visible, following.as_ref()),
        "live": is_live(following.as_ref()),
        "state": following.map(|it| it.state),
        "namespaces": visible.namespaces,
        "now": now,
    }))
}

/// The remaining bound on reads while the period with events is searched.
struct Looks<'a> {
    store: &'a dyn Store,
    namespaces: Option<Arc<[String]>>,
    left: usize,
}

impl<'a> Looks<'a> {
    fn at(visible: &'a Visible) -> Self {
        let namespaces = visible.namespaces.as_ref().map(|namespaces| {
            let mut namespaces = namespaces.clone();
            namespaces.sort_unstable();
            namespaces.into()
        });
        Self {
            store: &*visible.source.server.store,
            namespaces,
            left: LOOKED_AT_MAX,
        }
    }

    /// The visible events that were last seen from a moment on and before another.
    fn part(&self, since: Option<i64>, until: Option<i64>) -> Part {
        let prefix = match self.namespaces.as_deref() {
            Some([only]) => format!("{only}/"),
            _ => String::new(),
        };
        let request = NewestRequest {
            prefix: prefix.into(),
            since: since.map(UnixMillis),
            until: until.map(UnixMillis),
            ..NewestRequest::default()
        };
        Part::new(request, self.namespaces.clone())
    }

    /// The time at which the newest visible event before a moment, or of all, was last seen. `None`
    /// if there is none within the bound.
    async fn edge(&mut self, until: Option<i64>) -> Result<Option<i64>, Status> {
        let mut part = self.part(None, until);
        // If all namespaces are visible, the first event is the answer.
        let mut page = if self.namespaces.is_none() { 1 } else { 32 };
        while !part.done && self.left > 0 {
            let found = part.read(self.store, page.min(self.left)).await?;
            self.left = self.left.saturating_sub(found.read);
            if let Some(first) = found.records.into_iter().next() {
                let last = read::made_of(first, |brief| Some(brief.last))?;
                return Ok(last.map(|(_, last)| last));
            }
            page *= 4;
        }
        Ok(None)
    }

    /// When the first of the visible events of a span began, and whether all of them were read: at
    /// most `max`.
    async fn began(
        &mut self,
        (since, until): (Option<i64>, Option<i64>),
        max: usize,
    ) -> Result<(Option<i64>, bool), Status> {
        let mut part = self.part(since, until);
        let (mut began, mut left) = (None, max.min(self.left));
        while !part.done && left > 0 {
            let found = part.read(self.store, SCANNED_PAGE.min(left)).await?;
            left = left.saturating_sub(found.read);
            self.left = self.left.saturating_sub(found.read);
            for record in found.records {
                let first = read::made_of(record, |brief| Some(brief.first))?;
                let first = first.map(|(_, first)| first);
                began = match (began, first) {
                    (Some(began), Some(first)) => Some(first.min(began)),
                    (began, first) => began.or(first),
                };
            }
        }
        Ok((began, part.done))
    }

    /// When the first event began, and whether that is known and not estimated. If there are no
    /// more than `scanned_max` events, all are read. Of more, it is the first of those that were
    /// last seen earliest, to the minute: each read halves the unknown period, or excludes the part
    /// known to be later. An event that has repeated for longer may have begun before.
    async fn oldest(&mut self, latest: i64, scanned_max: usize) -> Result<(i64, bool), Status> {
        if scanned_max > 0 {
            let (began, is_all) = self.began((None, None), scanned_max).await?;
            if let (Some(began), true) = (began, is_all) {
                return Ok((began.max(OLDEST), true));
            }
        }
        let (mut none, mut some) = (OLDEST, latest);
        let mut back = 3_600_000_i64;
        while some.saturating_sub(none) > PRECISION && self.left > 0 {
            let probe = if none == OLDEST {
                some.saturating_sub(back).max(OLDEST + 1)
            } else {
                none + (some - none) / 2
            };
            back = back.saturating_mul(8);
            match self.edge(Some(probe)).await? {
                Some(last) => some = last.max(OLDEST).min(probe),
                None => none = probe,
            }
        }
        let beside = (Some(none), Some(some.saturating_add(1)));
        let (began, _) = self.began(beside, SCANNED_PAGE).await?;
        Ok((began.unwrap_or(some).min(some).max(OLDEST), false))
    }
}
