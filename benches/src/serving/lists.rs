//! Lists of everything, while nothing is written and beside creates at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio::task::JoinSet;

use super::events::{event, namespace};
use super::{Latencies, LoadError, Target, now};

const JSON: &str = "application/json";

/// Number of connections that create events, and number of objects that the events are about.
const CONNECTIONS: u64 = 64;
const OBJECTS: u64 = 5_000;

/// The durations of lists and of creates beside them.
#[derive(Debug, Default)]
pub struct Lists {
    /// Seconds of each list that was read while nothing was written.
    pub idle: Vec<f64>,
    /// Seconds of each list beside the creates, converted to the number of bytes of the others.
    pub beside: Vec<f64>,
    /// Time of each create, from when it was due.
    pub creates: Latencies,
    /// Creates per second.
    pub per_second: f64,
}

/// Lists everything in one answer `rounds` times, and as often beside `per_second` creates.
///
/// # Errors
/// A request was not answered with success.
pub async fn lists(
    target: &Target,
    run: &str,
    rounds: u64,
    per_second: u64,
) -> Result<Lists, LoadError> {
    let mut connection = target.connect().await?;
    let mut list = async || {
        let asked = now();
        let bytes = connection.read("/api/v1/events", JSON).await?;
        Ok::<_, LoadError>((asked.elapsed().as_secs_f64(), bytes as f64))
    };
    let mut lists = Lists::default();
    let mut all = 0.;
    for _ in 0..rounds {
        let (seconds, bytes) = list().await?;
        lists.idle.push(seconds);
        all = bytes;
    }
    let writers = Writers::start(target.clone(), run.to_owned(), per_second)?;
    let started = now();
    for _ in 0..rounds {
        let (seconds, bytes) = list().await?;
        // These lists also have what was written meanwhile, so their time is converted.
        lists.beside.push(seconds * all / bytes);
    }
    let elapsed = started.elapsed();
    lists.creates = writers.stop()?;
    lists.per_second = lists.creates.count() as f64 / elapsed.as_secs_f64();
    Ok(lists)
}

/// Creates events in a thread of their own, so that these do not wait while a list is read.
struct Writers {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<Latencies, LoadError>>,
}

impl Writers {
    fn start(target: Target, run: String, per_second: u64) -> Result<Self, LoadError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(write(&target, &run, per_second, &stopped))
        });
        Ok(Self { stop, thread })
    }

    fn stop(self) -> Result<Latencies, LoadError> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(LoadError::Answer("the writers panicked".to_owned())))
    }
}

async fn write(
    target: &Target,
    run: &str,
    per_second: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Latencies, LoadError> {
    let next = Arc::new(AtomicU64::new(0));
    let pause = Duration::from_secs_f64(CONNECTIONS as f64 / per_second as f64);
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut connection = target.connect().await?;
        let (next, stop, run) = (Arc::clone(&next), Arc::clone(stop), run.to_owned());
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            let mut pace = tokio::time::interval(pause);
            while !stop.load(Ordering::Relaxed) {
                let due = pace.tick().await;
                let number = next.fetch_add(1, Ordering::Relaxed);
                let object = number % OBJECTS;
                let path = format!("/api/v1/namespaces/{}/events", namespace(object));
                let body = event(&run, number, object);
                connection.write(Method::POST, &path, JSON, body).await?;
                latencies.push(due.elapsed());
            }
            Ok::<_, LoadError>(latencies)
        });
    }
    let mut latencies = Latencies::default();
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|error| LoadError::Answer(error.to_string()))?;
        latencies.append(ended?);
    }
    Ok(latencies)
}
