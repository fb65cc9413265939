//! The events of a cluster over some days, in the order in which they were last seen: roll-outs,
//! jobs, crash loops and lost nodes in many namespaces of different sizes, more by day than by
//! night. Everything follows from the number of events and the time at which they end.
//!
//! An event that repeats is one event with a count, as in a cluster.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_store::UnixMillis;

use crate::storing::events::NewEvent;
use crate::{Failure, Numbers};

pub(crate) const SECOND: i64 = 1000;
pub(crate) const HOUR: i64 = 3600 * SECOND;
pub(crate) const DAY: i64 = 24 * HOUR;

/// Number of namespaces. The first has the most events, the second half as many, and so on.
pub(crate) const NAMESPACES: u64 = 120;
const NODES: u64 = 60;
/// Maximum duration of what happens, in milliseconds.
const LONGEST: i64 = 6 * HOUR;
const APPS: [&str; 10] = [
    "checkout", "cart", "billing", "search", "gateway", "ledger", "mailer", "catalog", "session",
    "reports",
];

/// The name of the namespace with this rank.
pub(crate) fn namespace(rank: u64) -> String {
    format!("team-{rank:03}")
}

/// The fields in which an event differs from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Said {
    pub(crate) last: i64,
    pub(crate) first: i64,
    pub(crate) namespace: String,
    pub(crate) kind: &'static str,
    pub(crate) object: String,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    message: String,
    count: i32,
    component: &'static str,
    host: String,
    uid: String,
    suffix: u64,
}

/// Yields the events of a cluster.
pub(crate) struct Cluster {
    numbers: Numbers,
    /// The sums of the weights of the namespaces up to each.
    weights: Vec<u64>,
    /// Events of which the time has not come yet.
    waiting: BinaryHeap<Reverse<Said>>,
    /// All events before this time were yielded.
    hour: i64,
    end: i64,
    /// Number of events that are still to be yielded.
    left: u64,
    hours_left: f64,
}

impl Cluster {
    /// The events of one of several clusters that differ: this number over this number of days, up
    /// to `end`.
    pub(crate) fn new(number: u64, events: u64, days: i64, end: i64) -> Self {
        let mut sum = 0;
        let weights = (0..NAMESPACES).map(|rank| {
            sum += 1_000_000 / (rank + 1);
            sum
        });
        let hour = end - days * DAY;
        Self {
            numbers: Numbers(days.cast_unsigned() | number << 32),
            weights: weights.collect(),
            waiting: BinaryHeap::new(),
            hour,
            end,
            left: events,
            hours_left: (hour..end).step_by(HOUR as usize).map(busy).sum(),
        }
    }

    /// Begins the episodes of the next hour.
    fn advance(&mut self) {
        let busy = busy(self.hour);
        let waiting = self.waiting.len() as u64;
        let share = self.left.saturating_sub(waiting) as f64 * busy / self.hours_left.max(busy);
        self.hours_left -= busy;
        let wanted = self.waiting.len() + share.round() as usize;
        while self.waiting.len() < wanted {
            let at = self.hour + self.numbers.below(HOUR as u64).cast_signed();
            let mut episode = Episode::new(&mut self.numbers, &self.weights, at, self.end);
            episode.happen();
            self.waiting.extend(episode.said.into_iter().map(Reverse));
        }
        self.hour += HOUR;
    }
}

impl Iterator for Cluster {
    type Item = Said;

    fn next(&mut self) -> Option<Said> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let next = self.waiting.peek();
            let is_told = |said: &Reverse<Said>| said.0.last < self.hour || self.hour >= self.end;
            if next.is_some_and(is_told) {
                return self.waiting.pop().map(|said| said.0);
            }
            if self.hour >= self.end {
                return None;
            }
            self.advance();
        }
    }
}

/// How much happens in an hour of the day, relative to others.
fn busy(hour: i64) -> f64 {
    if (8..18).contains(&(hour.rem_euclid(DAY) / HOUR)) {
        2.
    } else {
        1.
    }
}

