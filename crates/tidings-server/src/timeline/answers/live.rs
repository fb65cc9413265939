//! Streams changes as server-sent events: at most a few messages a second, each with a bounded
//! number of events.
//!
//! A client that reads slowly delays only its own stream. A message is made once the previous one
//! was read and there is memory for it; a stream that gets no memory in time ends. A stream also
//! ends with its session, at the deadline of a watch, when its user's permissions change, and with
//! the server. The browser then begins another one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use http::{StatusCode, header};
use serde::Serialize;
use tidings_store::{BoxFuture, Change, Record, Revision, Watch, WatchError};

use super::super::enter::Entry;
use super::super::query::selects;
use super::super::read::{brief, plain};
use super::super::state::Timeline;
use super::super::visible::{Caller, Visible};
use super::item::{Item, item};
use crate::api::random;
use crate::clock;
use crate::flow::budget::{Budget, Pool};
use crate::flow::paced::Lasting;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Time for which changes are collected before they are sent.
const COLLECT: Duration = Duration::from_millis(400);
/// Maximum events of a message, and their maximum bytes as stored; further ones are counted.
const ITEMS_MAX: usize = 100;
const BYTES_MAX: usize = 256 << 10;
/// Memory of a message in addition to its events.
const MESSAGE: usize = 4 << 10;
/// Interval of comments on a silent stream, which show the client that it continues.
const PING: Duration = Duration::from_secs(15);

/// The positions of the clusters' stores, from which a live stream continues.
pub(super) fn position(clusters: &[Visible]) -> String {
    let position = clusters.iter().map(|visible| {
        let revision = visible.source.server.store.revision();
        format!("{}={revision}", visible.source.name)
    });
    position.collect::<Vec<_>>().join(",")
}

#[derive(Serialize)]
struct Message<'a> {
    position: String,
    items: Vec<Item<'a>>,
    more: u64,
    gone: u64,
}

/// GET /timeline/api/live
pub(in super::super) async fn live(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(again): Extension<Arc<Entry>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let root = timeline.sources.root();
    let least = root.options.min_request_timeout;
    let mut time = least.mul_f64(1.0 + random::fraction());
    if let Some(session) = &caller.session {
        let left = session.ends - root.clock.now().as_millisecond();
        time = time.min(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
    }
    let position = info.query.get(params::POSITION);
    let after = position.map(positions).unwrap_or_default();
    let mut following = Following {
        caller: Arc::clone(&caller),
        budget: Arc::clone(&root.limits.budget),
        reached: HashMap::new(),
        watches: FuturesUnordered::new(),
        restart: false,
        latest: HashMap::new(),
        bytes: 0,
        gone: 0,
        more: 0,
    };
    for (number, visible) in caller.clusters.iter().enumerate() {
        let store = &visible.source.server.store;
        // A cluster that was added meanwhile is new to the page.
        let known = after.get(visible.source.name.as_str()).copied();
        following.restart |= position.is_some() && known.is_none();
        let after = known.unwrap_or_else(|| store.revision());
        following.reached.insert(number, after);
        let prefix = match visible.namespaces.as_deref() {
            Some([only]) => format!("{only}/"),
            _ => String::new(),
        };
        let Ok(watch) = store.watch(prefix.into(), after).await else {
            // The page starts again in any case, so the other clusters need not be asked.
            following.restart = true;
            break;
        };
        following.watches.push(next(number, watch));
    }
    let refused = again.refused(caller, root.options.timeline.recheck);
    let ended = async move {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = refused => {}
        }
    };
    let messages = stream::unfold(Some(following), |following| async move {
        let mut following = following?;
        let message = following.next().await;
        let next = message.is_some().then_some(following);
        message.map(|message| (Ok::<_, Infallible>(message), next))
    });
    // Sent at once, so that the browser knows that the stream has begun.
    let hello = stream::iter([Ok(Bytes::from_static(b": live\n\n"))]);
    let messages = hello.chain(messages).take_until(ended.boxed());
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let lasting = Extension(Lasting(time));
    let body = Body::from_stream(messages);
    Ok((StatusCode::OK, headers, lasting, body).into_response())
}

/// The revisions in a position, by cluster.
fn positions(position: &str) -> HashMap<&str, Revision> {
    let parts = position.split(',');
    let parts = parts.filter_map(|part| {
        let (name, revision) = part.rsplit_once('=')?;
        Some((name, revision.parse().ok()?))
    });
    parts.collect()
}

/// The next result of a watch, the watch itself, and its cluster.
type Next = (usize, Box<dyn Watch>, Result<Vec<Arc<Change>>, WatchError>);

