//! The form of the timeline's answers.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;

use crate::http::status::Status;

/// A JSON answer that no client or proxy may cache.
pub(super) fn json(value: &impl Serialize) -> Result<Response, Status> {
    let body = serde_json::to_vec(value).map_err(Status::internal)?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}
