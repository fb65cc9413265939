//! The protocol over HTTP: `/mcp`, with the caller's own credentials and permissions. Every answer
//! is one JSON document, and no session is kept.
//!
//! A request passes the same steps as one of the timeline: it is authenticated, counted in the
//! requests in flight, audited, and ends with its time. A page of another origin gets nothing.

use std::sync::Arc;

use axum::Router;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::protocol::Handler;
use crate::http::request::MCP;
use crate::timeline::{Timeline, around};

/// Maximum bytes of a request's body. The longest arguments have a few KiB.
const BODY_MAX: usize = 64 << 10;

/// The route of the protocol, over the answers of a timeline.
pub(crate) fn router(timeline: Arc<Timeline>) -> Router {
    // The timeline has checked the Origin, if there is one, and its host.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_MAX)
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(
        || Ok(Handler::of_callers()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    around(Router::new().route_service(MCP, service), timeline)
}
