//! The timeline's answers, as far as tools show them. Times are in milliseconds since 1970.

use serde::Deserialize;
use serde_json::Value;

/// An event in a list.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    pub(super) cluster: String,
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) event_type: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: u64,
    pub(super) object: Object,
    pub(super) source: String,
    pub(super) host: String,
}

/// The involvedObject of an event, or a member of a family.
#[derive(Debug, Deserialize)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) name: String,
}

/// A page of events.
#[derive(Debug, Deserialize)]
pub(super) struct Events {
    pub(super) items: Vec<Item>,
    pub(super) r#continue: Option<String>,
    pub(super) complete: bool,
}

/// What is known of one object.
#[derive(Debug, Deserialize)]
pub(super) struct OfObject {
    pub(super) sentence: String,
    pub(super) family: Vec<Member>,
    pub(super) items: Vec<Item>,
}

/// An object of a family.
#[derive(Debug, Deserialize)]
pub(super) struct Member {
    pub(super) relation: String,
    pub(super) namespace: String,
    #[serde(flatten)]
    pub(super) object: Object,
}

/// What is known of one event.
#[derive(Debug, Deserialize)]
pub(super) struct OfEvent {
    pub(super) item: Item,
    pub(super) raw: Value,
    pub(super) sentence: String,
    pub(super) versions: Vec<Version>,
    #[serde(rename = "versionsMore")]
    pub(super) versions_more: bool,
    #[serde(default)]
    pub(super) repeats: Option<Repeats>,
    pub(super) began: i64,
    pub(super) before: Vec<Before>,
    pub(super) same: Same,
}

/// A version of an event.
#[derive(Debug, Deserialize)]
pub(super) struct Version {
    pub(super) last: i64,
    pub(super) count: u64,
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// The occurrences of an event in bins of equal length.
#[derive(Debug, Deserialize)]
pub(super) struct Repeats {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) bins: Vec<u64>,
}

/// What changed before an event began.
#[derive(Debug, Deserialize)]
pub(super) struct Before {
    pub(super) item: Item,
    pub(super) why: String,
}

/// Other objects with the same reason.
#[derive(Debug, Deserialize)]
pub(super) struct Same {
    pub(super) objects: u64,
    pub(super) more: bool,
    pub(super) items: Vec<Item>,
}

/// What happened most.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Top {
    pub(super) counted: String,
    pub(super) complete: bool,
    pub(super) later_complete: bool,
    pub(super) occurrences: u64,
    pub(super) events: u64,
    pub(super) rows: Vec<Row>,
    pub(super) more: u64,
}

/// What happened to one reason, object, namespace or source.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) name: String,
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) cluster: String,
    pub(super) occurrences: u64,
    pub(super) warnings: u64,
    pub(super) objects: Option<u64>,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    pub(super) going: bool,
    pub(super) estimated: bool,
    /// The object's uid, if several have its name.
    #[serde(default)]
    pub(super) uid: String,
    /// Whether the times are those of hours.
    #[serde(default, rename = "byHour")]
    pub(super) by_hour: bool,
}

/// The coverage of the visible clusters.
#[derive(Debug, Deserialize)]
pub(super) struct Coverage {
    pub(super) now: i64,
    pub(super) clusters: Vec<Covered>,
    pub(super) gaps: Vec<Gap>,
    /// The clusters of which it is not known what the caller may see.
    #[serde(default)]
    pub(super) unasked: Unasked,
}

/// Clusters of which it is not known what the caller may see: some names, and the number of others.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Unasked {
    pub(super) clusters: Vec<String>,
    pub(super) others: usize,
}

/// The coverage of one cluster.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Covered {
    pub(super) cluster: String,
    pub(super) state: Option<String>,
    pub(super) why: Option<String>,
    pub(super) since: Option<i64>,
    pub(super) complete_until: Option<i64>,
    pub(super) oldest: Option<i64>,
    pub(super) retention: Option<i64>,
    // Servers of earlier versions do not have these.
    #[serde(default)]
    pub(super) is_capture: bool,
    #[serde(default)]
    pub(super) retention_shortest: Option<i64>,
    #[serde(default)]
    pub(super) gaps_more: usize,
    #[serde(default)]
    pub(super) over_quota: u64,
    #[serde(default)]
    pub(super) ended_by_rules: u64,
    pub(super) namespaces: Option<Vec<String>>,
}

/// A period in which versions may be missing.
#[derive(Debug, Deserialize)]
pub(super) struct Gap {
    pub(super) cluster: String,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) cause: String,
    pub(super) namespace: String,
}
