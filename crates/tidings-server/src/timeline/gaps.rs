//! Gaps of followed clusters: periods in which versions may be missing. An archive takes a while to
//! compute its coverage, so gaps are cached for some seconds.

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

/// Cached gaps, with the time at which they were read.
type ReadAt = (i64, Arc<Vec<Gap>>);

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
            let gaps = self.of(visible, now).await?;
            let is_shown = |gap: &&Gap| {
                gap.from < to
                    && gap.to >= from
                    && (gap.namespace.is_empty() || visible.shows(&gap.namespace))
            };
            found.extend(gaps.iter().filter(is_shown).cloned());
        }
        found.sort_by_key(|gap| gap.from);
        Ok(found.split_off(found.len().saturating_sub(GAPS_MAX)))
    }

    async fn of(&self, visible: &Visible, now: i64) -> Result<Arc<Vec<Gap>>, Status> {
        let Some(followed) = &visible.source.server.followed else {
            return Ok(Arc::default());
        };
        let table = || self.0.lock();
        let kept = table().get(&followed.number).cloned();
        if let Some((at, gaps)) = kept
            && (0..KEPT).contains(&now.saturating_sub(at))
        {
            return Ok(gaps);
        }
        let coverage = followed.history.coverage(None).await?;
        let gaps = coverage.gaps.into_iter().map(|gap| Gap {
            cluster: visible.source.name.clone(),
            from: gap.from.0,
            to: gap.to.0,
            cause: gap.cause.name(),
            namespace: gap.namespace,
        });
        let gaps: Arc<Vec<Gap>> = Arc::new(gaps.collect());
        let mut table = table();
        // Removes those of clusters that are no longer served.
        table.retain(|_, (at, _)| now.saturating_sub(*at) < KEPT);
        table.insert(followed.number, (now, Arc::clone(&gaps)));
        Ok(gaps)
    }
}
