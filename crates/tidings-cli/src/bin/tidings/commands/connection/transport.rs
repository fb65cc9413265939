//! HTTP to an API server, by the options of a kubeconfig.
//!
//! `tidings-connect` has the connection. kube adds the server's path, the headers of impersonation,
//! and client certificates.

use std::sync::Arc;

use http::Request;
use kube::client::{Body, ConfigExt, RustlsTlsError};
use kube::{Client, Config};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tidings_connect::proxy::{Proxies, ProxyError};
use tidings_connect::{ClientOptions, ServerVerifier, TrustError};
use tower::ServiceBuilder;

/// Why no transport could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error(transparent)]
    Client(#[from] kube::Error),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("use the certificate authorities: {0}")]
    Authorities(#[from] TrustError),
}

/// Makes a client with no other credentials than the configuration's client certificate.
pub(super) fn client(config: &Config) -> Result<Client, TransportError> {
    let mut options = ClientOptions::new(tls(config)?);
    options.server_name = match config.tls_server_name.clone() {
        Some(name) => {
            let name = ServerName::try_from(name).map_err(RustlsTlsError::InvalidServerName);
            Some(name.map_err(kube::Error::RustlsTls)?)
        }
        None => None,
    };
    options.proxies = Proxies::Fixed(config.proxy_url.clone());
    options.allows_plain = true;
    options.connect_timeout = config.connect_timeout;
    options.read_timeout = config.read_timeout;
    options.write_timeout = config.write_timeout;
    let client = tidings_connect::Client::new(options)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move { client.request(request).await }
        });
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// In a pod, kube re-reads the certificate authorities; they contain no serving certificate.
fn tls(config: &Config) -> Result<ClientConfig, TransportError> {
    let mut tls = config.rustls_client_config()?;
    if !config.accept_invalid_certs && config.root_cert_file.is_none() {
        let provider = tls.crypto_provider();
        let verifier = match &config.root_cert {
            Some(authorities) => {
                let authorities = authorities.iter().cloned().map(CertificateDer::from);
                ServerVerifier::new(&authorities.collect::<Vec<_>>(), provider)?
            }
            None => ServerVerifier::of_system(provider)?,
        };
        let mut dangerous = tls.dangerous();
        dangerous.set_certificate_verifier(Arc::new(verifier));
    }
    Ok(tls)
}
