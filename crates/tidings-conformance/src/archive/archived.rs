//! The content of an archive, read through its API.

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::error::Result;
use crate::http::{Caller, Client};

/// The cluster's name in the archive.
pub(super) const CLUSTER: &str = "source";

/// Number of connections over which versions are read at the same time.
const READERS: usize = 4;

/// A version of an event that the archive has kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) uid: String,
    /// The event's namespace and name in the archive.
    pub(super) name: String,
    /// The version's `resourceVersion` at the source.
    pub(super) version: u64,
    pub(super) count: i64,
    /// Whether this version is older than the one before it in the answer, as it must be.
    pub(super) is_in_order: bool,
}

/// A gap that the archive reports, as its bounds in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) cause: String,
}

/// The part of the source's history that the archive has, by its own report.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// The `resourceVersion` up to which the archive has followed; `None` while it lists the
    /// source.
    pub(super) version: Option<u64>,
    /// For times before this one the archive has only the last version of each event.
    pub(super) since: i64,
    /// How often the source went back to earlier `resourceVersions`, as after a restored backup.
    pub(super) epoch: u64,
    pub(super) gaps: Vec<Gap>,
}

impl Coverage {
    /// Whether a version written between these times can be in a gap that the archive reports.
    pub(super) fn has_gap(&self, (from, to): (i64, i64)) -> bool {
        self.gaps.iter().any(|gap| from <= gap.to && gap.from <= to)
    }
}

/// What the metrics of the archive say about a followed cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Health {
    pub(super) state: String,
    pub(super) since_progress: f64,
}

fn time(value: &Value) -> i64 {
    let time = value.as_str().and_then(|text| text.parse().ok());
    time.map_or(0, Timestamp::as_millisecond)
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().unwrap_or(0))
}

pub(super) async fn coverage(caller: &mut Caller, cluster: &str) -> Result<Coverage> {
    let json = caller
        .read(&format!("/clusters/{cluster}/coverage"))
        .await?;
    let followed = &json["followed"][0];
    let gaps = json["gaps"].as_array().into_iter().flatten();
    Ok(Coverage {
        version: Some(number(&followed["resourceVersion"])).filter(|version| *version > 0),
        since: time(&followed["since"]),
        epoch: followed["epoch"].as_u64().unwrap_or_default(),
        gaps: gaps
            .map(|gap| Gap {
                from: time(&gap["from"]),
                to: time(&gap["to"]),
                cause: gap["cause"].as_str().unwrap_or_default().to_owned(),
            })
            .collect(),
    })
}

/// The metrics of the archive.
async fn metrics(caller: &mut Caller) -> Result<String> {
    let reply = caller.get("/metrics").await?;
    Ok(String::from_utf8_lossy(&reply.text).into_owned())
}

/// The rest of the first line of a text of metrics that begins with `start`: labels and a value, or
/// a value alone.
fn value<'a>(metrics: &'a str, start: &str) -> Option<&'a str> {
    metrics.lines().find_map(|line| line.strip_prefix(start))
}

/// The number of versions that wait to be sealed; `None` if the archive seals nothing.
pub(super) async fn waiting(caller: &mut Caller, cluster: &str) -> Result<Option<u64>> {
    let of = format!("tidings_objects_waiting_versions{{cluster=\"{cluster}\"}} ");
    let metrics = metrics(caller).await?;
    Ok(value(&metrics, &of).and_then(|number| number.parse().ok()))
}

/// Reads the metrics of the archive about one cluster.
pub(super) async fn health(caller: &mut Caller, cluster: &str) -> Result<Health> {
    let of = |metric: &str| format!("tidings_archive_{metric}{{cluster=\"{cluster}\"");
    let metrics = metrics(caller).await?;
    let state = value(&metrics, &format!("{},state=\"", of("state")));
    let since = value(&metrics, &format!("{}}} ", of("seconds_since_progress")));
    let state = state.and_then(|rest| rest.split('"').next());
    Ok(Health {
        state: state.unwrap_or("none").to_owned(),
        since_progress: since.and_then(|it| it.parse().ok()).unwrap_or(f64::NAN),
    })
}

/// Reads every version of every event of a cluster.
pub(super) async fn versions(client: &Client, cluster: &str) -> Result<Vec<Kept>> {
    let events = events(client, cluster).await?;
    let mut readers = JoinSet::new();
    for part in events.chunks(events.len().div_ceil(READERS).max(1)) {
        let (part, cluster) = (part.to_vec(), cluster.to_owned());
        let mut caller = Caller::new(client);
        readers.spawn(async move {
            let mut kept = Vec::new();
            for event in part {
                read_event(&mut caller, &cluster, event, &mut kept).await?;
            }
            Result::Ok(kept)
        });
    }
    let mut kept = Vec::new();
    while let Some(read) = readers.join_next().await {
        kept.extend(read??);
    }
    Ok(kept)
}

/// Reads the namespaces and names of all events.
async fn events(client: &Client, cluster: &str) -> Result<Vec<(String, String)>> {
    let path = format!("/clusters/{cluster}/api/v1/events");
    let items = items(&mut Caller::new(client), &path).await?;
    let events = items.iter().map(|item| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
        (text("namespace").to_owned(), text("name").to_owned())
    });
    Ok(events.collect())
}

/// Reads all pages of a list.
async fn items(caller: &mut Caller, path: &str) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let root = format!("{path}?limit=500");
    let mut path = root.clone();
    loop {
        let mut page = caller.read(&path).await?;
        if let Some(more) = page["items"].as_array_mut() {
            items.append(more);
        }
        match token(&page) {
            Some(token) => path = format!("{root}&continue={token}"),
            None => return Ok(items),
        }
    }
}

/// The continue token of a page, escaped for a URL.
fn token(page: &Value) -> Option<String> {
    let token = page["metadata"]["continue"].as_str()?;
    let escaped = token.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    Some(escaped.collect()).filter(|token: &String| !token.is_empty())
}

async fn read_event(
    caller: &mut Caller,
    cluster: &str,
    (namespace, name): (String, String),
    kept: &mut Vec<Kept>,
) -> Result<()> {
    let path = format!(
        "/clusters/{cluster}/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}/versions"
    );
    let mut newer = u64::MAX;
    for item in items(caller, &path).await? {
        let metadata = &item["metadata"];
        let version = number(&metadata["resourceVersion"]);
        kept.push(Kept {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            name: format!("{namespace}/{name}"),
            version,
            count: item["deprecatedCount"].as_i64().unwrap_or_default(),
            is_in_order: version < newer,
        });
        newer = version;
    }
    Ok(())
}
