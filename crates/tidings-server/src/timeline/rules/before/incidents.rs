//! Incidents whose roots are known, and the ranks that these have.
//!
//! Some are captured, with the fields that decide: `calico.jsonl` is from vmware-tanzu/sonobuoy,
//! `multus.jsonl` from p0lyn0mial/multi-operator-manager, and `images.jsonl` from
//! replicatedhq/troubleshoot. These repositories are under Apache-2.0. The others are made here,
//! each amid what a cluster reports every day.
//!
//! `TIDINGS_CAPTURES` names a folder with more captures, of which some are ranked, too.

use std::path::Path;

use super::super::cases::{Case, seen};
use super::*;

/// An incident: its events, the event that a reader opens, and the object at its root.
struct Incident {
    what: &'static str,
    cases: Vec<Case>,
    /// The reason of the event, and the beginning of its object's name: the first such event.
    opened: (&'static str, &'static str),
    /// The beginning of the name of the root.
    root: &'static str,
}

impl Incident {
    /// The place of the root among the rows, from one, and the words for it.
    fn rank(&self) -> Option<(usize, String)> {
        let events = seen(&self.cases);
        let (reason, object) = self.opened;
        let opened = events
            .iter()
            .filter(|event| event.brief.reason == reason && event.brief.object.starts_with(object));
        let opened = opened
            .min_by_key(|event| event.brief.first)
            .expect(self.what);
        let began = began(opened, events.iter().copied());
        let found = before(opened, began, &events);
        let mut places = found.into_iter().zip(1..);
        places.find_map(|(row, place)| {
            let object = events[row.event].brief.object;
            object
                .starts_with(self.root)
                .then(|| (place, format!("{object}: {}", row.why)))
        })
    }
}

/// The events of a capture.
fn captured(text: &str) -> Vec<Case> {
    text.lines().map(Case::json).collect()
}

/// What goes on every day, around an hour after midnight: births, jobs, a metric that is missing,
/// and a probe that fails now and then.
fn with_everyday(mut cases: Vec<Case>) -> Vec<Case> {
    for at in 0..12 {
        let second = 3000 + at * 50;
        let pod = format!("report-{at}x2k7-b2c4d");
        let job = format!("report-{at}x2k7");
        cases.push(Case::new("Job", &job, "SuccessfulCreate", second));
        cases.push(
            Case::new("Pod", &pod, "Scheduled", second)
                .message(&format!("Successfully assigned shop/{pod} to node-1")),
        );
        cases.push(Case::new("Pod", &pod, "Pulled", second + 1).host("node-1"));
        cases.push(Case::new("Pod", &pod, "Started", second + 2).host("node-1"));
        cases.push(Case::new("Job", &job, "Completed", second + 20));
    }
    cases.push(
        Case::new("HorizontalPodAutoscaler", "old", "FailedGetScale", 3590)
            .times(240, 10)
            .warning(),
    );
    cases.push(
        Case::new("Pod", "cache-0", "Unhealthy", 3200)
            .message("Liveness probe failed: timeout")
            .host("node-2")
            .warning(),
    );
    cases.push(Case::new("Deployment", "web", "ScalingReplicaSet", 100));
    cases.push(Case::new("Node", "node-1", "Starting", 40).host("node-1"));
    cases
}

/// A pod that was born long before the incident, on node-1.
fn pod(name: &str, second: i64) -> Vec<Case> {
    let assigned = format!("Successfully assigned shop/{name} to node-1");
    vec![
        Case::new("Pod", name, "Scheduled", second).message(&assigned),
        Case::new("Pod", name, "Pulled", second + 2).host("node-1"),
        Case::new("Pod", name, "Created", second + 3).host("node-1"),
        Case::new("Pod", name, "Started", second + 3).host("node-1"),
    ]
}

fn made(
    what: &'static str,
    opened: (&'static str, &'static str),
    root: &'static str,
    born: Vec<Case>,
    cases: impl IntoIterator<Item = Case>,
) -> Incident {
    Incident {
        what,
        cases: with_everyday(born.into_iter().chain(cases).collect()),
        opened,
        root,
    }
}

fn warning(object: &str, reason: &str, second: i64, message: &str) -> Case {
    let (kind, name) = object.split_once('/').expect("a kind and a name");
    Case::new(kind, name, reason, second)
        .message(message)
        .warning()
}

/// A pod of the deployment `web`.
const POD: &str = "web-5d4f8c7b9-x7k2p";

