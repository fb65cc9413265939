//! The demo's story: some minutes of a small cluster, in the words of the components that report
//! them.
//!
//! A rollout whose pod fails its probes is rolled back, an image does not exist, a node goes away
//! and its pod starts elsewhere, and a backup waits for a secret and then completes. The events are
//! written with past times, the last of them a few seconds ago.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The story's length in seconds.
pub(super) const LENGTH: i64 = 620;

/// One event of the story.
struct Told {
    /// When the event first and last happened, in seconds before the end.
    ago: (f64, f64),
    count: u32,
    namespace: &'static str,
    kind: &'static str,
    name: &'static str,
    event_type: &'static str,
    reason: &'static str,
    component: &'static str,
    /// The node, if a kubelet reports the event.
    host: &'static str,
    message: &'static str,
}

/// One event on each line: seconds before the end (of the first occurrence, and after `..` of the
/// last, with the count), namespace, object, type, reason, component, node, and message.
macro_rules! story {
    ($($ago:literal $(.. $last:literal x $count:literal)?: $namespace:literal $kind:ident $name:literal,
        $event_type:ident $reason:ident $component:literal $host:literal $message:literal;)+) => {
        [$(Told {
            ago: story!(@ago $ago $($last)?),
            count: story!(@count $($count)?),
            namespace: $namespace,
            kind: stringify!($kind),
            name: $name,
            event_type: stringify!($event_type),
            reason: stringify!($reason),
            component: $component,
            host: $host,
            message: $message,
        }),+]
    };
    (@ago $ago:literal) => { ($ago, $ago) };
    (@ago $ago:literal $last:literal) => { ($ago, $last) };
    (@count) => { 1 };
    (@count $count:literal) => { $count };
}