fn next(number: usize, mut watch: Box<dyn Watch>) -> BoxFuture<'static, Next> {
    Box::pin(async move {
        let changes = watch.next().await;
        (number, watch, changes)
    })
}

/// One live stream.
struct Following {
    caller: Arc<Caller>,
    budget: Arc<Budget>,
    /// The revision up to which each cluster was followed.
    reached: HashMap<usize, Revision>,
    watches: FuturesUnordered<BoxFuture<'static, Next>>,
    /// Whether changes were missed, so that the page must load everything again.
    restart: bool,
    /// The latest states of the events that changed since the last message; bounded in number.
    latest: HashMap<(usize, Bytes), Record>,
    /// The bytes of `latest`.
    bytes: usize,
    gone: u64,
    more: u64,
}

impl Following {
    /// Returns the next message; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        if self.restart {
            // This is the last message: no cluster is followed any more.
            self.watches.clear();
            self.restart = false;
            self.reached.clear();
            return Some(Bytes::from_static(b"event: restart\ndata: {}\n\n"));
        }
        if self.watches.is_empty() {
            return None;
        }
        let ping = clock::deadline(clock::timer(), PING);
        let mut until = ping;
        loop {
            let said = match tokio::time::timeout_at(until, self.watches.next()).await {
                Ok(said) => said,
                Err(_) if self.is_empty() => return Some(Bytes::from_static(b":\n\n")),
                Err(_) => return self.message().await,
            };
            let (number, watch, changes) = said?;
            match changes {
                Ok(changes) => {
                    self.add(number, &changes);
                    self.watches.push(next(number, watch));
                }
                Err(WatchError::Fault(tidings_store::Fault::Closed)) => return None,
                Err(_) => {
                    self.restart = true;
                    return Box::pin(self.next()).await;
                }
            }
            if until == ping && !self.is_empty() {
                until = clock::deadline(clock::timer(), COLLECT).min(ping);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.gone == 0 && self.more == 0
    }

    fn add(&mut self, number: usize, changes: &[Arc<Change>]) {
        let caller = Arc::clone(&self.caller);
        let Some(visible) = caller.clusters.get(number) else {
            return;
        };
        for change in changes {
            self.reached.insert(number, change.revision());
            let record = match &**change {
                Change::Put { record, .. } => record,
                Change::Delete { previous, .. } => previous,
            };
            let Ok(record) = plain(record.clone()) else {
                continue;
            };
            let is_shown = visible.shows_key(&record.key)
                && brief(&record).is_some_and(|brief| selects(&caller.filter, &brief));
            if !is_shown {
                continue;
            }
            let key = (number, record.key.clone());
            if let Some(before) = self.latest.remove(&key) {
                self.bytes -= before.value.len();
            }
            if matches!(**change, Change::Delete { .. }) {
                self.gone += 1;
            } else if self.latest.len() < ITEMS_MAX && self.bytes + record.value.len() <= BYTES_MAX
            {
                self.bytes += record.value.len();
                self.latest.insert(key, record);
            } else {
                self.more += 1;
            }
        }
    }

    async fn message(&mut self) -> Option<Bytes> {
        let memory = self.bytes * 2 + MESSAGE;
        let user = self.budget.parts_of(&self.caller.user.name);
        let share = self.budget.take(Pool::Streams, memory, &user).await.ok()?;
        let caller = Arc::clone(&self.caller);
        let latest = std::mem::take(&mut self.latest);
        self.bytes = 0;
        let items = latest.iter().filter_map(|((number, _), record)| {
            let visible = caller.clusters.get(*number)?;
            let brief = brief(record)?;
            let place = Reverse(brief.order(record.revision));
            Some((place, item(&visible.source.name, &brief)))
        });
        let mut items: Vec<_> = items.collect();
        items.sort_unstable_by_key(|(place, _)| *place);
        let items: Vec<_> = items.into_iter().map(|(_, item)| item).collect();
        let position = caller.clusters.iter().enumerate().map(|(number, visible)| {
            let revision = self.reached.get(&number).copied().unwrap_or_default();
            format!("{}={revision}", visible.source.name)
        });
        let message = Message {
            position: position.collect::<Vec<_>>().join(","),
            items,
            more: std::mem::take(&mut self.more),
            gone: std::mem::take(&mut self.gone),
        };
        let mut text = b"event: change\ndata: ".to_vec();
        serde_json::to_writer(&mut text, &message).ok()?;
        text.extend_from_slice(b"\n\n");
        Some(share.of(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back() {
        let found = positions("=12,prod=7,x,staging=a");
        assert_eq!(found, HashMap::from([("", 12), ("prod", 7)]));
    }
}
