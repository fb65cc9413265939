//! What kube-apiserver's scheme says of kinds it was not asked for.

use tidings_core::validate::go_quote;

/// Kinds of `v1` that a body may turn out to be by mistake.
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

/// Kinds of every version.
const META_KINDS: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
];

/// What kube-apiserver says of a kind that is no event: that it is another one, or an
/// unknown one.
pub fn unknown_kind(group_version: &str, kind: &str) -> String {
    match group_version {
        "v1" | "events.k8s.io/v1" if META_KINDS.contains(&kind) => {
            format!("converting (v1.{kind}) to (core.Event): unknown conversion")
        }
        "v1" if CORE_KINDS.contains(&kind) => {
            format!("converting (v1.{kind}) to (core.Event): unknown conversion")
        }
        "events.k8s.io/v1" if kind == "EventList" => {
            "converting (v1.EventList) to (core.Event): unknown conversion".to_owned()
        }
        _ => not_registered(group_version, kind),
    }
}

/// No such kind is known in this version.
pub fn not_registered(group_version: &str, kind: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind),
        go_quote(group_version)
    )
}
