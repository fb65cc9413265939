//! The resources that discovery tells of.

/// Something the server knows the name of.
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) name: &'static str,
    pub(super) singular: &'static str,
    pub(super) kind: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) namespaced: bool,
    pub(super) verbs: &'static [&'static str],
}

impl Resource {
    pub(super) fn storage_version_hash(&self) -> Option<&'static str> {
        (self.name == "events").then_some("r2yiGXH7wu8=")
    }

    pub(super) fn scope(&self) -> &'static str {
        if self.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        }
    }
}

const EVENT_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

const fn events(group: &'static str) -> Resource {
    Resource {
        group,
        version: "v1",
        name: "events",
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        namespaced: true,
        verbs: EVENT_VERBS,
    }
}

/// A kind that events are about. It is not served, and so has no verbs, but `kubectl events --for deploy/web` has to learn
/// from somebody what a `deploy` is.
const fn known(
    group: &'static str,
    name: &'static str,
    singular: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
) -> Resource {
    Resource {
        group,
        version: "v1",
        name,
        singular,
        kind,
        short_names,
        namespaced: true,
        verbs: &[],
    }
}

/// Core events come first, so that a bare `events` means them.
pub(super) const RESOURCES: [Resource; 22] = [
    events(""),
    Resource {
        namespaced: false,
        verbs: &["get", "list"],
        ..known("", "namespaces", "namespace", "Namespace", &["ns"])
    },
    Resource {
        namespaced: false,
        ..known("", "nodes", "node", "Node", &["no"])
    },
    Resource {
        namespaced: false,
        ..known(
            "",
            "persistentvolumes",
            "persistentvolume",
            "PersistentVolume",
            &["pv"],
        )
    },
    known("", "configmaps", "configmap", "ConfigMap", &["cm"]),
    known("", "endpoints", "endpoints", "Endpoints", &["ep"]),
    known(
        "",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        &["pvc"],
    ),
    known("", "pods", "pod", "Pod", &["po"]),
    known(
        "",
        "replicationcontrollers",
        "replicationcontroller",
        "ReplicationController",
        &["rc"],
    ),
    known("", "secrets", "secret", "Secret", &[]),
    known(
        "",
        "serviceaccounts",
        "serviceaccount",
        "ServiceAccount",
        &["sa"],
    ),
    known("", "services", "service", "Service", &["svc"]),
    events("events.k8s.io"),
    known("apps", "daemonsets", "daemonset", "DaemonSet", &["ds"]),
    known(
        "apps",
        "deployments",
        "deployment",
        "Deployment",
        &["deploy"],
    ),
    known("apps", "replicasets", "replicaset", "ReplicaSet", &["rs"]),
    known(
        "apps",
        "statefulsets",
        "statefulset",
        "StatefulSet",
        &["sts"],
    ),
    Resource {
        version: "v2",
        ..known(
            "autoscaling",
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            "HorizontalPodAutoscaler",
            &["hpa"],
        )
    },
    known("batch", "cronjobs", "cronjob", "CronJob", &["cj"]),
    known("batch", "jobs", "job", "Job", &[]),
    known(
        "networking.k8s.io",
        "ingresses",
        "ingress",
        "Ingress",
        &["ing"],
    ),
    known(
        "policy",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
        &["pdb"],
    ),
];
