//! The way to a followed cluster for requests that are not about events: a client without
//! credentials of its own, and places for what is on its way.
//!
//! Nothing but the caller's own token lets a request in there: the TLS configuration has no client
//! certificate, and headers are chosen one by one.

use std::sync::Arc;

use http::Uri;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Where reads that are not about events go: the followed cluster's own API server. Clones share
/// their connections and places.
#[derive(Clone)]
pub struct PassThrough(Arc<Inner>);

struct Inner {
    server: Uri,
    #[expect(dead_code, reason = "the client is made of it")]
    tls: ClientConfig,
}

/// Why requests cannot be passed through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassThroughError {
    /// The address is none.
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
            .field("server", &self.0.server)
            .finish_non_exhaustive()
    }
}

impl PassThrough {
    /// To an API server, `https://host:port` or with a path, that shows a certificate of these
    /// authorities (in PEM form).
    ///
    /// # Errors
    /// [`PassThroughError`] for what is no such address, and what are no certificates.
    pub fn new(server: &str, authority_pem: &[u8]) -> Result<Self, PassThroughError> {
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
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = || PassThroughError::Address {
            address: server.to_owned(),
        };
        let server: Uri = server.parse().map_err(|_| address())?;
        if server.scheme_str() != Some("https") || server.query().is_some() {
            return Err(address());
        }
        Ok(Self(Arc::new(Inner { server, tls })))
    }
}