/// What an event says: kind of the object, reason, component.
type Fact = (&'static str, &'static str, &'static str);

const KUBELET: &str = "kubelet";
const SCALING: Fact = ("Deployment", "ScalingReplicaSet", "deployment-controller");
const POD_CREATED: Fact = ("ReplicaSet", "SuccessfulCreate", "replicaset-controller");
const POD_DELETED: Fact = ("ReplicaSet", "SuccessfulDelete", "replicaset-controller");
const JOB_CREATED: Fact = ("CronJob", "SuccessfulCreate", "cronjob-controller");
const JOB_SEEN: Fact = ("CronJob", "SawCompletedJob", "cronjob-controller");
const JOB_POD: Fact = ("Job", "SuccessfulCreate", "job-controller");
const JOB_DONE: Fact = ("Job", "Completed", "job-controller");
const SCHEDULED: Fact = ("Pod", "Scheduled", "default-scheduler");
const UNSCHEDULED: Fact = ("Pod", "FailedScheduling", "default-scheduler");
const NOT_READY: Fact = ("Node", "NodeNotReady", "node-controller");
const READY: Fact = ("Node", "NodeReady", KUBELET);
const PROVISIONED: Fact = ("PersistentVolumeClaim", "ProvisioningSucceeded", "csi");
const UNSCALED: Fact = (
    "HorizontalPodAutoscaler",
    "FailedGetResourceMetric",
    "horizontal-pod-autoscaler",
);

/// What a kubelet says about a pod.
const fn of_pod(reason: &'static str) -> Fact {
    ("Pod", reason, KUBELET)
}

/// Events that belong together, about one application or node.
struct Episode<'a> {
    numbers: &'a mut Numbers,
    at: i64,
    end: i64,
    namespace: String,
    app: String,
    said: Vec<Said>,
}

impl<'a> Episode<'a> {
    fn new(numbers: &'a mut Numbers, weights: &[u64], at: i64, end: i64) -> Self {
        let all = weights.last().copied().unwrap_or(1);
        let place = numbers.below(all);
        let rank = weights.partition_point(|sum| *sum <= place) as u64;
        let word = numbers.one_of(&APPS);
        let app = format!("{word}-{}", numbers.below(4));
        Self {
            numbers,
            at,
            end,
            namespace: namespace(rank),
            app,
            said: Vec::new(),
        }
    }

    fn happen(&mut self) {
        match self.numbers.below(100) {
            0..30 => self.roll_out(),
            30..72 => self.run_job(),
            72..86 => self.crash_loop(),
            86..90 => {
                let pod = self.pod_name();
                let message = "0/60 nodes are available: 12 Insufficient memory, 48 node(s) \
                               didn't match Pod's node affinity/selector.";
                self.repeat(UNSCHEDULED, &pod, message);
            }
            90..95 => {
                let message = "failed to get cpu utilization: unable to get metrics for resource \
                               cpu: no metrics returned from resource metrics API";
                let app = self.app.clone();
                self.repeat(UNSCALED, &app, message);
            }
            95..98 => {
                let claim = format!("data-{}-{}", self.app, self.numbers.below(3));
                let message = "Successfully provisioned volume pvc-2f9c";
                self.say(PROVISIONED, &claim, message);
            }
            _ => self.lose_node(),
        }
    }

    fn roll_out(&mut self) {
        let app = self.app.clone();
        let (new, old) = (self.set_name(), self.set_name());
        let pods = 2 + self.numbers.below(4);
        let up = format!("Scaled up replica set {new} to {pods}");
        self.say(SCALING, &app, &up);
        for _ in 0..pods {
            let pod = self.pod_of(&new);
            self.say(POD_CREATED, &new, &format!("Created pod: {pod}"));
            self.start(&pod);
            if self.numbers.below(4) == 0 {
                let message = "Readiness probe failed: Get \"http://10.2.17.4:8080/healthz\": dial \
                               tcp 10.2.17.4:8080: connect: connection refused";
                self.put(of_pod("Unhealthy"), &pod, message, (true, 12, 120 * SECOND));
            }
            let gone = self.pod_of(&old);
            self.say(POD_DELETED, &old, &format!("Deleted pod: {gone}"));
            self.say(of_pod("Killing"), &gone, "Stopping container main");
        }
        let down = format!("Scaled down replica set {old} to 0 from {pods}");
        self.say(SCALING, &app, &down);
    }

