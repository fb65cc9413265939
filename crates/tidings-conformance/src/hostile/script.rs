//! Scripts: requests and bytes that are measured, and their preparation.

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;

/// One piece of hostile input.
pub(super) struct Script {
    /// Requests that prepare the server, and are not measured.
    pub(super) before: Vec<Ask>,
    pub(super) act: Act,
}

/// What is sent and measured.
pub(super) enum Act {
    /// Requests one after the other over one connection.
    Requests(Vec<Ask>),
    /// Bytes over a connection, with this protocol in its TLS handshake or none, until the server
    /// ends it.
    Bytes(Option<&'static [u8]>, Vec<u8>),
    /// This number of TLS connections without requests: left open, or one after the other.
    Connections(usize, bool),
    /// Requests at the same time.
    AtOnce(AtOnce),
}

/// Requests at the same time, each over a connection of its own.
pub(super) struct AtOnce {
    /// Requests whose answers are not read.
    pub(super) unread: Vec<Ask>,
    /// Requests that follow, one after the other, once the unread ones have begun to be answered.
    pub(super) then: Vec<Ask>,
    /// Requests whose answers are read, sent at the same time as the others.
    pub(super) read: Vec<Ask>,
}

/// A request before its token is known.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) has_token: bool,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn get(target: &str, has_token: bool) -> Self {
        Self {
            method: "GET".to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            has_token,
            body: Bytes::new(),
        }
    }

    /// The complete request, with this token unless it has its own.
    pub(super) fn request(&self, token: &str) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder().method(&*self.method).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, HeaderValue::from_str(value)?);
        }
        if self.has_token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(Full::new(self.body.clone()))
    }
}
