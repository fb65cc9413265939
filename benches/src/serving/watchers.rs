//! Many watchers of everything, and the delay with which each gets each event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::ACCEPT;
use serde_json::Value;
use tokio::task::JoinSet;

use super::events::{event_with, namespace};
use super::{Latencies, LoadError, Target, now};

/// The text before the time of sending in an event's message.
const MARK: &str = "sent at ";
/// Maximum number of creates at the same time.
const WRITERS: u64 = 4;
/// Maximum time for watchers to see everything.
const PATIENCE: Duration = Duration::from_secs(120);

/// The outcome of a run with watchers.
#[derive(Debug)]
pub struct FanOut {
    /// For each event and watcher, the time from sending the event until the watcher had it.
    pub delays: Latencies,
    /// Time from the first event until every watcher had all.
    pub elapsed: Duration,
}

impl FanOut {
    /// Number of deliveries per second, where each watcher of an event counts.
    pub fn rate(&self) -> f64 {
        self.delays.count() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Opens this number of watches of all events, each over a connection of its own. Then creates
/// `events`, at this rate per second, or as fast as they are accepted.
///
/// # Errors
/// A request was not answered with success; a watch ended too early; [`LoadError::Answer`] when a
/// watcher gets an event twice or too late.
pub async fn fan_out(
    target: &Target,
    run: &str,
    watchers: usize,
    events: u64,
    per_second: Option<f64>,
) -> Result<FanOut, LoadError> {
    let mut connection = target.connect().await?;
    let list = connection
        .send(
            Method::GET,
            "/api/v1/events?limit=1",
            (ACCEPT, "application/json"),
            Bytes::new(),
        )
        .await?;
    let list: Value = serde_json::from_slice(&list.into_body().collect().await?.to_bytes())
        .map_err(|error| LoadError::Answer(error.to_string()))?;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let watch = format!("/api/v1/events?watch=true&resourceVersion={revision}&timeoutSeconds=600");

    let started = now();
    let mut tasks = JoinSet::new();
    let mut held = Vec::with_capacity(watchers);
    for _ in 0..watchers {
        let mut connection = target.connect().await?;
        let response = connection
            .send(
                Method::GET,
                &watch,
                (ACCEPT, "application/json"),
                Bytes::new(),
            )
            .await?;
        tasks.spawn(follow(response.into_body(), events, started));
        held.push(connection);
    }

    let first = now();
    write(target, run, events, per_second, started).await?;
    let mut delays = Latencies::default();
    let mut elapsed = Duration::ZERO;
    while let Some(ended) = tokio::time::timeout(PATIENCE, tasks.join_next())
        .await
        .map_err(|_| LoadError::Answer("some watchers have not seen every event".to_owned()))?
    {
        let (seen, last) = ended.map_err(|error| LoadError::Answer(error.to_string()))??;
        delays.append(seen);
        elapsed = elapsed.max(last.duration_since(first));
    }
    Ok(FanOut { delays, elapsed })
}

async fn write(
    target: &Target,
    run: &str,
    events: u64,
    per_second: Option<f64>,
    started: Instant,
) -> Result<(), LoadError> {
    let run: Arc<str> = run.into();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = target.connect().await?;
        let run = Arc::clone(&run);
        let mut pace = per_second
            .map(|rate| tokio::time::interval(Duration::from_secs_f64(WRITERS as f64 / rate)));
        writers.spawn(async move {
            for number in (writer..events).step_by(WRITERS as usize) {
                if let Some(pace) = &mut pace {
                    pace.tick().await;
                }
                let namespace = namespace(number);
                let message = format!("{MARK}{} ", started.elapsed().as_nanos());
                let body = event_with(&run, number, number, &namespace, &message);
                let path = format!("/api/v1/namespaces/{namespace}/events");
                connection
                    .write(Method::POST, &path, "application/json", body)
                    .await?;
            }
            Ok::<_, LoadError>(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| LoadError::Answer(error.to_string()))??;
    }
    Ok(())
}

/// Reads a watch until it had this number of events. Returns the delay of each, and the time of the
/// last.
async fn follow(
    mut body: Incoming,
    events: u64,
    started: Instant,
) -> Result<(Latencies, Instant), LoadError> {
    let mut delays = Latencies::default();
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.last() != Some(&b'\n') {
                continue;
            }
            let arrived = started.elapsed();
            // Events that others wrote are ignored.
            if let Some(sent) = sent_at(&line) {
                delays.push(arrived.saturating_sub(sent));
            }
            line.clear();
        }
        if delays.count() as u64 >= events {
            return Ok((delays, now()));
        }
    }
    Err(LoadError::Answer(
        "a watch ended before it had brought every event".to_owned(),
    ))
}

/// The time at which an event was sent, from its message.
fn sent_at(line: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, after) = text.strip_prefix("{\"type\":\"ADDED\"")?.split_once(MARK)?;
    let (nanoseconds, _) = after.split_once(' ')?;
    Some(Duration::from_nanos(nanoseconds.parse().ok()?))
}
