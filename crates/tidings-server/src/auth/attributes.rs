//! What a request asks for, as an authorizer sees it (`k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`).
//!
//! A path is split before it is decoded, as the router does: what is authorized is what is then served, and where the two
//! could differ (`%2F` in a name) the router knows no such path.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::http::query::Query;
use tidings_api::codec::Api;
use tidings_api::selector::FieldSelector;

/// One request, or one question about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// About objects.
    Resource(ResourceAttributes<'a>),
    /// About a path that serves none.
    Path {
        verb: Cow<'a, str>,
        path: Cow<'a, str>,
    },
}

/// See [`Attributes::Resource`]. What is not given is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) verb: Cow<'a, str>,
    pub(crate) group: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    pub(crate) resource: Cow<'a, str>,
    pub(crate) subresource: Cow<'a, str>,
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    pub(crate) fn of(method: &Method, path: &'a str, query: Option<&str>) -> Self {
        resource(method, path, query).map_or_else(
            || Self::Path {
                verb: method.as_str().to_ascii_lowercase().into(),
                path: path.into(),
            },
            Self::Resource,
        )
    }

    /// The creation of one event, which a PUT or an apply turns out to be.
    pub(crate) fn create_event(api: Api, namespace: &'a str, name: &'a str) -> Self {
        Self::Resource(ResourceAttributes {
            verb: "create".into(),
            group: api.group().into(),
            version: "v1".into(),
            resource: "events".into(),
            subresource: "".into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

fn resource<'a>(
    method: &Method,
    path: &'a str,
    query: Option<&str>,
) -> Option<ResourceAttributes<'a>> {
    let mut parts = path.trim_matches('/').split('/').map(decode);
    let group = match parts.next()?.as_ref() {
        "api" => Cow::Borrowed(""),
        "apis" => parts.next()?,
        _ => return None,
    };
    let version = parts.next()?;
    let mut parts: Vec<Cow<'a, str>> = parts.collect();
    let watching = parts.first()? == "watch" && parts.len() > 1;
    if watching {
        parts.remove(0);
    }
    let verb = match *method {
        _ if watching => "watch",
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let mut namespace = Cow::Borrowed("");
    if parts.first()? == "namespaces"
        && let Some(named) = parts.get(1)
    {
        namespace.clone_from(named);
        let of_the_namespace =
            matches!(parts.get(2).map(AsRef::as_ref), Some("status" | "finalize"));
        if parts.len() > 2 && !of_the_namespace {
            parts.drain(..2);
        }
    }
    let mut parts = parts.into_iter();
    let mut attributes = ResourceAttributes {
        verb: verb.into(),
        group,
        version,
        namespace,
        resource: parts.next().unwrap_or_default(),
        name: parts.next().unwrap_or_default(),
        subresource: parts.next().unwrap_or_default(),
    };
    if attributes.name.is_empty() && verb == "get" {
        let query = Query::parse(query);
        attributes.verb = if query.flag("watch") { "watch" } else { "list" }.into();
        attributes.name = selected_name(&attributes.group, &query).into();
    }
    if attributes.name.is_empty() && verb == "delete" {
        attributes.verb = "deletecollection".into();
    }
    Some(attributes)
}

fn decode(part: &str) -> Cow<'_, str> {
    percent_decode_str(part).decode_utf8_lossy()
}

/// Who may only see one event by name may list and watch it, too.
fn selected_name(group: &str, query: &Query) -> String {
    let api = Api::of_group(group);
    query
        .get("fieldSelector")
        .and_then(|text| FieldSelector::parse(api, text).ok())
        .and_then(|selector| selector.name().map(str::to_owned))
        .filter(|name| tidings_core::validate::check_path_segment_name(name).is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside upstream's own `TestGetAPIRequestInfo`.
    #[test]
    fn requests_are_what_kube_apiserver_takes_them_for() {
        for (request, expected) in [
            ("GET /api/v1/events", "list events  -"),
            ("HEAD /api/v1/events?watch=true", "watch events  -"),
            ("GET /api/v1/events?watch=0", "list events  -"),
            ("GET /api/v1/watch/events", "watch events  -"),
            (
                "GET /api/v1/namespaces/shop/events",
                "list events  - in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events?fieldSelector=metadata.name%3Dweb.1",
                "list events  web.1 in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events?watch&fieldSelector=metadata.name%3Dweb.1",
                "watch events  web.1 in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events?fieldSelector=metadata.name!%3Dweb.1",
                "list events  - in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events?fieldSelector=metadata.name%3D..",
                "list events  - in shop",
            ),
            (
                "GET /api/v1/watch/namespaces/shop/events/web.1",
                "watch events  web.1 in shop",
            ),
            (
                "POST /api/v1/namespaces/shop/events",
                "create events  - in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events/web.1?watch=true",
                "get events  web.1 in shop",
            ),
            (
                "PUT /apis/events.k8s.io/v1/namespaces/shop/events/web.1",
                "update events events.k8s.io web.1 in shop",
            ),
            (
                "PATCH /apis/events.k8s.io/v1/namespaces/shop/events/web.1",
                "patch events events.k8s.io web.1 in shop",
            ),
            (
                "DELETE /api/v1/namespaces/shop/events/web.1",
                "delete events  web.1 in shop",
            ),
            (
                "DELETE /api/v1/namespaces/shop/events",
                "deletecollection events  - in shop",
            ),
            (
                "DELETE /api/v1/namespaces/shop/events?fieldSelector=metadata.name%3Dweb.1",
                "deletecollection events  - in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/events/web%2E1",
                "get events  web.1 in shop",
            ),
            ("GET /api/v1/namespaces", "list namespaces  -"),
            (
                "GET /api/v1/namespaces/shop",
                "get namespaces  shop in shop",
            ),
            (
                "PUT /api/v1/namespaces/shop/status",
                "update namespaces/status  shop in shop",
            ),
            (
                "GET /api/v1/namespaces/shop/pods/web/log",
                "get pods/log  web in shop",
            ),
            ("OPTIONS /api/v1/events", " events  -"),
            ("GET /", "get path /"),
            ("GET /api/v1", "get path /api/v1"),
            (
                "GET /apis/events.k8s.io/v1",
                "get path /apis/events.k8s.io/v1",
            ),
            ("POST /healthz", "post path /healthz"),
            ("GET /metrics", "get path /metrics"),
        ] {
            let (method, uri) = request.split_once(' ').unwrap();
            let (path, query) = uri
                .split_once('?')
                .map_or((uri, None), |(path, query)| (path, Some(query)));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let found = match Attributes::of(&method, path, query) {
                Attributes::Path { verb, path } => format!("{verb} path {path}"),
                Attributes::Resource(asked) => {
                    let resource = [asked.resource.as_ref(), asked.subresource.as_ref()].join("/");
                    let name = if asked.name.is_empty() {
                        "-"
                    } else {
                        &asked.name
                    };
                    let mut text = format!(
                        "{} {} {} {name}",
                        asked.verb,
                        resource.trim_end_matches('/'),
                        asked.group
                    );
                    if !asked.namespace.is_empty() {
                        text = format!("{text} in {}", asked.namespace);
                    }
                    text
                }
            };
            assert_eq!(found, expected, "{request}");
        }
    }
}
