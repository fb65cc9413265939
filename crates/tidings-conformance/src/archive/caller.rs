//! Requests with JSON on one connection, which is opened again when it ends.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use super::error::ArchiveError;
use crate::http::{Client, Connection, HttpError};

/// An answer of the server.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    /// The body; null if it is not JSON.
    pub(super) json: Value,
    pub(super) text: Bytes,
}

/// Sends requests over one connection, and opens a new one when that has ended.
pub(super) struct Caller {
    client: Client,
    connection: Option<Connection>,
}

impl Caller {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            connection: None,
        }
    }

    /// Opens the connection if there is none.
    pub(super) async fn connect(&mut self) -> Result<(), HttpError> {
        if self.connection.is_none() {
            self.connection = Some(self.client.connect().await?);
        }
        Ok(())
    }

    /// Gets a path. The request is repeated if the server was restarted meanwhile.
    pub(super) async fn get(&mut self, path: &str) -> Result<Reply, HttpError> {
        let is_kept = self.connection.is_some();
        match self.ask(Method::GET, path, None).await {
            Err(_) if is_kept => self.ask(Method::GET, path, None).await,
            reply => reply,
        }
    }

    /// Sends a change. Anything but a success is an error.
    pub(super) async fn change(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(), ArchiveError> {
        let reply = self.ask(method, path, Some(body)).await?;
        if reply.status.is_success() {
            return Ok(());
        }
        Err(ArchiveError::Answer {
            path: path.to_owned(),
            status: reply.status,
            text: String::from_utf8_lossy(&reply.text).into_owned(),
        })
    }

    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, HttpError> {
        let media = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Authorization", "Bearer admin-token")
            .header("Accept", "application/json")
            .header("Content-Type", media)
            .body(Full::new(bytes))?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.client.connect().await?,
        };
        let answer = connection.send(request).await?;
        let status = answer.status;
        let text = answer.body().await?;
        // The connection is kept only after a complete answer; otherwise the next request would
        // read its rest.
        self.connection = Some(connection);
        Ok(Reply {
            status,
            json: serde_json::from_slice(&text).unwrap_or_default(),
            text,
        })
    }
}
