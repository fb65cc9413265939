//! What reasons say: which events report a change, which a pod's birth, and which nothing.

/// Reasons of changes that are few in any cluster: those of nodes and of scale, and evictions.
pub(crate) const CHANGES: [&str; 14] = [
    "NodeNotReady",
    "NodeReady",
    "NodeNotSchedulable",
    "Rebooted",
    "Starting",
    "NodeHasDiskPressure",
    "RemovingNode",
    "SystemOOM",
    "OOMKilling",
    "Evicted",
    "TaintManagerEviction",
    "Preempted",
    "ScalingReplicaSet",
    "SuccessfulRescale",
];

/// The change that an event with this reason reports.
pub(crate) fn change(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "Pulled" | "Pulling" => "an image",
        "ScalingReplicaSet" | "SuccessfulRescale" | "SuccessfulCreate" | "SuccessfulDelete" => {
            "a change of scale"
        }
        "Scheduled" | "Preempted" | "TriggeredScaleUp" | "ScaleDown" => "a placement",
        "Killing" | "Evicted" | "TaintManagerEviction" | "Drain" | "SandboxChanged" => "an end",
        "NodeNotReady"
        | "NodeReady"
        | "NodeNotSchedulable"
        | "NodeSchedulable"
        | "Rebooted"
        | "Starting"
        | "NodeHasDiskPressure"
        | "NodeHasInsufficientMemory"
        | "RemovingNode"
        | "SystemOOM"
        | "OOMKilling" => "a node's state",
        "ConfigMapCreated"
        | "ConfigMapUpdated"
        | "SecretCreated"
        | "SecretUpdated"
        | "ObservedConfigChanged"
        | "DeploymentUpdated"
        | "DeploymentRollback" => "a configuration",
        "FailedMount"
        | "FailedAttachVolume"
        | "SuccessfulAttachVolume"
        | "ProvisioningSucceeded"
        | "ProvisioningFailed" => "a volume",
        "LeaderElection" => "a new leader",
        "Started" | "Created" => "a start",
        _ => return None,
    })
}

/// Whether every new pod has an event with this reason, which says nothing but that it is new.
pub(crate) fn is_birth(reason: &str) -> bool {
    matches!(
        reason,
        "Scheduled"
            | "SuccessfulCreate"
            | "Pulling"
            | "Pulled"
            | "Created"
            | "Started"
            | "SuccessfulMountVolume"
            | "AddedInterface"
    )
}

/// Whether a warning with this reason means nothing as a rule: a kubelet's at each of its starts,
/// and one of each installation of OpenShift.
pub(crate) fn is_noise(reason: &str) -> bool {
    matches!(reason, "InvalidDiskCapacity" | "ControlPlaneTopology")
}

/// Whether an event with this reason troubles what runs on a node although its type is Normal.
pub(crate) fn is_trouble(kind: &str, reason: &str) -> bool {
    match reason {
        "NodeNotReady" | "Rebooted" | "TaintManagerEviction" | "Preempted" | "Killing" => true,
        // Other components say that they start, too.
        "Starting" => kind == "Node",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_changes() {
        assert!(CHANGES.iter().all(|reason| change(reason).is_some()));
        assert!(!CHANGES.iter().any(|reason| is_birth(reason)));
    }
}
