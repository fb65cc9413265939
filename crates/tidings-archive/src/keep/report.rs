//! The coverage of a cluster: the covered times, and how much is kept.

use std::sync::atomic::Ordering;

use tidings_history::{Coverage, Gap, OverQuota, SealedTime, Totals};
use tidings_store::{
    CountsRequest, HOUR_MILLIS, ListRequest, NewestRequest, ReadError, Store, UnixMillis,
};

use crate::keep::coverage::Position;
use crate::keep::coverage::read_gaps;
use crate::keep::json::parse;
use crate::keep::keys::{self, EARLIEST};
use crate::keep::retention::{ended_by_rules, retention};
use crate::keep::retention::{trimmed, trimmed_of};
use crate::keep::versions::Keeper;

/// Number of counts that are read per request.
const COUNTS_PAGE: usize = 10_000;

/// Reads the coverage of a cluster of this name from its store.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn read(keeper: &Keeper, cluster: &str) -> Result<Coverage, ReadError> {
    let (events, mut counted) = events(keeper).await?;
    if let Some(hour) = counted {
        counted = oldest(keeper, hour).await?;
    }
    counted_since(keeper, cluster, events, counted).await
}

/// Reads the coverage from the store's own counts, for frequent requests. `kept_since` may be too
/// early until the space of expired events is released.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn counted(keeper: &Keeper, cluster: &str) -> Result<Coverage, ReadError> {
    let (events, counted) = events(keeper).await?;
    counted_since(keeper, cluster, events, counted).await
}

/// Reads the coverage of a namespace, without numbers of the whole cluster.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn read_of(
    keeper: &Keeper,
    cluster: &str,
    namespace: &str,
) -> Result<Coverage, ReadError> {
    let coverage = Coverage {
        over_quota: trimmed_of(keeper, namespace).await?.into(),
        ..covered(keeper, cluster).await?
    };
    Ok(coverage.of_namespace(namespace))
}

/// Completes the coverage of a cluster with these numbers of events.
async fn counted_since(
    keeper: &Keeper,
    cluster: &str,
    events: u64,
    kept_since: Option<i64>,
) -> Result<Coverage, ReadError> {
    let mut coverage = covered(keeper, cluster).await?;
    // Events may state that they were seen before anything was followed.
    let since = coverage.followed.iter().map(|followed| followed.since);
    let since = since.min().unwrap_or(UnixMillis(i64::MIN));
    let ended_by_rules = ended_by_rules(keeper).await?;
    coverage.ended_by_rule = ended_by_rules.by_rule;
    coverage.totals = Some(Totals {
        events,
        kept_since: kept_since.map(|kept| UnixMillis(kept).max(since)),
        disk_bytes: keeper.store.stats().await?.disk_bytes,
        ended_by_rules: ended_by_rules.events,
        gone: None,
    });
    Ok(Coverage {
        over_quota: OverQuota::from(trimmed(keeper).await?),
        quota_bytes: quota_bytes(keeper),
        ..coverage
    })
}

/// Returns the bytes that the cluster may take now; `None` if it has no quota.
pub(crate) fn quota_bytes(keeper: &Keeper) -> Option<u64> {
    let bytes = keeper.counters.quota.load(Ordering::Relaxed);
    Some(bytes).filter(|bytes| *bytes > 0)
}

/// Returns the times that are covered here, and what was sealed before.
async fn covered(keeper: &Keeper, cluster: &str) -> Result<Coverage, ReadError> {
    let mut positions = positions(keeper).await?;
    let gaps = read_gaps(&*keeper.store).await?;
    let before = keeper.sealed_before();
    if before.is_some() {
        begin_behind_gaps(&mut positions, &gaps);
    }
    let followed = positions.iter();
    Ok(Coverage {
        cluster: cluster.to_owned(),
        followed: followed
            .map(|(namespace, position)| position.followed(namespace))
            .collect(),
        gaps,
        retention: retention(keeper).await?,
        sealed_before: before.and_then(|before| sealed_time(&before.positions)),
        ..Coverage::default()
    })
}

/// Moves the beginning of positions behind a gap at which they begin: of that gap, an archive that
/// continues another one has nothing.
fn begin_behind_gaps(positions: &mut [(String, Position)], gaps: &[Gap]) {
    for (namespace, position) in positions {
        for gap in gaps {
            let is_at_begin = (gap.from.0..gap.to.0).contains(&position.since);
            if gap.namespace == *namespace && is_at_begin {
                position.since = gap.to.0;
            }
        }
    }
}

/// Returns the positions of the cluster, or of each followed namespace.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn positions(keeper: &Keeper) -> Result<Vec<(String, Position)>, ReadError> {
    let request = ListRequest::prefix(keys::POSITIONS);
    let records = keeper.store.list(request).await?.records;
    let followed = records.iter().map(|record| {
        let namespace = &record.key[keys::POSITIONS.len()..];
        let namespace = String::from_utf8_lossy(namespace).into_owned();
        Ok((namespace, parse(&record.value)?))
    });
    followed.collect()
}

/// Returns the time that sealed positions cover; with several namespaces, the time that all of them
/// cover.
fn sealed_time(positions: &[(String, Position)]) -> Option<SealedTime> {
    let positions = || positions.iter().map(|(_, position)| position);
    Some(SealedTime {
        since: UnixMillis(positions().map(|it| it.since).max()?),
        until: UnixMillis(positions().map(Position::covered_until).min()?),
    })
}

/// Returns the number of events, and the time at which the oldest was last seen, from the index's
/// counts.
async fn events(keeper: &Keeper) -> Result<(u64, Option<i64>), ReadError> {
    let mut events = 0;
    let mut kept_since = None;
    let mut after: Option<(UnixMillis, String)> = None;
    loop {
        let request = CountsRequest {
            since: Some(EARLIEST),
            after: after.take(),
            limit: COUNTS_PAGE,
            ..CountsRequest::default()
        };
        let page = keeper.store.counts(request).await?;
        events += page.counts.iter().map(|count| count.records).sum::<u64>();
        kept_since = page.counts.last().map(|last| last.hour.0).or(kept_since);
        match page.counts.last() {
            Some(last) if page.more => after = Some((last.hour, last.reason.clone())),
            _ => return Ok((events, kept_since)),
        }
    }
}

/// Returns the hour in which the oldest kept event was last seen. It is not before `counted`, which
/// is a whole hour. Each step halves the remaining range. All steps together skip the expired
/// events once.
///
/// It searches whole hours, so that the result does not depend on the time of the call.
async fn oldest(keeper: &Keeper, counted: i64) -> Result<Option<i64>, ReadError> {
    let is_kept = async |until: Option<i64>| {
        let request = NewestRequest {
            since: Some(EARLIEST),
            until: until.map(UnixMillis),
            limit: 1,
            ..NewestRequest::default()
        };
        let page = keeper.store.newest(request).await?;
        Ok::<_, ReadError>(!page.records.is_empty())
    };
    if !is_kept(None).await? {
        return Ok(None);
    }
    let hours = (keeper.clock.now().0.max(counted) - counted) / HOUR_MILLIS + 1;
    let hour = |number: i64| counted.saturating_add(number.saturating_mul(HOUR_MILLIS));
    let (mut none, mut some) = (0, hours);
    if !is_kept(Some(hour(some))).await? {
        // All events state times in the future.
        return Ok(Some(hour(some)));
    }
    while some - none > 1 {
        let middle = none + (some - none) / 2;
        if is_kept(Some(hour(middle))).await? {
            some = middle;
        } else {
            none = middle;
        }
    }
    Ok(Some(hour(none)))
}
