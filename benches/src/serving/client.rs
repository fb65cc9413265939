//! A minimal client: one HTTP/1.1 connection over TLS, with the authority and the token of a
//! kubeconfig's cluster.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Failure;

/// The media type of almost everything.
pub(crate) const JSON: &str = "application/json";

/// The address of a server, and the credentials for it.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    name: ServerName<'static>,
    token: String,
    tls: TlsConnector,
}

impl Target {
    /// The current cluster of a kubeconfig, which may have a token.
    pub(crate) async fn from_kubeconfig(path: &Path) -> Result<Self, Failure> {
        let options = KubeConfigOptions::default();
        let kubeconfig = Kubeconfig::read_from(path)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let user = serde_json::to_value(&config.auth_info)?;
        let host = config.cluster_url.host().unwrap_or_default();
        Ok(Self {
            address: format!("{host}:{}", config.cluster_url.port_u16().unwrap_or(443)),
            name: ServerName::try_from(host.to_owned())?,
            token: user["token"].as_str().unwrap_or_default().to_owned(),
            tls: TlsConnector::from(Arc::new(config.rustls_client_config()?)),
        })
    }

    /// The address of the server's timeline, and the token to log in with.
    pub(crate) fn entrance(&self) -> (String, &str) {
        (format!("https://{}/timeline", self.address), &self.token)
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // This task ends with the sender of requests, and the caller that waits for an answer gets
        // its error.
        tokio::spawn(connection);
        Ok(Connection {
            sender,
            authority: HeaderValue::try_from(&self.address)?,
            authorization: HeaderValue::try_from(format!("Bearer {}", self.token))?,
        })
    }
}

/// An open connection, for one request after the other.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: HeaderValue,
    authorization: HeaderValue,
}

impl Connection {
    /// Sends a request. Returns the answer when its headers are there, whatever it says.
    pub(crate) async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &'static str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.authority.clone());
        request = request.header(AUTHORIZATION, self.authorization.clone());
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.sender.ready().await?;
        let request = request.body(Full::new(body.into()))?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request, which must be answered with success.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &'static str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let response = self.try_send(method.clone(), path, headers, body).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.into_body().collect().await?.to_bytes();
        let body: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        Err(format!("{method} {path} was answered {status}: {body}").into())
    }

    /// Sends a body, and reads the whole answer.
    pub(crate) async fn write(
        &mut self,
        method: Method,
        path: &str,
        media_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Failure> {
        let headers = [(CONTENT_TYPE, media_type)];
        let response = self.send(method, path, &headers, body).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Begins to read a path.
    pub(crate) async fn open(&mut self, path: &str) -> Result<Incoming, Failure> {
        let response = self.send(Method::GET, path, &[(ACCEPT, JSON)], "").await?;
        Ok(response.into_body())
    }

    /// The whole answer of a path.
    pub(crate) async fn read(&mut self, path: &str) -> Result<Bytes, Failure> {
        Ok(self.open(path).await?.collect().await?.to_bytes())
    }

    /// Gets a path. Returns the number of bytes of the answer, which may be large.
    pub(crate) async fn count(
        &mut self,
        path: &str,
        media_type: &'static str,
    ) -> Result<u64, Failure> {
        let response = self
            .send(Method::GET, path, &[(ACCEPT, media_type)], "")
            .await?;
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }
}
