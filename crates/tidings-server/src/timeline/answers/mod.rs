//! What the page asks for, one file for each path.

pub(super) mod event;
pub(super) mod events;
pub(super) mod export;
pub(super) mod gaps;
mod item;
pub(super) mod live;
pub(super) mod object;
pub(super) mod overview;
mod perfetto;
mod totals;
pub(super) mod view;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::http::status::Status;

/// An answer in JSON that is kept nowhere.
fn json(value: &impl Serialize) -> Result<Response, Status> {
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
