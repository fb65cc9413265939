//! Answers of an archive's API that are about a cluster as a whole.

use serde::{Deserialize, Serialize};
use tidings_store::UnixMillis;

use crate::coverage::{Counted, Coverage};
use crate::wire;

/// An answer, with its kind.
///
/// ```
/// use tidings_history::{Answer, Coverage};
///
/// let coverage = Coverage { cluster: "prod".into(), ..Coverage::default() };
/// let answer = serde_json::to_value(Answer::Coverage(coverage.clone()))?;
/// assert_eq!(answer["kind"], "Coverage");
/// assert_eq!(serde_json::from_value::<Coverage>(answer)?, coverage);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
#[expect(
    clippy::large_enum_variant,
    reason = "an answer is made once for each request"
)]
pub enum Answer {
    /// The answer to `GET /coverage`.
    Coverage(Coverage),
    /// The answer to `GET /counts`.
    Counts(Counts),
}

/// A page of counts, the latest hour first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The cluster's name in the archive.
    #[serde(default)]
    pub cluster: String,
    /// What is counted.
    #[serde(default)]
    pub counted: Counted,
    /// The counts.
    pub counts: Vec<Count>,
    /// The token of the next page, if there is one.
    #[serde(default)]
    pub r#continue: Option<String>,
}

/// A count of events, or versions, by hour and reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The beginning of the hour.
    #[serde(with = "wire::time")]
    pub hour: UnixMillis,
    /// The reason of the events.
    pub reason: String,
    /// Their number.
    pub events: u64,
}

/// The answer to `GET /clusters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    /// The clusters of an archive, in their order.
    pub clusters: Vec<ClusterPath>,
}

/// A cluster of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPath {
    /// The cluster's name.
    pub name: String,
    /// The path below which its API is served.
    #[serde(default)]
    pub path: String,
}
