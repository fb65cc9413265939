//! An answer's form.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::http::status::Status;

/// An answer in JSON that is kept nowhere.
pub(super) fn json(value: &impl Serialize) -> Result<Response, Status> {
    let body = serde_json::to_vec(value).map_err(|error| Status::internal(error.to_string()))?;
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}
