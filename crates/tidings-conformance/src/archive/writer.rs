//! Writes events to the source, and adds the acknowledged versions to the ledger.
//!
//! An event whose change was not acknowledged is not changed again: the change may be done, and the
//! ledger does not have its version.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::archived::number;
use super::ledger::{Entry, Ledger};
use crate::clock;
use crate::error::{Result, fail};
use crate::http::{Caller, Client};

/// Concurrent writers, each with its own connection and events.
const WRITERS: u64 = 8;
/// Namespaces that exist on every server from the beginning.
const NAMESPACES: [&str; 2] = ["default", "kube-system"];
const REASONS: [&str; 4] = ["Pulled", "Created", "Started", "BackOff"];
/// A writer creates no more events while this number of its own exist.
const LIVE_MAX: usize = 500;
/// Pause after a change that was not acknowledged.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum attempts to write the last change.
const LAST_TRIES: usize = 600;

/// Several writers that are at work.
pub(super) struct Writers {
    stop: Arc<watch::Sender<bool>>,
    tasks: JoinSet<Ledger>,
    client: Client,
    name: &'static str,
}

impl Writers {
    /// Starts writers. Two groups on one source need different names.
    pub(super) fn named(
        name: &'static str,
        client: &Client,
        per_second: u64,
        random: &mut fastrand::Rng,
    ) -> Self {
        let stop = Arc::new(watch::Sender::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..WRITERS {
            let writer = Writer::new(client, &format!("{name}{number}"), random.fork());
            let pace = Duration::from_secs_f64(WRITERS as f64 / per_second.max(1) as f64);
            tasks.spawn(writer.run(pace, stop.subscribe()));
        }
        Self {
            stop,
            tasks,
            client: client.clone(),
            name,
        }
    }

    /// Stops the writers, after a last event that was acknowledged.
    pub(super) async fn end(mut self) -> Result<Ledger> {
        self.stop.send_replace(true);
        let mut ledger = Ledger::default();
        while let Some(written) = self.tasks.join_next().await {
            ledger.add(written?);
        }
        let name = format!("{}-last", self.name);
        let mut last = Writer::new(&self.client, &name, fastrand::Rng::with_seed(1));
        for _ in 0..LAST_TRIES {
            last.create().await;
            if !last.ledger.entries.is_empty() {
                ledger.add(last.ledger);
                return Ok(ledger);
            }
        }
        fail("the last event could not be written")
    }
}

/// An event that exists at the source.
struct Live {
    namespace: &'static str,
    name: String,
    uid: String,
    count: i64,
}

impl Live {
    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/events/{}", self.namespace, self.name)
    }
}

/// A writer with its own connection and events.
pub(super) struct Writer {
    caller: Caller,
    name: String,
    random: fastrand::Rng,
    live: Vec<Live>,
    /// Names that can be used again: their events were certainly deleted.
    free_names: Vec<(&'static str, String)>,
    next: u64,
    pub(super) ledger: Ledger,
}

impl Writer {
    pub(super) fn new(client: &Client, name: &str, random: fastrand::Rng) -> Self {
        Self {
            caller: Caller::new(client),
            name: name.to_owned(),
            random,
            live: Vec::new(),
            free_names: Vec::new(),
            next: 0,
            ledger: Ledger::default(),
        }
    }

    async fn run(mut self, pace: Duration, stop: watch::Receiver<bool>) -> Ledger {
        let mut ticks = tokio::time::interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !*stop.borrow() {
            ticks.tick().await;
            self.write().await;
        }
        self.ledger
    }

    /// Makes one change: a creation, a higher count, or a deletion.
    pub(super) async fn write(&mut self) {
        // While the source is down, nothing can be acknowledged.
        if self.caller.connect().await.is_err() {
            tokio::time::sleep(PAUSE).await;
            return;
        }
        let dice = self.random.u32(0..100);
        if self.live.is_empty() || dice < 40 && self.live.len() < LIVE_MAX {
            self.create().await;
        } else if dice < 85 {
            self.patch().await;
        } else {
            self.delete().await;
        }
    }

    /// Sends a change to the source; `None` if it is not acknowledged.
    async fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
        let answer = self.caller.ask(method, path, body).await;
        match answer {
            Ok(reply) if reply.status.is_success() => Some(reply.json),
            _ => {
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    }

    fn note(&mut self, asked: i64, event: &Value, count: i64) {
        let metadata = &event["metadata"];
        self.ledger.entries.push(Entry {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            version: number(&metadata["resourceVersion"]),
            count,
            written: (asked, clock::now()),
        });
    }

    pub(super) async fn create(&mut self) {
        let is_reuse = !self.free_names.is_empty() && self.random.u32(0..10) == 0;
        let (namespace, name) = if is_reuse {
            let at = self.random.usize(0..self.free_names.len());
            self.free_names.swap_remove(at)
        } else {
            self.next += 1;
            let namespace = NAMESPACES[self.random.usize(0..NAMESPACES.len())];
            (namespace, format!("{}.{}", self.name, self.next))
        };
        let asked = clock::now();
        let seen = jiff::Timestamp::from_millisecond(asked).unwrap_or_default();
        let seen = format!("{seen:.0}");
        let reason = REASONS[self.random.usize(0..REASONS.len())];
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace,
                "name": format!("pod-{}", self.next % 50), "uid": format!("uid-{}", self.next % 50),
            },
            "reason": reason,
            "message": format!("Message {} of {}", self.next, self.name),
            "type": "Normal", "count": 1, "source": {"component": "writer"},
            "firstTimestamp": seen, "lastTimestamp": seen,
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let Some(created) = self.ask(Method::POST, &path, Some(&event)).await else {
            let name = format!("{namespace}/{name}");
            self.ledger.unsure_names.insert(name);
            return;
        };
        self.note(asked, &created, 1);
        self.ledger.creates += 1;
        self.ledger.reused += u64::from(is_reuse);
        self.live.push(Live {
            namespace,
            name,
            uid: created["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            count: 1,
        });
    }

    async fn patch(&mut self) {
        let at = self.random.usize(0..self.live.len());
        let (path, count) = (self.live[at].path(), self.live[at].count + 1);
        let asked = clock::now();
        let seen = jiff::Timestamp::from_millisecond(asked).unwrap_or_default();
        let patch = json!({"count": count, "lastTimestamp": format!("{seen:.0}")});
        let Some(patched) = self.ask(Method::PATCH, &path, Some(&patch)).await else {
            self.ledger.unsure.insert(self.live.swap_remove(at).uid);
            return;
        };
        self.note(asked, &patched, count);
        self.ledger.patches += 1;
        self.live[at].count = count;
    }

    async fn delete(&mut self) {
        let at = self.random.usize(0..self.live.len());
        let event = self.live.swap_remove(at);
        // A creation without an acknowledgement has no known version, but its name is not used
        // again.
        if self
            .ask(Method::DELETE, &event.path(), None)
            .await
            .is_some()
        {
            self.ledger.deletes += 1;
            self.free_names.push((event.namespace, event.name));
        }
    }
}
