//! Writes a steady stream of short-lived events for a long time, with watchers that check every
//! event.
//!
//! Each watcher follows one namespace. There it must see the creation of each event once, and its
//! end once, when its lifetime is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::ACCEPT;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::events::event_with;
use super::{Latencies, LoadError, Target, now};

/// Number of namespaces that the events are in, in turn.
const NAMESPACES: u64 = 10;
/// Maximum number of requests at the same time.
const WRITERS: u64 = 16;
/// The text before an event's number in its message.
const MARK: &str = "number ";
/// How long watchers wait, beyond the lifetime of events, to be told that the last one expired.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Time for which events are written.
    pub time: Duration,
    /// Events per second.
    pub per_second: u64,
    /// Number of watchers, distributed over the namespaces.
    pub watchers: usize,
    /// Time for which the server keeps an event.
    pub ttl: Duration,
}

/// The measurements of one stretch of the run.
#[derive(Debug)]
pub struct Stretch {
    /// The time of each write.
    pub writes: Latencies,
    /// The end of the stretch, since the start of the run.
    pub until: Duration,
}

/// What the watchers saw.
#[derive(Debug, Default)]
pub struct Account {
    /// Number of events that were created.
    pub written: u64,
    /// Number of events that a watcher should have seen and did not, summed over all watchers.
    pub lost: u64,
    /// Number of events that a watcher saw twice, summed over all watchers.
    pub doubled: u64,
    /// Number of events whose end a watcher did not see, summed over all watchers.
    pub immortal: u64,
    /// Number of events that ended too early, summed over all watchers.
    pub early: u64,
    /// Delay of the messages that events ended.
    pub lateness: Latencies,
}

/// Writes and watches according to the plan. Calls `minute` with the measurements of each minute.
///
/// # Errors
/// A request was not answered with success, or a watch ended too early.
pub async fn soak(
    target: &Target,
    run: &str,
    plan: Plan,
    minute: impl FnMut(Stretch),
) -> Result<Account, LoadError> {
    let events = plan.time.as_secs() * plan.per_second;
    // For each event the time of its acknowledgement in microseconds since the start, or 0 before
    // that.
    let acknowledged: Arc<[AtomicU64]> = (0..events).map(|_| AtomicU64::new(0)).collect();
    let (finished, over) = watch::channel(None);
    let started = now();
    let mut watchers = JoinSet::new();
    let mut held = Vec::new();
    for watcher in 0..plan.watchers as u64 {
        let namespace = watcher % NAMESPACES;
        let mut connection = target.connect().await?;
        let path =
            format!("/api/v1/namespaces/soak-{namespace}/events?watch=true&timeoutSeconds=86400");
        let response = connection
            .send(
                Method::GET,
                &path,
                (ACCEPT, "application/json"),
                Bytes::new(),
            )
            .await?;
        let follower = Follower {
            acknowledged: Arc::clone(&acknowledged),
            started,
            ttl: plan.ttl,
            over: over.clone(),
        };
        watchers.spawn(follower.follow(response.into_body()));
        held.push(connection);
    }
    write(target, run, plan, &acknowledged, started, minute).await?;
    // If there is no receiver any more, every watcher has failed, which is reported below.
    let _ = finished.send(Some(now() + plan.ttl + PATIENCE));
    let mut account = Account {
        written: events,
        ..Account::default()
    };
    while let Some(ended) = watchers.join_next().await {
        let seen = ended.map_err(|error| LoadError::Answer(error.to_string()))??;
        account.lost += seen.lost;
        account.doubled += seen.doubled;
        account.immortal += seen.immortal;
        account.early += seen.early;
        account.lateness.append(seen.lateness);
    }
    Ok(account)
}

