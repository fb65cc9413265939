//! Reads the timeline's answers within the process, on behalf of one request of the Model Context
//! Protocol. Its only method is a GET, so that nothing can be written through it.
//!
//! Each read authenticates the caller again, for the clusters and namespaces that it asks for: it
//! shows what the same GET over HTTP would show.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, extract};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::enter::{Bound, Entry};
use super::state::Timeline;
use crate::api::chain::Entered;
use crate::auth::certificate::PeerCertificate;
use crate::http::request::TIMELINE_API;
use crate::http::status::Status;

/// Reads the answers that one caller may see.
#[derive(Clone)]
pub(crate) struct Reads {
    router: TowerToHyperService<Router>,
    /// The caller's credentials, and the host of the request.
    headers: HeaderMap,
    certificate: Option<Arc<PeerCertificate>>,
    /// The clusters that the address of the request selects.
    bound: Option<Bound>,
}

impl Reads {
    /// The reads of the caller of a request.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            certificate: entry.parts.extensions.get().cloned(),
            bound: entry.bound(),
            ..Self::new(Arc::clone(&entry.timeline), &entry.parts.headers)
        }
    }

    /// The reads of a caller with these credentials.
    pub(crate) fn new(timeline: Arc<Timeline>, headers: &HeaderMap) -> Self {
        let answers = super::texts(TIMELINE_API).layer(middleware::from_fn(known));
        let router = super::entered(answers, timeline);
        let needed = [header::AUTHORIZATION, header::HOST].into_iter();
        let needed = needed.filter_map(|name| {
            let value = headers.get(&name)?.clone();
            Some((name, value))
        });
        Self {
            headers: needed.collect(),
            router: TowerToHyperService::new(router),
            certificate: None,
            bound: None,
        }
    }

    /// The JSON of the answer with a name, such as `events`, to a query.
    ///
    /// # Errors
    /// The Status with which the timeline refuses the request.
    pub(crate) async fn answer(self, answer: &str, query: &str) -> Result<Bytes, Status> {
        let request = Request::get(format!("{TIMELINE_API}{answer}?{query}"));
        let mut request = request
            .body(Body::empty())
            .map_err(|_| Status::bad_request("the arguments are too long"))?;
        *request.headers_mut() = self.headers;
        if let Some(certificate) = self.certificate {
            request.extensions_mut().insert(certificate);
        }
        if let Some(bound) = self.bound {
            request.extensions_mut().insert(bound);
        }
        let answer = self.router.call(request).await;
        let answer = answer.unwrap_or_else(|never: Infallible| match never {});
        let (mut head, body) = answer.into_parts();
        if let Some(status) = head.extensions.remove::<Status>() {
            return Err(status);
        }
        let body = body.collect().await.map_err(Status::internal)?;
        Ok(body.to_bytes())
    }
}

/// Answers known callers only.
async fn known(request: extract::Request, next: Next) -> Response {
    match request.extensions().get::<Entered>() {
        Some(Entered(Ok(_))) => next.run(request).await,
        Some(Entered(Err(status))) => status.clone().into_response(),
        None => Status::unauthorized().into_response(),
    }
}
