//! Gaps of followed clusters, which are periods in which versions may be missing, and the retention
//! of their events. An archive takes a while to compute its coverage, so both are cached for some
//! seconds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::visible::Visible;
use crate::http::status::Status;

/// Time for which gaps are cached, in milliseconds.
const KEPT: i64 = 15_000;
/// Maximum gaps in an answer.
const GAPS_MAX: usize = 500;

/// A gap of a cluster, with its cause.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Gap {
    cluster: String,
    from: i64,
    to: i64,
    cause: &'static str,
    /// The namespace; empty for the whole cluster.
    namespace: String,
}

/// What is cached of a cluster's coverage.
#[derive(Default)]
struct Known {
    gaps: Vec<Gap>,
    /// The longest time for which an event is kept, in milliseconds.
    retention: Option<i64>,
}

/// Cached parts of a coverage, with the time at which they were read.
type ReadAt = (i64, Arc<Known>);

/// The cached gaps by cluster number. There are at most as many entries as clusters were served
/// recently.
#[derive(Default)]
pub(super) struct Gaps(Mutex<HashMap<u64, ReadAt>>);

impl Gaps {
    /// The latest gaps within a range that concern what the caller may see.
    pub(super) async fn within(
        &self,
        clusters: &[Visible],
        (from, to): (i64, i64),
        now: i64,
    ) -> Result<Vec<Gap>, Status> {
        let mut found = Vec::new();
        for visible in clusters {
            let known = self.of(visible, now).await?;
            let is_shown = |gap: &&Gap| {
                gap.from < to
                    && gap.to >= from
                    && (gap.namespace.is_empty() || visible.shows(&gap.namespace))
            };
            found.extend(known.gaps.iter().filter(is_shown).cloned());
        }
        found.sort_by_key(|gap| gap.from);
        Ok(found.split_off(found.len().saturating_sub(GAPS_MAX)))
    }

    /// The longest time for which an event of a cluster is kept, in milliseconds; `None` if that is
    /// not known.
    pub(super) async fn retention(
        &self,
        visible: &Visible,
        now: i64,
    ) -> Result<Option<i64>, Status> {
        let server = &visible.source.server;
        if server.followed.is_none() {
            return Ok(i64::try_from(server.options.event_ttl.as_millis()).ok());
        }
        Ok(self.of(visible, now).await?.retention)
    }

    async fn of(&self, visible: &Visible, now: i64) -> Result<Arc<Known>, Status> {
        let Some(followed) = &visible.source.server.followed else {
            return Ok(Arc::default());
        };
        let table = || self.0.lock();
        let kept = table().get(&followed.number).cloned();
        if let Some((at, known)) = kept
            && (0..KEPT).contains(&now.saturating_sub(at))
        {
            return Ok(known);
        }
        let coverage = followed.history.coverage(None).await?;
        let gaps = coverage.gaps.into_iter().map(|gap| Gap {
            cluster: visible.source.name.clone(),
            from: gap.from.0,
            to: gap.to.0,
            cause: gap.cause.name(),
            namespace: gap.namespace,
        });
        let retention = coverage.retention.map(|it| it.longest.as_millis());
        let known = Arc::new(Known {
            gaps: gaps.collect(),
            retention: retention.and_then(|millis| i64::try_from(millis).ok()),
        });
        let mut table = table();
        // Removes those of clusters that are no longer served.
        table.retain(|_, (at, _)| now.saturating_sub(*at) < KEPT);
        table.insert(followed.number, (now, Arc::clone(&known)));
        Ok(known)
    }
}
