//! The paths of an archive's feeds, at its root. Who may use them is decided as for other paths
//! that are no resources: GET shows, POST acts. The audit log has each POST.

use std::sync::Arc;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri};

use super::clusters::Clusters;
use crate::api::request::encoded;
use crate::http::negotiate::Media;
use crate::http::request::FEEDS;
use crate::http::status::Status;

/// Any method of /feeds and below.
pub(super) async fn answer(
    Extension(clusters): Extension<Arc<Clusters>>,
    method: Method,
    uri: Uri,
) -> Response {
    let Some(feeds) = &clusters.feeds else {
        let why = "the archive has no feeds: it was started without --feeds";
        return Status::of_feeds(StatusCode::NOT_FOUND, why).into_response();
    };
    let below = uri.path().strip_prefix(FEEDS).unwrap_or_default();
    let (code, body) = feeds.answer(&method, below.trim_matches('/')).await;
    if code == StatusCode::OK {
        return encoded(code, Media::Json, body);
    }
    Status::of_feeds(code, String::from_utf8_lossy(&body)).into_response()
}
