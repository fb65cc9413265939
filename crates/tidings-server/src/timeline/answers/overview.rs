//! Whose timeline it is, and from when to when there is something to see.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use futures::future::try_join_all;
use serde_json::{Value, json};
use tidings_store::{NewestRequest, ReadError, Record, UnixMillis};

use super::super::read;
use super::super::state::{Entrance, Timeline};
use super::super::visible::{Caller, Visible};
use super::bounds::{LANES_MAX, MARKS_MAX};
use super::json::json;
use crate::http::status::Status;

/// Least that the time of the oldest event is known by, in milliseconds.
const PRECISION: i64 = 60_000;
/// No event is older: the year 1900.
const OLDEST: i64 = -2_208_988_800_000;

/// GET /timeline/api/overview
pub(in super::super) async fn overview(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let now = root.clock.now().as_millisecond();
    let clusters = caller.clusters.iter().map(|visible| cluster(visible, now));
    let clusters = try_join_all(clusters).await?;
    json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": now,
        "user": caller.user.name,
        "login": match timeline.entrance {
            Entrance::Login => "token",
            Entrance::Link { .. } => "code",
        },
        "session": caller.session.as_ref().map(|session| session.ends()),
        "clusters": clusters,
        "limits": {
            "read": root.options.timeline.read_limit,
            "marks": MARKS_MAX,
            "lanes": LANES_MAX,
        },
    }))
}

async fn cluster(visible: &Visible, now: i64) -> Result<Value, Status> {
    let server = &visible.source.server;
    let unread = |error: ReadError| Status::from_read(&error, None);
    let latest = edge(visible, None).await.map_err(unread)?;
    let to = latest.as_ref().and_then(read::brief);
    let to = to.map(|brief| brief.last);
    let from = match to {
        Some(to) => Some(oldest(visible, to).await.map_err(unread)?),
        None => None,
    };
    let events = match visible.namespaces {
        None => Some(server.store.stats().await.map_err(unread)?.records),
        Some(_) => None,
    };
    let followed = server.followed.as_ref();
    let events = match followed {
        // The store has other records, too.
        Some(followed) => events.map(|_| followed.past.following().events),
        None => events,
    };
    let following = followed.map(|followed| followed.past.following());
    Ok(json!({
        "name": visible.source.name,
        "from": from,
        "to": to,
        "events": events,
        "live": following.as_ref().is_none_or(|it| it.why.is_none()),
        "state": following.map(|it| it.state),
        "namespaces": visible.namespaces,
        "now": now,
    }))
}

/// The event last seen before a moment, or of all.
async fn edge(visible: &Visible, until: Option<i64>) -> Result<Option<Record>, ReadError> {
    let store = &visible.source.server.store;
    let mut latest: Option<Record> = None;
    let every = [String::new()];
    let namespaces = visible.namespaces.as_deref().unwrap_or(&every);
    for namespace in namespaces {
        let prefix = match namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let request = NewestRequest {
            prefix: prefix.into(),
            until: until.map(UnixMillis),
            limit: 1,
            ..NewestRequest::default()
        };
        let page = store.newest(request).await?;
        let found = page.records.into_iter().next();
        let found = found.and_then(|record| read::plain(record).ok());
        let last = |record: &Option<Record>| {
            let brief = record.as_ref().and_then(read::brief);
            brief.map(|brief| brief.last)
        };
        if last(&found) > last(&latest) {
            latest = found;
        }
    }
    Ok(latest)
}

/// About when the oldest event was last seen: no later than that. Each look halves what is not
/// known, or leaves out what is known to be later.
async fn oldest(visible: &Visible, latest: i64) -> Result<i64, ReadError> {
    let (mut none, mut some) = (OLDEST, latest);
    let mut back = 3_600_000_i64;
    while some - none > PRECISION {
        let probe = if none == OLDEST {
            some.saturating_sub(back).max(OLDEST + 1)
        } else {
            none + (some - none) / 2
        };
        back = back.saturating_mul(8);
        let found = edge(visible, Some(probe)).await?;
        match found.as_ref().and_then(read::brief) {
            Some(brief) => some = brief.last.max(OLDEST).min(probe),
            None => none = probe,
        }
    }
    Ok(some)
}
