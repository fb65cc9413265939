//! What kind of request it is, in the words of kube-apiserver's metrics.

use axum::extract::Request;
use http::{Method, header};

use crate::http::query::Query;

/// The labels that most of kube-apiserver's request metrics share, in its order, `component` aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKind {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) scope: &'static str,
}

/// Paths that are no resource's; the label is the path.
const PATHS: [&str; 10] = [
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi",
    "/readyz",
    "/version",
    "/api/v1",
    "/apis/events.k8s.io/v1",
];
/// Resources beside events.
const RESOURCES: [&str; 4] = [
    "namespaces",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
];
const GROUPS: [&str; 3] = [
    "events.k8s.io",
    "authorization.k8s.io",
    "authentication.k8s.io",
];

fn one_of<const N: usize>(known: [&'static str; N], name: &str) -> Option<&'static str> {
    known.into_iter().find(|known| *known == name)
}

impl RequestKind {
    pub(crate) fn of(request: &Request) -> Self {
        let path = request.uri().path();
        let method = request.method();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", "v1", rest @ ..] => (Some(""), rest),
            ["apis", group, "v1", rest @ ..] => (one_of(GROUPS, group), rest),
            _ => (None, &[][..]),
        };
        let (watch_path, rest) = match rest {
            ["watch", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let of_events = matches!(group, Some("" | "events.k8s.io"));
        let (resource, scope) = match rest {
            [.., "events"] | [.., "events", _] if !of_events => ("", ""),
            ["events"] => ("events", "cluster"),
            ["namespaces", _, "events"] => ("events", "namespace"),
            ["namespaces", _, "events", _] => ("events", "resource"),
            [resource] => (one_of(RESOURCES, resource).unwrap_or_default(), "cluster"),
            ["namespaces", _] => ("namespaces", "resource"),
            _ => ("", ""),
        };
        let Some(group) = group.filter(|_| !resource.is_empty()) else {
            return Self {
                verb: plain_verb(method),
                group: "",
                version: "",
                resource: "",
                subresource: path_label(path),
                scope: "",
            };
        };
        let named = scope == "resource";
        let query = Query::parse(request.uri().query());
        let apply = || {
            let content_type = request.headers().get(header::CONTENT_TYPE);
            content_type
                .is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
        };
        let verb = match *method {
            Method::GET if watch_path || (!named && query.flag("watch")) => "WATCH",
            Method::GET if !named => "LIST",
            Method::DELETE if !named => "DELETECOLLECTION",
            Method::PATCH if apply() => "APPLY",
            _ => plain_verb(method),
        };
        Self {
            verb,
            group,
            version: "v1",
            resource,
            subresource: "",
            scope,
        }
    }

    /// Whether events are watched, which lasts long.
    pub(crate) fn is_watch(self) -> bool {
        self.verb == "WATCH" && self.resource == "events"
    }

    /// Whether one event is written.
    pub(crate) fn writes_one(self) -> bool {
        let verb = matches!(self.verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
        verb && self.resource == "events"
    }

    /// Whether it creates the event it names if there is none.
    pub(crate) fn may_create_by_name(self) -> bool {
        matches!(self.verb, "PUT" | "APPLY") && self.resource == "events"
    }

    /// Whether somebody asks what it may do, or who it is.
    pub(crate) fn is_review(self) -> bool {
        matches!(self.group, "authorization.k8s.io" | "authentication.k8s.io")
    }

    /// Whether somebody asks for what is counted.
    pub(crate) fn is_metrics(self) -> bool {
        self.subresource == "/metrics"
    }

    /// Whether somebody asks how the server is.
    pub(crate) fn is_probe(self) -> bool {
        matches!(
            self.subresource,
            "/healthz" | "/livez" | "/readyz" | "/version"
        )
    }

    pub(crate) fn labels(self) -> [&'static str; 7] {
        [
            self.verb,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.scope,
            "apiserver",
        ]
    }
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
    use axum::body::Body;

    use super::*;

    #[test]
    fn requests_are_named_as_kube_apiserver_names_them() {
        const SHOP: &str = "/api/v1/namespaces/shop/events";
        for (method, uri, expected) in [
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
            (
                "PUT",
                "/api/v1/namespaces/shop/events/a",
                "PUT  v1 events  resource",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/shop/events/a",
                "PATCH  v1 events  resource",
            ),
            ("GET", "/api/v1/namespaces", "LIST  v1 namespaces  cluster"),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "POST authorization.k8s.io v1 selfsubjectaccessreviews  cluster",
            ),
            ("GET", "/readyz/ping", "GET    /readyz "),
            ("GET", "/openapi/v3/api/v1", "GET    /openapi "),
            ("GET", "/api/v1", "GET    /api/v1 "),
            ("BREW", "/api/v2/x/../y", "other     "),
            ("GET", "/apis/other.example/v1/events", "GET     "),
            ("GET", "/api/v1/pods", "GET     "),
        ] {
            let request = Request::builder().method(method).uri(uri);
            let kind = RequestKind::of(&request.body(Body::empty()).unwrap());
            let [verb, group, version, resource, subresource, scope, _] = kind.labels();
            let found = [verb, group, version, resource, subresource, scope].join(" ");
            assert_eq!(found, expected, "{method} {uri}");
        }
    }

    #[test]
    fn only_events_are_watched() {
        for (path, expected) in [
            ("/api/v1/events?watch=1", true),
            ("/api/v1/events/?watch=1", true),
            ("/api/v1/events", false),
            // One event is got, whatever is asked besides.
            ("/api/v1/namespaces/a/events/b?watch=true", false),
            ("/api/v1/watch/namespaces/a/events/b", true),
            ("/apis/events.k8s.io/v1/watch/namespaces/a/events", true),
            ("/apis/authorization.k8s.io/v1/events?watch=1", false),
            ("/api/v1/namespaces/events?watch=1", false),
            ("/api/v1/namespaces?watch=1", false),
            ("/openapi/v3/api/v1?watch=1", false),
            ("/metrics?watch=1", false),
        ] {
            let request = http::Request::get(path).body(Body::empty()).unwrap();
            assert_eq!(RequestKind::of(&request).is_watch(), expected, "{path}");
        }
    }
}
