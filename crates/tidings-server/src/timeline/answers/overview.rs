//! Whose timeline it is, and from when to when there is something to see.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};
use tidings_store::{NewestRequest, ReadError, Store, UnixMillis};

use super::super::read::{self, Part};
use super::super::state::{Entrance, Timeline};
use super::super::visible::{Caller, Visible};
use super::bounds::{LANES_MAX, MARKS_MAX};
use super::json::json;
use crate::api::followed::Following;
use crate::http::status::Status;

/// Least that the time of the oldest event is known by, in milliseconds.
const PRECISION: i64 = 60_000;
/// Maximum of events that are read of a cluster for it, however many namespaces may be seen.
const LOOKED_AT_MAX: usize = 10_000;
/// No event is older: the year 1900.
const OLDEST: i64 = -2_208_988_800_000;

/// GET /timeline/api/overview
pub(in super::super) async fn overview(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let now = root.clock.now().as_millisecond();
    // The share is for a page of one of them.
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

/// How a cluster is followed now.
#[derive(Serialize)]
pub(super) struct Followed<'a> {
    cluster: &'a str,
    /// Whether what happens there appears here.
    live: bool,
    /// `None` for a server's own events.
    state: Option<&'static str>,
    /// What is wrong. It may name anything of the cluster, so it is said only where all of it is
    /// shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Said only there, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

/// What is kept of a cluster.
#[derive(Serialize)]
struct Kept {
    /// `None` in a sealed archive, which counts versions only.
    events: Option<u64>,
    /// Those that were observed so far; in a sealed archive, those that its files have.
    versions: u64,
    bytes: u64,
    /// Since when the cluster is followed, if it is known.
    since: Option<i64>,
}

/// How each of the clusters that are shown is followed now.
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

/// `None` for a server's own events.
fn following_of(visible: &Visible) -> Option<Following> {
    let followed = visible.source.server.followed.as_ref();
    followed.map(|followed| followed.past.following())
}

fn is_live(following: Option<&Following>) -> bool {
    following.is_none_or(|following| following.why.is_none())
}

/// What is kept of a cluster all of which is shown.
fn kept(visible: &Visible, following: Option<&Following>) -> Option<Kept> {
    let following = following.filter(|_| visible.namespaces.is_none())?;
    let followed = visible.source.server.followed.as_ref();
    let is_sealed = followed.is_some_and(|followed| followed.is_sealed);
    Some(Kept {
        events: (!is_sealed).then_some(following.events),
        versions: following.versions,
        bytes: following.stored_bytes,
        since: following.covered_since.map(|since| since.0),
    })
}

async fn cluster(visible: &Visible, now: i64) -> Result<Value, Status> {
    let server = &visible.source.server;
    let unread = |error: ReadError| Status::from_read(&error, None);
    let mut looks = Looks::at(visible);
    let to = looks.edge(None).await?;
    let from = match to {
        Some(to) => Some(looks.oldest(to).await?),
        None => None,
    };
    let following = following_of(visible);
    let events = match (&visible.namespaces, &following) {
        (Some(_), _) => None,
        // The store has other records, too.
        (None, Some(following)) => Some(following.events),
        (None, None) => Some(server.store.stats().await.map_err(unread)?.records),
    };
    Ok(json!({
        "name": visible.source.name,
        "from": from,
        "to": to,
        "events": events,
        "kept": kept(visible, following.as_ref()),
        "live": is_live(following.as_ref()),
        "state": following.map(|it| it.state),
        "namespaces": visible.namespaces,
        "now": now,
    }))
}

/// What may still be read to find out from when to when there is something.
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

    /// When the event that may be seen was last seen which was so last before a moment, or of all.
    /// `None`: there is none, as far as may be looked.
    async fn edge(&mut self, until: Option<i64>) -> Result<Option<i64>, Status> {
        let prefix = match self.namespaces.as_deref() {
            Some([only]) => format!("{only}/"),
            _ => String::new(),
        };
        let mut part = Part::new(
            NewestRequest {
                prefix: prefix.into(),
                until: until.map(UnixMillis),
                ..NewestRequest::default()
            },
            self.namespaces.clone(),
        );
        // Of all namespaces the first one is it.
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

    /// About when the oldest event was last seen: no later than that, but for events that are too
    /// far among others to be found. Each look halves what is not known, or leaves out what is
    /// known to be later.
    async fn oldest(&mut self, latest: i64) -> Result<i64, Status> {
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
        Ok(some)
    }
}
