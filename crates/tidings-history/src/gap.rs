//! Gaps: periods in which versions of a cluster's events may be missing, and why.

use serde::{Deserialize, Serialize};
use tidings_store::UnixMillis;

use crate::wire;

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
    /// The source went back to an earlier state, for example from a backup.
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
    /// A cause that this version of the program does not know.
    #[serde(other)]
    Unknown,
}

impl Cause {
    /// Returns the cause's name in answers, metrics and records, such as `other-cluster`.
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
            Self::Unknown => "unknown",
        }
    }
}

/// A period in which versions may be missing.
///
/// Its JSON is as in answers, with times in RFC 3339. Records and manifests use [`StoredGap`].
///
/// ```
/// use tidings_history::{Cause, Gap};
/// use tidings_store::UnixMillis;
///
/// let gap = Gap::new(UnixMillis(1000), UnixMillis(4500), Cause::Absent);
/// let text = serde_json::to_string(&gap)?;
/// assert!(text.contains(r#""from":"1970-01-01T00:00:01Z""#), "{text}");
/// assert!(text.contains(r#""missingSeconds":3"#), "{text}");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AnsweredGap", into = "AnsweredGap")]
pub struct Gap {
    /// Its beginning.
    pub from: UnixMillis,
    /// Its end.
    pub to: UnixMillis,
    /// Why versions may be missing; of several joined gaps, the cause of the first.
    pub cause: Cause,
    /// The followed namespace, or the namespace of the events that are not kept; empty for the
    /// whole cluster.
    pub namespace: String,
    /// Number of gaps that were joined to this one, itself included. Nothing is missing between
    /// them.
    pub gaps: u64,
    /// Length of several joined gaps together, in milliseconds.
    missing: i64,
}

impl Gap {
    /// Makes a single gap of the whole cluster.
    pub fn new(from: UnixMillis, to: UnixMillis, cause: Cause) -> Self {
        Self {
            from,
            to,
            cause,
            namespace: String::new(),
            gaps: 1,
            missing: 0,
        }
    }

    /// Changes the namespace of the gap.
    #[must_use]
    pub fn of(self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self
        }
    }

    /// Returns for how long versions may be missing, in milliseconds. The times between joined gaps
    /// do not count.
    pub fn missing_millis(&self) -> i64 {
        match self.gaps {
            0 | 1 => self.to.0.saturating_sub(self.from.0).max(0),
            _ => self.missing,
        }
    }

    /// Joins another gap to this one. The result has this one's namespace, and the cause of the
    /// one that began first.
    #[must_use]
    pub fn joined(self, other: &Self) -> Self {
        let from = self.from.min(other.from);
        let to = self.to.max(other.to);
        // The time that both gaps have in common counts once.
        let both = self.to.min(other.to).0 - self.from.max(other.from).0;
        let missing = self.missing_millis() + other.missing_millis() - both.max(0);
        Self {
            cause: if self.from <= other.from {
                self.cause
            } else {
                other.cause
            },
            namespace: self.namespace,
            gaps: self.gaps.saturating_add(other.gaps),
            missing: missing.clamp(0, to.0.saturating_sub(from.0).max(0)),
            from,
            to,
        }
    }
}

fn one() -> u64 {
    1
}

/// The JSON of a gap in answers and exports.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredGap {
    #[serde(with = "wire::time")]
    from: UnixMillis,
    #[serde(with = "wire::time")]
    to: UnixMillis,
    cause: Cause,
    #[serde(default)]
    namespace: String,
    #[serde(default = "one")]
    gaps: u64,
    #[serde(default)]
    missing_seconds: i64,
}

impl From<AnsweredGap> for Gap {
    fn from(gap: AnsweredGap) -> Self {
        let gaps = gap.gaps.max(1);
        let missing = if gaps > 1 { gap.missing_seconds } else { 0 };
        Self {
            from: gap.from,
            to: gap.to,
            cause: gap.cause,
            namespace: gap.namespace,
            gaps,
            missing: missing.saturating_mul(1000),
        }
    }
}

impl From<Gap> for AnsweredGap {
    fn from(gap: Gap) -> Self {
        Self {
            missing_seconds: gap.missing_millis() / 1000,
            from: gap.from,
            to: gap.to,
            cause: gap.cause,
            namespace: gap.namespace,
            gaps: gap.gaps,
        }
    }
}

/// The JSON of a gap in an archive's records, in manifests, and in files of pending versions: times
/// in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredGap {
    from: i64,
    to: i64,
    cause: Cause,
    namespace: String,
    #[serde(default = "one")]
    gaps: u64,
    #[serde(default)]
    missing: i64,
}

impl From<StoredGap> for Gap {
    fn from(gap: StoredGap) -> Self {
        Self {
            from: UnixMillis(gap.from),
            to: UnixMillis(gap.to),
            cause: gap.cause,
            namespace: gap.namespace,
            gaps: gap.gaps,
            missing: gap.missing,
        }
    }
}

impl From<&Gap> for StoredGap {
    fn from(gap: &Gap) -> Self {
        Self {
            from: gap.from.0,
            to: gap.to.0,
            cause: gap.cause,
            namespace: gap.namespace.clone(),
            gaps: gap.gaps,
            missing: gap.missing,
        }
    }
}

/// Gaps in the form of [`StoredGap`], for `#[serde(with = "tidings_history::stored_gaps")]`.
pub mod stored_gaps {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Gap, StoredGap};

    /// Writes the gaps as a list of [`StoredGap`].
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(gaps: &[Gap], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(gaps.iter().map(StoredGap::from))
    }

    /// Reads a list of [`StoredGap`].
    ///
    /// # Errors
    /// Errors of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Gap>, D::Error> {
        let gaps = Vec::<StoredGap>::deserialize(from)?;
        Ok(gaps.into_iter().map(Gap::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_how_a_cause_is_written() {
        for cause in [
            Cause::Absent,
            Cause::Unreachable,
            Cause::Compacted,
            Cause::Rewound,
            Cause::OtherCluster,
            Cause::Forbidden,
            Cause::Storage,
            Cause::TooLarge,
            Cause::Unreadable,
        ] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        let newer: Cause = serde_json::from_str(r#""out-of-cheese""#).unwrap();
        assert_eq!(newer, Cause::Unknown);
    }

    /// Records and manifests of earlier versions have no number of joined gaps.
    #[test]
    fn stored_gaps_are_written_as_they_were_and_read_without_what_is_newer() {
        let text =
            r#"{"from":1,"to":5,"cause":"too-large","namespace":"shop","gaps":2,"missing":3}"#;
        let stored: StoredGap = serde_json::from_str(text).unwrap();
        let gap = Gap::from(stored);
        assert_eq!((gap.gaps, gap.missing_millis()), (2, 3));
        assert_eq!(serde_json::to_string(&StoredGap::from(&gap)).unwrap(), text);
        let former = r#"{"from":1,"to":5,"cause":"absent","namespace":""}"#;
        let former: StoredGap = serde_json::from_str(former).unwrap();
        let expected = Gap::new(UnixMillis(1), UnixMillis(5), Cause::Absent);
        assert_eq!(Gap::from(former), expected);
    }
}
