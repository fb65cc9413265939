//! The position of following in a cluster, which is written with the events themselves.

use serde::{Deserialize, Serialize};
use tidings_history::{Cause, Followed, Gap, Progress};
use tidings_store::UnixMillis;

/// The position in a cluster, or in one of its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Everything at the source up to this resourceVersion is kept; `None` while its events are
    /// being listed.
    pub version: Option<u64>,
    /// The latest known resourceVersion of the source.
    pub latest: u64,
    /// How often the source went back to an earlier state.
    pub epoch: u64,
    /// The uid of the source's namespace `kube-system`, if known.
    pub identity: Option<String>,
    /// When the first list with these selectors was begun, in milliseconds since 1970.
    pub since: i64,
    /// The time up to which nothing is missing, in milliseconds since 1970.
    pub complete_until: i64,
    /// The cause of the gap since then, which is reported when the current list is complete.
    pub cause: Option<Cause>,
    /// Versions kept since the beginning.
    pub versions: u64,
    /// The selectors of the followed events.
    #[serde(default)]
    pub selection: String,
    /// Texts that identify the authorities of the source's certificate when it was last verified,
    /// if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<String>,
}

impl Position {
    /// Returns the time up to which the cluster is covered from [`since`](Self::since) on. After
    /// the first list, [`complete_until`](Self::complete_until) is earlier than that: the time of
    /// the list's request.
    pub fn covered_until(&self) -> i64 {
        self.complete_until.max(self.since)
    }

    /// Returns the position in the form of coverage.
    pub fn followed(&self, namespace: &str) -> Followed {
        Followed {
            namespace: namespace.to_owned(),
            identity: self.identity.clone(),
            since: UnixMillis(self.since),
            complete_until: UnixMillis(self.covered_until()),
            selection: self.selection.clone(),
            epoch: self.epoch,
            listing: self.version.is_none(),
            progress: Some(Progress {
                resource_version: self.version,
                latest_resource_version: self.latest,
                versions: self.versions,
            }),
        }
    }

    /// Returns the position from coverage; `None` if that has no resourceVersions.
    pub(crate) fn of(followed: &Followed) -> Option<Self> {
        let progress = followed.progress?;
        Some(Self {
            version: progress.resource_version,
            latest: progress.latest_resource_version,
            epoch: followed.epoch,
            identity: followed.identity.clone(),
            since: followed.since.0,
            complete_until: followed.complete_until.0,
            // An unfinished list is begun again.
            cause: progress.resource_version.is_none().then_some(Cause::Absent),
            versions: progress.versions,
            selection: followed.selection.clone(),
            authorities: Vec::new(),
        })
    }
}

/// The work to find ends after a gap: events that were not in the list that ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unswept {
    /// When the list was requested.
    pub(crate) listed_at: i64,
    /// The list's resourceVersion.
    pub(crate) version: u64,
    /// The last time at which ends were still observed.
    pub(crate) not_before: i64,
    /// Events last seen before this time had ended before the gap.
    pub(crate) since: i64,
}

/// Makes a gap of the whole cluster, from times in milliseconds since 1970.
pub(crate) fn cluster_gap(from: i64, to: i64, cause: Cause) -> Gap {
    Gap::new(UnixMillis(from), UnixMillis(to), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_without_authorities_is_written_and_read_as_it_was_before_there_were_any() {
        let text = concat!(
            r#"{"version":7,"latest":9,"epoch":0,"identity":null,"since":1,"completeUntil":2,"#,
            r#""cause":null,"versions":3,"selection":""}"#
        );
        let mut position: Position = serde_json::from_str(text).unwrap();
        assert_eq!((position.version, position.latest), (Some(7), 9));
        assert_eq!(serde_json::to_string(&position).unwrap(), text);
        position.authorities = vec!["a".to_owned()];
        let again = serde_json::to_string(&position).unwrap();
        assert_eq!(serde_json::from_str::<Position>(&again).unwrap(), position);
    }
}