#[rustfmt::skip]
const STORY: &[Told] = &story![
    // A backup waits for a secret, and completes.
    620.0: "batch" CronJob "backup", Normal SuccessfulCreate "cronjob-controller" "" "Created job backup-29340120";
    619.9: "batch" Job "backup-29340120", Normal SuccessfulCreate "job-controller" "" "Created pod: backup-29340120-7qk4d";
    619.8: "batch" Pod "backup-29340120-7qk4d", Normal Scheduled "default-scheduler" "" "Successfully assigned batch/backup-29340120-7qk4d to worker-1";
    619.0 .. 520.0 x 7: "batch" Pod "backup-29340120-7qk4d", Warning FailedMount "kubelet" "worker-1" "MountVolume.SetUp failed for volume \"credentials\" : secret \"backup-s3\" not found";
    481.3: "batch" Pod "backup-29340120-7qk4d", Normal Pulled "kubelet" "worker-1" "Container image \"registry.example.com/backup:3.2.1\" already present on machine and can be accessed by the pod";
    481.2: "batch" Pod "backup-29340120-7qk4d", Normal Created "kubelet" "worker-1" "Container created";
    481.1: "batch" Pod "backup-29340120-7qk4d", Normal Started "kubelet" "worker-1" "Container started";
    401.5: "batch" Job "backup-29340120", Normal Completed "job-controller" "" "Job completed";
    401.4: "batch" CronJob "backup", Normal SawCompletedJob "cronjob-controller" "" "Saw completed job: backup-29340120, condition: Complete";

    // The new version of the shop's web fails its probes, and is rolled back.
    560.6: "shop" Deployment "web", Normal ScalingReplicaSet "deployment-controller" "" "Scaled up replica set web-7c9d5b6f4 from 0 to 1";
    560.5: "shop" ReplicaSet "web-7c9d5b6f4", Normal SuccessfulCreate "replicaset-controller" "" "Created pod: web-7c9d5b6f4-k8x2p";
    560.4: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Scheduled "default-scheduler" "" "Successfully assigned shop/web-7c9d5b6f4-k8x2p to worker-2";
    560.3: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Pulling "kubelet" "worker-2" "Pulling image \"registry.example.com/web:2.5.0\"";
    558.2: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Pulled "kubelet" "worker-2" "Successfully pulled image \"registry.example.com/web:2.5.0\" in 2.1s (2.1s including waiting). Image size: 48231904 bytes.";
    558.1 .. 225.0 x 5: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Created "kubelet" "worker-2" "Container created";
    558.0 .. 224.9 x 5: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Started "kubelet" "worker-2" "Container started";
    545.0 .. 150.0 x 38: "shop" Pod "web-7c9d5b6f4-k8x2p", Warning Unhealthy "kubelet" "worker-2" "Readiness probe failed: HTTP probe failed with statuscode: 503";
    525.0 .. 165.0 x 14: "shop" Pod "web-7c9d5b6f4-k8x2p", Warning Unhealthy "kubelet" "worker-2" "Liveness probe failed: HTTP probe failed with statuscode: 503";
    505.0 .. 165.0 x 5: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Killing "kubelet" "worker-2" "Container web failed liveness probe, will be restarted";
    430.0 .. 145.0 x 19: "shop" Pod "web-7c9d5b6f4-k8x2p", Warning BackOff "kubelet" "worker-2" "Back-off restarting failed container web in pod web-7c9d5b6f4-k8x2p_shop";
    140.6: "shop" Deployment "web", Normal ScalingReplicaSet "deployment-controller" "" "Scaled down replica set web-7c9d5b6f4 from 1 to 0";
    140.5: "shop" ReplicaSet "web-7c9d5b6f4", Normal SuccessfulDelete "replicaset-controller" "" "Deleted pod: web-7c9d5b6f4-k8x2p";
    140.4: "shop" Pod "web-7c9d5b6f4-k8x2p", Normal Killing "kubelet" "worker-2" "Stopping container web";

    // An image does not exist.
    380.6: "shop" Deployment "cart", Normal ScalingReplicaSet "deployment-controller" "" "Scaled up replica set cart-6f5c8d9b7 from 0 to 1";
    380.5: "shop" ReplicaSet "cart-6f5c8d9b7", Normal SuccessfulCreate "replicaset-controller" "" "Created pod: cart-6f5c8d9b7-b4zwn";
    380.4: "shop" Pod "cart-6f5c8d9b7-b4zwn", Normal Scheduled "default-scheduler" "" "Successfully assigned shop/cart-6f5c8d9b7-b4zwn to worker-1";
    379.0 .. 60.0 x 5: "shop" Pod "cart-6f5c8d9b7-b4zwn", Normal Pulling "kubelet" "worker-1" "Pulling image \"registry.example.com/cart:1.9.O\"";
    378.0 .. 59.0 x 5: "shop" Pod "cart-6f5c8d9b7-b4zwn", Warning Failed "kubelet" "worker-1" "Failed to pull image \"registry.example.com/cart:1.9.O\": rpc error: code = NotFound desc = failed to pull and unpack image: not found";
    377.9 .. 58.9 x 5: "shop" Pod "cart-6f5c8d9b7-b4zwn", Warning Failed "kubelet" "worker-1" "Error: ErrImagePull";
    366.0 .. 12.0 x 22: "shop" Pod "cart-6f5c8d9b7-b4zwn", Normal BackOff "kubelet" "worker-1" "Back-off pulling image \"registry.example.com/cart:1.9.O\"";
    365.9 .. 11.9 x 22: "shop" Pod "cart-6f5c8d9b7-b4zwn", Warning Failed "kubelet" "worker-1" "Error: ImagePullBackOff";

    // A node goes away, and its pod starts elsewhere.
    300.5: "" Node "worker-3", Normal NodeNotReady "node-controller" "" "Node worker-3 status is now: NodeNotReady";
    300.4: "shop" Pod "search-5d8b7f6c9-q2v7x", Warning NodeNotReady "node-controller" "" "Node is not ready";
    300.3: "monitoring" Pod "node-exporter-j6t8m", Warning NodeNotReady "node-controller" "" "Node is not ready";
    95.5: "shop" Pod "search-5d8b7f6c9-q2v7x", Normal TaintManagerEviction "taint-eviction-controller" "" "Marking for deletion Pod shop/search-5d8b7f6c9-q2v7x";
    95.4: "shop" ReplicaSet "search-5d8b7f6c9", Normal SuccessfulCreate "replicaset-controller" "" "Created pod: search-5d8b7f6c9-w5h4d";
    95.3 .. 40.0 x 4: "shop" Pod "search-5d8b7f6c9-w5h4d", Warning FailedScheduling "default-scheduler" "" "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient memory. preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.";
    30.4: "shop" Pod "search-5d8b7f6c9-w5h4d", Normal Scheduled "default-scheduler" "" "Successfully assigned shop/search-5d8b7f6c9-w5h4d to worker-2";
    30.3: "shop" Pod "search-5d8b7f6c9-w5h4d", Normal Pulled "kubelet" "worker-2" "Container image \"registry.example.com/search:4.0.2\" already present on machine and can be accessed by the pod";
    30.2: "shop" Pod "search-5d8b7f6c9-w5h4d", Normal Created "kubelet" "worker-2" "Container created";
    30.1: "shop" Pod "search-5d8b7f6c9-w5h4d", Normal Started "kubelet" "worker-2" "Container started";
];

