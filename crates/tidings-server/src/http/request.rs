//! RequestInfo: the classification of a request.
//!
//! It is made once from the request's method, path, query and Content-Type
//! (`k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`). The authorizer, limits, audit log,
//! metrics and handlers all use it.
//!
//! A path is split before it is decoded, as the router does, so that the served request is the
//! authorized one. Where the two could differ (`%2F` in a name), the path is ambiguous and is not
//! served.

use std::borrow::Cow;

use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;

use crate::http::params;
use crate::http::query::Query;
use tidings_api::codec::PAST_GROUP;

/// The classification of a request; see the module documentation. Parts that a request does not
/// have are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) query: Query,
    /// Whether the request is about a resource. If not, the following fields are empty, except for
    /// the labels.
    pub(crate) is_resource_request: bool,
    /// The verb in RBAC: `get`, `list`, `deletecollection` and so on.
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// Whether the path is one of the deprecated `/watch/` paths.
    pub(crate) is_watch_path: bool,
    /// Whether a segment of the path has an escaped slash, or is not UTF-8. The router would read
    /// another path.
    pub(crate) is_ambiguous: bool,
    pub(crate) labels: RequestLabels,
}

/// The labels that most of kube-apiserver's request metrics share, without `component`. They are in
/// kube-apiserver's order. All values are constants, whatever a request contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestLabels {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) scope: &'static str,
}

/// An extension of a request whose path names a cluster of an archive. The request may have come to
/// the API of this cluster, with the rest of the path.
#[derive(Clone, Copy)]
pub(crate) struct OfCluster;

/// Paths that are not of a resource. Their label is the path.
const PATHS: [&str; 18] = [
    "/api",
    "/apis",
    "/clusters",
    "/counts",
    "/coverage",
    "/export",
    FEEDS,
    "/healthz",
    "/livez",
    MCP,
    "/metrics",
    "/openapi",
    "/readyz",
    "/timeline",
    "/version",
    "/waiting",
    "/api/v1",
    "/apis/events.k8s.io/v1",
];
/// The subresource of events in an archive: all versions of an event.
const VERSIONS: &str = "versions";
/// Paths of an archive about all events of a cluster, of whatever namespace.
const ABOUT_ALL_EVENTS: [&str; 2] = ["/counts", "/waiting"];
/// Paths of an archive about all events of a cluster, or of a namespace.
const ABOUT_EVENTS: [&str; 2] = ["/coverage", "/export"];
/// The path of the timeline's live changes.
pub(crate) const TIMELINE_LIVE: &str = "/timeline/api/live";
/// The path of the timeline's logins.
pub(crate) const TIMELINE_LOGIN: &str = "/timeline/login";
/// The path of the Model Context Protocol.
pub(crate) const MCP: &str = "/mcp";
/// The path of an archive's feeds.
pub(crate) const FEEDS: &str = "/feeds";
/// Prefix of the timeline's paths that need credentials.
pub(crate) const TIMELINE_API: &str = "/timeline/api/";
/// Resources other than events.
const RESOURCES: [&str; 4] = [
    "namespaces",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
];
const GROUPS: [&str; 5] = [
    "",
    "events.k8s.io",
    PAST_GROUP,
    "authorization.k8s.io",
    "authentication.k8s.io",
];

