//! Makes `src/embedded/codec/dictionary.zstd`, the dictionary a new store compresses with.
//!
//! ```text
//! cargo run --release -p tidings-store --example train_dictionary -- dictionary.zstd
//! ```
//!
//! It is trained on events made up here: what the usual components of a cluster say about the usual
//! objects, in the form the store keeps them in (key and index values, then Kubernetes' protobuf
//! envelope). The result is part of the store's format: stores in the field hold bodies compressed
//! with it, so a better one must become a new dictionary beside it.

use std::fs;

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use prost::Message;

const SAMPLES: u64 = 20_000;
const DICTIONARY_BYTES: usize = 16 * 1024;

/// Kind and apiVersion of the object, reporting component, whether it has a host and a container,
/// type, reason, message. In messages `%o` is the object, `%p` a pod, `%c` a container, `%i` an
/// image, `%n` a node, `%d` a number, `%s` a namespace.
type Template = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    bool,
    &'static str,
    &'static str,
    &'static str,
);

const POD: (&str, &str) = ("Pod", "v1");

#[rustfmt::skip]
const TEMPLATES: &[Template] = &[
    (POD.0, POD.1, "default-scheduler", false, false, "Normal", "Scheduled", "Successfully assigned %s/%o to %n"),
    (POD.0, POD.1, "default-scheduler", false, false, "Warning", "FailedScheduling", "0/%d nodes are available: %d Insufficient cpu. preemption: 0/%d nodes are available: %d No preemption victims found for incoming pod."),
    (POD.0, POD.1, "default-scheduler", false, false, "Warning", "FailedScheduling", "0/%d nodes are available: %d node(s) had untolerated taint {node.kubernetes.io/not-ready: }. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling."),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Pulling", "Pulling image \"%i\""),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Pulled", "Successfully pulled image \"%i\" in %dms (%dms including waiting). Image size: %d bytes."),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Pulled", "Container image \"%i\" already present on machine"),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Created", "Created container: %c"),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Created", "Created container %c"),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Started", "Started container %c"),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "Killing", "Stopping container %c"),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "BackOff", "Back-off restarting failed container %c in pod %o_%s(%u)"),
    (POD.0, POD.1, "kubelet", true, true, "Normal", "BackOff", "Back-off pulling image \"%i\""),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "Failed", "Error: ImagePullBackOff"),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "Failed", "Failed to pull image \"%i\": rpc error: code = NotFound desc = failed to pull and unpack image \"%i\": not found"),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "Unhealthy", "Liveness probe failed: Get \"http://10.%d.%d.%d:8080/healthz\": dial tcp 10.%d.%d.%d:8080: connect: connection refused"),
    (POD.0, POD.1, "kubelet", true, true, "Warning", "Unhealthy", "Readiness probe failed: Get \"http://10.%d.%d.%d:8080/ready\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    (POD.0, POD.1, "kubelet", true, false, "Warning", "FailedMount", "MountVolume.SetUp failed for volume \"kube-api-access-%x\" : failed to sync configmap cache: timed out waiting for the condition"),
    (POD.0, POD.1, "kubelet", true, false, "Warning", "FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox"),
    (POD.0, POD.1, "kubelet", true, false, "Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."),
    (POD.0, POD.1, "taint-eviction-controller", false, false, "Normal", "TaintManagerEviction", "Cancelling deletion of Pod %s/%o"),
    ("Node", "", "kubelet", true, false, "Normal", "NodeHasSufficientMemory", "Node %n status is now: NodeHasSufficientMemory"),
    ("Node", "", "kubelet", true, false, "Normal", "NodeHasNoDiskPressure", "Node %n status is now: NodeHasNoDiskPressure"),
    ("Node", "", "kubelet", true, false, "Normal", "NodeReady", "Node %n status is now: NodeReady"),
    ("Node", "", "kubelet", true, false, "Normal", "Starting", "Starting kubelet."),
    ("Node", "", "kubelet", true, false, "Warning", "InvalidDiskCapacity", "invalid capacity 0 on image filesystem"),
    ("Node", "v1", "node-controller", false, false, "Normal", "RegisteredNode", "Node %n event: Registered Node %n in Controller"),
    ("ReplicaSet", "apps/v1", "replicaset-controller", false, false, "Normal", "SuccessfulCreate", "Created pod: %p"),
    ("ReplicaSet", "apps/v1", "replicaset-controller", false, false, "Normal", "SuccessfulDelete", "Deleted pod: %p"),
    ("ReplicaSet", "apps/v1", "replicaset-controller", false, false, "Warning", "FailedCreate", "Error creating: pods \"%p\" is forbidden: exceeded quota: %s"),
    ("Deployment", "apps/v1", "deployment-controller", false, false, "Normal", "ScalingReplicaSet", "Scaled up replica set %o-%x to %d from %d"),
    ("Deployment", "apps/v1", "deployment-controller", false, false, "Normal", "ScalingReplicaSet", "Scaled down replica set %o-%x to %d from %d"),
    ("StatefulSet", "apps/v1", "statefulset-controller", false, false, "Normal", "SuccessfulCreate", "create Pod %o-%d in StatefulSet %o successful"),
    ("DaemonSet", "apps/v1", "daemonset-controller", false, false, "Normal", "SuccessfulCreate", "Created pod: %p"),
    ("Job", "batch/v1", "job-controller", false, false, "Normal", "Completed", "Job completed"),
    ("CronJob", "batch/v1", "cronjob-controller", false, false, "Normal", "SuccessfulCreate", "Created job %o-%d"),
    ("CronJob", "batch/v1", "cronjob-controller", false, false, "Normal", "SawCompletedJob", "Saw completed job: %o-%d, condition: Complete"),
    ("HorizontalPodAutoscaler", "autoscaling/v2", "horizontal-pod-autoscaler", false, false, "Warning", "FailedGetResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"),
    ("HorizontalPodAutoscaler", "autoscaling/v2", "horizontal-pod-autoscaler", false, false, "Normal", "SuccessfulRescale", "New size: %d; reason: cpu resource utilization (percentage of request) above target"),
    ("PersistentVolumeClaim", "v1", "persistentvolume-controller", false, false, "Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
    ("PersistentVolumeClaim", "v1", "persistentvolume-controller", false, false, "Normal", "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner or manually by the system administrator."),
    ("Service", "v1", "service-controller", false, false, "Normal", "EnsuredLoadBalancer", "Ensured load balancer"),
    ("Endpoints", "v1", "endpoint-controller", false, false, "Warning", "FailedToUpdateEndpoint", "Failed to update endpoint %s/%o: Operation cannot be fulfilled on endpoints \"%o\": the object has been modified; please apply your changes to the latest version and try again"),
    ("Lease", "coordination.k8s.io/v1", "leader-election", false, false, "Normal", "LeaderElection", "%o_%u became leader"),
    ("Certificate", "cert-manager.io/v1", "cert-manager-certificates-issuing", false, false, "Normal", "Issuing", "The certificate has been successfully issued"),
    ("Ingress", "networking.k8s.io/v1", "nginx-ingress-controller", false, false, "Normal", "Sync", "Scheduled for sync"),
];

