//! From when to when a cluster is covered, and what is kept of it.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_store::{CountsRequest, ListRequest, ReadError, Record, Store, UnixMillis};

use super::keeper::{Keeper, parse};
use super::keys::{self, EARLIEST};
use super::position::{Gap, Position};
use super::retention::{Trimmed, trimmed};

/// Counts read at once.
const COUNTS_PAGE: usize = 10_000;
/// Maximum gaps read and reported at once: the latest.
const GAPS_MAX: usize = 1000;

/// What is known of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Of the whole cluster, or of each namespace that is followed.
    pub followed: Vec<(String, Position)>,
    /// The latest thousand, in the order of their beginnings.
    pub gaps: Vec<Gap>,
    /// Events kept.
    pub events: u64,
    /// The beginning of the hour in which the oldest of them was last seen, in milliseconds since
    /// 1970, if there is any: what retention has left. It may be earlier while the space of events
    /// whose time is over is not given back.
    pub kept_since: Option<i64>,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// What was deleted to keep the quota.
    pub trimmed: Trimmed,
}

impl Coverage {
    /// Reads it from a cluster's store.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read(keeper: &Keeper) -> Result<Self, ReadError> {
        let (events, kept_since) = events(keeper).await?;
        Ok(Self {
            events,
            kept_since,
            disk_bytes: keeper.store.stats().await?.disk_bytes,
            trimmed: trimmed(keeper).await?,
            ..Self::gaps_and_positions(keeper).await?
        })
    }

    /// The latest gaps, and how far the cluster was followed; without what has to be counted.
    pub(crate) async fn gaps_and_positions(keeper: &Keeper) -> Result<Self, ReadError> {
        let gaps = records(keeper, keys::GAPS).await?;
        let gaps = gaps[gaps.len().saturating_sub(GAPS_MAX)..].iter();
        Ok(Self {
            followed: Self::followed(keeper).await?,
            gaps: gaps
                .map(|record| Ok(parse(&record.value)?))
                .collect::<Result<_, ReadError>>()?,
            ..Self::default()
        })
    }

    /// How far the cluster, or each namespace that is followed, was followed.
    pub(crate) async fn followed(keeper: &Keeper) -> Result<Vec<(String, Position)>, ReadError> {
        let positions = records(keeper, keys::POSITIONS).await?;
        let followed = positions.iter().map(|record| {
            let namespace = &record.key[keys::POSITIONS.len()..];
            let namespace = String::from_utf8_lossy(namespace).into_owned();
            Ok((namespace, parse(&record.value)?))
        });
        followed.collect()
    }

    /// As it is served.
    pub fn to_json(&self, name: &str) -> Value {
        let followed = self.followed.iter().map(|(namespace, position)| {
            json!({
                "namespace": namespace,
                "identity": position.identity,
                "since": time(position.since),
                "completeUntil": time(position.complete_until),
                "resourceVersion": position.version.map(|version| version.to_string()),
                "latestResourceVersion": position.latest.to_string(),
                "selection": position.selection,
                "epoch": position.epoch,
                "versions": position.versions,
                "listing": position.version.is_none(),
            })
        });
        let gaps = self.gaps.iter().map(|gap| {
            json!({
                "from": time(gap.from),
                "to": time(gap.to),
                "cause": gap.cause.name(),
                "namespace": gap.namespace,
            })
        });
        json!({
            "kind": "Coverage",
            "cluster": name,
            "followed": followed.collect::<Vec<_>>(),
            "gaps": gaps.collect::<Vec<_>>(),
            "events": self.events,
            "keptSince": self.kept_since.map(time),
            "diskBytes": self.disk_bytes,
            "overQuota": {
                "events": self.trimmed.events,
                "lastSeenBefore": match self.trimmed.before {
                    0 => Value::Null,
                    before => time(before),
                },
            },
        })
    }
}

fn time(millis: i64) -> Value {
    match Timestamp::from_millisecond(millis) {
        Ok(time) => time.to_string().into(),
        Err(_) => Value::Null,
    }
}

/// All records under a prefix of the archive's own, of which there are few.
async fn records(keeper: &Keeper, prefix: &'static [u8]) -> Result<Vec<Record>, ReadError> {
    let page = keeper.store.list(ListRequest::prefix(prefix)).await?;
    Ok(page.records)
}

/// How many events there are, and when the oldest was last seen, from the counts of the index.
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
