//! Metrics of a request, until the last byte of its answer.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use futures::StreamExt;

use crate::api::server::ApiServer;
use crate::clock;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::metrics::CLIENT_GONE;

/// A request that is being answered. It ends when the client has received the answer's last byte,
/// or has disconnected.
pub(crate) struct Measured {
    server: Arc<ApiServer>,
    info: Arc<RequestInfo>,
    dry_run: &'static str,
    started: Instant,
    code: u16,
    bytes: u64,
    long_running: bool,
}

impl Measured {
    pub(crate) fn begin(server: Arc<ApiServer>, info: Arc<RequestInfo>, request: &Request) -> Self {
        let query = &info.query;
        let dry_run = if !query.has(params::DRY_RUN) {
            ""
        } else if query.values(params::DRY_RUN).all(|value| value == "All") {
            "All"
        } else {
            "invalid"
        };
        let long_running = info.is_watch();
        if let Some(len) = request.body().size_hint().exact().filter(|len| *len > 0) {
            server.metrics.request_body(info.labels, len);
        }
        if long_running {
            server.metrics.long_running(info.labels, 1);
        }
        Self {
            server,
            info,
            dry_run,
            started: clock::monotonic(),
            // The status code that counts if the request is dropped before it is answered.
            code: CLIENT_GONE,
            bytes: 0,
            long_running,
        }
    }

    /// Measures the answer, until its last byte.
    pub(crate) fn follow(mut self, response: Response) -> Response {
        self.code = response.status().as_u16();
        if let Some(len) = response.body().size_hint().exact() {
            self.bytes = len;
            return response;
        }
        response.map(|body| {
            Body::from_stream(body.into_data_stream().inspect(move |chunk| {
                if let Ok(chunk) = chunk {
                    self.sent(chunk.len());
                }
            }))
        })
    }

    fn sent(&mut self, len: usize) {
        self.bytes += len as u64;
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let took = clock::monotonic().saturating_duration_since(self.started);
        let (metrics, labels) = (&self.server.metrics, self.info.labels);
        if self.long_running {
            metrics.long_running(labels, -1);
        }
        metrics.request(labels, self.dry_run, self.code, took, self.bytes);
    }
}
