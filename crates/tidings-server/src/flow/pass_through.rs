//! The way to a followed cluster for requests that are not about events: a client without
//! credentials of its own, and places for what is on its way.
//!
//! Nothing but what a request brings along lets it in there: the TLS configuration has no client
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

/// How long a connection to a cluster may take to be there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that nothing is asked on is ended after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum of such connections.
const IDLE_MAX: usize = 8;
/// Maximum of requests on their way at once, unless said otherwise.
const REQUESTS_MAX: usize = 100;
/// Maximum of watches and followed logs on their way at once, unless said otherwise.
const LONG_REQUESTS_MAX: usize = 1000;

/// Where reads that are not about events go: the followed cluster's own API server. Clones share
/// their connections and places.
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
    /// There is no such address.
    #[error("not an address of an API server, https://host:port: {address:?}")]
    Address {
        /// What was given.
        address: String,
    },
    /// There are no certificates to trust the cluster by.
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
    /// To an API server, `https://host:port` or with a path, that shows a certificate of these
    /// authorities (in PEM form). At most 100 requests are on their way at once, and 1,000 watches
    /// and logs that are followed; any more get 429.
    ///
    /// # Errors
    /// [`PassThroughError`] for what is no such address, and what are no certificates.
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

    /// With other limits of the requests, and of the watches and followed logs, that are on their
    /// way at once.
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

    /// A place for a watch or the like, if one is free.
    pub(crate) fn long_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.long_requests).try_acquire_owned().ok()
    }

    /// Sends a request without a body to a path, with its query, below the server's address.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
    ) -> Result<Passed, Unpassed> {
        let base = self.server.path().trim_end_matches('/');
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.server.authority().map_or("", |it| it.as_str()))
            .path_and_query(format!("{base}{target}"))
            .build()
            .map_err(|_| Unpassed::Address)?;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answer = self.client.request(request).await.map_err(|error| {
            let why = chain(&error);
            if error.is_connect() {
                Unpassed::Unreachable(why)
            } else {
                Unpassed::Broken(why)
            }
        })?;
        // Nobody asked for another protocol, and none is passed on.
        if answer.status().is_informational() {
            return Err(Unpassed::Broken(format!("its code is {}", answer.status())));
        }
        Ok(answer)
    }
}

fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// A cluster's answer.
pub(crate) type Passed = Response<Incoming>;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unpassed {
    #[error("the path cannot be below that of the cluster")]
    Address,
    #[error("the cluster cannot be reached: {0}")]
    Unreachable(String),
    #[error("the cluster's answer is none: {0}")]
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
