//! Bodies of requests, up to a bounded length.

use axum::body::Body;

use crate::http::status::Status;

/// Longest accepted body by default, in bytes; kube-apiserver's own limit.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Reads a body of at most `bytes_max` bytes.
///
/// # Errors
/// 413 for a longer one, 400 if the client went away in the middle.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<bytes::Bytes, Status> {
    use http_body_util::{BodyExt, LengthLimitError, Limited};
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::body_too_large(bytes_max)),
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}