async fn write(
    target: &Target,
    run: &str,
    plan: Plan,
    acknowledged: &Arc<[AtomicU64]>,
    started: Instant,
    mut minute: impl FnMut(Stretch),
) -> Result<(), LoadError> {
    let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = target.connect().await?;
        let (acknowledged, report, run) =
            (Arc::clone(acknowledged), report.clone(), run.to_owned());
        let mut pace = tokio::time::interval(Duration::from_secs_f64(
            WRITERS as f64 / plan.per_second as f64,
        ));
        writers.spawn(async move {
            for number in (writer..acknowledged.len() as u64).step_by(WRITERS as usize) {
                pace.tick().await;
                let namespace = format!("soak-{}", number % NAMESPACES);
                let message = format!("{MARK}{number} ");
                let body = event_with(&run, number, number, &namespace, &message);
                let path = format!("/api/v1/namespaces/{namespace}/events");
                let sent = now();
                connection
                    .write(Method::POST, &path, "application/json", body)
                    .await?;
                if let Some(slot) = acknowledged.get(number as usize) {
                    slot.store(micros(started.elapsed()), Ordering::Release);
                }
                // The receiver exists until all writers have ended.
                let _ = report.send(sent.elapsed());
            }
            Ok::<_, LoadError>(())
        });
    }
    drop(report);
    let mut writes = Latencies::default();
    let mut next = Duration::from_secs(60);
    while let Some(latency) = reports.recv().await {
        writes.push(latency);
        if started.elapsed() >= next {
            let until = started.elapsed();
            minute(Stretch {
                writes: std::mem::take(&mut writes),
                until,
            });
            next += Duration::from_secs(60);
        }
    }
    minute(Stretch {
        writes,
        until: started.elapsed(),
    });
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| LoadError::Answer(error.to_string()))??;
    }
    Ok(())
}

struct Follower {
    acknowledged: Arc<[AtomicU64]>,
    started: Instant,
    ttl: Duration,
    over: watch::Receiver<Option<Instant>>,
}

impl Follower {
    /// Reads a watch until all events were seen and have ended, or until the run is over.
    async fn follow(mut self, mut body: Incoming) -> Result<Account, LoadError> {
        let own = self.acknowledged.len() / NAMESPACES as usize;
        let (mut added, mut deleted) = (vec![0_u8; own], vec![0_u8; own]);
        let mut account = Account::default();
        let (mut line, mut gone) = (Vec::new(), 0);
        while gone < own {
            let deadline = *self.over.borrow_and_update();
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = self.over.changed(), if deadline.is_none() => continue,
                () = until(deadline), if deadline.is_some() => break,
            };
            let Some(frame) = frame else {
                return Err(LoadError::Answer(
                    "a watch ended before everything was over".to_owned(),
                ));
            };
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.last() != Some(&b'\n') {
                    continue;
                }
                let (kind, number) = parse(&line).ok_or_else(|| {
                    LoadError::Answer(format!(
                        "a watch brought {}",
                        String::from_utf8_lossy(&line)
                    ))
                })?;
                line.clear();
                let place = (number / NAMESPACES) as usize;
                let counts = if kind == Kind::Added {
                    &mut added
                } else {
                    &mut deleted
                };
                let Some(count) = counts.get_mut(place) else {
                    continue;
                };
                *count += 1;
                if kind == Kind::Deleted && *count == 1 {
                    gone += 1;
                    self.judge(number, &mut account);
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

    /// Checks whether an event ended at the right time.
    fn judge(&self, number: u64, account: &mut Account) {
        let written = self
            .acknowledged
            .get(number as usize)
            .map_or(0, |at| at.load(Ordering::Acquire));
        let lived = micros(self.started.elapsed()).saturating_sub(written);
        match lived.checked_sub(micros(self.ttl)) {
            Some(late) => account.lateness.push(Duration::from_micros(late)),
            // The event was stored before its acknowledgement arrived, so it may end a little early
            // by this clock.
            None if micros(self.ttl) - lived < 1_000_000 => account.lateness.push(Duration::ZERO),
            None => account.early += 1,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Added,
    Deleted,
}

fn parse(line: &[u8]) -> Option<(Kind, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let kind = if text.starts_with("{\"type\":\"ADDED\"") {
        Kind::Added
    } else if text.starts_with("{\"type\":\"DELETED\"") {
        Kind::Deleted
    } else {
        return None;
    };
    let (_, after) = text.split_once(MARK)?;
    let (number, _) = after.split_once(' ')?;
    Some((kind, number.parse().ok()?))
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