    fn run_job(&mut self) {
        let cron = format!("{}-nightly", self.app);
        let job = format!("{cron}-{}", self.at / 60_000);
        let pod = self.pod_of(&job);
        self.say(JOB_CREATED, &cron, &format!("Created job {job}"));
        self.say(JOB_POD, &job, &format!("Created pod: {pod}"));
        self.start(&pod);
        self.at += self.numbers.below(600_000).cast_signed();
        self.say(JOB_DONE, &job, "Job completed");
        let saw = format!("Saw completed job: {job}, status: Complete");
        self.say(JOB_SEEN, &cron, &saw);
    }

    fn crash_loop(&mut self) {
        let pod = self.pod_name();
        let times = 3 + self.numbers.below(40) as i32;
        let span = i64::from(times) * 300 * SECOND;
        let uid = self.numbers.uid();
        let pulled = "Container image \"registry.example.com/team/main:1.4.2\" already present on \
                      machine";
        let back_off = format!(
            "Back-off restarting failed container main in pod {pod}_{}({uid})",
            self.namespace
        );
        for (reason, message, often) in [
            ("Pulled", pulled, (false, times, span)),
            ("Created", "Created container: main", (false, times, span)),
            ("Started", "Started container main", (false, times, span)),
            ("BackOff", &back_off, (true, times * 20, span)),
        ] {
            self.put(of_pod(reason), &pod, message, often);
        }
    }

    fn lose_node(&mut self) {
        let node = self.node();
        "default".clone_into(&mut self.namespace);
        let message = |now: &str| format!("Node {node} status is now: {now}");
        self.say(NOT_READY, &node, &message("NodeNotReady"));
        for _ in 0..8 {
            let (pod, fact) = (self.pod_name(), of_pod("NodeNotReady"));
            self.put(fact, &pod, "Node is not ready", (true, 1, 0));
        }
        self.at += 300 * SECOND;
        self.say(READY, &node, &message("NodeReady"));
    }

    /// The events of a pod that is scheduled and started.
    fn start(&mut self, pod: &str) {
        let node = self.node();
        let assigned = format!("Successfully assigned {}/{pod} to {node}", self.namespace);
        self.say(SCHEDULED, pod, &assigned);
        let version = self.numbers.below(40);
        let image = format!("registry.example.com/team/{}:v1.{version}", self.app);
        let pulling = format!("Pulling image \"{image}\"");
        self.say(of_pod("Pulling"), pod, &pulling);
        let took = self.numbers.below(9000);
        let pulled = format!(
            "Successfully pulled image \"{image}\" in {took}ms ({took}ms including waiting). \
             Image size: 48{took} bytes."
        );
        self.say(of_pod("Pulled"), pod, &pulled);
        self.say(of_pod("Created"), pod, "Created container: main");
        self.say(of_pod("Started"), pod, "Started container main");
    }

    /// Adds an event that happens once, a little later than the last.
    fn say(&mut self, fact: Fact, object: &str, message: &str) {
        self.at += self.numbers.below(2500).cast_signed();
        self.put(fact, object, message, (false, 1, 0));
    }

    /// Adds a warning that repeats for minutes or hours.
    fn repeat(&mut self, fact: Fact, object: &str, message: &str) {
        let count = 1 + self.numbers.below(200) as i32;
        let span = i64::from(count) * 30 * SECOND;
        self.put(fact, object, message, (true, count, span));
    }

