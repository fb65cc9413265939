//! HTTP to an API server: proxies, TLS, timeouts, and impersonation.
//!
//! It differs from kube's own stack in three ways: a server's certificate is verified as Go does
//! it, a proxy may require a name and a password, and requests without TLS are sent to the proxy
//! itself, because proxies refuse tunnels to other ports than that of HTTPS.

mod forward;

use std::error::Error as StdError;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt, RustlsTlsError};
use kube::{Client, Config};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tidings_server::ServerVerifier;
use tower::{Service, ServiceBuilder, ServiceExt};

use self::forward::Forward;
use super::super::kubeconfig::proxy;

/// Makes a client with no other credentials than the configuration's client certificate.
pub(super) fn client(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    let Some(address) = &config.proxy_url else {
        return over(config, connector);
    };
    let is_plain = config.cluster_url.scheme_str() == Some("http");
    match address.scheme_str() {
        Some("http") if is_plain => over(config, Forward::new(address, connector)),
        Some("https") if is_plain => {
            over(config, Forward::new(address, secured(config, connector)?))
        }
        Some("http") => over(config, tunnel(address, connector)),
        Some("https") => over(config, tunnel(address, secured(config, connector)?)),
        // With SOCKS5 the proxy resolves the host's name.
        Some("socks5" | "socks5h") => {
            let way = SocksV5::new(address.clone(), connector);
            match proxy::login(address) {
                Some((name, password)) => {
                    let way = way.with_auth(name, password);
                    over(config, way.map_request(with_port))
                }
                None => over(config, way.map_request(with_port)),
            }
        }
        _ => Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(address.clone()),
        }),
    }
}

fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match login(proxy) {
        Some(login) => tunnel.with_auth(login),
        None => tunnel,
    }
}

/// The header with the name and the password in a proxy's address.
fn login(proxy: &Uri) -> Option<HeaderValue> {
    let (name, password) = proxy::login(proxy)?;
    let login = STANDARD.encode(format!("{name}:{password}"));
    let mut header = HeaderValue::try_from(format!("Basic {login}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// A server's address with the port of its scheme, because the SOCKS connector takes that of HTTPS.
fn with_port(server: Uri) -> Uri {
    let (Some("http"), Some(host), None) = (server.scheme_str(), server.host(), server.port_u16())
    else {
        return server;
    };
    let mut parts = server.clone().into_parts();
    parts.authority = format!("{host}:80").parse().ok();
    Uri::from_parts(parts).unwrap_or(server)
}

fn over<C>(config: &Config, connector: C) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: StdError + Send + Sync + 'static,
{
    let mut connector = TimeoutConnector::new(secured(config, connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: legacy::Client<_, Body> =
        legacy::Builder::new(TokioExecutor::new()).build(connector);
    // The proxy reads requests without TLS, and their headers; of others it reads only the
    // tunnel's.
    let is_plain = config.cluster_url.scheme_str() == Some("http");
    let proxy = config
        .proxy_url
        .as_ref()
        .filter(|proxy| is_plain && matches!(proxy.scheme_str(), Some("http" | "https")));
    let login = proxy.and_then(login);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .map_request(move |mut request: Request<Body>| {
            if let Some(login) = &login {
                let headers = request.headers_mut();
                headers.insert(PROXY_AUTHORIZATION, login.clone());
            }
            request
        })
        .service(client);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn secured<C>(config: &Config, connector: C) -> kube::Result<HttpsConnector<C>> {
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls(config)?)
        .https_or_http();
    let builder = match config.tls_server_name.clone() {
        Some(name) => {
            let name = ServerName::try_from(name).map_err(RustlsTlsError::InvalidServerName);
            let name = name.map_err(kube::Error::RustlsTls)?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// In a pod, kube re-reads the certificate authorities; they contain no serving certificate.
fn tls(config: &Config) -> kube::Result<ClientConfig> {
    let mut tls = config.rustls_client_config()?;
    if let Some(authorities) = &config.root_cert
        && !config.accept_invalid_certs
        && config.root_cert_file.is_none()
    {
        let authorities = authorities.iter().cloned().map(CertificateDer::from);
        let authorities: Vec<_> = authorities.collect();
        let provider = Arc::clone(tls.crypto_provider());
        let verifier = ServerVerifier::new(&authorities, provider).map_err(|error| {
            kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(Box::new(error)))
        })?;
        let mut dangerous = tls.dangerous();
        dangerous.set_certificate_verifier(Arc::new(verifier));
    }
    Ok(tls)
}
