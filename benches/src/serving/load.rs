//! Writes over many connections, each of which sends the next request when the last one is
//! answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tokio::task::JoinSet;

use super::events::{event, namespace, object_name, patch};
use super::{Latencies, LoadError, Target, now};

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Number of events that are patched.
const PATCHED: u64 = 2_000;

/// The outcome of a load.
#[derive(Debug)]
pub struct Load {
    /// The time of each request.
    pub latencies: Latencies,
    /// Time from the first request to the last answer.
    pub elapsed: Duration,
}

impl Load {
    /// Answered requests per second.
    pub fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }
}

/// When a load ends.
#[derive(Clone, Copy)]
enum Bound {
    Count(u64),
    Time(Duration),
}

/// Creates the namespaces that the loads write to, for servers that need that.
///
/// # Errors
/// [`LoadError::Connect`] and [`LoadError::Http`]. A refusal is not an error, for the namespace may
/// exist, or the server may not need it.
pub async fn make_namespaces(target: &Target) -> Result<(), LoadError> {
    let mut connection = target.connect().await?;
    for number in 0..super::events::NAMESPACES {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}});
        match connection
            .write(Method::POST, "/api/v1/namespaces", JSON, body.to_string())
            .await
        {
            Ok(_) | Err(LoadError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates events for this time, each about another object than the one before.
///
/// # Errors
/// A request was not answered with success.
pub async fn creates(
    target: &Target,
    run: &str,
    connections: usize,
    time: Duration,
) -> Result<Load, LoadError> {
    let run = run.to_owned();
    drive(target, connections, Bound::Time(time), move |number| {
        let object = number % 5_000;
        (
            Method::POST,
            format!("/api/v1/namespaces/{}/events", namespace(object)),
            JSON,
            event(&run, number, object),
        )
    })
    .await
}

/// Creates `count` events, twenty about each object.
///
/// # Errors
/// As [`creates`].
pub async fn fill(
    target: &Target,
    run: &str,
    connections: usize,
    count: u64,
) -> Result<Load, LoadError> {
    let run = run.to_owned();
    let objects = (count / 20).max(1);
    drive(target, connections, Bound::Count(count), move |number| {
        let object = number % objects;
        (
            Method::POST,
            format!("/api/v1/namespaces/{}/events", namespace(object)),
            JSON,
            event(&run, number, object),
        )
    })
    .await
}

/// Creates events, and then for this time patches them as a recorder does.
///
/// # Errors
/// As [`creates`].
pub async fn patches(
    target: &Target,
    run: &str,
    connections: usize,
    time: Duration,
) -> Result<Load, LoadError> {
    let made = run.to_owned();
    drive(target, connections, Bound::Count(PATCHED), move |number| {
        (
            Method::POST,
            format!("/api/v1/namespaces/{}/events", namespace(number)),
            JSON,
            event(&made, number, number),
        )
    })
    .await?;
    let run = run.to_owned();
    drive(target, connections, Bound::Time(time), move |number| {
        let object = number % PATCHED;
        let name = format!("{}.{run}{object:x}", object_name(object));
        (
            Method::PATCH,
            format!("/api/v1/namespaces/{}/events/{name}", namespace(object)),
            STRATEGIC,
            patch(number / PATCHED + 2),
        )
    })
    .await
}

async fn drive(
    target: &Target,
    connections: usize,
    bound: Bound,
    request: impl Fn(u64) -> (Method, String, &'static str, String) + Send + Sync + 'static,
) -> Result<Load, LoadError> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(target.connect().await?);
    }
    let (request, next) = (Arc::new(request), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    let started = now();
    for mut connection in open {
        let (request, next) = (Arc::clone(&request), Arc::clone(&next));
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let ended = match bound {
                    Bound::Count(count) => number >= count,
                    Bound::Time(time) => started.elapsed() >= time,
                };
                if ended {
                    return Ok::<_, LoadError>(latencies);
                }
                let (method, path, media_type, body) = request(number);
                let sent = now();
                connection.write(method, &path, media_type, body).await?;
                latencies.push(sent.elapsed());
            }
        });
    }
    let mut latencies = Latencies::default();
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| LoadError::Answer(error.to_string()))?;
        latencies.append(ended?);
    }
    Ok(Load {
        latencies,
        elapsed: started.elapsed(),
    })
}
