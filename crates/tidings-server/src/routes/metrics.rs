//! `/metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use crate::metrics::Now;
use crate::server::ApiServer;

/// GET of everything that is counted.
pub(crate) async fn metrics(State(server): State<Arc<ApiServer>>) -> Response {
    let now = Now {
        places: [&server.reads, &server.writes, &server.reviews],
        stats: server.observed.stats(&*server.store).await.ok(),
        access: &server.access,
        connections: server.connections.counts(),
        admission: server.admission_counts(),
        audit: server.audit_counts(),
    };
    let content_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    )];
    (content_type, server.metrics.to_text(&now)).into_response()
}
