//! Merges the events of a range from all clusters in order of time, the last seen first. Events are
//! read on demand, up to a bound.

use std::cmp::Reverse;
use std::sync::Arc;

use tidings_api::codec::stored::Brief;
use tidings_core::filter::Filter;
use tidings_store::{NewestRequest, Record, Store, UnixMillis};

use super::query::selects;
use super::read::{Part, Queries, made_of};
use super::visible::Visible;
use crate::http::status::Status;

/// Events in a store's first page. Each further page is twice as large, up to a bound.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1000;
/// Maximum events in one page of each store together, because a page of one store waits for those
/// of the others.
const PAGES_MAX: usize = 4000;
/// Minimum events in a page, however many stores there are.
const PAGE_MIN: usize = 8;
/// Maximum bytes of events that wait for other stores.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// One event, and its cluster.
pub(super) struct Found {
    /// The cluster's number.
    pub(super) cluster: usize,
    /// The record, in the form that can be read without a copy.
    pub(super) record: Record,
    /// When the event was last seen.
    pub(super) last: i64,
}

/// The merged events of several stores.
pub(super) struct Merged {
    streams: Vec<Stream>,
    filter: Filter,
    /// Events that were read, and may come after events that are not read yet.
    waiting: Vec<Found>,
    waiting_bytes: usize,
    /// Maximum events in a page.
    page_max: usize,
    /// The number of events that may still be read.
    left: usize,
    /// The time at which reading ended if there are more events than could be read. Events last
    /// seen after it are complete.
    pub(super) cut: Option<i64>,
}

struct Stream {
    cluster: usize,
    store: Arc<dyn Store>,
    part: Part,
    /// The number of events in its next page.
    page: usize,
    /// Events not read yet were last seen no later than this.
    reached: i64,
}

impl Merged {
    /// Merges all selected events that were last seen in a range.
    pub(super) fn of(
        clusters: &[Visible],
        filter: &Filter,
        (from, to): (i64, i64),
        limit: usize,
    ) -> Self {
        let streams = clusters.iter().enumerate().flat_map(|(cluster, visible)| {
            let Queries { requests, of } = Queries::of(visible, filter);
            requests.into_iter().map(move |query| Stream {
                cluster,
                store: Arc::clone(&visible.source.server.store),
                part: Part::new(
                    NewestRequest {
                        since: Some(UnixMillis(from)),
                        until: Some(UnixMillis(to)),
                        ..query
                    },
                    of.clone(),
                ),
                page: PAGE,
                reached: to,
            })
        });
        let mut streams: Vec<Stream> = streams.collect();
        let page_max = PAGES_MAX / streams.len().max(1);
        let page_max = page_max.clamp(PAGE_MIN, PAGE_MAX);
        for stream in &mut streams {
            stream.page = stream.page.min(page_max);
        }
        Self {
            streams,
            page_max,
            filter: filter.clone(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            left: limit,
            cut: None,
        }
    }

    /// The next events in order, at least one; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Found>>, Status> {
        loop {
            let open = self.streams.iter_mut().filter(|stream| !stream.part.done);
            let Some(stream) = open.max_by_key(|stream| stream.reached) else {
                let last = self.released(i64::MIN);
                return Ok((!last.is_empty()).then_some(last));
            };
            if self.left == 0 {
                let reached = stream.reached;
                self.cut = Some(reached);
                self.streams.clear();
                return Ok(Some(self.released(reached)).filter(|last| !last.is_empty()));
            }
            let limit = stream.page.min(self.left);
            stream.page = (stream.page * 2).min(self.page_max);
            let page = stream.part.read(&*stream.store, limit).await?;
            self.left = self.left.saturating_sub(page.read);
            stream.reached = match (stream.part.done, stream.part.request.after) {
                (false, Some(place)) => place.last_seen.0,
                _ => i64::MIN,
            };
            let cluster = stream.cluster;
            for record in page.records {
                let wanted = |brief: &Brief<'_>| selects(&self.filter, brief).then_some(brief.last);
                if let Some((record, last)) = made_of(record, wanted)? {
                    self.waiting_bytes += record.value.len();
                    self.waiting.push(Found {
                        cluster,
                        record,
                        last,
                    });
                }
            }
            if self.waiting_bytes > WAITING_BYTES_MAX {
                self.left = 0;
            }
            let open = self.streams.iter().filter(|stream| !stream.part.done);
            let reached = open.map(|stream| stream.reached).max();
            let released = self.released(reached.unwrap_or(i64::MIN));
            if !released.is_empty() {
                return Ok(Some(released));
            }
        }
    }

    /// Removes and returns the events last seen after a moment, in order.
    fn released(&mut self, reached: i64) -> Vec<Found> {
        let is_over = |found: &Found| reached == i64::MIN || found.last > reached;
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (mut released, waiting): (Vec<_>, Vec<_>) = all.partition(is_over);
        let bytes = released.iter().map(|found| found.record.value.len());
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes.sum());
        self.waiting = waiting;
        released.sort_by_key(order);
        released
    }
}

fn order(found: &Found) -> (Reverse<i64>, usize, Reverse<u64>) {
    let revision = found.record.revision;
    (Reverse(found.last), found.cluster, Reverse(revision))
}
