//! What the server says it serves: discovery in both forms, and the version.

use axum::Json;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::error::Status;

/// The Kubernetes release whose behaviour is followed.
const MAJOR: &str = "1";
const MINOR: &str = "33";

/// Something the server knows the name of.
struct Resource {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    singular: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    verbs: &'static [&'static str],
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
const RESOURCES: [Resource; 22] = [
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

/// The groups but for core, each with its one version.
fn named_groups() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = RESOURCES
        .iter()
        .map(|resource| (resource.group, resource.version))
        .filter(|(group, _)| !group.is_empty())
        .collect();
    groups.dedup();
    groups
}

/// GET /version
pub(crate) async fn version() -> Json<Value> {
    Json(json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

fn git_version() -> String {
    let tidings = env!("CARGO_PKG_VERSION");
    format!("v{MAJOR}.{MINOR}.0+tidings-{tidings}")
}

/// The labels of `kubernetes_build_info`.
pub(crate) fn build_info() -> [(&'static str, String); 5] {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    [
        ("major", MAJOR.to_string()),
        ("minor", MINOR.to_string()),
        ("git_version", git_version()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform),
    ]
}

/// GET /api
pub(crate) async fn core_versions(headers: HeaderMap) -> Response {
    aggregated(&headers, &[("", "v1")]).unwrap_or_else(|| {
        Json(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }))
        .into_response()
    })
}

/// GET /apis
pub(crate) async fn groups(headers: HeaderMap) -> Response {
    let groups = named_groups();
    aggregated(&headers, &groups).unwrap_or_else(|| {
        let groups: Vec<Value> = groups
            .iter()
            .map(|(name, version)| group_value(name, version))
            .collect();
        Json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})).into_response()
    })
}

/// GET /apis/{group}
pub(crate) async fn group(Path(wanted): Path<String>) -> Result<Json<Value>, Status> {
    let (name, version) = named_groups()
        .into_iter()
        .find(|(name, _)| *name == wanted)
        .ok_or_else(Status::no_such_path)?;
    let mut group = group_value(name, version);
    if let Some(group) = group.as_object_mut() {
        group.insert("kind".into(), "APIGroup".into());
        group.insert("apiVersion".into(), "v1".into());
    }
    Ok(Json(group))
}

fn group_value(name: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// GET /api/v1
pub(crate) async fn core_resources() -> Json<Value> {
    resource_list("", "v1")
}

/// GET /apis/{group}/{version}
pub(crate) async fn resources(
    Path((group, version)): Path<(String, String)>,
) -> Result<Json<Value>, Status> {
    if named_groups().contains(&(group.as_str(), version.as_str())) {
        Ok(resource_list(&group, &version))
    } else {
        Err(Status::no_such_path())
    }
}

fn resource_list(group: &str, version: &str) -> Json<Value> {
    let resources: Vec<Value> = RESOURCES
        .iter()
        .filter(|resource| resource.group == group)
        .map(|resource| {
            let mut value = json!({
                "name": resource.name,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": resource.verbs,
            });
            if !resource.short_names.is_empty() {
                value["shortNames"] = json!(resource.short_names);
            }
            if resource.name == "events" {
                value["storageVersionHash"] = json!("r2yiGXH7wu8=");
            }
            value
        })
        .collect();
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Json(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

/// The aggregated form, if the client accepts it.
fn aggregated(headers: &HeaderMap, groups: &[(&str, &str)]) -> Option<Response> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let version = accept.split(',').find_map(|clause| {
        let mut parameters = clause.split(';').map(str::trim).skip(1);
        let wanted =
            clause.contains("g=apidiscovery.k8s.io") && clause.contains("as=APIGroupDiscoveryList");
        wanted.then(|| parameters.find_map(|parameter| parameter.strip_prefix("v=")))?
    })?;
    let version = match version {
        "v2" => "v2",
        "v2beta1" => "v2beta1",
        _ => return None,
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, version)| group_discovery(group, version))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
    .to_string();
    let etag = format!("\"{:x}\"", fingerprint(body.as_bytes()));
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let mut response = if headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == etag.as_bytes())
    {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        body.into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::ETAG, etag)] {
        headers.insert(name, HeaderValue::from_str(&value).ok()?);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Some(response)
}

fn group_discovery(group: &str, version: &str) -> Value {
    let resources: Vec<Value> = RESOURCES
        .iter()
        .filter(|resource| resource.group == group)
        .map(|resource| {
            let mut value = json!({
                "resource": resource.name,
                "responseKind": {"group": group, "version": version, "kind": resource.kind},
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": resource.verbs,
            });
            if !resource.short_names.is_empty() {
                value["shortNames"] = json!(resource.short_names);
            }
            value
        })
        .collect();
    json!({
        "metadata": {"name": group, "creationTimestamp": null},
        "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
    })
}

/// A number that changes when the bytes do (FNV-1a): enough for an ETag of a document of our own.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
