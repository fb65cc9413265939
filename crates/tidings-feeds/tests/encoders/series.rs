//! Metrics of events: what they count, their bounds, and the alerts that rules make of incidents.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde_json::json;
use tidings_feeds::{Condition, Record, SERIES_MAX, Series};

use crate::events::{BACK_OFF, SERIES, hostile, record, records};

/// Events of incidents, each with its condition: reason, type, kind, component and message. Most
/// were captured; clusters in the captures had no quota, eviction, certificate or memory trouble,
/// so these are as the kubelet, kube-controller-manager and cert-manager write them.
#[rustfmt::skip]
const INCIDENTS: [(Condition, [&str; 5]); 20] = [
    (Condition::ImagePull, ["Failed", "Warning", "Pod", "kubelet", "Failed to pull image \"k8s.gcr.io/kube-proxy:v1.20.1\": rpc error: code = Unknown desc = context canceled"]),
    (Condition::ImagePull, ["Failed", "Warning", "Pod", "kubelet", "Error: ErrImagePull"]),
    (Condition::ImagePull, ["BackOff", "Normal", "Pod", "kubelet", "Back-off pulling image \"k8s.gcr.io/kube-proxy:v1.20.1\""]),
    (Condition::CrashLoop, ["BackOff", "Warning", "Pod", "kubelet", "Back-off restarting failed container"]),
    (Condition::OutOfMemory, ["SystemOOM", "Warning", "Node", "kubelet", "System OOM encountered, victim process: java, pid: 4711"]),
    (Condition::Scheduling, ["FailedScheduling", "Warning", "Pod", "", "no nodes available to schedule pods"]),
    (Condition::Mount, ["FailedMount", "Warning", "Pod", "kubelet", "MountVolume.SetUp failed for volume \"client-ca\" : configmap \"client-ca\" not found"]),
    (Condition::Probe, ["Unhealthy", "Warning", "Pod", "kubelet", "Readiness probe failed: dial tcp 172.17.0.43:82: connect: connection refused"]),
    (Condition::Probe, ["ProbeError", "Warning", "Pod", "kubelet", "Readiness probe error: Get \"https://10.129.0.88:8443/healthz\": dial tcp 10.129.0.88:8443: connect: connection refused\nbody: \n"]),
    (Condition::Eviction, ["Evicted", "Warning", "Pod", "kubelet", "The node was low on resource: memory. "]),
    (Condition::NodeNotReady, ["NodeNotReady", "Warning", "Pod", "node-controller", "Node is not ready"]),
    (Condition::Quota, ["FailedCreate", "Warning", "ReplicaSet", "replicaset-controller", "Error creating: pods \"web-789c6dddc7-x\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=10, limited: pods=10"]),
    (Condition::Certificate, ["Failed", "Warning", "Certificate", "cert-manager-certificates-issuing", "The certificate request has failed to complete and will be retried"]),
    (Condition::Certificate, ["Unready", "Warning", "Pod", "ingress", "x509: certificate has expired or is not yet valid"]),
    (Condition::BackoffLimit, ["BackoffLimitExceeded", "Warning", "Job", "job-controller", "Job has reached the specified backoff limit"]),
    (Condition::FailedCreate, ["FailedCreate", "Warning", "ReplicaSet", "replicaset-controller", "Error creating: pods \"controller-manager-74d456756d-\" is forbidden: error looking up service account"]),
    (Condition::FailedCreate, ["FailedCreatePodSandBox", "Warning", "Pod", "kubelet", "Failed to create pod sandbox: rpc error: code = Unknown"]),
    (Condition::Probe, ["Unhealthy", "Warning", "Pod", "kubelet", "Liveness probe failed: HTTP probe failed with statuscode: 503"]),
    (Condition::ImagePull, ["Failed", "Warning", "Pod", "kubelet", "Error: ImagePullBackOff"]),
    (Condition::Mount, ["FailedAttachVolume", "Warning", "Pod", "attachdetach-controller", "AttachVolume.Attach failed for volume \"pvc-1\" : rpc error"]),
];

/// Events that report none of the conditions.
#[rustfmt::skip]
const OTHERS: [[&str; 5]; 4] = [
    ["Pulled", "Normal", "Pod", "kubelet", "Successfully pulled image \"nginx\""],
    ["Failed", "Warning", "Pod", "kubelet", "Error: failed to start container \"nginx\": Error response from daemon"],
    ["Issuing", "Normal", "Certificate", "cert-manager-certificates-trigger", "Issuing certificate as Secret does not exist"],
    ["LeaderElection", "Normal", "Lease", "eks-certificate-controller", "ip-172-16-123-141.ec2.internal became leader"],
];

