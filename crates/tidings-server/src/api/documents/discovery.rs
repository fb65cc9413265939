//! Discovery, in both forms, and the version.
//!
//! The documents never change: each is a file, sent as JSON without its line breaks, or as protobuf
//! made from it. They also name kinds that are not served and so have no verbs, because `kubectl
//! events --for deploy/web` learns from them what a `deploy` is. Core events come first, so that a
//! bare `events` means them.

mod messages;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::not_found::not_found;
use crate::api::request::encoded;
use crate::api::server::ApiServer;
use crate::http::negotiate::{
    Discovery, Form, Media, Shape, is_known, negotiate_discovery, require_json,
};
use crate::http::present::present;
use crate::http::request::{RequestInfo, is_at_or_below};
use crate::http::status::Status;
use tidings_api::codec::protobuf::envelop_bytes;

macro_rules! documents {
    ($($path:literal)*) => {
        [$(($path, include_str!(concat!("discovery", $path, ".json")))),*]
    };
}

/// The documents by their paths.
const DOCUMENTS: [(&str, &str); 15] = documents![
    "/api" "/api/v1" "/apis"
    "/apis/apps" "/apis/apps/v1"
    "/apis/autoscaling" "/apis/autoscaling/v2"
    "/apis/batch" "/apis/batch/v1"
    "/apis/events.k8s.io" "/apis/events.k8s.io/v1"
    "/apis/networking.k8s.io" "/apis/networking.k8s.io/v1"
    "/apis/policy" "/apis/policy/v1"
];
/// Aggregated documents by their paths.
const AGGREGATED: [(&str, &str); 2] = documents!["/api.aggregated" "/apis.aggregated"];

/// The Kubernetes release whose behaviour the server follows.
const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The oldest release that such a server is compatible with.
const MIN_COMPATIBILITY_MINOR: &str = "35";

/// A document in both encodings.
pub(in crate::api) struct Document {
    json: String,
    /// The document as protobuf, in an envelope.
    protobuf: Vec<u8>,
}

impl Document {
    pub(in crate::api) fn of(text: &str) -> Self {
        let json: String = text.lines().collect();
        // The JSON is valid: a test reads all documents.
        let value: Value = serde_json::from_str(&json).unwrap_or_default();
        let kind = value["kind"].as_str().unwrap_or_default();
        let version = match kind {
            "APIGroupDiscoveryList" => "apidiscovery.k8s.io/v2",
            _ => "v1",
        };
        let protobuf = envelop_bytes(version, kind, &messages::encode(kind, &value));
        Self { json, protobuf }
    }

    fn encode(&self, form: Form) -> Result<(Media, Vec<u8>), Status> {
        match form.media {
            Media::Protobuf => Ok((form.media, self.protobuf.clone())),
            _ => present(form, self.json.clone().into_bytes()),
        }
    }
}

type Documents = BTreeMap<&'static str, Document>;

