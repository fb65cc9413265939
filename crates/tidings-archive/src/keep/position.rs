//! The position of following in a cluster, which is written with the events themselves; and gaps,
//! where versions may be missing.

use serde::{Deserialize, Serialize};

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
    /// What tells the authorities from others by which the source's certificate was verified last,
    /// if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<String>,
}

impl Position {
    /// The time up to which the cluster is covered from [`since`](Self::since) on. After the first
    /// list, [`complete_until`](Self::complete_until) is earlier: when that was asked for.
    pub fn covered_until(&self) -> i64 {
        self.complete_until.max(self.since)
    }
}

/// Ends that remain to be found: of events that were not in a list that ended a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unswept {
    /// When the list was requested.
    pub(crate) listed_at: i64,
    /// The list's resourceVersion.
    pub(crate) version: u64,
    /// The time up to which ends were followed.
    pub(crate) not_before: i64,
    /// Events last seen before this had ended by then.
    pub(crate) since: i64,
}

/// Why versions may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// The archive did not run, and the source has forgotten what was written meanwhile.
    Absent,
    /// The source could not be reached, and has forgotten what was written meanwhile.
    Unreachable,
    /// The source has forgotten what was written before it was read.
    Compacted,
    /// The source went back to an earlier state, from a backup, say.
    Rewound,
    /// Another cluster answered at the address, or may have done so.
    OtherCluster,
    /// The source did not allow to list or watch events.
    Forbidden,
    /// The archive could not write.
    Storage,
    /// An event is too large to be kept.
    TooLarge,
    /// An event cannot be read.
    Unreadable,
}

impl Cause {
    /// Its name, as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreachable => "unreachable",
            Self::Compacted => "compacted",
            Self::Rewound => "rewound",
            Self::OtherCluster => "other-cluster",
            Self::Forbidden => "forbidden",
            Self::Storage => "storage",
            Self::TooLarge => "too-large",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A period in which versions may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// Its beginning, in milliseconds since 1970.
    pub from: i64,
    /// Its end, in milliseconds since 1970.
    pub to: i64,
    /// Why; of several, the first cause.
    pub cause: Cause,
    /// The namespace that is followed, or that of the events that are not kept; empty for the whole
    /// cluster.
    pub namespace: String,
    /// How many gaps this stands for, if they touched or there were too many of them. Between them
    /// nothing is missing.
    #[serde(default = "one")]
    pub gaps: u64,
    /// How long several were together, in milliseconds.
    #[serde(default)]
    pub(crate) missing: i64,
}

fn one() -> u64 {
    1
}

impl Gap {
    /// A single one, of the whole cluster.
    pub(crate) fn new(from: i64, to: i64, cause: Cause) -> Self {
        Self {
            from,
            to,
            cause,
            namespace: String::new(),
            gaps: 1,
            missing: 0,
        }
    }

    /// The same, as it was read: it stands for several that were together so long.
    pub(crate) fn of_several(self, gaps: u64, missing: i64) -> Self {
        Self {
            missing: if gaps > 1 { missing } else { 0 },
            gaps,
            ..self
        }
    }

    /// For how long versions may be missing in it, in milliseconds.
    pub fn missing(&self) -> i64 {
        match self.gaps {
            0 | 1 => self.to.saturating_sub(self.from).max(0),
            _ => self.missing,
        }
    }

    /// This and another one as one.
    pub(crate) fn joined(self, other: &Self) -> Self {
        let from = self.from.min(other.from);
        let to = self.to.max(other.to);
        // What both have counts once.
        let both = self.to.min(other.to) - self.from.max(other.from);
        let missing = self.missing() + other.missing() - both.max(0);
        Self {
            cause: if self.from <= other.from {
                self.cause
            } else {
                other.cause
            },
            namespace: self.namespace,
            gaps: self.gaps.saturating_add(other.gaps),
            missing: missing.clamp(0, to.saturating_sub(from).max(0)),
            from,
            to,
        }
    }
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
