//! The API group of an archive, which the home cluster's own API server shows its users as one of
//! its groups (an `APIService`).
//!
//! `pastevents` are the home cluster's events that the archive has, in the form of `v1` with a
//! group and a kind of their own. Beside them are their versions, their coverage and their counts.
//! The requests come from the aggregation layer, and users are authorized like those of `v1`
//! Events, but for this group and these resources.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Extension, Router};
use http::HeaderMap;
use serde_json::{Value, json};
use tidings_api::codec::{PAST_GROUP, PAST_VERSION};

use super::handlers;
use crate::api::chain;
use crate::api::documents::discovery::{self, Document};
use crate::api::documents::not_found;
use crate::api::documents::openapi;
use crate::api::read::list;
use crate::api::server::{ApiServer, at};
use crate::http::negotiate::{Discovery, negotiate_discovery};
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// The path of the group.
fn group() -> String {
    format!("/apis/{PAST_GROUP}")
}

/// The path of the group's version.
pub(crate) fn version() -> String {
    format!("/apis/{PAST_VERSION}")
}

/// The resources of the group, over the home cluster's events.
pub(crate) fn resources(server: Arc<ApiServer>) -> Router {
    let version = version();
    let all = format!("{version}/namespaces/{{namespace}}/pastevents");
    let one = format!("{all}/{{name}}");
    let mut api = Router::new();
    api = at(api, &format!("{version}/pastevents"), get(list::list));
    api = at(api, &all, get(list::list));
    api = at(api, &one, get(list::get));
    api = at(api, &format!("{one}/versions"), get(handlers::versions));
    for place in ["", "/namespaces/{namespace}"] {
        let path = format!("{version}{place}/coverage");
        api = at(api, &path, get(coverage));
    }
    api = at(api, &format!("{version}/counts"), get(handlers::counts));
    let api = api
        .fallback(|| async { Status::no_such_path() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(api, &server).with_state(server)
}

/// The documents about the group: discovery and OpenAPI.
pub(crate) fn documents(server: Arc<ApiServer>) -> Router {
    let mut api = Router::new();
    for path in [group(), version()] {
        api = at(api, &path, get(discover));
    }
    let api = api
        .route("/apis", any(discover))
        .route("/apis/", any(discover))
        .route("/openapi/v2", any(openapi::joined_past))
        .route("/openapi/v3", get(openapi::index_past))
        .route("/openapi/v3/{*path}", get(openapi::version_past))
        .fallback(|_: Uri| async { not_found() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(api, &server).with_state(server)
}

/// GET of the coverage of a namespace, or of the whole cluster: of what the request was authorized
/// for.
async fn coverage(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    if info.is_ambiguous {
        return Err(Status::no_such_path());
    }
    let namespace = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    handlers::coverage_of(&server, namespace, &info).await
}

/// The documents of discovery: the list of groups in both forms, the group, and its version.
struct Documents {
    groups: Document,
    aggregated: Document,
    group: Document,
    version: Document,
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let version = json!({"groupVersion": PAST_VERSION, "version": "v1"});
    let mut group = json!({"name": PAST_GROUP, "versions": [version], "preferredVersion": version});
    let groups = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]});
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    let plain: Vec<Value> = RESOURCES.iter().map(Resource::plain).collect();
    let aggregated: Vec<Value> = RESOURCES.iter().filter_map(Resource::aggregated).collect();
    let document = |value: &Value| Document::of(&value.to_string());
    Documents {
        groups: document(&groups),
        aggregated: document(&json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": [{
                "metadata": {"name": PAST_GROUP},
                "versions": [{"version": "v1", "resources": aggregated, "freshness": "Current"}],
            }],
        })),
        group: document(&group),
        version: document(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": PAST_VERSION, "resources": plain,
        })),
    }
});

/// A resource or subresource of the group.
struct Resource {
    name: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    is_namespaced: bool,
    kind: &'static str,
    verbs: &'static [&'static str],
}

