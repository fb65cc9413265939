//! What the server says it serves: discovery in both forms, and the version.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde::Serialize;

use super::body::encoded;
use super::discovery_messages as messages;
use super::known_resources::{RESOURCES, Resource};
use super::not_found::not_found;
use crate::http::negotiate::{Discovery, Form, Media, Shape, negotiate_discovery, require_json};
use crate::http::present::present;
use crate::http::query::Query;
use crate::http::status::Status;
use tidings_api::codec::protobuf::envelop_bytes;

/// The Kubernetes release whose behaviour is followed.
const MAJOR: &str = "1";
const MINOR: &str = "36";
/// What a server of that release is compatible with, too.
const MIN_COMPATIBILITY_MINOR: &str = "35";

/// The groups but for core, each with its one version.
pub(super) fn named_groups() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = RESOURCES
        .iter()
        .map(|resource| (resource.group, resource.version))
        .filter(|(group, _)| !group.is_empty())
        .collect();
    groups.dedup();
    groups
}

/// The names under which Go knows what the server was built for.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// GET /version, always JSON and always indented.
pub(crate) async fn version(headers: HeaderMap) -> Result<Response, Status> {
    require_json(&headers)?;
    let info = VersionInfo {
        major: MAJOR,
        minor: MINOR,
        emulation_major: MAJOR,
        emulation_minor: MINOR,
        min_compatibility_major: MAJOR,
        min_compatibility_minor: MIN_COMPATIBILITY_MINOR,
        git_version: git_version(),
        git_commit: "",
        git_tree_state: "",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: platform(),
    };
    let json = serde_json::to_vec_pretty(&info).unwrap_or_default();
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

fn git_version() -> String {
    let tidings = env!("CARGO_PKG_VERSION");
    format!("v{MAJOR}.{MINOR}.0+tidings-{tidings}")
}

/// The labels of `kubernetes_build_info`.
pub(crate) fn build_info() -> [(&'static str, String); 5] {
    [
        ("major", MAJOR.to_string()),
        ("minor", MINOR.to_string()),
        ("git_version", git_version()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform()),
    ]
}

/// The forms a document is asked for in, and where.
fn asked(
    headers: &HeaderMap,
    uri: &Uri,
    routed: bool,
    aggregates: bool,
) -> Result<Discovery, Status> {
    let query = Query::parse(uri.query());
    negotiate_discovery(headers, &query, routed, aggregates)
}

/// A document in its form; the message is its protobuf, with the version and the kind it is enveloped as.
fn document(
    form: Form,
    json: &impl Serialize,
    message: &dyn Fn() -> (&'static str, Vec<u8>),
) -> Result<Response, Status> {
    if form.media == Media::Protobuf {
        let (kind, bytes) = message();
        return Ok(encoded(
            StatusCode::OK,
            form.media,
            envelop_bytes("v1", kind, &bytes),
        ));
    }
    let json = serde_json::to_vec(json).map_err(|error| Status::internal(error.to_string()))?;
    let (media, body) = present(form, json)?;
    Ok(encoded(StatusCode::OK, media, body))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    kind: &'static str,
    #[serde(rename = "versions")]
    names: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    addresses: [(); 0],
}

/// GET /api
pub(crate) async fn core_versions(headers: HeaderMap, uri: Uri) -> Result<Response, Status> {
    match asked(&headers, &uri, true, true)? {
        Discovery::Aggregated(media) => aggregated(&headers, media, &[("", "v1")]),
        Discovery::Plain(form) => document(
            form,
            &Versions {
                kind: "APIVersions",
                names: ["v1"],
                addresses: [],
            },
            &|| ("APIVersions", messages::versions("v1")),
        ),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'static str,
    versions: [GroupVersion; 1],
    preferred_version: GroupVersion,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
    version: &'static str,
}

fn group_of(name: &'static str, version: &'static str) -> Group {
    let version = GroupVersion {
        group_version: format!("{name}/{version}"),
        version,
    };
    Group {
        kind: None,
        api_version: None,
        name,
        versions: [version.clone()],
        preferred_version: version,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupList {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<Group>,
}

/// Any method of /apis
pub(crate) async fn groups(headers: HeaderMap, uri: Uri) -> Result<Response, Status> {
    let groups = named_groups();
    match asked(&headers, &uri, false, true)? {
        Discovery::Aggregated(media) => aggregated(&headers, media, &groups),
        Discovery::Plain(form) => document(
            form,
            &GroupList {
                kind: "APIGroupList",
                api_version: "v1",
                groups: groups
                    .iter()
                    .map(|(name, version)| group_of(name, version))
                    .collect(),
            },
            &|| ("APIGroupList", messages::groups(&groups)),
        ),
    }
}

/// GET /apis/{group}
pub(crate) async fn group(
    Path(wanted): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Status> {
    let found = named_groups().into_iter().find(|(name, _)| *name == wanted);
    let Some((name, version)) = found else {
        return Ok(not_found());
    };
    match asked(&headers, &uri, false, false)? {
        Discovery::Aggregated(_) => Err(Status::no_such_path()),
        Discovery::Plain(form) => document(
            form,
            &Group {
                kind: Some("APIGroup"),
                api_version: Some("v1"),
                ..group_of(name, version)
            },
            &|| ("APIGroup", messages::group(name, version)),
        ),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: &'static str,
    /// Not there for the core group, which is older than it.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<Listed>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: &'static str,
    singular_name: &'static str,
    namespaced: bool,
    kind: &'static str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<&'static str>,
}

/// GET /api/v1
pub(crate) async fn core_resources(headers: HeaderMap, uri: Uri) -> Result<Response, Status> {
    resource_list("", "v1", &headers, &uri)
}

/// GET /apis/{group}/{version}
pub(crate) async fn resources(
    Path((group, version)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Status> {
    let mut groups = named_groups().into_iter();
    match groups.find(|(name, _)| *name == group) {
        Some((_, served)) if served == version => resource_list(&group, &version, &headers, &uri),
        Some(_) => Err(Status::no_such_path()),
        None => Ok(not_found()),
    }
}

fn resource_list(
    group: &str,
    version: &str,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Response, Status> {
    let Discovery::Plain(form) = asked(headers, uri, true, false)? else {
        return Err(Status::no_such_path());
    };
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let resources = RESOURCES.iter().filter(|resource| resource.group == group);
    let list = ResourceList {
        kind: "APIResourceList",
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: group_version.clone(),
        resources: resources
            .clone()
            .map(|resource| Listed {
                name: resource.name,
                singular_name: resource.singular,
                namespaced: resource.namespaced,
                kind: resource.kind,
                verbs: resource.verbs,
                short_names: resource.short_names,
                storage_version_hash: resource.storage_version_hash(),
            })
            .collect(),
    };
    document(form, &list, &|| {
        let message = messages::resources(&group_version, resources.clone());
        ("APIResourceList", message)
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Aggregate {
    kind: &'static str,
    api_version: &'static str,
    metadata: Named,
    items: Vec<AggregateGroup>,
}

#[derive(Serialize)]
struct Named {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'static str,
}

#[derive(Serialize)]
struct AggregateGroup {
    metadata: Named,
    versions: [AggregateVersion; 1],
}

#[derive(Serialize)]
struct AggregateVersion {
    version: &'static str,
    resources: Vec<AggregateResource>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregateResource {
    resource: &'static str,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: &'static str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'static [&'static str],
}

/// Group and version are told only where they are not those around it.
#[derive(Serialize)]
struct ResponseKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
}

/// Everything at once.
fn aggregated(
    headers: &HeaderMap,
    media: Media,
    groups: &[(&'static str, &'static str)],
) -> Result<Response, Status> {
    let resource = |resource: &Resource| AggregateResource {
        resource: resource.name,
        response_kind: ResponseKind {
            group: "",
            version: "",
            kind: resource.kind,
        },
        scope: resource.scope(),
        singular_resource: resource.singular,
        verbs: resource.verbs,
        short_names: resource.short_names,
    };
    let items = groups.iter().map(|(group, version)| AggregateGroup {
        metadata: Named { name: group },
        versions: [AggregateVersion {
            version,
            resources: RESOURCES
                .iter()
                .filter(|resource| resource.group == *group)
                .map(resource)
                .collect(),
            freshness: "Current",
        }],
    });
    let document = Aggregate {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Named { name: "" },
        items: items.collect(),
    };
    let json =
        serde_json::to_vec(&document).map_err(|error| Status::internal(error.to_string()))?;
    let etag = format!("\"{:X}\"", fingerprint(&json));
    let body = if media == Media::Protobuf {
        let message = messages::aggregated(groups, &RESOURCES);
        envelop_bytes(document.api_version, document.kind, &message)
    } else {
        let form = Form {
            media,
            shape: Shape::Whole,
            pretty: false,
        };
        present(form, json)?.1
    };
    let content_type = format!(
        "{};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        media.content_type()
    );
    let known = headers.get(header::IF_NONE_MATCH);
    let mut response = if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        body.into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::ETAG, etag)] {
        let value = HeaderValue::from_str(&value);
        headers.insert(
            name,
            value.map_err(|error| Status::internal(error.to_string()))?,
        );
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

#[derive(Serialize)]
struct Paths {
    paths: Vec<String>,
}

/// Any method of /: every path there is to know of.
pub(crate) async fn paths() -> Result<Response, Status> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for (group, version) in named_groups() {
        paths.push(format!("/apis/{group}"));
        paths.push(format!("/apis/{group}/{version}"));
    }
    paths.sort();
    let json = serde_json::to_vec_pretty(&Paths { paths })
        .map_err(|error| Status::internal(error.to_string()))?;
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

/// A number that changes when the bytes do (FNV-1a): enough for an ETag of a document of our own.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
