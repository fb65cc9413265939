//! The times that are covered of a cluster, and the amount that is kept.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_store::{
    CountsRequest, HOUR_MILLIS, ListRequest, NewestRequest, ReadError, Record, Store, UnixMillis,
};

use super::gaps;
use super::keeper::Keeper;
use super::keys::{self, EARLIEST};
use super::lives::Retention;
use super::own::parse;
use super::position::{Gap, Position};
use super::quota::{Trimmed, trimmed, trimmed_of};
use super::retention::{ended_by_rules, retention};

/// Counts read per request.
const COUNTS_PAGE: usize = 10_000;

/// The coverage of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Of the whole cluster, or of each followed namespace.
    pub followed: Vec<(String, Position)>,
    /// Gaps, in the order of their beginnings. Gaps that touch are one; beyond a thousand, the
    /// oldest are one.
    pub gaps: Vec<Gap>,
    /// Number of events, including expired ones until their space is released.
    pub events: u64,
    /// The hour in which the oldest event was last seen, in milliseconds since 1970, if there is
    /// one; not before the cluster was followed, whatever the event says.
    pub kept_since: Option<i64>,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Events deleted to keep the quota.
    pub trimmed: Trimmed,
    /// What the rules end, which is in no gap; `None` if it is not known.
    pub retention: Option<Retention>,
    /// Events that ended at once when rules of retention were changed.
    pub ended_by_rules: u64,
    /// Of a sealed archive: versions that ended or were deleted before they were sealed, and those
    /// that could not be read. They are in no gap.
    pub gone: Option<u64>,
    /// If the archive continues one on object storage: the time before it, which only that covers.
    pub sealed_before: Option<SealedTime>,
}

/// The time that is covered by what was sealed before an archive began, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedTime {
    /// Since when the cluster was followed.
    pub since: i64,
    /// Up to when everything is sealed.
    pub until: i64,
}