fn one_of<const N: usize>(known: [&'static str; N], name: &str) -> Option<&'static str> {
    known.into_iter().find(|known| *known == name)
}

/// Group, resource and scope of a served resource.
type Served = (&'static str, &'static str, &'static str);

impl RequestInfo {
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let mut info = Self {
            method: method.clone(),
            uri: uri.clone(),
            query: Query::parse(uri.query()),
            ..Self::default()
        };
        let is_plain = info.read_path(uri.path()).unwrap_or_default();
        info.labels = match info.served().filter(|_| is_plain) {
            Some(served) => info.labels(served, headers),
            None => RequestLabels {
                verb: match *method {
                    Method::GET if uri.path() == TIMELINE_LIVE => "WATCH",
                    _ => plain_verb(method),
                },
                subresource: path_label(uri.path()),
                ..RequestLabels::default()
            },
        };
        info
    }

    /// Whether this classification was made of a request with this method and URI. A prefix of the
    /// path may have been removed since.
    pub(crate) fn is_of(&self, method: &Method, uri: &Uri) -> bool {
        self.method == *method && self.uri == *uri
    }

    /// Reads the path of a resource; `None` for other paths. Returns whether its constant segments
    /// are unescaped, as the router requires; names may be escaped.
    fn read_path(&mut self, path: &str) -> Option<bool> {
        let mut is_ambiguous = false;
        let parts = path.trim_matches('/').split('/').map(|part| {
            let bytes = percent_decode_str(part);
            let text = bytes.clone().decode_utf8();
            is_ambiguous |= text.as_ref().map_or(true, |text| text.contains('/'));
            text.unwrap_or_else(|_| bytes.decode_utf8_lossy())
        });
        let mut parts = parts.collect::<Vec<_>>().into_iter();
        self.is_ambiguous = is_ambiguous;
        let group = match parts.next()?.as_ref() {
            "api" => Cow::Borrowed(""),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut parts: Vec<Cow<'_, str>> = parts.collect();
        let is_watch_path = parts.first()? == "watch" && parts.len() > 1;
        if is_watch_path {
            parts.remove(0);
        }
        if parts.first()? == "namespaces"
            && let Some(namespace) = parts.get(1)
        {
            self.namespace = namespace.clone().into_owned();
            let is_its_own = matches!(parts.get(2).map(AsRef::as_ref), Some("status" | "finalize"));
            if parts.len() > 2 && !is_its_own {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        let resource = parts.next().unwrap_or_default();
        let is_escaped = |part: &Cow<'_, str>| matches!(part, Cow::Owned(_));
        let is_plain = ![&group, &version, &resource].into_iter().any(is_escaped);
        self.is_resource_request = true;
        self.is_watch_path = is_watch_path;
        self.group = group.into_owned();
        self.version = version.into_owned();
        self.resource = resource.into_owned();
        self.name = parts.next().unwrap_or_default().into_owned();
        self.subresource = parts.next().unwrap_or_default().into_owned();
        let is_named = !self.name.is_empty();
        self.verb = match self.method {
            _ if is_watch_path => "watch",
            Method::GET | Method::HEAD if is_named => "get",
            Method::GET | Method::HEAD if self.query.flag(params::WATCH) => "watch",
            Method::GET | Method::HEAD => "list",
            Method::DELETE if is_named => "delete",
            Method::DELETE => "deletecollection",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "",
        };
        Some(is_plain)
    }

    fn labels(&self, (group, resource, scope): Served, headers: &HeaderMap) -> RequestLabels {
        let is_apply = || {
            let content_type = headers.get(header::CONTENT_TYPE);
            content_type
                .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
        };
        let is_versions = self.is_versions();
        let verb = match self.method {
            Method::GET if self.verb == "watch" => "WATCH",
            Method::GET if self.verb == "list" => "LIST",
            Method::DELETE if scope != "resource" => "DELETECOLLECTION",
            Method::PATCH if is_apply() => "APPLY",
            _ => plain_verb(&self.method),
        };
        RequestLabels {
            verb,
            group,
            version: "v1",
            resource,
            subresource: if is_versions { VERSIONS } else { "" },
            scope,
        }
    }

    /// Whether the request is about events, of any version and subresource.
    pub(crate) fn is_about_events(&self) -> bool {
        let is_named = matches!(
            (self.group.as_str(), self.resource.as_str()),
            ("" | "events.k8s.io", "events") | (PAST_GROUP, "pastevents")
        );
        self.is_resource_request && is_named
    }

    /// Whether the request is for the versions of an event in an archive.
    pub(crate) fn is_versions(&self) -> bool {
        let is_read = matches!(self.method, Method::GET | Method::HEAD) && self.verb == "get";
        is_read && self.is_about_events() && self.subresource == VERSIONS
    }

    /// The namespace that an archive is asked about, for requests other than those for events.
    /// Empty if it is asked about the whole cluster.
    pub(crate) fn asked_namespace(&self) -> Option<&str> {
        let path = self.uri.path().trim_end_matches('/');
        if ABOUT_EVENTS.contains(&path) {
            return Some(self.query.get(params::NAMESPACE).unwrap_or_default());
        }
        ABOUT_ALL_EVENTS.contains(&path).then_some("")
    }

    /// The labels of the served resource that the request is about, if any.
    fn served(&self) -> Option<Served> {
        let group = one_of(GROUPS, &self.group).filter(|_| self.version == "v1")?;
        let events = match group {
            "" | "events.k8s.io" => "events",
            PAST_GROUP => "pastevents",
            _ => "",
        };
        let place = [&self.namespace, &self.name, &self.subresource].map(|part| !part.is_empty());
        match (self.resource.as_str(), place) {
            (resource, place) if resource == events && !events.is_empty() => {
                let scope = match place {
                    [false, false, false] => "cluster",
                    [true, false, false] => "namespace",
                    [true, true, false] => "resource",
                    [true, true, true] if self.is_versions() => "resource",
                    _ => return None,
                };
                Some((group, events, scope))
            }
            ("events" | "pastevents", _) => None,
            ("namespaces", [true, true, false]) => Some((group, "namespaces", "resource")),
            (other, [false, false, false]) => Some((group, one_of(RESOURCES, other)?, "cluster")),
            _ => None,
        }
    }

    /// Whether the request is a watch of events, which is long-running.
    pub(crate) fn is_watch(&self) -> bool {
        let labels = &self.labels;
        let of_events = matches!(labels.resource, "events" | "pastevents");
        labels.verb == "WATCH" && (of_events || labels.subresource == "/timeline")
    }

    /// Whether the request writes one event.
    pub(crate) fn writes_one(&self) -> bool {
        let verb = self.labels.verb;
        let verb = matches!(verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
        verb && self.labels.resource == "events"
    }

    /// Whether the request creates or changes events. Deletes are not included.
    pub(crate) fn changes_events(&self) -> bool {
        matches!(self.labels.verb, "POST" | "PUT" | "PATCH" | "APPLY")
            && self.labels.resource == "events"
    }

    /// Whether the request changes or deletes the stored event that it names.
    pub(crate) fn changes_stored(&self) -> bool {
        matches!(self.labels.verb, "PUT" | "PATCH" | "APPLY" | "DELETE")
            && self.labels.resource == "events"
    }

    /// Whether the request deletes events.
    pub(crate) fn deletes_events(&self) -> bool {
        matches!(self.labels.verb, "DELETE" | "DELETECOLLECTION")
            && self.labels.resource == "events"
    }

    /// Whether the request creates the event that it names, if that does not exist.
    pub(crate) fn may_create_by_name(&self) -> bool {
        matches!(self.labels.verb, "PUT" | "APPLY") && self.labels.resource == "events"
    }

    /// Whether the request is a review of oneself.
    pub(crate) fn is_review(&self) -> bool {
        matches!(
            self.labels.group,
            "authorization.k8s.io" | "authentication.k8s.io"
        )
    }

    /// Whether the request is a login to the timeline.
    pub(crate) fn is_login(&self) -> bool {
        self.uri.path() == TIMELINE_LOGIN
    }

    /// Whether the request is one of the Model Context Protocol, whose tools only read.
    pub(crate) fn is_mcp(&self) -> bool {
        self.uri.path() == MCP
    }

    /// Whether the request is for the timeline's page and its files, not for the data shown there.
    pub(crate) fn is_page(&self) -> bool {
        let of_timeline = self.labels.subresource == "/timeline";
        of_timeline && !self.is_login() && !self.uri.path().starts_with(TIMELINE_API)
    }

    /// Whether the request is for /metrics.
    pub(crate) fn is_metrics(&self) -> bool {
        self.labels.subresource == "/metrics"
    }

    /// Whether the request is for health or version.
    pub(crate) fn is_probe(&self) -> bool {
        matches!(
            self.labels.subresource,
            "/healthz" | "/livez" | "/readyz" | "/version"
        )
    }
}

/// Whether a path is this root, or below it.
pub(crate) fn is_at_or_below(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

fn path_label(path: &str) -> &'static str {
    let path = path.trim_end_matches('/');
    let first = path.get(1..).and_then(|rest| rest.split('/').next());
    one_of(PATHS, path)
        .or_else(|| {
            let first = first.filter(|first| !first.starts_with("api"))?;
            PATHS
                .into_iter()
                .find(|known| known.strip_prefix('/') == Some(first))
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::of(&method, &uri.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn requests_are_named_as_kube_apiserver_names_them() {
        const SHOP: &str = "/api/v1/namespaces/shop/events";
        #[rustfmt::skip]
        let table = [
            ("GET", "/api/v1/events", "LIST  v1 events  cluster"),
            ("GET", "/api/v1/events?watch=1", "WATCH  v1 events  cluster"),
            ("GET", "/api/v1/watch/events", "WATCH  v1 events  cluster"),
            ("GET", SHOP, "LIST  v1 events  namespace"),
            ("DELETE", SHOP, "DELETECOLLECTION  v1 events  namespace"),
            (
                "POST",
                "/apis/events.k8s.io/v1/namespaces/x/events",
                "POST events.k8s.io v1 events  namespace",
            ),
            ("PUT", "/api/v1/namespaces/shop/events/a", "PUT  v1 events  resource"),
            ("PATCH", "/api/v1/namespaces/shop/events/a", "PATCH  v1 events  resource"),
            ("GET", "/api/v1/namespaces", "LIST  v1 namespaces  cluster"),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "POST authorization.k8s.io v1 selfsubjectaccessreviews  cluster",
            ),
            ("GET", "/readyz/ping", "GET    /readyz "),
            ("GET", "/coverage", "GET    /coverage "),
            ("GET", "/timeline/api/view?from=1", "GET    /timeline "),
            ("GET", "/timeline/api/live", "WATCH    /timeline "),
            ("POST", "/timeline/login", "POST    /timeline "),
            ("GET", "/clusters/", "GET    /clusters "),
            (
                "GET",
                "/api/v1/namespaces/shop/events/a/versions",
                "GET  v1 events versions resource",
            ),
            ("PUT", "/api/v1/namespaces/shop/events/a/versions", "PUT     "),
            ("GET", "/openapi/v3/api/v1", "GET    /openapi "),
            ("GET", "/api/v1", "GET    /api/v1 "),
            ("BREW", "/api/v2/x/../y", "other     "),
            ("GET", "/apis/other.example/v1/events", "GET     "),
            (
                "GET",
                "/apis/archive.tidings.internal/v1/namespaces/shop/pastevents",
                "LIST archive.tidings.internal v1 pastevents  namespace",
            ),
            ("GET", "/apis/archive.tidings.internal/v1/events", "GET     "),
            ("GET", "/api/v1/pastevents", "GET     "),
            (
                "POST",
                "/apis/archive.tidings.internal/v1/namespaces/shop/pastevents",
                "POST archive.tidings.internal v1 pastevents  namespace",
            ),
            ("GET", "/api/v1/pods", "GET     "),
            // Paths that the router does not match have no labels of a resource.
            ("GET", "/api/v1/%65vents", "GET     "),
            ("GET", "/api//v1/events", "GET     "),
            ("GET", "/api/v1/events/web", "GET     "),
            ("GET", "/api/v1/namespaces/a/events/b/c", "GET     "),
            ("GET", "/api/v1/namespaces/%61/events/%62", "GET  v1 events  resource"),
        ];
        for (method, uri, expected) in table {
            let labels = info(method, uri).labels;
            let RequestLabels {
                verb,
                group,
                version,
                resource,
                subresource,
                scope,
            } = labels;
            let found = [verb, group, version, resource, subresource, scope].join(" ");
            assert_eq!(found, expected, "{method} {uri}");
        }
    }

    #[test]
    fn what_the_router_reads_otherwise_is_ambiguous() {
        for (name, expected) in [
            ("web.1", false),
            ("web%2E1", false),
            ("web%EF%BF%BD", false),
            ("web%2F1", true),
            ("web%FF1", true),
        ] {
            let info = info("PUT", &format!("/api/v1/namespaces/shop/events/{name}"));
            assert_eq!(info.is_ambiguous, expected, "{name}");
        }
    }

    #[test]
    fn only_events_are_watched() {
        for (path, expected) in [
            ("/api/v1/events?watch=1", true),
            ("/api/v1/events/?watch=1", true),
            ("/api/v1/events", false),
            // A GET of one event is never a watch, whatever its query says.
            ("/api/v1/namespaces/a/events/b?watch=true", false),
            ("/api/v1/watch/namespaces/a/events/b", true),
            ("/apis/events.k8s.io/v1/watch/namespaces/a/events", true),
            ("/apis/archive.tidings.internal/v1/pastevents?watch=1", true),
            ("/apis/authorization.k8s.io/v1/events?watch=1", false),
            ("/api/v1/namespaces/events?watch=1", false),
            ("/api/v1/namespaces?watch=1", false),
            ("/openapi/v3/api/v1?watch=1", false),
            ("/metrics?watch=1", false),
            ("/timeline/api/view?watch=1", false),
            ("/timeline/api/live", true),
        ] {
            assert_eq!(info("GET", path).is_watch(), expected, "{path}");
        }
    }
}
