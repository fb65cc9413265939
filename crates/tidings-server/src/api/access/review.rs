//! Reviews of oneself: `kubectl auth can-i`, `auth can-i --list` and `auth whoami`. The answers
//! come from the authorizer itself, so a review reports exactly what is allowed.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use k8s_pb::api::authorization::v1 as pb;
use prost::{DecodeError, Message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_saphyr::DuplicateKeyPolicy;
use tidings_core::validate::FieldError;

use crate::api::request::BODY_BYTES_MAX;
use crate::api::request::Call;
use crate::api::server::ApiServer;
use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::auth::{User, UserInfo};
use crate::clock;
use crate::http::negotiate::{Media, body_media};
use crate::http::status::Status;
use tidings_api::codec;
use tidings_api::yaml;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review<T> {
    spec: T,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct AccessSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<AskedPath>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct AskedPath {
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    verb: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct RulesSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
}

impl AccessSpec {
    fn from_protobuf(raw: &[u8]) -> Result<Self, DecodeError> {
        let spec = pb::SelfSubjectAccessReview::decode(raw)?.spec;
        let spec = spec.unwrap_or_default();
        let text = |text: Option<String>| Cow::Owned(text.unwrap_or_default());
        Ok(Self {
            resource_attributes: spec.resource_attributes.map(|asked| ResourceAttributes {
                namespace: text(asked.namespace),
                verb: text(asked.verb),
                group: text(asked.group),
                version: text(asked.version),
                resource: text(asked.resource),
                subresource: text(asked.subresource),
                name: text(asked.name),
            }),
            non_resource_attributes: spec.non_resource_attributes.map(|asked| AskedPath {
                path: asked.path.unwrap_or_default(),
                verb: asked.verb.unwrap_or_default(),
            }),
        })
    }
}

impl RulesSpec {
    fn from_protobuf(raw: &[u8]) -> Result<Self, DecodeError> {
        let spec = pb::SelfSubjectRulesReview::decode(raw)?.spec;
        let namespace = spec.unwrap_or_default().namespace.unwrap_or_default();
        Ok(Self { namespace })
    }
}

fn read_spec<T: Default + DeserializeOwned>(
    kind: &str,
    call: &Call,
    from_protobuf: fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, Status> {
    let body = &call.body;
    let of = |review: Review<T>| review.spec;
    let spec = match body_media(&call.headers)? {
        Media::Protobuf => codec::protobuf::open(body)
            .and_then(|enveloped| from_protobuf(&enveloped.raw).map_err(|error| error.to_string())),
        Media::Yaml => yaml::read(body, DuplicateKeyPolicy::Error)
            .map(of)
            .map_err(|error| error.to_string()),
        Media::Json => serde_json::from_slice(body)
            .map(of)
            .map_err(|error| error.to_string()),
    };
    spec.map_err(|why| Status::bad_request(format!("{kind} cannot be handled: {why}")))
}

/// A review with its result, as the answer contains it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<Spec, Outcome> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    status: Outcome,
}

fn answer(kind: &'static str, spec: impl Serialize, status: Value) -> Response {
    let review = Answered {
        kind,
        api_version: "authorization.k8s.io/v1",
        metadata: json!({}),
        spec: Some(spec),
        status,
    };
    (StatusCode::CREATED, Json(review)).into_response()
}

/// POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
///
/// A cluster may have to be asked, which must not happen on one of the few threads for long bodies.
/// So a long body is refused; a question names one resource or path, and is short.
pub(crate) async fn access(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    const KIND: &str = "SelfSubjectAccessReview";
    if call.body.len() > BODY_BYTES_MAX {
        return Err(Status::body_too_large(BODY_BYTES_MAX));
    }
    let spec = read_spec(KIND, &call, AccessSpec::from_protobuf)?;
    let asked = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(asked), None) => Attributes::Resource(asked.clone()),
        (None, Some(asked)) => Attributes::Path {
            verb: asked.verb.as_str().into(),
            path: asked.path.as_str().into(),
        },
        (both, _) => {
            let error = if both.is_some() {
                FieldError::invalid(
                    "spec.nonResourceAttributes",
                    "",
                    "cannot be specified in combination with resourceAttributes",
                )
            } else {
                FieldError::invalid_as(
                    "spec.resourceAttributes",
                    "null",
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                )
            };
            // Upstream omits the kind here.
            return Err(Status::invalid(
                "",
                "authorization.k8s.io",
                "",
                &error.into(),
            ));
        }
    };
    let decided = server
        .authorizer
        .authorize(&call.user, &asked, clock::monotonic(), &server.access)
        .await;
    let mut status = json!({});
    match decided {
        Ok(decision) => {
            status["allowed"] = decision.allowed.into();
            if decision.denied {
                status["denied"] = true.into();
            }
            if !decision.reason.is_empty() {
                status["reason"] = decision.reason.into();
            }
        }
        Err(error) => {
            status["allowed"] = false.into();
            status["evaluationError"] = error.to_string().into();
        }
    }
    Ok(answer(KIND, &spec, status))
}

/// POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews
pub(crate) async fn rules(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    const KIND: &str = "SelfSubjectRulesReview";
    let spec = read_spec(KIND, &call, RulesSpec::from_protobuf)?;
    if spec.namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let found = server.authorizer.rules(&call.user, &spec.namespace);
    let (paths, resources): (Vec<_>, Vec<_>) = found
        .rules
        .into_iter()
        .partition(|rule| !rule.non_resource_urls.is_empty());
    let resources: Vec<Value> = resources
        .into_iter()
        .map(|rule| {
            let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
            if !rule.resource_names.is_empty() {
                shown["resourceNames"] = rule.resource_names.into();
            }
            shown
        })
        .collect();
    let paths: Vec<Value> = paths
        .into_iter()
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
        .collect();
    let mut status = json!({
        "resourceRules": resources,
        "nonResourceRules": paths,
        "incomplete": found.incomplete.is_some(),
    });
    if let Some(why) = found.incomplete {
        status["evaluationError"] = why.into();
    }
    // The spec is not returned, as upstream.
    Ok(answer(KIND, json!({}), status))
}

/// POST /apis/authentication.k8s.io/v1/selfsubjectreviews
pub(crate) async fn subject(
    State(server): State<Arc<ApiServer>>,
    Extension(user): Extension<User>,
) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct UserStatus<'a> {
        user_info: &'a UserInfo,
    }
    let now = server.clock.now();
    let review = Answered {
        kind: "SelfSubjectReview",
        api_version: "authentication.k8s.io/v1",
        metadata: json!({"creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}),
        spec: None::<()>,
        status: UserStatus { user_info: &user },
    };
    (StatusCode::CREATED, Json(review)).into_response()
}
