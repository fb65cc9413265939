//! `kubectl auth can-i` and `auth whoami`: whoever is let in may do everything with events.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use k8s_pb::api::authorization::v1::SelfSubjectAccessReview;
use prost::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::auth::User;
use crate::codec;
use crate::error::Status;
use crate::limits::read_body;
use crate::negotiate::{Media, body_media};

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewBody {
    spec: Value,
}

/// POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
pub(crate) async fn access(request: Request) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let body = read_body(body).await?;
    let unreadable = |why: String| {
        Status::bad_request(format!("SelfSubjectAccessReview cannot be handled: {why}"))
    };
    let spec = match body_media(&parts.headers)? {
        Media::Protobuf => {
            let enveloped = codec::protobuf::open(&body).map_err(unreadable)?;
            let review = SelfSubjectAccessReview::decode(enveloped.raw)
                .map_err(|error| unreadable(error.to_string()))?;
            let spec = review.spec.unwrap_or_default();
            match (spec.resource_attributes, spec.non_resource_attributes) {
                (Some(asked), _) => json!({"resourceAttributes": {
                    "namespace": asked.namespace, "verb": asked.verb, "group": asked.group, "version": asked.version,
                    "resource": asked.resource, "subresource": asked.subresource, "name": asked.name,
                }}),
                (None, Some(asked)) => {
                    json!({"nonResourceAttributes": {"path": asked.path, "verb": asked.verb}})
                }
                (None, None) => json!({}),
            }
        }
        Media::Yaml => {
            serde_saphyr::from_slice::<ReviewBody>(&body)
                .map_err(|error| unreadable(error.to_string()))?
                .spec
        }
        Media::Json => {
            serde_json::from_slice::<ReviewBody>(&body)
                .map_err(|error| unreadable(error.to_string()))?
                .spec
        }
    };
    let review = json!({
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": null},
        "spec": spec,
        "status": {"allowed": true, "reason": "every authenticated user is allowed everything"},
    });
    Ok((StatusCode::CREATED, Json(review)).into_response())
}

/// POST /apis/authentication.k8s.io/v1/selfsubjectreviews
pub(crate) async fn subject(Extension(user): Extension<User>) -> Response {
    let review = json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": null},
        "status": {"userInfo": {"username": user.name, "uid": user.uid, "groups": user.groups}},
    });
    (StatusCode::CREATED, Json(review)).into_response()
}
