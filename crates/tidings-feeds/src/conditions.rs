//! The conditions that people alert on, which join reasons and messages of events.

use k8s_pb::api::core::v1::Event;

/// A condition that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// An image cannot be pulled.
    ImagePull,
    /// A container ends again and again, and is restarted later each time.
    CrashLoop,
    /// The kernel ended a process because memory was short.
    OutOfMemory,
    /// No node fits a pod.
    Scheduling,
    /// A volume cannot be attached or mounted.
    Mount,
    /// A probe of a container fails.
    Probe,
    /// A pod was evicted or preempted, or a node begins to evict.
    Eviction,
    /// A node is not ready.
    NodeNotReady,
    /// A quota forbids an object.
    Quota,
    /// A certificate cannot be issued or has expired.
    Certificate,
    /// A job has failed as often as it may.
    BackoffLimit,
    /// A controller or the kubelet cannot create a pod, for another reason than a quota.
    FailedCreate,
}

impl Condition {
    /// All conditions.
    pub const ALL: [Self; 12] = [
        Self::ImagePull,
        Self::CrashLoop,
        Self::OutOfMemory,
        Self::Scheduling,
        Self::Mount,
        Self::Probe,
        Self::Eviction,
        Self::NodeNotReady,
        Self::Quota,
        Self::Certificate,
        Self::BackoffLimit,
        Self::FailedCreate,
    ];

    /// Returns the condition's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ImagePull => "image-pull",
            Self::CrashLoop => "crash-loop",
            Self::OutOfMemory => "out-of-memory",
            Self::Scheduling => "scheduling",
            Self::Mount => "mount",
            Self::Probe => "probe",
            Self::Eviction => "eviction",
            Self::NodeNotReady => "node-not-ready",
            Self::Quota => "quota",
            Self::Certificate => "certificate",
            Self::BackoffLimit => "backoff-limit",
            Self::FailedCreate => "failed-create",
        }
    }

    /// Returns the condition that an event reports, if it reports one.
    ///
    /// The kubelet uses `Failed` and `BackOff` for several conditions, and reports the back-off of
    /// an image pull as `Normal`, so the message decides there.
    pub fn of(event: &Event) -> Option<Self> {
        let (message, is_warning) = (event.message(), event.r#type() == "Warning");
        let has = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
        let controller = event
            .source
            .as_ref()
            .map_or("", |source| source.component());
        let is_issuer = controller.starts_with("cert-manager")
            || event.reporting_component().starts_with("cert-manager");
        Some(match event.reason() {
            "BackOff" if has(&["Back-off pulling"]) => Self::ImagePull,
            "BackOff" if has(&["Back-off restarting"]) => Self::CrashLoop,
            "Failed"
                if has(&[
                    "pull image",
                    "ErrImagePull",
                    "ImagePullBackOff",
                    "InvalidImageName",
                ]) =>
            {
                Self::ImagePull
            }
            "ErrImageNeverPull" | "InspectFailed" => Self::ImagePull,
            "SystemOOM" | "OOMKilling" | "OOMKilled" => Self::OutOfMemory,
            "FailedScheduling" => Self::Scheduling,
            "FailedMount" | "FailedAttachVolume" | "FailedMapVolume" => Self::Mount,
            "Unhealthy" | "ProbeError" => Self::Probe,
            "Evicted" | "EvictionThresholdMet" | "Preempted" | "TaintManagerEviction" => {
                Self::Eviction
            }
            "NodeNotReady" => Self::NodeNotReady,
            "FailedCreate" if has(&["exceeded quota"]) => Self::Quota,
            "BackoffLimitExceeded" => Self::BackoffLimit,
            "FailedCreate" | "FailedCreatePodSandBox" | "ReplicaSetCreateError" => {
                Self::FailedCreate
            }
            "CertificateExpired" => Self::Certificate,
            _ if is_warning && (is_issuer || has(&["certificate has expired"])) => {
                Self::Certificate
            }
            _ => return None,
        })
    }
}
