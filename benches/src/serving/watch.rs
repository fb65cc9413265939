//! Watchers: many of everything, and the delay with which each gets each event; or for a long time,
//! with a check of every event.
//!
//! In the long run each watcher follows one namespace. There it must see the creation of each event
//! once, and its end once, when its lifetime is over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{Connection, JSON, Target};
use super::events::{NAMESPACES, event_with, path};
use super::load::Sender;
use crate::load::{Load, Plan, load};
use crate::{Failure, Latencies, now};

/// The text before an event's number and its time of sending in its message.
const MARK: &str = "event ";
/// How long watchers wait to be told of the last event, beyond its lifetime if they wait for its
/// end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a watch says about an event.
struct Told {
    is_end: bool,
    number: u64,
    /// When it was sent, since the run began.
    sent: Duration,
}

/// A watch, over a connection of its own.
struct Watch {
    _connection: Connection,
    body: Incoming,
    part: Vec<u8>,
    told: VecDeque<Told>,
}

impl Watch {
    async fn open(target: &Target, path: &str) -> Result<Self, Failure> {
        let mut connection = target.connect().await?;
        Ok(Self {
            body: connection.open(path).await?,
            _connection: connection,
            part: Vec::new(),
            told: VecDeque::new(),
        })
    }

    /// The next creation or end of an event of this run. Nothing is lost if this is dropped.
    async fn next(&mut self) -> Result<Told, Failure> {
        while self.told.is_empty() {
            let frame = self.body.frame().await;
            let frame = frame.ok_or("a watch ended before it had brought every event")??;
            let data: Bytes = frame.into_data().unwrap_or_default();
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                self.part.extend_from_slice(part);
                if self.part.ends_with(b"\n") {
                    self.told.extend(told(&self.part));
                    self.part.clear();
                }
            }
        }
        self.told
            .pop_front()
            .ok_or_else(|| "nothing was told".into())
    }
}

fn told(line: &[u8]) -> Option<Told> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, after) = text.split_once(MARK)?;
    let mut words = after.split(' ').map(|word| word.parse::<u64>().ok());
    Some(Told {
        is_end: text.starts_with("{\"type\":\"DELETED\""),
        number: words.next()??,
        sent: Duration::from_nanos(words.next()??),
    })
}

/// Creates the events of a plan, whose messages have their numbers and times.
async fn write(
    target: &Target,
    run: &str,
    connections: usize,
    started: Instant,
    plan: &Plan,
) -> Result<Load, Failure> {
    let run = run.to_owned();
    let request = move |number| {
        let message = format!("{MARK}{number} {} ", started.elapsed().as_nanos());
        let body = event_with(&run, number, number, &message);
        (Method::POST, path(number), JSON, body)
    };
    load(Sender::open(target, connections, request).await?, plan).await
}

/// Opens this number of watches of all events. Then creates `events`, at this rate per second, or
/// as fast as they are accepted. Returns for each event and watcher the time from sending it until
/// the watcher had it, and the time until every watcher had all.
pub(super) async fn fan_out(
    target: &Target,
    run: &str,
    watchers: usize,
    events: u64,
    per_second: Option<f64>,
) -> Result<Load, Failure> {
    let list = target
        .connect()
        .await?
        .read("/api/v1/events?limit=1")
        .await?;
    let list: Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let path = format!("/api/v1/events?watch=true&resourceVersion={revision}&timeoutSeconds=600");
    let started = now();
    let mut tasks = JoinSet::new();
    for _ in 0..watchers {
        let mut watch = Watch::open(target, &path).await?;
        tasks.spawn(async move {
            let mut delays = Latencies::default();
            for _ in 0..events {
                let sent = watch.next().await?.sent;
                delays.push(started.elapsed().saturating_sub(sent));
            }
            Ok::<_, Failure>((delays, now()))
        });
    }
    let first = now();
    let plan = Plan {
        per_second,
        ..Plan::of(0..events)
    };
    write(target, run, 4, started, &plan).await?;
    let mut seen = Load::default();
    while let Some(ended) = tokio::time::timeout(PATIENCE, tasks.join_next()).await? {
        let (delays, last) = ended??;
        seen.times.append(delays);
        seen.elapsed = seen.elapsed.max(last.duration_since(first));
    }
    Ok(seen)
}

