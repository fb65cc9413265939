//! Coverage: from when to when an archive has a cluster's events, and how much it keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidings_store::UnixMillis;

use crate::gap::Gap;
use crate::retention::{Outlook, Retention};
use crate::wire;

/// The coverage of a cluster, or of one of its namespaces.
///
/// Its JSON, with a `kind`, is the answer to `GET /coverage` ([`Answer`](crate::Answer)). Answers
/// of earlier versions can be read too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The cluster's name in the archive. An export need not have it.
    #[serde(default)]
    pub cluster: String,
    /// The namespace that the coverage is of; `None` for the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What is followed: the whole cluster, or each of several namespaces.
    #[serde(default)]
    pub followed: Vec<Followed>,
    /// Gaps, in the order of their beginnings: a bounded number.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Events or versions that were deleted to keep the quota. They are in no gap.
    #[serde(default)]
    pub over_quota: OverQuota,
    /// How long events are kept; `None` if no rules are in force, as where nothing is followed.
    /// Expired events are in no gap.
    #[serde(default)]
    pub retention: Option<Retention>,
    /// The events of [`Totals::ended_by_rules`] by the names of the rules that ended them, as far
    /// as that is known. Empty in the coverage of a namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended_by_rule: BTreeMap<String, u64>,
    /// What the rules of the request would end at once, of a bounded number of events; `None` if it
    /// has no rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_end: Option<Outlook>,
    /// The token with which a further request examines further events; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_end_continue: Option<String>,
    /// The bytes that the cluster may take now, by its own quota and one that it shares; `None` if
    /// it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// If the archive continues one on object storage: the earlier time, which only that archive
    /// covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_before: Option<SealedTime>,
    /// What is wrong with following or sealing the cluster now, in one line, as the server that
    /// answers knows it. `None` in the coverage of a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Numbers of the whole cluster; `None` in the coverage of a namespace.
    #[serde(flatten)]
    pub totals: Option<Totals>,
}

impl Coverage {
    /// Says what the numbers of this coverage count.
    pub fn counted(&self) -> Counted {
        // Only a sealed archive states how much was not sealed.
        match self.totals {
            Some(Totals { gone: Some(_), .. }) => Counted::Versions,
            _ => Counted::Events,
        }
    }

    /// Reduces the coverage of a cluster to what users of one namespace may see.
    ///
    /// Gaps and positions of other namespaces are left out, and so are the numbers of the whole
    /// cluster. `over_quota` is not changed, since the caller knows whether it belongs to the
    /// namespace.
    #[must_use]
    pub fn of_namespace(self, namespace: &str) -> Self {
        let concerns = |of: &str| of.is_empty() || of == namespace;
        let followed = self.followed.into_iter();
        let followed = followed.filter(|followed| concerns(&followed.namespace));
        let gaps = self.gaps.into_iter();
        Self {
            namespace: Some(namespace.to_owned()),
            followed: followed
                .map(|followed| Followed {
                    progress: None,
                    ..followed
                })
                .collect(),
            gaps: gaps.filter(|gap| concerns(&gap.namespace)).collect(),
            totals: None,
            ended_by_rule: BTreeMap::new(),
            would_end: None,
            would_end_continue: None,
            quota_bytes: None,
            problem: None,
            retention: self.retention.map(Retention::without_held),
            ..self
        }
    }
}

impl Coverage {
    /// Reduces the coverage to what is true of a part of the kept events: it has no positions, from
    /// which following could continue, and no numbers.
    #[must_use]
    pub fn of_part(self) -> Self {
        Self {
            followed: Vec::new(),
            totals: None,
            over_quota: OverQuota::default(),
            ended_by_rule: BTreeMap::new(),
            quota_bytes: None,
            problem: None,
            retention: self.retention.map(Retention::without_held),
            ..self
        }
    }
}

/// What the numbers of a cluster count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Counted {
    /// Each event once, in the hour in which it was last seen.
    #[default]
    Events,
    /// Each version, as a sealed archive does.
    Versions,
}

/// Numbers of a whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Events that are kept, including expired ones until their space is released. A sealed archive
    /// counts versions.
    pub events: u64,
    /// The hour in which the oldest event was last seen; `None` if there is no event.
    #[serde(default, with = "wire::optional_time")]
    pub kept_since: Option<UnixMillis>,
    /// Bytes on disk, or of the files of a sealed archive.
    pub disk_bytes: u64,
    /// Events that expired at once when the rules of retention changed. They are in no gap.
    #[serde(default)]
    pub ended_by_rules: u64,
    /// For a sealed archive: versions that expired or were deleted before they were sealed, and
    /// versions that could not be read. They are in no gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
}

/// How far a cluster, or one of its namespaces, was followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Followed {
    /// The followed namespace; empty for the whole cluster.
    pub namespace: String,
    /// The uid of the cluster's namespace `kube-system`, if it could be read.
    #[serde(default)]
    pub identity: Option<String>,
    /// When following began.
    #[serde(with = "wire::time")]
    pub since: UnixMillis,
    /// The time up to which nothing is missing, except in gaps. Not before [`since`](Self::since).
    #[serde(with = "wire::time")]
    pub complete_until: UnixMillis,
    /// The field and label selectors of the followed events; empty for all events.
    #[serde(default)]
    pub selection: String,
    /// How often the source went back to an earlier state.
    #[serde(default)]
    pub epoch: u64,
    /// Whether the archive is listing the source's events, before it watches them.
    #[serde(default)]
    pub listing: bool,
    /// Numbers that tell how much is written in the whole cluster; `None` in the coverage of a
    /// namespace.
    #[serde(flatten)]
    pub progress: Option<Progress>,
}

/// How far the changes of a source were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The resourceVersion up to which everything is kept; `None` while events are being listed.
    #[serde(default, with = "wire::optional_number")]
    pub resource_version: Option<u64>,
    /// The latest known resourceVersion of the source.
    #[serde(with = "wire::number")]
    pub latest_resource_version: u64,
    /// Versions kept since following began.
    pub versions: u64,
}

/// Events, or versions in a sealed archive, that were deleted to keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverQuota {
    /// Their number.
    pub events: u64,
    /// The time before which all of them were observed; `None` if there are none. In answers of
    /// earlier versions, the time before which they were last seen.
    #[serde(default, alias = "lastSeenBefore", with = "wire::optional_time")]
    pub observed_before: Option<UnixMillis>,
}

/// The time that was sealed before an archive began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedTime {
    /// When following began.
    #[serde(with = "wire::time")]
    pub since: UnixMillis,
    /// The time up to which everything is sealed.
    #[serde(with = "wire::time")]
    pub until: UnixMillis,
}
