//! Requests to one of the two servers, each with the status that it must be answered with.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::error::{Result, fail};
use crate::http::{Answer, Reply};
use crate::servers::ApiServer;

/// A server, and its name in reports.
pub(super) struct Server {
    pub(super) name: &'static str,
    server: ApiServer,
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

    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "", "", 200).await
    }

    /// Requires that a read is answered with this error.
    pub(super) async fn get_fails(&self, path: &str, status: u16) -> Result<Value> {
        self.send(Method::GET, path, "", "", status).await
    }

    pub(super) async fn try_get(&self, path: &str) -> Result<Reply> {
        Ok(self.server.client.call(Method::GET, path, "", "").await?)
    }

    pub(super) async fn post(&self, path: &str, body: &Value, status: u16) -> Result<Value> {
        let (media, body) = ("application/json", body.to_string());
        self.send(Method::POST, path, media, body, status).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value, status: u16) -> Result<Value> {
        let (media, body) = ("application/json", body.to_string());
        self.send(Method::PUT, path, media, body, status).await
    }

    pub(super) async fn delete(&self, path: &str, body: &Value, status: u16) -> Result<Value> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let media = "application/json";
        self.send(Method::DELETE, path, media, body, status).await
    }

    /// Sends a patch of this kind: `json-patch+json`, `merge-patch+json`,
    /// `strategic-merge-patch+json` or `apply-patch+yaml`.
    pub(super) async fn patch(
        &self,
        kind: &str,
        path: &str,
        body: &Value,
        status: u16,
    ) -> Result<Value> {
        let (media, body) = (format!("application/{kind}"), body.to_string());
        self.send(Method::PATCH, path, &media, body, status).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
        status: u16,
    ) -> Result<Value> {
        let asked = format!("{}: {method} {path}", self.name);
        let reply = self.server.client.call(method, path, media, body).await?;
        let (other, text) = (reply.status, String::from_utf8_lossy(&reply.text));
        if other == status {
            return serde_json::from_slice(&reply.text)
                .or_else(|error| fail(format!("{asked}: {error}: {text}")));
        }
        fail(format!(
            "{asked} is answered {other} instead of {status}: {text}"
        ))
    }

    /// Begins a watch, which is open when this returns.
    pub(super) async fn watch(&self, path: &str) -> Result<Watching> {
        let asked = format!("{}: GET {path}", self.name);
        let client = &self.server.client;
        let answer = client
            .send(client.request(Method::GET, path, "", "")?)
            .await?;
        if answer.status != 200 {
            return fail(format!("{asked} is answered {}", answer.status));
        }
        Ok(Watching { asked, answer })
    }
}

impl Watching {
    /// The next event; bookmarks are skipped.
    pub(super) async fn next(&mut self) -> Result<Value> {
        loop {
            let Some(line) = self.answer.line().await? else {
                return fail(format!("{} has ended", self.asked));
            };
            let event: Value = serde_json::from_slice(&line)?;
            if event["type"] != "BOOKMARK" {
                return Ok(event);
            }
        }
    }
}