fn incidents() -> Vec<Incident> {
    let groups = [
        of_captures(),
        of_changes(),
        of_neighbours(),
        of_the_platform(),
    ];
    groups.into_iter().flatten().collect()
}

fn of_captures() -> Vec<Incident> {
    vec![
        Incident {
            what: "captured: calico's node pods are forbidden, so that the node is not ready",
            cases: captured(include_str!("incidents/calico.jsonl")),
            opened: ("FailedScheduling", "kubernetes-dashboard-"),
            root: "calico-node",
        },
        Incident {
            what: "captured: the network's plugin cannot mount its binaries",
            cases: captured(include_str!("incidents/multus.jsonl")),
            opened: ("NetworkNotReady", "network-metrics-daemon-7wllj"),
            root: "multus-additional-cni-plugins",
        },
        Incident {
            what: "captured: a deployment with an image that does not exist",
            cases: captured(include_str!("incidents/images.jsonl")),
            opened: ("Failed", "no-image-deployment-849c4c4958-rxqmt"),
            root: "no-image-deployment",
        },
    ]
}

/// Something that the pod needs was changed or lost.
fn of_changes() -> Vec<Incident> {
    vec![
        made(
            "a roll-out of an image that crashes",
            ("BackOff", "web-"),
            "web",
            pod(POD, 3500),
            [
                Case::new("Deployment", "web", "ScalingReplicaSet", 3499)
                    .message("Scaled up replica set web-5d4f8c7b9 to 1"),
                Case::new("ReplicaSet", "web-5d4f8c7b9", "SuccessfulCreate", 3499)
                    .message("Created pod: web-5d4f8c7b9-x7k2p"),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "BackOff",
                    3520,
                    "Back-off restarting failed container web in pod web-5d4f8c7b9-x7k2p",
                )
                .host("node-1"),
            ],
        ),
        made(
            "a node that is lost",
            ("NodeNotReady", "web-"),
            "node-1",
            pod(POD, 300),
            [
                Case::new("Node", "node-1", "NodeNotReady", 3590)
                    .message("Node node-1 status is now: NodeNotReady"),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "NodeNotReady",
                    3591,
                    "Node is not ready",
                ),
            ],
        ),
        made(
            "a volume that is attached elsewhere",
            ("FailedAttachVolume", "db-0"),
            "db-old-0",
            pod("db-0", 3500),
            [
                Case::new("Pod", "db-old-0", "Killing", 3100).host("node-2"),
                warning(
                    "Pod/db-old-0",
                    "FailedKillPod",
                    3200,
                    "error killing pod: timeout",
                )
                .host("node-2"),
                warning(
                    "Pod/db-0",
                    "FailedAttachVolume",
                    3510,
                    "Multi-Attach error for volume \"pvc-2f9c\" Volume is already used by pod(s) \
                     db-old-0",
                ),
            ],
        ),
        made(
            "a secret that its operator cannot read",
            ("FailedMount", "web-"),
            "backup-key",
            pod(POD, 3500),
            [
                warning(
                    "ExternalSecret/backup-key",
                    "UpdateFailed",
                    2900,
                    "could not get secret data from provider",
                ),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "FailedMount",
                    3510,
                    "MountVolume.SetUp failed for volume \"dump\" : secret \"backup-key\" not found",
                )
                .host("node-1"),
            ],
        ),
    ]
}

/// Another workload is at fault.
fn of_neighbours() -> Vec<Incident> {
    vec![
        made(
            "a quota that another deployment used up",
            ("FailedCreate", "web-5d4f8c7b9"),
            "batch",
            Vec::new(),
            [
                Case::new("Deployment", "batch", "ScalingReplicaSet", 3400)
                    .message("Scaled up replica set batch-7c9d8f6b5 to 40"),
                Case::new("Deployment", "web", "ScalingReplicaSet", 3560)
                    .message("Scaled up replica set web-5d4f8c7b9 to 3"),
                warning(
                    "ReplicaSet/web-5d4f8c7b9",
                    "FailedCreate",
                    3561,
                    "Error creating: pods \"web-5d4f8c7b9-x7k2p\" is forbidden: exceeded quota: \
                     compute, requested: cpu=1, used: cpu=40, limited: cpu=40",
                ),
            ],
        ),
        made(
            "a webhook whose pods are gone",
            ("FailedCreate", "web-5d4f8c7b9"),
            "gate-admission",
            Vec::new(),
            [
                warning(
                    "Pod/gate-admission-6d4cf56db6-m9qpl",
                    "BackOff",
                    3000,
                    "Back-off restarting failed container",
                )
                .namespace("policy")
                .host("node-2"),
                Case::new("Deployment", "web", "ScalingReplicaSet", 3560),
                warning(
                    "ReplicaSet/web-5d4f8c7b9",
                    "FailedCreate",
                    3561,
                    "Error creating: Internal error occurred: failed calling webhook \
                     \"check.gate.io\": failed to call webhook: Post \
                     \"https://gate-svc.policy.svc:443/check\": connect: connection refused",
                ),
            ],
        ),
    ]
}