/// All documents, made at the first request for one.
static SENT: LazyLock<Documents> = LazyLock::new(|| documents(VERBS_OF_EVENTS));
/// The documents of an archive, whose events can be read and deleted, not written.
static SENT_READ_ONLY: LazyLock<Documents> =
    LazyLock::new(|| documents(r#"["delete","deletecollection","get","list","watch"]"#));
/// The documents of sealed events, which can only be read.
static SENT_SEALED: LazyLock<Documents> = LazyLock::new(|| documents(r#"["get","list"]"#));
/// The documents of sealed events that can be watched.
static SENT_WATCHED: LazyLock<Documents> = LazyLock::new(|| documents(r#"["get","list","watch"]"#));

const VERBS_OF_EVENTS: &str =
    r#"["create","delete","deletecollection","get","list","patch","update","watch"]"#;

/// Makes the documents, with these verbs of events.
fn documents(verbs: &str) -> Documents {
    let all = DOCUMENTS.into_iter().chain(AGGREGATED);
    let document = |text: &str| Document::of(&text.replace(VERBS_OF_EVENTS, verbs));
    all.map(|(path, text)| (path, document(text))).collect()
}

/// The documents of a server.
fn documents_of(server: &ApiServer) -> &'static Documents {
    let Some(followed) = &server.followed else {
        return &SENT;
    };
    let can = followed.history.capabilities();
    match (can.delete, can.watch) {
        (true, _) => &SENT_READ_ONLY,
        (false, Ok(())) => &SENT_WATCHED,
        (false, Err(_)) => &SENT_SEALED,
    }
}

/// Go's name of the platform that the server was built for.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

/// GET /version, always JSON and always indented.
pub(crate) async fn version(headers: HeaderMap) -> Result<Response, Status> {
    require_json(&headers)?;
    let (git_version, platform) = (git_version(), platform());
    let json = format!(
        r#"{{
  "major": "{MAJOR}",
  "minor": "{MINOR}",
  "emulationMajor": "{MAJOR}",
  "emulationMinor": "{MINOR}",
  "minCompatibilityMajor": "{MAJOR}",
  "minCompatibilityMinor": "{MIN_COMPATIBILITY_MINOR}",
  "gitVersion": "{git_version}",
  "gitCommit": "{COMMIT}",
  "gitTreeState": "",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "{platform}"
}}"#
    );
    Ok(encoded(StatusCode::OK, Media::Json, json.into_bytes()))
}

/// The version of this program with the commit from which it was built, if that is known, as for
/// `--version`.
pub const VERSION: &str = env!("TIDINGS_VERSION");

/// The commit, or nothing.
const COMMIT: &str = env!("TIDINGS_COMMIT");

fn git_version() -> String {
    let tidings = env!("CARGO_PKG_VERSION");
    format!("v{MAJOR}.{MINOR}.0+tidings-{tidings}")
}

/// The labels of `kubernetes_build_info`.
pub(crate) fn build_info() -> [(&'static str, String); 6] {
    [
        ("major", MAJOR.to_string()),
        ("minor", MINOR.to_string()),
        ("git_version", git_version()),
        ("git_commit", COMMIT.to_owned()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform()),
    ]
}

/// GET of /api and any method of /apis: one document, or the aggregated one.
pub(crate) async fn root(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    let path = info.uri.path().trim_end_matches('/');
    match negotiate_discovery(&headers, &info.query, path == "/api", true)? {
        Discovery::Plain(form) => answer(sent(&server, path)?, form),
        Discovery::Aggregated(media) => {
            let document = sent(&server, &format!("{path}.aggregated"))?;
            aggregated(document, media, &headers)
        }
    }
}

/// GET of a group, or of a version and its resources.
pub(crate) async fn below(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    headers: HeaderMap,
) -> Result<Response, Status> {
    let path = percent_decode_str(info.uri.path()).decode_utf8_lossy();
    let path = path.trim_end_matches('/');
    if !SENT.contains_key(path) {
        return Ok(no_such_path(path));
    }
    let of_resources = path.matches('/').count() > 2 || path == "/api/v1";
    match negotiate_discovery(&headers, &info.query, of_resources, false)? {
        Discovery::Plain(form) => answer(sent(&server, path)?, form),
        Discovery::Aggregated(_) => Err(Status::no_such_path()),
    }
}

/// The answer to an unknown path: a Status below a served version, as its API gives, and Go's plain
/// 404 elsewhere.
pub(in crate::api) fn no_such_path(path: &str) -> Response {
    let roots = DOCUMENTS.iter().map(|(root, _)| *root);
    let mut roots = roots.filter(|root| *root != "/apis").chain(["/version"]);
    if roots.any(|root| is_at_or_below(path, root)) {
        Status::no_such_path().into_response()
    } else {
        not_found()
    }
}

fn sent(server: &ApiServer, path: &str) -> Result<&'static Document, Status> {
    let documents = documents_of(server);
    documents.get(path).ok_or_else(Status::no_such_path)
}

pub(in crate::api) fn answer(document: &Document, form: Form) -> Result<Response, Status> {
    let (media, body) = document.encode(form)?;
    Ok(encoded(StatusCode::OK, media, body))
}

pub(in crate::api) fn aggregated(
    document: &Document,
    media: Media,
    headers: &HeaderMap,
) -> Result<Response, Status> {
    let form = Form {
        media,
        shape: Shape::Whole,
        pretty: false,
    };
    let (_, body) = document.encode(form)?;
    let content_type = format!(
        "{};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        media.content_type()
    );
    let mut response = tagged(headers, &content_type, body)?;
    let cache_control = HeaderValue::from_static("public");
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, cache_control);
    Ok(response)
}

/// An answer that is constant until the server is replaced. A client that has it already gets no
/// body.
pub(in crate::api) fn tagged(
    headers: &HeaderMap,
    content_type: &str,
    body: Vec<u8>,
) -> Result<Response, Status> {
    let etag = format!("\"{:X}\"", fingerprint(&body));
    let mut response = if is_known(headers, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = HeaderValue::from_str(content_type).map_err(Status::internal)?;
        ([(header::CONTENT_TYPE, content_type)], body).into_response()
    };
    let etag = HeaderValue::from_str(&etag).map_err(Status::internal)?;
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Any method of /: the served paths.
pub(crate) async fn paths() -> Result<Response, Status> {
    let mut paths: Vec<_> = DOCUMENTS.iter().map(|(path, _)| *path).collect();
    paths.extend(["/apis/", "/healthz", "/livez", "/metrics"]);
    paths.extend(["/openapi/v2", "/openapi/v3", "/openapi/v3/"]);
    paths.extend(["/readyz", "/version"]);
    paths.sort_unstable();
    let json = serde_json::to_vec_pretty(&json!({"paths": paths})).map_err(Status::internal)?;
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

/// A hash (FNV-1a) for the ETags of constant documents.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// The names and verbs of an array of resources, with their group.
    fn named(group: &Value, resources: &Value, name: &str) -> BTreeSet<String> {
        let resources = resources.as_array().unwrap().iter();
        resources
            .map(|it| format!("{group} {} {} {}", it[name], it["verbs"], it["shortNames"]))
            .collect()
    }

    #[test]
    fn the_documents_agree_with_each_other() {
        let (mut plain, mut aggregated) = (BTreeSet::new(), BTreeSet::new());
        let mut groups = Vec::new();
        for (path, text) in DOCUMENTS {
            let document = read(text);
            match document["kind"].as_str().unwrap() {
                "APIResourceList" => {
                    let group_version = document["groupVersion"].as_str().unwrap();
                    assert!(path.ends_with(group_version), "{path}");
                    let group = group_version
                        .rsplit_once('/')
                        .map_or("", |(group, _)| group);
                    plain.extend(named(&group.into(), &document["resources"], "name"));
                }
                "APIGroup" => groups.push((path, document)),
                other => assert!(matches!(other, "APIVersions" | "APIGroupList"), "{path}"),
            }
        }
        for (_, text) in AGGREGATED {
            for group in read(text)["items"].as_array().unwrap() {
                let name = group["metadata"].get("name").cloned().unwrap_or("".into());
                aggregated.extend(named(&name, &group["versions"][0]["resources"], "resource"));
            }
        }
        assert_eq!(plain, aggregated);
        // The text that an archive replaces is in both groups and in both forms.
        let texts = DOCUMENTS.into_iter().chain(AGGREGATED);
        let texts = texts.filter(|(_, text)| text.contains(VERBS_OF_EVENTS));
        assert_eq!(texts.count(), 4);
        let listed = read(DOCUMENTS[2].1);
        let listed = listed["groups"].as_array().unwrap();
        assert_eq!(listed.len(), groups.len());
        for (path, group) in groups {
            let one = listed
                .iter()
                .find(|one| path.ends_with(one["name"].as_str().unwrap()));
            for member in ["name", "versions", "preferredVersion"] {
                assert_eq!(one.unwrap()[member], group[member], "{path}");
            }
        }
    }
}