impl Coverage {
    /// Reads it from a cluster's store.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read(keeper: &Keeper) -> Result<Self, ReadError> {
        let mut coverage = Self::counted_as_seen(keeper).await?;
        if let Some(counted) = coverage.kept_since {
            coverage.kept_since = oldest(keeper, counted).await?;
        }
        Ok(coverage.kept_since_followed())
    }

    /// What concerns a namespace, without numbers of the whole cluster.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read_of(keeper: &Keeper, namespace: &str) -> Result<Self, ReadError> {
        let coverage = Self {
            trimmed: trimmed_of(keeper, namespace).await?,
            retention: retention(keeper).await?,
            ..Self::covered(keeper).await?
        };
        Ok(coverage.of_namespace(namespace))
    }

    /// The parts of it that concern a namespace. Numbers of the whole cluster are left out.
    #[must_use]
    pub fn of_namespace(self, namespace: &str) -> Self {
        let concerns = |of: &str| of.is_empty() || of == namespace;
        let followed = self.followed.into_iter();
        let gaps = self.gaps.into_iter();
        Self {
            followed: followed.filter(|(of, _)| concerns(of)).collect(),
            gaps: gaps.filter(|gap| concerns(&gap.namespace)).collect(),
            trimmed: self.trimmed,
            retention: self.retention,
            sealed_before: self.sealed_before,
            ..Self::default()
        }
    }

    /// The same from what the store counts, for those who ask often: `kept_since` may be earlier
    /// while the space of events whose time is over is not given back.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn counted(keeper: &Keeper) -> Result<Self, ReadError> {
        Ok(Self::counted_as_seen(keeper).await?.kept_since_followed())
    }

    /// The times that are covered here, and what is sealed before.
    async fn covered(keeper: &Keeper) -> Result<Self, ReadError> {
        let mut found = Self::gaps_and_positions(keeper).await?;
        if let Some(before) = keeper.sealed_before() {
            found.begin_behind_gaps();
            found.sealed_before = sealed_time(&before.positions);
        }
        Ok(found)
    }

    /// Events may say that they were seen before anything was followed.
    fn kept_since_followed(mut self) -> Self {
        let followed = self.followed.iter().map(|(_, position)| position.since);
        let since = followed.min().unwrap_or(i64::MIN);
        self.kept_since = self.kept_since.map(|kept| kept.max(since));
        self
    }

    async fn counted_as_seen(keeper: &Keeper) -> Result<Self, ReadError> {
        let (events, kept_since) = events(keeper).await?;
        Ok(Self {
            events,
            kept_since,
            disk_bytes: keeper.store.stats().await?.disk_bytes,
            trimmed: trimmed(keeper).await?,
            retention: retention(keeper).await?,
            ended_by_rules: ended_by_rules(keeper).await?,
            ..Self::covered(keeper).await?
        })
    }

    /// An archive that continues another one has nothing of a gap with which it begins.
    fn begin_behind_gaps(&mut self) {
        for (namespace, position) in &mut self.followed {
            for gap in &self.gaps {
                let is_at_begin = gap.from <= position.since && position.since < gap.to;
                if gap.namespace == *namespace && is_at_begin {
                    position.since = gap.to;
                }
            }
        }
    }

    /// The latest gaps, and how far the cluster was followed; without what has to be counted.
    pub(crate) async fn gaps_and_positions(keeper: &Keeper) -> Result<Self, ReadError> {
        Ok(Self {
            followed: Self::followed(keeper).await?,
            gaps: gaps::read(&*keeper.store).await?,
            ..Self::default()
        })
    }

    /// The positions of the cluster, or of each followed namespace.
    pub(crate) async fn followed(keeper: &Keeper) -> Result<Vec<(String, Position)>, ReadError> {
        let positions = records(keeper, keys::POSITIONS).await?;
        let followed = positions.iter().map(|record| {
            let namespace = &record.key[keys::POSITIONS.len()..];
            let namespace = String::from_utf8_lossy(namespace).into_owned();
            Ok((namespace, parse(&record.value)?))
        });
        followed.collect()
    }

    /// The served form of what [concerns a namespace](Self::of_namespace).
    pub fn to_json_of(&self, name: &str, namespace: &str) -> Value {
        let mut coverage = self.to_json(name);
        coverage["namespace"] = namespace.into();
        if let Value::Object(fields) = &mut coverage {
            for of_cluster in ["events", "keptSince", "diskBytes", "endedByRules", "gone"] {
                fields.remove(of_cluster);
            }
            let followed = fields.get_mut("followed").and_then(Value::as_array_mut);
            for followed in followed.into_iter().flatten() {
                if let Value::Object(fields) = followed {
                    // They tell how much is written in other namespaces.
                    for number in ["resourceVersion", "latestResourceVersion", "versions"] {
                        fields.remove(number);
                    }
                }
            }
        }
        coverage
    }

    /// The served form.
    pub fn to_json(&self, name: &str) -> Value {
        let followed = self.followed.iter().map(|(namespace, position)| {
            json!({
                "namespace": namespace,
                "identity": position.identity,
                "since": time(position.since),
                "completeUntil": time(position.covered_until()),
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
                "gaps": gap.gaps,
                "missingSeconds": gap.missing() / 1000,
            })
        });
        let mut coverage = json!({
            "kind": "Coverage",
            "cluster": name,
            "followed": followed.collect::<Vec<_>>(),
            "gaps": gaps.collect::<Vec<_>>(),
            "events": self.events,
            "keptSince": self.kept_since.map(time),
            "diskBytes": self.disk_bytes,
            "overQuota": {
                "events": self.trimmed.events,
                "observedBefore": match self.trimmed.before {
                    0 => Value::Null,
                    before => time(before),
                },
            },
            "retention": self.retention.map(Retention::to_json),
            "endedByRules": self.ended_by_rules,
        });
        if let Some(gone) = self.gone {
            coverage["gone"] = gone.into();
        }
        if let Some(sealed) = self.sealed_before {
            coverage["sealedBefore"] = json!({
                "since": time(sealed.since),
                "until": time(sealed.until),
            });
        }
        coverage
    }
}

/// The time that sealed positions cover, of several namespaces what holds for all.
fn sealed_time(positions: &[(String, Position)]) -> Option<SealedTime> {
    let positions = || positions.iter().map(|(_, position)| position);
    Some(SealedTime {
        since: positions().map(|it| it.since).max()?,
        until: positions().map(Position::covered_until).min()?,
    })
}

fn time(millis: i64) -> Value {
    match Timestamp::from_millisecond(millis) {
        Ok(time) => time.to_string().into(),
        Err(_) => Value::Null,
    }
}

/// All records under one of the archive's own prefixes, which have few.
async fn records(keeper: &Keeper, prefix: &'static [u8]) -> Result<Vec<Record>, ReadError> {
    let page = keeper.store.list(ListRequest::prefix(prefix)).await?;
    Ok(page.records)
}

/// The number of events, and the time at which the oldest was last seen, from the counts of the
/// index.
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

/// The hour in which the oldest event that is kept was last seen; none was before `counted`, which
/// is a whole hour. Each look halves what is not known. All together they pass over the events
/// whose time is over once.
///
/// Only whole hours are looked at, so that the answer does not depend on when it is asked for.
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
        // What there is says that it will be.
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