/// The story's events in the order in which they first happened, in the form their components
/// write. The last happened at `end`.
pub(super) fn events(end: Timestamp) -> Vec<Value> {
    let mut told: Vec<&Told> = STORY.iter().collect();
    told.sort_by(|one, other| other.ago.0.total_cmp(&one.ago.0));
    told.into_iter().map(|told| told.event(end)).collect()
}

impl Told {
    fn event(&self, end: Timestamp) -> Value {
        let at = |ago: f64| {
            let ago = SignedDuration::from_millis((ago * 1000.0) as i64);
            end.checked_sub(ago).unwrap_or(end)
        };
        let (first, last) = (at(self.ago.0), at(self.ago.1));
        let seconds = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let clock = u64::try_from(first.as_nanosecond()).unwrap_or_default();
        // Events about cluster-scoped objects are in default.
        let namespace = match self.namespace {
            "" => "default",
            namespace => namespace,
        };
        let api_version = match self.kind {
            "Deployment" | "ReplicaSet" => "apps/v1",
            "CronJob" | "Job" => "batch/v1",
            _ => "v1",
        };
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{}.{clock:x}", self.name), "namespace": namespace},
            "involvedObject": {"apiVersion": api_version, "kind": self.kind, "name": self.name},
            "reason": self.reason, "message": self.message, "type": self.event_type,
            "reportingComponent": self.component,
        });
        if !self.namespace.is_empty() {
            event["involvedObject"]["namespace"] = json!(namespace);
        }
        let more = if self.component == "default-scheduler" && self.count == 1 {
            // The scheduler records events.k8s.io/v1.
            json!({
                "eventTime": first.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
                "action": "Binding", "reportingInstance": "default-scheduler-control-1",
            })
        } else {
            json!({
                "firstTimestamp": seconds(first), "lastTimestamp": seconds(last),
                "count": self.count, "reportingInstance": self.host,
                "source": {"component": self.component, "host": self.host},
            })
        };
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_event_has_a_name_of_its_own_and_happened_within_the_story() {
        let end: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let events = events(end);
        let names: HashSet<_> = events
            .iter()
            .map(|event| event["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names.len(), STORY.len());
        for told in STORY {
            let (first, last) = told.ago;
            assert!(
                first <= LENGTH as f64 && last <= first && last > 0.0,
                "{}",
                told.message
            );
            assert_eq!(told.count > 1, last < first, "{}", told.message);
        }
    }
}