const RESOURCES: [Resource; 7] = [
    Resource {
        name: "clusters",
        singular: "cluster",
        short: &[],
        is_namespaced: false,
        kind: "Cluster",
        verbs: &["list"],
    },
    Resource {
        name: "clusters/proxy",
        singular: "",
        short: &[],
        is_namespaced: false,
        kind: "Cluster",
        verbs: &["create", "delete", "get"],
    },
    Resource {
        name: "counts",
        singular: "counts",
        short: &[],
        is_namespaced: false,
        kind: "Counts",
        verbs: &["list"],
    },
    Resource {
        name: "coverage",
        singular: "coverage",
        short: &[],
        is_namespaced: true,
        kind: "Coverage",
        verbs: &["list"],
    },
    Resource {
        name: "pastevents",
        singular: "pastevent",
        short: &["pev"],
        is_namespaced: true,
        kind: "PastEvent",
        verbs: &["get", "list", "watch"],
    },
    Resource {
        name: "pastevents/versions",
        singular: "",
        short: &[],
        is_namespaced: true,
        kind: "PastEvent",
        verbs: &["get"],
    },
    // The timeline serves it, if there is one.
    Resource {
        name: "timeline",
        singular: "timeline",
        short: &[],
        is_namespaced: true,
        kind: "Timeline",
        verbs: &["get"],
    },
];

impl Resource {
    fn plain(&self) -> Value {
        let mut plain = json!({
            "name": self.name, "singularName": self.singular, "namespaced": self.is_namespaced, "kind": self.kind,
            "verbs": self.verbs,
        });
        if !self.short.is_empty() {
            plain["shortNames"] = json!(self.short);
        }
        plain
    }

    /// The resource with its subresources; `None` for a subresource.
    fn aggregated(&self) -> Option<Value> {
        let kind = json!({"group": PAST_GROUP, "version": "v1", "kind": self.kind});
        if self.name.contains('/') {
            return None;
        }
        let below = |other: &&Self| {
            let rest = other.name.strip_prefix(self.name);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let subresources: Vec<Value> = RESOURCES
            .iter()
            .filter(below)
            .map(|other| {
                let name = other.name.rsplit('/').next();
                json!({
                    "subresource": name, "verbs": other.verbs,
                    "responseKind": {"group": PAST_GROUP, "version": "v1", "kind": other.kind},
                })
            })
            .collect();
        let scope = if self.is_namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let mut aggregated = json!({
            "resource": self.name, "responseKind": kind, "scope": scope, "singularResource": self.singular,
            "verbs": self.verbs,
        });
        if !self.short.is_empty() {
            aggregated["shortNames"] = json!(self.short);
        }
        if !subresources.is_empty() {
            aggregated["subresources"] = subresources.into();
        }
        Some(aggregated)
    }
}

/// GET of a document of discovery.
async fn discover(
    Extension(info): Extension<Arc<RequestInfo>>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    let path = info.uri.path().trim_end_matches('/');
    let documents = &*DOCUMENTS;
    let (document, of_resources) = match path {
        "/apis" => (&documents.groups, false),
        path if path == version() => (&documents.version, true),
        _ => (&documents.group, false),
    };
    match negotiate_discovery(&headers, &info.query, of_resources, path == "/apis")? {
        Discovery::Plain(form) => discovery::answer(document, form),
        Discovery::Aggregated(media) => {
            discovery::aggregated(&documents.aggregated, media, &headers)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_discovery_name_the_same() {
        let plain: Vec<String> = RESOURCES
            .iter()
            .map(|it| it.plain()["name"].as_str().unwrap().to_owned())
            .collect();
        let mut aggregated = Vec::new();
        for resource in RESOURCES.iter().filter_map(Resource::aggregated) {
            let name = resource["resource"].as_str().unwrap();
            aggregated.push(name.to_owned());
            for below in resource["subresources"].as_array().into_iter().flatten() {
                aggregated.push(format!("{name}/{}", below["subresource"].as_str().unwrap()));
            }
        }
        assert_eq!(plain, aggregated);
    }
}
