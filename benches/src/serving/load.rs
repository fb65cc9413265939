//! Writes over many connections, each of which sends the next request when the last one is
//! answered, and typical reads of a server that has many events.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::json;

use super::client::{Connection, JSON, Target};
use super::events::{NAMESPACES, event, namespace, object_name, object_uid, patch, path};
use crate::load::{Load, Plan, Writer, load};
use crate::{Failure, Latencies, now};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Number of events that are patched, and of objects that creates are about.
const PATCHED: u64 = 2_000;
const OBJECTS: u64 = 5_000;

/// A request: method, path, media type and body.
type Write = (Method, String, &'static str, String);

/// Sends requests over a connection of its own.
pub(super) struct Sender {
    connection: Connection,
    request: Arc<dyn Fn(u64) -> Write + Send + Sync>,
}

impl Sender {
    /// This number of connections, which send these requests.
    pub(super) async fn open(
        target: &Target,
        connections: usize,
        request: impl Fn(u64) -> Write + Send + Sync + 'static,
    ) -> Result<Vec<Self>, Failure> {
        let request: Arc<dyn Fn(u64) -> Write + Send + Sync> = Arc::new(request);
        let mut senders = Vec::with_capacity(connections);
        for _ in 0..connections {
            senders.push(Self {
                connection: target.connect().await?,
                request: Arc::clone(&request),
            });
        }
        Ok(senders)
    }
}

impl Writer for Sender {
    type Write = Write;

    fn prepare(&self, number: u64) -> Write {
        (self.request)(number)
    }

    async fn write(&mut self, (method, path, media_type, body): Write) -> Result<(), Failure> {
        self.connection
            .write(method, &path, media_type, body)
            .await
            .map(drop)
    }
}

/// Creates the namespaces that the loads write to, for servers that need that. They may exist, or
/// the server may not need them.
pub(super) async fn make_namespaces(target: &Target) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    for number in 0..NAMESPACES {
        let metadata = json!({"name": namespace(number)});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let headers = [(CONTENT_TYPE, JSON)];
        let path = "/api/v1/namespaces";
        let answer = connection.try_send(Method::POST, path, &headers, body.to_string());
        http_body_util::BodyExt::collect(answer.await?.into_body()).await?;
    }
    Ok(())
}

/// Creates events, each about another of some objects than the one before.
async fn create(
    target: &Target,
    run: &str,
    connections: usize,
    objects: u64,
    plan: Plan,
) -> Result<Load, Failure> {
    let run = run.to_owned();
    let request = move |number| {
        let object = number % objects;
        let body = event(&run, number, object);
        (Method::POST, path(object), JSON, body)
    };
    load(Sender::open(target, connections, request).await?, &plan).await
}

/// Creates `count` events, twenty about each object.
pub(super) async fn fill(target: &Target, run: &str, count: u64) -> Result<Load, Failure> {
    create(target, run, 64, (count / 20).max(1), Plan::of(0..count)).await
}

/// Creates events for this time; or creates some, and then for this time patches them as a recorder
/// does.
pub(super) async fn timed(
    target: &Target,
    run: &str,
    what: &str,
    connections: usize,
    time: Duration,
) -> Result<Load, Failure> {
    let plan = Plan {
        time,
        ..Plan::of(0..u64::MAX)
    };
    if what == "creates" {
        return create(target, run, connections, OBJECTS, plan).await;
    }
    create(target, run, connections, PATCHED, Plan::of(0..PATCHED)).await?;
    let run = run.to_owned();
    let request = move |number| {
        let object = number % PATCHED;
        let path = format!("{}/{}.{run}{object:x}", path(object), object_name(object));
        (Method::PATCH, path, STRATEGIC, patch(number / PATCHED + 2))
    };
    load(Sender::open(target, connections, request).await?, &plan).await
}

/// The reads, by name: all events of one object in its namespace, as `kubectl describe pod` asks
/// for them, and among those of all namespaces; the first 500 events, as `kubectl get events` does;
/// everything in one answer.
const READS: [&str; 4] = [
    "one_object",
    "one_object_of_all",
    "first_page",
    "everything",
];

/// Makes each read some times, everything a few, among the events that [`fill`] created with this
/// count. Returns the times by name, and the number of bytes of everything.
pub(super) async fn reads(
    target: &Target,
    count: u64,
) -> Result<(Vec<(&'static str, Latencies)>, u64), Failure> {
    let mut connection = target.connect().await?;
    let mut reads = Vec::new();
    let mut bytes = 0;
    for name in READS {
        let mut times = Latencies::default();
        for round in 0..if name == "everything" { 5 } else { 20 } {
            let object = round * 37 % (count / 20).max(1);
            let selected = format!(
                "fieldSelector=involvedObject.name%3D{},involvedObject.namespace%3D{},involvedObject.uid%3D{}&limit=500",
                object_name(object),
                namespace(object),
                object_uid(object),
            );
            let (path, form) = match name {
                "one_object" => (format!("{}?{selected}", path(object)), TABLE),
                "one_object_of_all" => (format!("/api/v1/events?{selected}"), TABLE),
                "first_page" => ("/api/v1/events?limit=500".to_owned(), TABLE),
                _ => ("/api/v1/events".to_owned(), JSON),
            };
            let asked = now();
            bytes = connection.count(&path, form).await?;
            times.push(asked.elapsed());
        }
        reads.push((name, times));
    }
    Ok((reads, bytes))
}
