//! The history of a followed cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use tidings_history::{
    Capabilities, Cause, Coverage, Ended, ExportPart, Exported, Following, History, OutlookPage,
    Rules, Taken, Versions,
};
use tidings_store::{BoxFuture, Fault, ReadError, Store, UnixMillis};
use tokio::sync::watch;

use crate::follow::follower::State;
use crate::keep::consumers::Unsealed;
use crate::keep::coverage::EVENT_TTL;
use crate::keep::retention::{EXAMINED_MAX, outlook, retention};
use crate::keep::transfer::{export_head, export_page};
use crate::keep::versions::Keeper;
use crate::keep::{keys, report};
use crate::source::shell::Progress;
use crate::version::record::{Damaged, Record};

/// Interval at which the kept events, versions and bytes are counted.
const MEASURE: Duration = Duration::from_secs(30);

/// Number of bits that count the versions of a record, in the place where a page of versions
/// continues. A record has at most some hundreds.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Bytes at which a page of versions ends, because an answer is made from the whole page at once.
const VERSIONS_BYTES_MAX: usize = 1 << 20;

/// The history of a followed cluster. Cheap to clone.
#[derive(Clone)]
pub struct ClusterHistory {
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) progress: Vec<Arc<Progress>>,
    /// The numbers that have to be counted; zeros unless something counts them.
    pub(crate) counted: watch::Receiver<Following>,
}

impl ClusterHistory {
    /// Counts what is kept now, and every half minute while this history is held.
    pub(crate) async fn counting(mut self) -> Self {
        let (sender, counted) = watch::channel(Following::default());
        // The first count is made before anything is served: a number that begins at zero would
        // look like one that grows.
        self.measure(&sender).await;
        let history = self.clone();
        self.counted = counted;
        tokio::spawn(async move {
            let measuring = async {
                loop {
                    tokio::time::sleep(MEASURE).await;
                    history.measure(&sender).await;
                }
            };
            tokio::select! {
                () = sender.closed() => {}
                () = measuring => {}
            }
        });
        self
    }