const NAMESPACES: &[&str] = &[
    "default",
    "kube-system",
    "monitoring",
    "production",
    "staging",
    "ingress-nginx",
    "team-a",
];
const APPLICATIONS: &[&str] = &[
    "web",
    "api",
    "frontend",
    "backend",
    "worker",
    "coredns",
    "prometheus",
    "redis",
    "postgres",
];
const CONTAINERS: &[&str] = &[
    "app", "web", "server", "manager", "proxy", "init", "sidecar",
];
const IMAGES: &[&str] = &[
    "docker.io/library/nginx",
    "registry.k8s.io/pause",
    "quay.io/team/app",
    "ghcr.io/team/web",
    "busybox",
];

/// A small generator of numbers, so that every run makes the same file.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = self.below(words.len() as u64) as usize;
        words.get(at).copied().unwrap_or_default()
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from(b"bcdfghjklmnpqrstvwxz2456789"[self.below(27) as usize]))
            .collect()
    }

    fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        let (high, low) = (b >> 52, b & 0xffff_ffff_ffff);
        format!(
            "{:08x}-{:04x}-4{:03x}-a{high:03x}-{low:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff
        )
    }
}

fn sample(numbers: &mut Numbers) -> Vec<u8> {
    let at = numbers.below(TEMPLATES.len() as u64) as usize;
    let (kind, api_version, component, has_host, has_container, kind_of_event, reason, message) =
        TEMPLATES[at];
    let namespace = if kind == "Node" {
        "default"
    } else {
        numbers.one_of(NAMESPACES)
    };
    let application = numbers.one_of(APPLICATIONS);
    let (first, second) = (numbers.letters(9), numbers.letters(5));
    let pod = format!("{application}-{first}-{second}");
    let node = format!("node-{}", numbers.below(500));
    let name = match kind {
        "Pod" => pod.clone(),
        "Node" => node.clone(),
        "ReplicaSet" => format!("{application}-{first}"),
        _ => application.to_owned(),
    };
    let container = numbers.one_of(CONTAINERS);
    let object_uid = numbers.uid();
    let image = format!(
        "{}:{}.{}",
        numbers.one_of(IMAGES),
        numbers.below(30),
        numbers.below(10)
    );
    let text = fill(message, |placeholder| match placeholder {
        "o" => name.clone(),
        "p" => pod.clone(),
        "c" => container.to_owned(),
        "i" => image.clone(),
        "n" => node.clone(),
        "s" => namespace.to_owned(),
        "u" => object_uid.clone(),
        "x" => first.clone(),
        _ => numbers.below(250).to_string(),
    });

    let seconds = 1_700_000_000 + numbers.below(100_000_000).cast_signed();
    let nanos = numbers.below(1_000_000_000);
    let time = Time {
        seconds: Some(seconds),
        nanos: Some(0),
    };
    let is_new_form = component == "default-scheduler";
    let suffix = seconds.cast_unsigned() * 1_000_000_000 + nanos;
    let event_name = format!("{name}.{suffix:x}");
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some(event_name.clone()),
            generate_name: Some(String::new()),
            namespace: Some(namespace.into()),
            self_link: Some(String::new()),
            uid: Some(numbers.uid()),
            resource_version: Some(String::new()),
            generation: Some(0),
            creation_timestamp: Some(time),
            ..ObjectMeta::default()
        }),
        involved_object: Some(ObjectReference {
            kind: Some(kind.into()),
            namespace: Some(when(kind != "Node", namespace)),
            name: Some(name.clone()),
            uid: Some(if kind == "Node" { &node } else { &object_uid }.clone()),
            api_version: Some(api_version.into()),
            resource_version: Some(if kind == "Node" {
                String::new()
            } else {
                numbers.below(90_000_000).to_string()
            }),
            field_path: Some(when(
                has_container,
                &format!("spec.containers{{{container}}}"),
            )),
        }),
        reason: Some(reason.into()),
        message: Some(text),
        source: Some(EventSource {
            component: Some(when(!is_new_form, component)),
            host: Some(when(has_host, &node)),
        }),
        first_timestamp: (!is_new_form).then_some(time),
        last_timestamp: (!is_new_form).then_some(time),
        count: Some(if is_new_form {
            0
        } else {
            1 + numbers.below(20) as i32
        }),
        r#type: Some(kind_of_event.into()),
        event_time: is_new_form.then_some(MicroTime {
            seconds: Some(seconds),
            nanos: Some((nanos / 1000 * 1000) as i32),
        }),
        series: None,
        action: Some(when(is_new_form, "Binding")),
        related: None,
        reporting_component: Some(component.into()),
        reporting_instance: Some(when(has_host, &node)),
    };
    let key = format!("{namespace}/{event_name}");
    frame([&key, &object_uid, kind, namespace, &name], &event)
}

