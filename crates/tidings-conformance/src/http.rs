//! A plain HTTP client without hidden steps, with TLS or without. Each request has a connection of
//! its own, unless a caller keeps one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Result as Judged, fail};

/// Maximum time until an answer begins. Watches have their own limit.
const PATIENCE: Duration = Duration::from_secs(90);

/// Maximum header fields and maximum bytes of an answer's headers, as in Go's client.
const HEADERS_MAX: usize = 100_000;
const HEADERS_BYTES_MAX: usize = 10 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum HttpError {
    #[error("the server's certificate: {0}")]
    Certificate(String),
    #[error("the request is invalid: {0}")]
    Request(#[from] http::Error),
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    #[error("no answer: {0}")]
    Answer(#[from] hyper::Error),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late(#[from] tokio::time::error::Elapsed),
}

/// A server's address and trusted certificates; without these, its connections have no TLS.
#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    tls: Option<TlsConnector>,
}

/// An answer whose body may still be on its way.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Bytes of a line that is not complete yet.
    read: Vec<u8>,
}

impl Client {
    /// A client of the server at `address`, whose certificate one of these authorities signed.
    pub(crate) fn new(address: &str, trusted: &[u8]) -> Result<Self, HttpError> {
        let wrong = |error: &dyn std::fmt::Display| HttpError::Certificate(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address: address.to_owned(),
            tls: Some(TlsConnector::from(Arc::new(config))),
        })
    }

    /// A client of a server without TLS, which needs no credentials.
    pub(crate) fn plain(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            tls: None,
        }
    }

    /// Whether the server says that it is ready.
    pub(crate) async fn is_ready(&self) -> bool {
        let reply = self.call(Method::GET, "/readyz", "", "").await;
        reply.is_ok_and(|reply| reply.status == StatusCode::OK)
    }

    /// Makes a request of the user who may do everything.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("User-Agent", "judge/1.0");
        request = request.header("Accept", "application/json");
        if self.tls.is_some() {
            request = request.header("Authorization", "Bearer admin-token");
        }
        if !media.is_empty() {
            request = request.header("Content-Type", media);
        }
        Ok(request.body(Full::new(body.into()))?)
    }

    /// Sends a request of the user who may do everything, and reads the answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Result<Reply, HttpError> {
        let request = self.request(method, path, media, body)?;
        self.send(request).await?.reply().await
    }

    /// Sends a request, and returns when the answer begins.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, HttpError> {
        self.connect().await?.send(request).await
    }

    /// A connection for several requests, one after the other.
    pub(crate) async fn connect(&self) -> Result<Connection, HttpError> {
        if self.tls.is_some() {
            return Connection::over(self.tunnel(None).await?, &self.address).await;
        }
        let stream = timeout(PATIENCE, TcpStream::connect(&self.address)).await??;
        Connection::over(stream, &self.address).await
    }

    /// A TLS connection without HTTP, with the given protocol if any.
    pub(crate) async fn tunnel(
        &self,
        protocol: Option<&[u8]>,
    ) -> Result<TlsStream<TcpStream>, HttpError> {
        let none = || HttpError::Certificate("none is trusted".to_owned());
        let mut tls = self.tls.clone().ok_or_else(none)?;
        if let Some(protocol) = protocol {
            let mut config = ClientConfig::clone(tls.config());
            config.alpn_protocols = vec![protocol.to_owned()];
            tls = TlsConnector::from(Arc::new(config));
        }
        let open = async {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            let host = self.address.split(':').next().unwrap_or_default();
            let host = ServerName::try_from(host.to_owned())
                .map_err(|error| HttpError::Certificate(error.to_string()))?;
            Ok(tls.connect(host, stream).await?)
        };
        timeout(PATIENCE, open).await?
    }
}

/// An HTTP/1.1 connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: http::HeaderValue,
}

impl Connection {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: &str,
    ) -> Result<Self, HttpError> {
        let host = http::HeaderValue::try_from(address).map_err(http::Error::from)?;
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEADERS_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // The task's errors also appear as errors of the answer.
        tokio::spawn(connection);
        Ok(Self { sender, host })
    }

    /// Sends a request once the previous answer is complete. Returns when the answer begins.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, HttpError> {
        request.headers_mut().insert("Host", self.host.clone());
        let exchange = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let answer = timeout(PATIENCE, exchange).await??;
        let (parts, body) = answer.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            read: Vec::new(),
        })
    }
}

impl Answer {
    /// Reads the body.
    pub(crate) async fn body(self) -> Result<Bytes, HttpError> {
        let collected = timeout(PATIENCE, self.body.collect()).await??;
        Ok(collected.to_bytes())
    }

    pub(crate) async fn reply(self) -> Result<Reply, HttpError> {
        let status = self.status;
        let text = self.body().await?;
        let json = serde_json::from_slice(&text).unwrap_or_default();
        Ok(Reply { status, json, text })
    }

    /// Reads the body, and returns only its length.
    pub(crate) async fn length(&mut self) -> Result<u64, HttpError> {
        let mut length = 0;
        while let Some(frame) = timeout(PATIENCE, self.body.frame()).await? {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }

    /// Waits for the next line, which a watch sends for each event; `None` at the end.
    pub(crate) async fn line(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.read.drain(..=end).collect()));
            }
            let Some(frame) = timeout(PATIENCE, self.body.frame()).await? else {
                return Ok(None);
            };
            if let Some(data) = frame?.data_ref() {
                self.read.extend_from_slice(data);
            }
        }
    }
}

/// A complete answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The body; null if it is not JSON.
    pub(crate) json: Value,
    pub(crate) text: Bytes,
}

impl Reply {
    /// Requires a success. Returns the body.
    pub(crate) fn success(self, path: &str) -> Judged<Value> {
        let (status, text) = (self.status, String::from_utf8_lossy(&self.text));
        if status.is_success() {
            return Ok(self.json);
        }
        fail(format!("{path} was answered {status}: {text}"))
    }
}

/// Sends requests with JSON over one connection, and opens a new one when that has ended.
pub(crate) struct Caller {
    client: Client,
    connection: Option<Connection>,
}

impl Caller {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            connection: None,
        }
    }

    /// Opens the connection if there is none.
    pub(crate) async fn connect(&mut self) -> Result<(), HttpError> {
        if self.connection.is_none() {
            self.connection = Some(self.client.connect().await?);
        }
        Ok(())
    }

    /// Gets a path. The request is repeated if the server was restarted meanwhile.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Reply, HttpError> {
        let is_kept = self.connection.is_some();
        match self.ask(Method::GET, path, None).await {
            Err(_) if is_kept => self.ask(Method::GET, path, None).await,
            reply => reply,
        }
    }

    /// Gets the JSON at a path. Anything but a success is an error.
    pub(crate) async fn read(&mut self, path: &str) -> Judged<Value> {
        self.get(path).await?.success(path)
    }

    pub(crate) async fn ask(
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
        let request = self.client.request(method, path, media, bytes)?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.client.connect().await?,
        };
        let reply = connection.send(request).await?.reply().await?;
        // The connection is kept only after a complete answer; otherwise the next request would
        // read its rest.
        self.connection = Some(connection);
        Ok(reply)
    }
}