    /// Adds an event: whether it is a warning, how often it repeats, and over which time.
    fn put(
        &mut self,
        (kind, reason, component): Fact,
        object: &str,
        message: &str,
        (warning, count, span): (bool, i32, i64),
    ) {
        let first = self.at.min(self.end - SECOND);
        let (host, uid) = (self.node(), self.numbers.uid());
        self.said.push(Said {
            last: (first + span.min(LONGEST)).min(self.end - SECOND),
            first,
            namespace: self.namespace.clone(),
            kind,
            object: object.to_owned(),
            warning,
            reason,
            message: message.to_owned(),
            count,
            component,
            host,
            uid,
            suffix: self.numbers.next(),
        });
    }

    fn node(&mut self) -> String {
        format!("node-{:02}.example.internal", self.numbers.below(NODES))
    }

    fn set_name(&mut self) -> String {
        let hash = self.numbers.letters::<10>();
        format!("{}-{}", self.app, String::from_utf8_lossy(&hash))
    }

    fn pod_of(&mut self, owner: &str) -> String {
        let tail = self.numbers.letters::<5>();
        format!("{owner}-{}", String::from_utf8_lossy(&tail))
    }

    fn pod_name(&mut self) -> String {
        let set = self.set_name();
        self.pod_of(&set)
    }
}

impl Said {
    /// The same event, moved to this time and with a name of its own.
    pub(crate) fn moved_to(mut self, now: i64, number: u64) -> Self {
        self.first += now - self.last;
        self.last = now;
        self.suffix ^= number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self
    }

    /// The event as clients send it.
    pub(crate) fn event(&self) -> Value {
        let time = |millis| {
            let at = Timestamp::from_millisecond(millis / SECOND * SECOND);
            at.unwrap_or_default().to_string()
        };
        let mut of_object = Numbers(self.object.bytes().fold(7, |sum, byte| {
            sum.wrapping_mul(31_u64).wrapping_add(byte.into())
        }));
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": format!("{}.{:016x}", self.object, self.suffix), "uid": self.uid,
                "namespace": self.namespace, "creationTimestamp": time(self.first),
            },
            "involvedObject": {
                "apiVersion": "v1", "kind": self.kind, "name": self.object,
                "uid": of_object.uid(),
            },
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason, "message": self.message, "count": self.count,
            "firstTimestamp": time(self.first), "lastTimestamp": time(self.last),
            "source": {"component": self.component},
            "reportingComponent": self.component,
        });
        if self.kind != "Node" {
            event["involvedObject"]["namespace"] = self.namespace.as_str().into();
        }
        if self.component == KUBELET {
            event["source"]["host"] = self.host.as_str().into();
            if self.kind == "Pod" {
                event["involvedObject"]["fieldPath"] = "spec.containers{main}".into();
            }
        }
        event
    }

    /// The event as a record of a store.
    pub(crate) fn stored(&self) -> Result<NewEvent, Failure> {
        NewEvent::of(&self.event(), UnixMillis(self.last / SECOND * SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_as_many_events_as_are_wanted_in_order() {
        let end = 1_800_000_000_000;
        let all: Vec<Said> = Cluster::new(0, 30_000, 3, end).collect();
        assert_eq!(all.len(), 30_000);
        assert!(all.is_sorted_by_key(|said| said.last));
        assert!(
            all.iter()
                .all(|said| said.first <= said.last && said.last < end)
        );
        let warnings = all.iter().filter(|said| said.warning).count();
        assert!((900..3_000).contains(&warnings), "{warnings}");
        let of_first = all.iter().filter(|said| said.namespace == namespace(0));
        assert!((4_000..9_000).contains(&of_first.count()));
        let again: Vec<Said> = Cluster::new(0, 30_000, 3, end).collect();
        assert!(all == again);
        let events = all.iter().filter(|said| said.last >= end - DAY).count();
        assert!((8_000..13_000).contains(&events), "{events}");
    }
}
