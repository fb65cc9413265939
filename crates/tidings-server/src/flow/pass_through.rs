//! The client that passes requests on to a followed cluster, without credentials of its own, and
//! its limits.
//!
//! A request is authenticated there only by its own headers: the TLS configuration has no client
//! certificate, and no header is added.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum time to connect to a cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum idle connections.
const IDLE_MAX: usize = 8;
/// Default maximum of concurrent requests.
const REQUESTS_MAX: usize = 100;
/// Default maximum of concurrent watches and followed logs.
const LONG_REQUESTS_MAX: usize = 1000;

/// A client of a followed cluster's API server, for reads that are not about events. Clones share
/// connections and limits.
#[derive(Clone)]
pub struct PassThrough {
    server: Uri,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    requests: Arc<Semaphore>,
    long_requests: Arc<Semaphore>,
}

/// Why requests cannot be passed through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassThroughError {
    /// The address is not valid.
    #[error("not an address of an API server, https://host:port: {address:?}")]
    Address {
        /// What was given.
        address: String,
    },
    /// The certificates of the authorities are not valid.
    #[error("not usable certificates of the cluster's authority: {why}")]
    Authority {
        /// What is wrong with them.
        why: String,
    },
}

impl std::fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassThrough")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl PassThrough {
    /// A client of an API server at `https://host:port`, with or without a path, whose certificate
    /// is of these authorities (in PEM form). At most 100 requests, and 1,000 watches and followed
    /// logs, are concurrent; any more get 429.
    ///
    /// # Errors
    /// [`PassThroughError`] for an invalid address or invalid certificates.
    pub fn new(server: &str, authority_pem: &[u8]) -> Result<Self, PassThroughError> {
        let address = || PassThroughError::Address {
            address: server.to_owned(),
        };
        let server: Uri = server.parse().map_err(|_| address())?;
        let is_plain = server.scheme_str() == Some("https") && server.query().is_none();
        if !is_plain || server.host().is_none_or(str::is_empty) {
            return Err(address());
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trusting(authority_pem)?)
            .https_only()
            .enable_all_versions()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Ok(Self {
            server,
            client,
            requests: places(REQUESTS_MAX),
            long_requests: places(LONG_REQUESTS_MAX),
        })
    }

    /// The same with other limits of concurrent requests, and of concurrent watches and followed
    /// logs.
    #[must_use]
    pub fn limits(mut self, requests: usize, long_requests: usize) -> Self {
        self.requests = places(requests);
        self.long_requests = places(long_requests);
        self
    }

    /// A place for a request, if one is free.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.requests).try_acquire_owned().ok()
    }

    /// A place for a watch or a followed log, if one is free.
    pub(crate) fn long_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.long_requests).try_acquire_owned().ok()
    }

    /// Sends a request without a body to a path, with its query, below the server's address.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
    ) -> Result<Passed, PassError> {
        let base = self.server.path().trim_end_matches('/');
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.server.authority().map_or("", |it| it.as_str()))
            .path_and_query(format!("{base}{target}"))
            .build()
            .map_err(|_| PassError::Address)?;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answer = self.client.request(request).await.map_err(|error| {
            let why = chain(&error);
            if error.is_connect() {
                PassError::Unreachable(why)
            } else {
                PassError::Broken(why)
            }
        })?;
        // No other protocol was requested, and none is passed on.
        if answer.status().is_informational() {
            return Err(PassError::Broken(format!(
                "its code is {}",
                answer.status()
            )));
        }
        Ok(answer)
    }
}

fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// A cluster's answer.
pub(crate) type Passed = Response<Incoming>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the path cannot be below that of the cluster")]
    Address,
    #[error("the cluster cannot be reached: {0}")]
    Unreachable(String),
    #[error("the cluster's answer is not valid: {0}")]
    Broken(String),
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Without a client certificate.
fn trusting(authority_pem: &[u8]) -> Result<ClientConfig, PassThroughError> {
    let unusable = |why: String| PassThroughError::Authority { why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority_pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is none".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_to_a_trusted_authority() {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let pem = own.cert.pem();
        for (server, expected) in [
            ("https://10.0.0.1:6443", true),
            ("https://api.example/k8s/clusters/c-1", true),
            ("http://10.0.0.1:6443", false),
            ("10.0.0.1:6443", false),
            ("https:///x", false),
            ("https://10.0.0.1:6443/?x", false),
            ("", false),
        ] {
            let way = PassThrough::new(server, pem.as_bytes());
            assert_eq!(way.is_ok(), expected, "{server}: {way:?}");
        }
        for pem in [
            "",
            "x",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let way = PassThrough::new("https://10.0.0.1:6443", pem.as_bytes());
            assert!(
                matches!(way, Err(PassThroughError::Authority { .. })),
                "{way:?}"
            );
        }
    }
}