    async fn page(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Option<Versions>, ReadError> {
        if keys::is_own(&key) {
            return Ok(None);
        }
        let Some(found) = self.keeper.store.get(key.clone()).await? else {
            return Ok(None);
        };
        let newest = decode(&found.value)?;
        let id = keys::id(&newest.newest.uid, &key);
        let mut page = Versions {
            ended: newest.gone.map(|gone| Ended {
                at: UnixMillis(gone.observed_at),
                after: gone.not_before.map(UnixMillis),
            }),
            ..Versions::default()
        };
        // Records are numbered, the newest last. A page ends before a version of a record. The
        // version is counted from the record's oldest, since newer ones may be added.
        let (mut number, mut left) = match after {
            Some(after) => (after >> COUNT_BITS, Some(after & COUNT_MASK)),
            None => (newest.chunks, None),
        };
        let mut record = Some(newest);
        let mut bytes = 0;
        loop {
            let found = match record.take() {
                Some(newest) if newest.chunks == number => Some(newest),
                _ => self.chunk(&id, number).await?,
            };
            // If a chunk has expired, those before it have too.
            let Some(found) = found else {
                return Ok(Some(page));
            };
            let total = found.count();
            let wanted = left.take().unwrap_or(total).min(total);
            // Versions are decoded one at a time, because each may have the maximum length of an
            // event.
            let versions = found.versions().zip((0..total).rev());
            for (version, at) in versions {
                let version = version.map_err(damaged)?;
                if at >= wanted {
                    continue;
                }
                if page.versions.len() >= limit || bytes >= VERSIONS_BYTES_MAX {
                    page.more = Some(number << COUNT_BITS | (at + 1) & COUNT_MASK);
                    return Ok(Some(page));
                }
                bytes += version.event.len();
                page.versions.push(version);
            }
            match number.checked_sub(1) {
                Some(before) => number = before,
                None => return Ok(Some(page)),
            }
        }
    }

    async fn chunk(&self, id: &[u8], number: u64) -> Result<Option<Record>, ReadError> {
        let chunk = self.keeper.store.get(keys::chunk(id, number)).await?;
        chunk.map(|chunk| decode(&chunk.value)).transpose()
    }

    /// Returns whether the position of a namespace, or of the whole cluster if it is empty, is the
    /// present one. A position that is not followed any more does not change. If nothing is
    /// followed, all count as present.
    fn is_current(&self, namespace: &str) -> bool {
        let mut followed = self.progress.iter();
        self.progress.is_empty() || followed.any(|progress| progress.namespace == namespace)
    }

    /// Returns whether everything that is followed has a position in this coverage. If not, the
    /// cluster has not answered yet, or not for one of several namespaces, of which nothing is
    /// covered.
    fn is_begun(&self, coverage: &Coverage) -> bool {
        let has_position = |namespace: &str| {
            let mut followed = coverage.followed.iter();
            followed.any(|found| found.namespace == namespace)
        };
        let mut followed = self.progress.iter();
        followed.all(|progress| has_position(&progress.namespace))
    }

    /// Counts what is kept, which takes a while, and publishes the numbers.
    async fn measure(&self, measured: &watch::Sender<Following>) {
        let coverage = match report::counted(&self.keeper, &self.name).await {
            Ok(coverage) => coverage,
            Err(error) => {
                tracing::debug!(%error, "the stored events could not be counted");
                return;
            }
        };
        let followed = coverage.followed.iter();
        // If several namespaces are followed, these numbers hold for all of them.
        let is_begun = self.is_begun(&coverage);
        let current = followed
            .clone()
            .filter(|it| is_begun && self.is_current(&it.namespace));
        let totals = coverage.totals.unwrap_or_default();
        let mut following = Following::new("");
        following.events = totals.events;
        following.versions = followed
            .filter_map(|it| it.progress)
            .map(|it| it.versions)
            .sum();
        following.stored_bytes = totals.disk_bytes;
        following.gaps = coverage.gaps.iter().map(|gap| gap.gaps).sum();
        following.covered_since = current.clone().map(|it| it.since).max();
        following.kept_since = totals.kept_since;
        following.taken = Some(Taken {
            by_quota: coverage.over_quota.events,
            by_rules: totals.ended_by_rules,
        });
        following.ended_by_rule = coverage.ended_by_rule;
        following.complete_until = current.map(|it| it.complete_until).min();
        measured.send_replace(following);
    }
}

impl History for ClusterHistory {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// The state of the selection that is in the worst state.
    fn following(&self) -> Following {
        let now = self.keeper.clock.steady();
        let worst = self.progress.iter().max_by_key(|progress| {
            let (state, _) = progress.state();
            (!matches!(state, State::Watching), progress.since(now))
        });
        let (state, why) = worst.map_or((State::NotFollowed, None), |worst| worst.state());
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.keeper.counters;
        let received = [
            &counters.versions,
            &counters.seen_before,
            &counters.ends,
            &counters.forgotten,
        ];
        let mut following = self.counted.borrow().clone();
        following.state = state.name();
        following.why = why;
        following.since_progress = worst.map(|worst| worst.since(now));
        following.received = received.into_iter().map(count).sum();
        following.not_kept = vec![
            (Cause::TooLarge.name(), count(&counters.too_large)),
            (Cause::Unreadable.name(), count(&counters.unreadable)),
        ];
        following.clock_ahead = Some(Duration::from_millis(count(&counters.clock_ahead)));
        following.taken.get_or_insert_default();
        following.quota_bytes = report::quota_bytes(&self.keeper);
        following.held_rules = self.keeper.held_rules.get();
        let unsealed = Unsealed {
            keeper: Arc::clone(&self.keeper),
        };
        following.pending = unsealed.waiting();
        let failure = unsealed.failure();
        following.is_older_than_sealed = failure.as_ref().is_some_and(|it| it.is_older);
        following.not_sealed = failure.map(|it| it.why);
        following.manifest_bytes = unsealed.manifest_bytes();
        following
    }

    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        Box::pin(self.page(key, after, limit))
    }

    fn coverage(&self, namespace: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        Box::pin(async move {
            match namespace {
                Some(namespace) => report::read_of(&self.keeper, &self.name, &namespace).await,
                None => report::read(&self.keeper, &self.name).await,
            }
        })
    }

    fn outlook(
        &self,
        rules: Rules,
        place: Option<String>,
    ) -> BoxFuture<'_, Result<Option<OutlookPage>, ReadError>> {
        Box::pin(async move {
            let Some(in_force) = retention(&self.keeper).await? else {
                return Ok(None);
            };
            let rules = |stored: &Bytes, _: &Event| {
                rules(stored).unwrap_or_else(|| (in_force.event_ttl, EVENT_TTL.into()))
            };
            let page = outlook(&self.keeper, (place, EXAMINED_MAX), rules);
            page.await.map(Some)
        })
    }

    fn export(
        &self,
        place: Option<String>,
        part: ExportPart,
    ) -> BoxFuture<'_, Result<Option<Exported>, ReadError>> {
        Box::pin(async move {
            let head = match place {
                None => export_head(&self.keeper, &self.name, &self.identity, &part).await?,
                Some(_) => Vec::new(),
            };
            let page = export_page(&self.keeper, place.as_deref(), &part).await?;
            Ok(page.map(|mut page| {
                page.lines.splice(..0, head);
                page
            }))
        })
    }
}

fn decode(value: &Bytes) -> Result<Record, ReadError> {
    Record::decode(value).map_err(damaged)
}

fn damaged(error: Damaged) -> ReadError {
    Fault::Corrupt(error.to_string()).into()
}
