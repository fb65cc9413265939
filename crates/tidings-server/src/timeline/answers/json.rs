//! An answer's form.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;

use crate::http::status::Status;

/// An answer in JSON that is kept nowhere.
pub(super) fn json(value: &impl Serialize) -> Result<Response, Status> {
    let body = serde_json::to_vec(value).map_err(Status::internal)?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}
