//! The attributes of a request, by which an authorizer decides.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::http::params;
use crate::http::request::RequestInfo;
use tidings_api::codec::{Api, PAST_GROUP};
use tidings_api::selector::FieldSelector;

/// The attributes of a request, or of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// A request for a resource.
    Resource(ResourceAttributes<'a>),
    /// A request for any other path.
    Path {
        verb: Cow<'a, str>,
        path: Cow<'a, str>,
    },
}

/// The attributes of a request for a resource; see [`Attributes::Resource`]. Missing attributes are
/// empty. In JSON these are the `ResourceAttributes` of `authorization.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct ResourceAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) verb: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) group: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) resource: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) subresource: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: Cow<'a, str>,
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    pub(crate) fn of(info: &'a RequestInfo) -> Self {
        if !info.is_resource_request {
            return Self::Path {
                verb: info.method.as_str().to_ascii_lowercase().into(),
                path: info.uri.path().into(),
            };
        }
        Self::Resource(ResourceAttributes {
            verb: info.verb.into(),
            group: info.group.as_str().into(),
            version: info.version.as_str().into(),
            resource: info.resource.as_str().into(),
            subresource: match info.subresource.as_str() {
                // Permission to read an event includes its earlier versions.
                _ if info.is_versions() => "".into(),
                subresource => subresource.into(),
            },
            namespace: info.namespace.as_str().into(),
            name: match info.verb {
                "list" | "watch" if !info.is_watch_path => selected_name(info).into(),
                _ => info.name.as_str().into(),
            },
        })
    }

    /// The list by name that shows as much as a request for an event's versions. A user who may
    /// list the event by name may read its versions.
    pub(crate) fn list_named(info: &'a RequestInfo) -> Self {
        let mut asked = Self::of(info);
        if let Self::Resource(asked) = &mut asked {
            asked.verb = "list".into();
        }
        asked
    }

    /// The list of the events of a namespace, or of the whole cluster if `namespace` is empty.
    pub(crate) fn list_events(namespace: &'a str) -> Self {
        Self::Resource(ResourceAttributes {
            verb: "list".into(),
            version: "v1".into(),
            resource: "events".into(),
            namespace: namespace.into(),
            ..ResourceAttributes::default()
        })
    }

    /// The list of what is past in a namespace of the home cluster, or in all of it if `namespace`
    /// is empty.
    pub(crate) fn list_past(namespace: &'a str) -> Self {
        Self::Resource(ResourceAttributes {
            verb: "list".into(),
            group: PAST_GROUP.into(),
            version: "v1".into(),
            resource: "pastevents".into(),
            namespace: namespace.into(),
            ..ResourceAttributes::default()
        })
    }

    /// The create that a PUT or an apply may become.
    pub(crate) fn create_event(api: Api, namespace: &'a str, name: &'a str) -> Self {
        Self::Resource(ResourceAttributes {
            verb: "create".into(),
            group: api.group().into(),
            version: "v1".into(),
            resource: "events".into(),
            namespace: namespace.into(),
            name: name.into(),
            ..ResourceAttributes::default()
        })
    }
}

/// The name that a field selector selects; empty if it selects none. A user who may get only this
/// event may also list and watch it by name. Lists of other resources have no selectors here, so
/// they are of everything.
fn selected_name(info: &RequestInfo) -> String {
    if !info.is_about_events() {
        return String::new();
    }
    let api = Api::of_group(&info.group);
    info.query
        .get(params::FIELD_SELECTOR)
        .and_then(|text| FieldSelector::parse(api, text).ok())
        .and_then(|selector| selector.name().map(str::to_owned))
        .filter(|name| tidings_core::validate::check_path_segment_name(name).is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    /// These complement upstream's own `TestGetAPIRequestInfo`.
    #[test]
    fn requests_are_what_kube_apiserver_takes_them_for() {
        #[rustfmt::skip]
        let table = [
            ("GET /api/v1/events", "list events  -"),
            ("HEAD /api/v1/events?watch=true", "watch events  -"),
            ("GET /api/v1/events?watch=0", "list events  -"),
            ("GET /api/v1/watch/events", "watch events  -"),
            ("GET /api/v1/namespaces/shop/events", "list events  - in shop"),
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
            ("GET /api/v1/watch/namespaces/shop/events/web.1", "watch events  web.1 in shop"),
            ("POST /api/v1/namespaces/shop/events", "create events  - in shop"),
            ("GET /api/v1/namespaces/shop/events/web.1?watch=true", "get events  web.1 in shop"),
            (
                "PUT /apis/events.k8s.io/v1/namespaces/shop/events/web.1",
                "update events events.k8s.io web.1 in shop",
            ),
            (
                "PATCH /apis/events.k8s.io/v1/namespaces/shop/events/web.1",
                "patch events events.k8s.io web.1 in shop",
            ),
            ("DELETE /api/v1/namespaces/shop/events/web.1", "delete events  web.1 in shop"),
            ("DELETE /api/v1/namespaces/shop/events", "deletecollection events  - in shop"),
            (
                "DELETE /api/v1/namespaces/shop/events?fieldSelector=metadata.name%3Dweb.1",
                "deletecollection events  - in shop",
            ),
            ("GET /api/v1/namespaces/shop/events/web%2E1", "get events  web.1 in shop"),
            ("GET /api/v1/namespaces", "list namespaces  -"),
            // The list is of all namespaces, whatever is selected.
            ("GET /api/v1/namespaces?fieldSelector=metadata.name%3Dshop", "list namespaces  -"),
            (
                "GET /api/v1/namespaces?watch&fieldSelector=metadata.name%3Dshop",
                "watch namespaces  -",
            ),
            ("GET /api/v1/namespaces/shop", "get namespaces  shop in shop"),
            ("PUT /api/v1/namespaces/shop/status", "update namespaces/status  shop in shop"),
            ("GET /api/v1/namespaces/shop/pods/web/log", "get pods/log  web in shop"),
            (
                "GET /apis/events.k8s.io/v1/namespaces/shop/events/web.1/versions",
                "get events events.k8s.io web.1 in shop",
            ),
            (
                "DELETE /api/v1/namespaces/shop/events/web.1/versions",
                "delete events/versions  web.1 in shop",
            ),
            ("OPTIONS /api/v1/events", " events  -"),
            ("GET /", "get path /"),
            ("GET /api/v1", "get path /api/v1"),
            ("GET /apis/events.k8s.io/v1", "get path /apis/events.k8s.io/v1"),
            ("POST /healthz", "post path /healthz"),
            ("GET /metrics", "get path /metrics"),
        ];
        for (request, expected) in table {
            let (method, uri) = request.split_once(' ').unwrap();
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let info = RequestInfo::of(&method, &uri.parse().unwrap(), &HeaderMap::new());
            let found = match Attributes::of(&info) {
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