fn event(namespace: &str, [reason, event_type, kind, component, message]: [&str; 5]) -> Record {
    let event = json!({
        "metadata": {"name": "a", "namespace": namespace, "uid": "u", "resourceVersion": "5"},
        "involvedObject": {"kind": kind, "name": "web-0"}, "reason": reason, "type": event_type,
        "message": message, "source": {"component": component},
        "lastTimestamp": "2026-01-02T19:58:30Z",
    });
    record(&event.to_string())
}

#[test]
fn occurrences_and_versions_are_counted_by_labels() {
    let mut series = Series::default();
    for record in records().iter().chain(&[record(BACK_OFF), record(SERIES)]) {
        series.count("prod", record);
    }
    let page = series.page();
    for line in [
        "kubernetes_events_total{cluster=\"prod\",namespace=\"kube-system\",kind=\"Pod\",reason=\"BackOff\",type=\"Warning\",controller=\"kubelet\"} 4",
        "kubernetes_event_versions_total{cluster=\"prod\",namespace=\"kube-system\",kind=\"Pod\",reason=\"FailedScheduling\",type=\"Warning\",controller=\"default-scheduler\"} 2",
        "kubernetes_event_conditions_total{cluster=\"prod\",namespace=\"kube-system\",kind=\"Pod\",condition=\"crash-loop\"} 4",
        "tidings_event_series{cluster=\"prod\"} 3",
        "tidings_event_series_overflow_total{cluster=\"prod\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn each_incident_is_its_condition() {
    let condition = |record: &Record| match &record.body {
        tidings_feeds::RecordBody::Version(version) => Condition::of(&version.event),
        _ => None,
    };
    for (expected, of) in INCIDENTS {
        assert_eq!(condition(&event("a", of)), Some(expected), "{of:?}");
    }
    for of in OTHERS {
        assert_eq!(condition(&event("a", of)), None, "{of:?}");
    }
}

/// Prometheus itself makes one alert of each condition, and ends it.
#[test]
fn rules_make_an_alert_of_each_incident() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/events.yaml");
    let mut series = Series::default();
    for (condition, of) in INCIDENTS {
        // Each condition is in a namespace of its own, six times with two occurrences.
        for _ in 0..6 {
            series.count("prod", &event(condition.name(), of));
        }
    }
    let page = series.page();
    let mut input = String::new();
    let samples = page
        .lines()
        .filter(|line| line.starts_with("kubernetes_event_conditions_total{"));
    for line in samples {
        let (name, value) = line.rsplit_once(' ').unwrap();
        // The series appears after two minutes, and stays.
        let _ = writeln!(input, "  - series: '{name}'\n    values: '_ _ {value}x30'");
    }
    let mut alerts = String::new();
    for condition in Condition::ALL {
        let _ = writeln!(
            alerts,
            "    - labels: '{{namespace=\"{}\"}}'\n      value: 1",
            condition.name()
        );
    }
    let firing = "count by (namespace) (ALERTS{alertstate=\"firing\"})";
    let tests = format!(
        "rule_files: [{}]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
{input}  promql_expr_test:
  - expr: '{firing}'
    eval_time: 10m
    exp_samples:
{alerts}  - expr: '{firing}'
    eval_time: 30m
    exp_samples: []
",
        rules.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.yaml");
    fs::write(&file, tests).unwrap();
    let mut promtool = Command::new("promtool");
    let output = match promtool.args(["test", "rules"]).arg(file).output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: promtool cannot be run ({error})"),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Whatever reasons there are, the series are bounded and no occurrence is lost.
#[test]
fn series_beyond_the_bound_are_others() {
    let mut series = Series::default();
    let many = SERIES_MAX + 700;
    for number in 0..many {
        let (namespace, reason) = (format!("n{number}"), format!("r{number}"));
        let of = [reason.as_str(), "Normal", "Pod", "kubelet", "x"];
        series.count("prod", &event(&namespace, of));
    }
    series.count(
        "prod",
        &event("n0", ["r0", "Normal", "Pod", "kubelet", "x"]),
    );
    let page = series.page();
    let values = |name: &str| {
        let lines = page.lines().filter(|line| line.starts_with(name));
        let values = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap());
        values.collect::<Vec<_>>()
    };
    assert_eq!(
        values("kubernetes_events_total{").iter().sum::<usize>(),
        2 * (many + 1)
    );
    assert_eq!(
        values("kubernetes_event_versions_total{").len(),
        SERIES_MAX + 501
    );
    assert_eq!(values("tidings_event_series{"), [SERIES_MAX + 501]);
    assert_eq!(values("tidings_event_series_overflow_total{"), [700]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_within_its_label(record in hostile()) {
        let mut series = Series::default();
        series.count("prod", &record);
        let page = series.page();
        let lines = page.lines().filter(|line| line.starts_with("kubernetes_events_total{"));
        for line in lines {
            prop_assert_eq!(line.matches('"').count(), 12, "{}", line);
            prop_assert!(line.len() < 900 && line.is_ascii());
        }
    }
}
