//! A minimal client: one HTTP/1.1 connection over TLS, with the authority and the token of a
//! kubeconfig's cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The kubeconfig cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// What is wrong with the kubeconfig.
        reason: String,
    },
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    /// A request was not answered.
    #[error("no answer: {0}")]
    Http(#[from] hyper::Error),
    /// A request is not valid HTTP.
    #[error("not a request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The server refused a request.
    #[error("{method} {path} was answered {status}: {body}")]
    Refused {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// The status of the answer.
        status: StatusCode,
        /// The beginning of the answer's body, in one line.
        body: String,
    },
    /// An answer is not as expected.
    #[error("an answer was not what was expected: {0}")]
    Answer(String),
}

/// The address of a server, and the credentials for it.
#[derive(Clone)]
pub struct Target {
    address: (String, u16),
    name: ServerName<'static>,
    authority: HeaderValue,
    authorization: Option<HeaderValue>,
    tls: TlsConnector,
}

impl Target {
    /// The current cluster of a kubeconfig, which must have an authority and, if it has
    /// credentials, a token.
    ///
    /// # Errors
    /// [`LoadError::Kubeconfig`] if the kubeconfig cannot be read, or lacks one of these.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, LoadError> {
        let unusable = |reason: String| LoadError::Kubeconfig {
            path: path.to_owned(),
            reason,
        };
        let kubeconfig =
            Kubeconfig::read_from(path).map_err(|error| unusable(error.to_string()))?;
        let token = kubeconfig
            .auth_infos
            .iter()
            .filter_map(|info| info.auth_info.as_ref())
            .find_map(|info| {
                serde_json::to_value(info).ok()?["token"]
                    .as_str()
                    .map(str::to_owned)
            });
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| unusable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for der in config.root_cert.iter().flatten() {
            roots
                .add(CertificateDer::from(der.clone()))
                .map_err(|error| unusable(error.to_string()))?;
        }
        let host = config.cluster_url.host().unwrap_or_default().to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let name =
            ServerName::try_from(host.clone()).map_err(|error| unusable(error.to_string()))?;
        let header =
            |text: String| HeaderValue::try_from(text).map_err(|error| unusable(error.to_string()));
        let authority = header(format!("{host}:{port}"))?;
        let authorization = token
            .map(|token| header(format!("Bearer {token}")))
            .transpose()?;
        let tls =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| unusable(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        Ok(Self {
            address: (host, port),
            name,
            authority,
            authorization,
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`LoadError::Connect`] and [`LoadError::Http`].
    pub async fn connect(&self) -> Result<Connection, LoadError> {
        let (host, port) = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // This task ends with the sender of requests, and the caller that waits for an answer gets
        // its error.
        tokio::spawn(connection);
        Ok(Connection {
            sender,
            authority: self.authority.clone(),
            authorization: self.authorization.clone(),
        })
    }
}

/// An open connection, for one request after the other.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl Connection {
    /// Sends a request. Returns the answer when its headers are there.
    ///
    /// # Errors
    /// [`LoadError::Http`]; [`LoadError::Refused`] for an answer that is not a success.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        header: (HeaderName, &'static str),
        body: Bytes,
    ) -> Result<Response<Incoming>, LoadError> {
        self.send_with(method, path, &[header], body).await
    }

    /// As [`send`](Self::send), with several headers.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_with(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &'static str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, LoadError> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(HOST, self.authority.clone());
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        self.sender.ready().await?;
        let response = self
            .sender
            .send_request(request.body(Full::new(body))?)
            .await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.into_body().collect().await?.to_bytes();
        let body = String::from_utf8_lossy(&body).chars().take(300).collect();
        Err(LoadError::Refused {
            method,
            path: path.to_owned(),
            status,
            body,
        })
    }

    /// Sends a body, and reads the whole answer.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn write(
        &mut self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, LoadError> {
        let response = self
            .send(method, path, (CONTENT_TYPE, media_type), body.into())
            .await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Gets a path. Returns the number of bytes of the answer.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn read(&mut self, path: &str, media_type: &'static str) -> Result<u64, LoadError> {
        let response = self
            .send(Method::GET, path, (ACCEPT, media_type), Bytes::new())
            .await?;
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }
}
