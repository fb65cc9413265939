//! The errors of kube-apiserver's scheme for kinds other than Event.

use tidings_core::validate::go_quote;

/// Other kinds of `v1`.
const CORE_KINDS: [&str; 16] = [
    "Binding",
    "ConfigMap",
    "Endpoints",
    "EventList",
    "LimitRange",
    "List",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "Secret",
    "Service",
    "ServiceAccount",
];

/// Kinds that exist in every version.
const META_KINDS: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
];

/// kube-apiserver's error for a kind that is not Event, whether it exists or not.
pub fn unknown_kind(group_version: &str, kind: &str) -> String {
    let is_known = match group_version {
        "v1" => META_KINDS.contains(&kind) || CORE_KINDS.contains(&kind),
        "events.k8s.io/v1" => META_KINDS.contains(&kind) || kind == "EventList",
        _ => false,
    };
    if is_known {
        format!("converting (v1.{kind}) to (core.Event): unknown conversion")
    } else {
        not_registered(group_version, kind)
    }
}

/// kube-apiserver's error for a kind that does not exist in a version.
pub fn not_registered(group_version: &str, kind: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind),
        go_quote(group_version)
    )
}