/// Something that many workloads need is at fault.
fn of_the_platform() -> Vec<Incident> {
    vec![
        made(
            "a certificate that was not renewed",
            ("Unhealthy", "web-"),
            "shop-tls",
            pod(POD, 300),
            [
                warning(
                    "Certificate/shop-tls",
                    "Failed",
                    2400,
                    "The certificate request has failed to complete and will be retried",
                ),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "Unhealthy",
                    3580,
                    "Readiness probe failed: Get \"https://10.0.0.9\": x509: certificate has \
                     expired or is not yet valid",
                )
                .host("node-1"),
            ],
        ),
        made(
            "name resolution that is down",
            ("Unhealthy", "web-"),
            "coredns",
            pod(POD, 300),
            [
                warning(
                    "Pod/coredns-75fc8f8fff-qbkdn",
                    "BackOff",
                    3300,
                    "Back-off restarting failed container coredns",
                )
                .namespace("kube-system")
                .host("node-2"),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "Unhealthy",
                    3580,
                    "Readiness probe failed: dial tcp: lookup db.shop on 10.96.0.10:53: i/o timeout",
                )
                .host("node-1"),
            ],
        ),
        made(
            "a node without memory",
            ("BackOff", "web-"),
            "node-1",
            pod(POD, 300),
            [
                warning(
                    "Node/node-1",
                    "SystemOOM",
                    3540,
                    "System OOM encountered, victim process: java, pid: 4711",
                ),
                warning(
                    "Pod/web-5d4f8c7b9-x7k2p",
                    "BackOff",
                    3560,
                    "Back-off restarting failed container web",
                )
                .host("node-1"),
            ],
        ),
        made(
            "an autoscaler without metrics",
            ("FailedGetResourceMetric", "web"),
            "metrics-server",
            Vec::new(),
            [
                warning(
                    "Pod/metrics-server-5c8978b444-6lc2q",
                    "Unhealthy",
                    3000,
                    "Readiness probe failed: HTTP probe failed with statuscode: 500",
                )
                .namespace("kube-system")
                .host("node-2"),
                warning(
                    "HorizontalPodAutoscaler/web",
                    "FailedGetResourceMetric",
                    3570,
                    "unable to fetch metrics from resource metrics API: the server is currently \
                     unable to handle the request (get pods.metrics.k8s.io)",
                ),
            ],
        ),
    ]
}

/// Incidents of captures that are not carried along.
fn further() -> Vec<Incident> {
    let Ok(folder) = std::env::var("TIDINGS_CAPTURES") else {
        return Vec::new();
    };
    let further = [(
        "captured: the agent of the network's plugin crashes",
        "k3s-cilium.jsonl",
        ("FailedCreatePodSandBox", "coredns"),
        "cilium-sqmvj",
    )];
    let read = |(what, file, opened, root)| {
        let text = std::fs::read_to_string(Path::new(&folder).join(file)).ok()?;
        Some(Incident {
            what,
            cases: captured(&text),
            opened,
            root,
        })
    };
    further.into_iter().filter_map(read).collect()
}

#[test]
fn the_root_of_most_incidents_is_among_the_first_three() {
    let incidents: Vec<_> = incidents().into_iter().chain(further()).collect();
    let mut found = 0;
    for incident in &incidents {
        let rank = incident.rank();
        found += usize::from(rank.as_ref().is_some_and(|(place, _)| *place <= 3));
        let told = rank.map_or("not found".to_owned(), |(at, why)| format!("{at}. {why}"));
        println!("{}\n    {told}", incident.what);
    }
    assert!(
        found * 10 >= incidents.len() * 8,
        "{found} of {}",
        incidents.len()
    );
}
