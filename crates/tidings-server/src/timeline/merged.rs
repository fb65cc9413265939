//! The events of a range from all clusters, in the order of time, the last seen first: read as they
//! are needed, up to a bound.

use std::cmp::Reverse;
use std::sync::Arc;

use tidings_api::codec::stored::Brief;
use tidings_store::{NewestRequest, Record, Store, UnixMillis};

use super::query::Filters;
use super::read::{Part, Queries, made_of};
use super::visible::Visible;
use crate::http::status::Status;

/// Events of the first page of a store; each further one has twice as many, up to a bound.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1000;
/// Events of one page of each of the stores together: a page of one waits for those of the others.
const PAGES_MAX: usize = 4000;
/// Least events of a page, however many stores there are.
const PAGE_MIN: usize = 8;
/// Maximum bytes of events that wait for others.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// One event, and where it is from.
pub(super) struct Found {
    /// The number of the cluster.
    pub(super) cluster: usize,
    /// In a form that can be read in place.
    pub(super) record: Record,
    /// When it was last seen.
    pub(super) last: i64,
}

/// See the module documentation.
pub(super) struct Merged {
    streams: Vec<Stream>,
    filters: Filters,
    /// What was read, and may come behind what was not.
    waiting: Vec<Found>,
    waiting_bytes: usize,
    /// Maximum events of a page.
    page_max: usize,
    /// How many events may still be read.
    left: usize,
    /// Where reading ended if there are more events than could be read: those last seen after this
    /// are complete.
    pub(super) cut: Option<i64>,
}

struct Stream {
    cluster: usize,
    store: Arc<dyn Store>,
    part: Part,
    /// Events of its next page.
    page: usize,
    /// What is not read yet was last seen no later than this.
    reached: i64,
}

impl Merged {
    /// Everything that is asked for and was last seen in a range.
    pub(super) fn of(
        clusters: &[Visible],
        filters: &Filters,
        (from, to): (i64, i64),
        limit: usize,
    ) -> Self {
        let streams = clusters.iter().enumerate().flat_map(|(cluster, visible)| {
            let Queries { requests, of } = Queries::of(visible, filters);
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
            filters: filters.clone(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            left: limit,
            cut: None,
        }
    }

    /// The next events in order, one at least; `None` behind the last.
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
                let wanted = |brief: &Brief<'_>| self.filters.selects(brief).then_some(brief.last);
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

    /// What was last seen after a moment, in order.
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
