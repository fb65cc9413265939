//! Gaps of followed clusters, which are periods in which versions may be missing, and the retention
//! of their events, with what was deleted sooner. An archive takes a while to compute its coverage,
//! so both are cached for some seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::visible::Visible;
use crate::http::status::Status;

/// Time for which gaps are cached, in milliseconds.
const KEPT: i64 = 15_000;
/// Maximum gaps in an answer: as many of each cluster, but at least one.
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

/// How long the events of a cluster are kept, and what was deleted sooner.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kept {
    /// The longest time for which an event is kept, in milliseconds; `None` if it is not known.
    pub(super) retention: Option<i64>,
    /// The shortest such time, by rules.
    pub(super) retention_shortest: Option<i64>,
    /// The number of events that were deleted to keep the quota. Only users who may see all of the
    /// cluster are told this and the following number.
    pub(super) over_quota: u64,
    /// The number of events that expired at once when the rules changed.
    pub(super) ended_by_rules: u64,
}

/// What is cached of a cluster's coverage.
#[derive(Default)]
struct Known {
    gaps: Vec<Gap>,
    kept: Kept,
}

/// Cached parts of a coverage, with the time at which they were read.
type ReadAt = (i64, Arc<Known>);

/// The cached gaps by cluster number. There are at most as many entries as clusters were served
/// recently.
#[derive(Default)]
pub(super) struct Gaps(Mutex<HashMap<u64, ReadAt>>);

impl Gaps {
    /// The latest gaps within a range that concern what the caller may see; and of each cluster,
    /// how many earlier ones are left out.
    pub(super) async fn within(
        &self,
        clusters: &[Visible],
        (from, to): (i64, i64),
        now: i64,
    ) -> Result<(Vec<Gap>, Vec<usize>), Status> {
        let most = (GAPS_MAX / clusters.len().max(1)).max(1);
        let mut latest = Vec::new();
        let mut left_out = Vec::with_capacity(clusters.len());
        for visible in clusters {
            let known = self.of(visible, now).await?;
            let is_shown = |gap: &&Gap| {
                gap.from < to
                    && gap.to >= from
                    && (gap.namespace.is_empty() || visible.shows(&gap.namespace))
            };
            let mut found: Vec<&Gap> = known.gaps.iter().filter(is_shown).collect();
            found.sort_by_key(|gap| gap.from);
            let earlier = found.len().saturating_sub(most);
            latest.extend(found.into_iter().skip(earlier).cloned());
            left_out.push(earlier);
        }
        latest.sort_by_key(|gap| gap.from);
        Ok((latest, left_out))
    }

    /// How long a cluster's events are kept, as far as the caller may know it.
    pub(super) async fn kept(&self, visible: &Visible, now: i64) -> Result<Kept, Status> {
        let server = &visible.source.server;
        if server.followed.is_none() {
            let options = &server.options;
            let mut times = options.retention.times();
            times.push(options.event_ttl);
            return Ok(Kept {
                retention: millis(times.iter().max()),
                retention_shortest: millis(times.iter().min()),
                ..Kept::default()
            });
        }
        let kept = self.of(visible, now).await?.kept;
        if visible.namespaces.is_none() {
            return Ok(kept);
        }
        Ok(Kept {
            over_quota: 0,
            ended_by_rules: 0,
            ..kept
        })
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
        let retention = coverage.retention.as_ref();
        let known = Arc::new(Known {
            gaps: gaps.collect(),
            kept: Kept {
                retention: millis(retention.map(|it| &it.longest)),
                retention_shortest: millis(retention.map(|it| &it.shortest)),
                over_quota: coverage.over_quota.events,
                ended_by_rules: coverage.totals.map_or(0, |totals| totals.ended_by_rules),
            },
        });
        let mut table = table();
        // Removes those of clusters that are no longer served.
        table.retain(|_, (at, _)| now.saturating_sub(*at) < KEPT);
        table.insert(followed.number, (now, Arc::clone(&known)));
        Ok(known)
    }
}

fn millis(time: Option<&Duration>) -> Option<i64> {
    i64::try_from(time?.as_millis()).ok()
}
