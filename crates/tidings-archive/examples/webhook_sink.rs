//! Follows a cluster, and delivers every version of its events to a webhook as CloudEvents.
//!
//! ```text
//! cargo run -p tidings-archive --example webhook_sink -- FOLDER URL
//! ```
//!
//! The cluster is that of the kubeconfig. The program can be killed at any time and started again:
//! each version reaches the receiver at least once. The receiver recognizes a version that comes
//! twice by its `id`: uid, epoch and resourceVersion of the event.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use kube::{Client, Config};
use serde_json::{Value, json};
use tidings_api::codec::{self, Api};
use tidings_archive::{Cluster, ClusterOptions};
use tidings_history::{Batch, Cursor, Feed, Limits, Start, Version, timestamp};

/// Delay before a request is repeated: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(url)) = (arguments.next(), arguments.next()) else {
        return Err("the folder and the receiver's URL are expected".into());
    };
    run(Path::new(&folder), &url).await
}

/// Delivers until something cannot be repeated.
pub(crate) async fn run(folder: &Path, url: &str) -> Result<(), Box<dyn Error>> {
    let source = Client::try_default().await?;
    let webhook = Webhook {
        client: Client::try_from(Config::new(url.parse()?))?,
    };
    let options = ClusterOptions::new("cluster");
    let mut cluster = Cluster::open_kept(folder, options.clone()).await?;
    // The cursor exists before anything is observed, so that nothing is missed.
    let feed = cluster.feed();
    let mut cursor = feed.cursor("webhook".parse()?, Start::Now).await?;
    cluster.follow(&source, options);
    loop {
        let Some(batch) = cursor.next(Limits::default()).await? else {
            cursor.changed().await;
            continue;
        };
        deliver(&webhook, &mut *cursor, batch).await?;
    }
}

/// Sends a batch until the receiver has it, and commits it then.
async fn deliver(
    webhook: &Webhook,
    cursor: &mut dyn Cursor,
    batch: Batch,
) -> Result<(), Box<dyn Error>> {
    let events = events(&batch)?;
    let mut delay = RETRY.0;
    while !events.is_empty() {
        match webhook.send(&events).await {
            Ok(()) => break,
            Err(error) => tracing::warn!(%error, "not delivered yet"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(RETRY.1);
    }
    cursor.commit(batch.through, None).await?;
    Ok(())
}

/// Makes the CloudEvents of a batch: what is missing first, then the versions.
fn events(batch: &Batch) -> Result<Vec<Value>, String> {
    let mut events = Vec::new();
    if let Some(skip) = batch.skip {
        let data = json!({
            "from": timestamp(skip.from), "to": timestamp(skip.to), "versions": skip.versions,
        });
        let id = format!("skip/{}/{}", skip.from.0, skip.to.0);
        events.push(event("dev.tidings.skip.v1", &id, &data));
    }
    for gap in &batch.gaps {
        let id = format!("gap/{}/{}/{}", gap.namespace, gap.from.0, gap.to.0);
        let data = serde_json::to_value(gap).map_err(|error| error.to_string())?;
        events.push(event("dev.tidings.gap.v1", &id, &data));
    }
    for version in &batch.versions {
        events.push(event(
            "dev.tidings.event.v1",
            &id(version),
            &object(version)?,
        ));
    }
    Ok(events)
}

fn event(kind: &str, id: &str, data: &Value) -> Value {
    json!({
        "specversion": "1.0", "type": kind, "source": "/clusters/cluster", "id": id,
        "datacontenttype": "application/json", "data": data,
    })
}

/// The key of a version.
fn id(version: &Version) -> String {
    format!("{}/{}/{}", version.uid, version.epoch, version.number)
}

/// The event in Kubernetes' JSON.
fn object(version: &Version) -> Result<Value, String> {
    let event = codec::decode_stored(&version.event, version.number)?;
    let mut json = Vec::new();
    codec::write_event(Api::Core, &event, true, &mut json);
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// A receiver of CloudEvents in batches.
struct Webhook {
    client: Client,
}

impl Webhook {
    /// Sends events. The receiver has them if this succeeds.
    async fn send(&self, events: &[Value]) -> Result<(), Box<dyn Error>> {
        let request = http::Request::post("/")
            .header("Content-Type", "application/cloudevents-batch+json")
            .body(serde_json::to_vec(events)?)?;
        // An error includes every status that is not 2xx.
        self.client.request_text(request).await?;
        Ok(())
    }
}
