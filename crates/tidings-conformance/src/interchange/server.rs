//! Requests to one of the two servers.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;

use super::error::{InterchangeError, different};
use crate::http::{Answer, HttpError};
use crate::servers::ApiServer;

/// A server, and its name in reports.
pub(super) struct Server {
    pub(super) name: &'static str,
    server: ApiServer,
}

/// An answer, and the request that it belongs to.
pub(super) struct Answered {
    asked: String,
    status: u16,
    pub(super) body: Value,
}

/// An open watch.
pub(super) struct Watching {
    asked: String,
    answer: Answer,
}

impl Server {
    pub(super) fn new(name: &'static str, server: ApiServer) -> Self {
        Self { name, server }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answered, InterchangeError> {
        self.send(Method::GET, path, "", None).await
    }

    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Answered, InterchangeError> {
        self.send(Method::POST, path, "application/json", Some(body))
            .await
    }

    /// Posts a body that was not made of a JSON value.
    pub(super) async fn post_bytes(
        &self,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Answered, InterchangeError> {
        self.send_bytes(Method::POST, path, content_type, Some(body.into()))
            .await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Answered, InterchangeError> {
        self.send(Method::PUT, path, "application/json", Some(body))
            .await
    }

    pub(super) async fn delete(
        &self,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, InterchangeError> {
        self.send(Method::DELETE, path, "application/json", body)
            .await
    }

    /// Sends a patch of this kind: `json-patch+json`, `merge-patch+json`,
    /// `strategic-merge-patch+json` or `apply-patch+yaml`.
    pub(super) async fn patch(
        &self,
        kind: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answered, InterchangeError> {
        self.send(
            Method::PATCH,
            path,
            &format!("application/{kind}"),
            Some(body),
        )
        .await
    }

    /// Begins a watch, which is open when this returns.
    pub(super) async fn watch(&self, path: &str) -> Result<Watching, InterchangeError> {
        let asked = format!("{}: GET {path}", self.name);
        let answer = self
            .server
            .client
            .send(request(Method::GET, path, "", None)?)
            .await?;
        if answer.status != 200 {
            return Err(different(format!("{asked} is answered {}", answer.status)));
        }
        Ok(Watching { asked, answer })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Answered, InterchangeError> {
        let body = body.map(|body| body.to_string().into());
        self.send_bytes(method, path, content_type, body).await
    }

    async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<Bytes>,
    ) -> Result<Answered, InterchangeError> {
        let asked = format!("{}: {method} {path}", self.name);
        let request = request(method, path, content_type, body)?;
        let answer = self.server.client.send(request).await?;
        let status = answer.status.as_u16();
        let body = serde_json::from_slice(&answer.body().await?)?;
        Ok(Answered {
            asked,
            status,
            body,
        })
    }
}

fn request(
    method: Method,
    path: &str,
    content_type: &str,
    body: Option<Bytes>,
) -> Result<Request<Full<Bytes>>, HttpError> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", "Bearer admin-token")
        .header("User-Agent", "interchange/1.0")
        .header("Accept", "application/json");
    if body.is_some() {
        request = request.header("Content-Type", content_type);
    }
    Ok(request.body(Full::from(body.unwrap_or_default()))?)
}

impl Answered {
    /// Requires this status, and returns the body.
    pub(super) fn expect(self, status: u16) -> Result<Value, InterchangeError> {
        if self.status == status {
            Ok(self.body)
        } else {
            Err(different(format!(
                "{} is answered {} instead of {status}: {}",
                self.asked, self.status, self.body
            )))
        }
    }

    pub(super) fn is(&self, status: u16) -> bool {
        self.status == status
    }
}

impl Watching {
    /// The next event; bookmarks are skipped.
    pub(super) async fn next(&mut self) -> Result<Value, InterchangeError> {
        loop {
            let Some(line) = self.answer.line().await? else {
                return Err(different(format!("{} has ended", self.asked)));
            };
            let event: Value = serde_json::from_slice(&line)?;
            if event.get("type").and_then(Value::as_str) != Some("BOOKMARK") {
                return Ok(event);
            }
        }
    }
}