/// Replaces the placeholders of a message, which are a letter behind `%`.
fn fill(message: &str, mut value: impl FnMut(&str) -> String) -> String {
    let mut parts = message.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (placeholder, rest) = part.split_at(1);
        text.push_str(&value(placeholder));
        text.push_str(rest);
    }
    text
}

/// The text, or an empty one if the field has none.
fn when(has_text: bool, text: &str) -> String {
    if has_text { text } else { "" }.to_owned()
}

/// A record with these strings before the event.
fn frame(strings: [&str; 5], event: &Event) -> Vec<u8> {
    let envelope = Unknown {
        type_meta: Some(TypeMeta {
            api_version: Some("v1".into()),
            kind: Some("Event".into()),
        }),
        raw: Some(event.encode_to_vec()),
        content_encoding: Some(String::new()),
        content_type: Some(String::new()),
    };
    let mut body = Vec::new();
    for string in strings {
        body.push(string.len() as u8);
        body.extend(string.bytes());
    }
    body.extend([0; 5]);
    body.extend(b"k8s\0");
    body.extend(envelope.encode_to_vec());
    body
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: train_dictionary FILE")?;
    let mut numbers = Numbers(1);
    let samples: Vec<Vec<u8>> = (0..SAMPLES).map(|_| sample(&mut numbers)).collect();
    let dictionary = zstd::dict::from_samples(&samples, DICTIONARY_BYTES)?;
    let mut compressor = zstd::bulk::Compressor::with_dictionary(3, &dictionary)?;
    let (mut before, mut after) = (0, 0);
    for _ in 0..1000 {
        let body = sample(&mut numbers);
        before += body.len();
        after += compressor.compress(&body)?.len();
    }
    fs::write(&path, &dictionary)?;
    #[expect(clippy::print_stdout, reason = "what a command has to say")]
    {
        println!(
            "{path}: {} bytes; fresh samples shrink from {} to {} bytes",
            dictionary.len(),
            before / 1000,
            after / 1000
        );
    }
    Ok(())
}
