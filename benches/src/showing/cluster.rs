//! The events of a cluster over some days, in the order in which they were last seen: roll-outs,
//! jobs, crash loops and lost nodes in many namespaces of different sizes, more by day than by
//! night. Everything follows from the number of events and the time at which they end.
//!
//! An event that repeats is one event with a count, as in a cluster.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_store::UnixMillis;

use crate::storing::events::{NewEvent, Numbers};

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
    container: &'static str,
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
    /// The events of a cluster: this number over this number of days, up to `end`.
    pub(crate) fn new(events: u64, days: i64, end: i64) -> Self {
        Self::numbered(0, events, days, end)
    }

    /// Like `new`, for one of several clusters that differ.
    pub(crate) fn numbered(number: u64, events: u64, days: i64, end: i64) -> Self {
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
        let word = numbers.one_of(&APPS).unwrap_or("web");
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
                self.repeat(
                    "Pod",
                    &pod,
                    "FailedScheduling",
                    message,
                    "default-scheduler",
                );
            }
            90..95 => {
                let message = "failed to get cpu utilization: unable to get metrics for resource \
                               cpu: no metrics returned from resource metrics API";
                let (kind, app) = ("HorizontalPodAutoscaler", self.app.clone());
                let component = "horizontal-pod-autoscaler";
                self.repeat(kind, &app, "FailedGetResourceMetric", message, component);
            }
            95..98 => {
                let claim = format!("data-{}-{}", self.app, self.numbers.below(3));
                let message = "Successfully provisioned volume pvc-2f9c";
                let kind = "PersistentVolumeClaim";
                self.say(kind, &claim, "ProvisioningSucceeded", message, "csi");
            }
            _ => self.lose_node(),
        }
    }

    fn roll_out(&mut self) {
        let app = self.app.clone();
        let (new, old) = (self.set_name(), self.set_name());
        let pods = 2 + self.numbers.below(4);
        let scaled = format!("Scaled up replica set {new} to {pods}");
        self.say(
            "Deployment",
            &app,
            "ScalingReplicaSet",
            &scaled,
            "deployment-controller",
        );
        for _ in 0..pods {
            let pod = self.pod_of(&new);
            let created = format!("Created pod: {pod}");
            self.say(
                "ReplicaSet",
                &new,
                "SuccessfulCreate",
                &created,
                "replicaset-controller",
            );
            self.start(&pod);
            if self.numbers.below(4) == 0 {
                let message = "Readiness probe failed: Get \"http://10.2.17.4:8080/healthz\": dial \
                               tcp 10.2.17.4:8080: connect: connection refused";
                self.said_again(&pod, "Unhealthy", message, 12, 120 * SECOND);
            }
            let gone = self.pod_of(&old);
            let deleted = format!("Deleted pod: {gone}");
            self.say(
                "ReplicaSet",
                &old,
                "SuccessfulDelete",
                &deleted,
                "replicaset-controller",
            );
            self.say(
                "Pod",
                &gone,
                "Killing",
                "Stopping container main",
                "kubelet",
            );
        }
        let scaled = format!("Scaled down replica set {old} to 0 from {pods}");
        self.say(
            "Deployment",
            &app,
            "ScalingReplicaSet",
            &scaled,
            "deployment-controller",
        );
    }

    fn run_job(&mut self) {
        let cron = format!("{}-nightly", self.app);
        let job = format!("{cron}-{}", self.at / 60_000);
        let pod = self.pod_of(&job);
        let created = format!("Created job {job}");
        self.say(
            "CronJob",
            &cron,
            "SuccessfulCreate",
            &created,
            "cronjob-controller",
        );
        let created = format!("Created pod: {pod}");
        self.say("Job", &job, "SuccessfulCreate", &created, "job-controller");
        self.start(&pod);
        self.at += self.numbers.below(600_000).cast_signed();
        self.say("Job", &job, "Completed", "Job completed", "job-controller");
        let saw = format!("Saw completed job: {job}, status: Complete");
        self.say(
            "CronJob",
            &cron,
            "SawCompletedJob",
            &saw,
            "cronjob-controller",
        );
    }

    fn crash_loop(&mut self) {
        let pod = self.pod_name();
        let times = 3 + self.numbers.below(40) as i32;
        let span = i64::from(times) * 300 * SECOND;
        let back_off = format!(
            "Back-off restarting failed container main in pod {pod}_{}({})",
            self.namespace,
            self.numbers.uid()
        );
        for (reason, message, times) in [
            (
                "Pulled",
                "Container image \"registry.example.com/team/main:1.4.2\" already present on machine",
                times,
            ),
            ("Created", "Created container: main", times),
            ("Started", "Started container main", times),
            ("BackOff", &back_off, times * 20),
        ] {
            self.said_again(&pod, reason, message, times, span);
        }
    }

    fn lose_node(&mut self) {
        let node = self.node();
        "default".clone_into(&mut self.namespace);
        let message = format!("Node {node} status is now: NodeNotReady");
        self.say("Node", &node, "NodeNotReady", &message, "node-controller");
        for _ in 0..8 {
            let pod = self.pod_name();
            self.said_again(&pod, "NodeNotReady", "Node is not ready", 1, 0);
        }
        self.at += 300 * SECOND;
        let message = format!("Node {node} status is now: NodeReady");
        self.say("Node", &node, "NodeReady", &message, "kubelet");
    }

    /// The events of a pod that is scheduled and started.
    fn start(&mut self, pod: &str) {
        let node = self.node();
        let assigned = format!("Successfully assigned {}/{pod} to {node}", self.namespace);
        self.say("Pod", pod, "Scheduled", &assigned, "default-scheduler");
        let version = self.numbers.below(40);
        let image = format!("registry.example.com/team/{}:v1.{version}", self.app);
        let pulling = format!("Pulling image \"{image}\"");
        self.say("Pod", pod, "Pulling", &pulling, "kubelet");
        let took = self.numbers.below(9000);
        let pulled = format!(
            "Successfully pulled image \"{image}\" in {took}ms ({took}ms including waiting). \
             Image size: 48{took} bytes."
        );
        self.say("Pod", pod, "Pulled", &pulled, "kubelet");
        self.say("Pod", pod, "Created", "Created container: main", "kubelet");
        self.say("Pod", pod, "Started", "Started container main", "kubelet");
    }

    /// Adds an event that happens once, a little later than the last.
    fn say(
        &mut self,
        kind: &'static str,
        object: &str,
        reason: &'static str,
        message: &str,
        component: &'static str,
    ) {
        self.at += self.numbers.below(2500).cast_signed();
        self.put(kind, object, reason, message, component, (false, 1, 0));
    }

    /// Adds an event about a pod that repeats over some time.
    fn said_again(
        &mut self,
        pod: &str,
        reason: &'static str,
        message: &str,
        count: i32,
        span: i64,
    ) {
        let warning = matches!(reason, "BackOff" | "Unhealthy" | "NodeNotReady");
        self.put(
            "Pod",
            pod,
            reason,
            message,
            "kubelet",
            (warning, count, span),
        );
    }

    /// Adds a warning that repeats for minutes or hours.
    fn repeat(
        &mut self,
        kind: &'static str,
        object: &str,
        reason: &'static str,
        message: &str,
        component: &'static str,
    ) {
        let count = 1 + self.numbers.below(200) as i32;
        let span = i64::from(count) * 30 * SECOND;
        self.put(
            kind,
            object,
            reason,
            message,
            component,
            (true, count, span),
        );
    }

    fn put(
        &mut self,
        kind: &'static str,
        object: &str,
        reason: &'static str,
        message: &str,
        component: &'static str,
        (warning, count, span): (bool, i32, i64),
    ) {
        let first = self.at.min(self.end - SECOND);
        let of_node = component == "kubelet";
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
            host: if of_node { host } else { String::new() },
            container: if of_node && kind == "Pod" { "main" } else { "" },
            uid,
            suffix: self.numbers.next(),
        });
    }

    fn node(&mut self) -> String {
        format!("node-{:02}.example.internal", self.numbers.below(NODES))
    }

    fn set_name(&mut self) -> String {
        let hash = self.letters(10);
        format!("{}-{hash}", self.app)
    }

    fn pod_of(&mut self, owner: &str) -> String {
        format!("{owner}-{}", self.letters(5))
    }

    fn pod_name(&mut self) -> String {
        let set = self.set_name();
        self.pod_of(&set)
    }

    fn letters(&mut self, len: usize) -> String {
        let mut letters = vec![0; len];
        self.numbers.letters(&mut letters);
        String::from_utf8_lossy(&letters).into_owned()
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

    /// The event as a Kubernetes object.
    pub(crate) fn event(&self) -> Event {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let time = |millis| Timestamp::from_millisecond(millis).ok().map(Time);
        let mut of_object = Numbers(self.object.bytes().fold(7, |sum, byte| {
            sum.wrapping_mul(31_u64).wrapping_add(byte.into())
        }));
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:016x}", self.object, self.suffix)),
                namespace: text(&self.namespace),
                uid: text(&self.uid),
                creation_timestamp: time(self.first),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: text("v1"),
                kind: text(self.kind),
                namespace: text(&self.namespace).filter(|_| self.kind != "Node"),
                name: text(&self.object),
                uid: Some(of_object.uid()),
                field_path: text(self.container)
                    .map(|container| format!("spec.containers{{{container}}}")),
                ..ObjectReference::default()
            },
            type_: text(if self.warning { "Warning" } else { "Normal" }),
            reason: text(self.reason),
            message: text(&self.message),
            count: Some(self.count),
            first_timestamp: time(self.first),
            last_timestamp: time(self.last),
            source: Some(EventSource {
                component: text(self.component),
                host: text(&self.host),
            }),
            reporting_component: text(self.component),
            ..Event::default()
        }
    }

    /// The event as a record of a store.
    pub(crate) fn stored(&self) -> NewEvent {
        NewEvent::of(&self.event(), UnixMillis(self.last / SECOND * SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_as_many_events_as_are_wanted_in_order() {
        let end = 1_800_000_000_000;
        let all: Vec<Said> = Cluster::new(30_000, 3, end).collect();
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
        let again: Vec<Said> = Cluster::new(30_000, 3, end).collect();
        assert!(all == again);
        let events = all.iter().filter(|said| said.last >= end - DAY).count();
        assert!((8_000..13_000).contains(&events), "{events}");
    }
}