/// Events per second of a long run, and watchers, each of one of ten namespaces.
const PER_SECOND: u64 = 1_000;
const WATCHERS: u64 = 200;

/// The sizes of a long run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Soak {
    #[arg(long)]
    seconds: u64,
    /// Seconds for which the server keeps an event
    #[arg(long)]
    ttl: u64,
    /// The server's process, whose memory is printed
    #[arg(long)]
    pub(super) process: u32,
}

impl Soak {
    /// The number of events.
    pub(super) fn events(self) -> u64 {
        self.seconds * PER_SECOND
    }
}

/// What the watchers saw: numbers of events, summed over all watchers.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Events that were not seen, although they were created.
    pub(super) lost: u64,
    /// Events that were seen twice.
    pub(super) doubled: u64,
    /// Events whose end was not seen.
    pub(super) immortal: u64,
    /// Events that ended too early.
    pub(super) early: u64,
    /// Delay of the messages that events ended.
    pub(super) late: Latencies,
}

/// Writes and watches. Calls `minute` with the measurements of each minute.
pub(super) async fn soak(
    target: &Target,
    run: &str,
    sizes: Soak,
    mut minute: impl FnMut(Duration, Load),
) -> Result<Account, Failure> {
    let (events, ttl) = (sizes.events(), Duration::from_secs(sizes.ttl));
    let (finished, over) = watch::channel(None);
    let started = now();
    let mut watchers = JoinSet::new();
    for watcher in 0..WATCHERS {
        let path = format!("{}?watch=true&timeoutSeconds=86400", path(watcher));
        let watch = Watch::open(target, &path).await?;
        let follower = Follower {
            started,
            ttl,
            own: (events / NAMESPACES) as usize,
            over: over.clone(),
        };
        watchers.spawn(follower.follow(watch));
    }
    for first in (0..events).step_by(60 * PER_SECOND as usize) {
        let plan = Plan {
            numbers: first..events.min(first + 60 * PER_SECOND),
            ..Plan::steady(0, PER_SECOND)
        };
        let written = write(target, run, 16, started, &plan).await?;
        minute(started.elapsed(), written);
    }
    // If there is no receiver any more, every watcher has failed, which is reported below.
    let _ = finished.send(Some(now() + ttl + PATIENCE));
    let mut account = Account::default();
    while let Some(ended) = watchers.join_next().await {
        let seen = ended??;
        account.lost += seen.lost;
        account.doubled += seen.doubled;
        account.immortal += seen.immortal;
        account.early += seen.early;
        account.late.append(seen.late);
    }
    Ok(account)
}

struct Follower {
    started: Instant,
    ttl: Duration,
    /// Number of events in its namespace.
    own: usize,
    over: watch::Receiver<Option<Instant>>,
}

impl Follower {
    /// Reads a watch until all events were seen and have ended, or until the run is over.
    async fn follow(mut self, mut watch: Watch) -> Result<Account, Failure> {
        let (mut added, mut deleted) = (vec![0_u8; self.own], vec![0_u8; self.own]);
        let (mut account, mut gone) = (Account::default(), 0);
        while gone < self.own {
            let deadline = *self.over.borrow_and_update();
            let told = tokio::select! {
                told = watch.next() => told?,
                _ = self.over.changed(), if deadline.is_none() => continue,
                () = until(deadline), if deadline.is_some() => break,
            };
            let counts = if told.is_end {
                &mut deleted
            } else {
                &mut added
            };
            let Some(count) = counts.get_mut((told.number / NAMESPACES) as usize) else {
                continue;
            };
            *count += 1;
            if told.is_end && *count == 1 {
                gone += 1;
                let lived = self.started.elapsed().saturating_sub(told.sent);
                // The server's clock is another one.
                if lived + Duration::from_secs(1) < self.ttl {
                    account.early += 1;
                } else {
                    account.late.push(lived.saturating_sub(self.ttl));
                }
            }
        }
        let count = |counts: &[u8], of: fn(&u8) -> bool| {
            counts.iter().filter(|count| of(count)).count() as u64
        };
        account.lost = count(&added, |count| *count == 0);
        account.doubled = count(&added, |count| *count > 1) + count(&deleted, |count| *count > 1);
        account.immortal = count(&deleted, |count| *count == 0);
        Ok(account)
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
