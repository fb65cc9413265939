//! The answer to unknown paths.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

/// The 404 of Go's HTTP server.
pub(crate) fn not_found() -> Response {
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (StatusCode::NOT_FOUND, content_type, "404 page not found\n").into_response()
}
