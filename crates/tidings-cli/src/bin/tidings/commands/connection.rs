//! The connection to a cluster's API server, used by every verb, the archive, and the server's
//! reviews.
//!
//! Each request gets the currently valid credentials (`credentials`), takes the route of the
//! kubeconfig or the environment (`transport`), and its answer is checked (`answer`). kube provides
//! the types of kubeconfigs, TLS with client certificates, and the client's API.

pub(crate) mod answer;
pub(crate) mod credentials;
pub(crate) mod program;
mod tokens;
mod transport;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use tower::BoxError;

use self::answer::judged;
use self::credentials::{Credentials, CredentialsError, Sent};
use self::transport::TransportError;

/// Why no client of a cluster could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConnected {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// The service below a client: adds credentials, and checks answers.
struct Connection {
    config: Config,
    credentials: Credentials,
    /// The client of the last request, and the credentials whose certificate it has.
    last: Mutex<(Client, Sent)>,
}

/// Makes a client of a cluster with this complete configuration. Waits for a credential program.
/// The name of the cluster is for the log.
///
/// # Errors
/// There are no credentials, or TLS cannot be set up.
pub(crate) async fn client(cluster: &str, mut config: Config) -> Result<Client, NotConnected> {
    // Another dependency may add a second provider, and then rustls needs a default. Setting it
    // twice does no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let credentials = Credentials::take(cluster, &mut config.auth_info).await?;
    let sent = Sent::Header(None);
    let last = Mutex::new((transport::client(&config)?, sent));
    let namespace = config.default_namespace.clone();
    let connection = Arc::new(Connection {
        config,
        credentials,
        last,
    });
    // An unusable certificate of a credential program is reported now.
    if let Ok(sent) = connection.credentials.current().await {
        connection.client_with(sent)?;
    }
    let service = tower::service_fn(move |request| {
        let connection = Arc::clone(&connection);
        async move { connection.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

impl Connection {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let sent = self.credentials.current().await?;
        if let Some(header) = sent.header() {
            let headers = request.headers_mut();
            headers
                .entry(AUTHORIZATION)
                .or_insert_with(|| header.clone());
        }
        let client = self.client_with(sent.clone())?;
        let answer = client.send(request).await;
        let answer = answer.map_err(|error| match error {
            kube::Error::Service(error) => error,
            error => Box::new(error),
        })?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.credentials.refused(&sent).await;
        }
        Ok(judged(&path, answer).await?)
    }

    /// The client with the certificate of these credentials. Connections with another certificate
    /// are dropped.
    fn client_with(&self, sent: Sent) -> Result<Client, TransportError> {
        let mut last = self.last.lock();
        let (client, before) = &mut *last;
        if !sent.has_certificate_of(before) {
            let mut config = self.config.clone();
            if let Some(own) = sent.certificate() {
                let user = &mut config.auth_info;
                user.client_certificate_data = Some(STANDARD.encode(&own.certificate));
                user.client_key_data = Some(STANDARD.encode(&own.key).into());
            }
            *client = transport::client(&config)?;
            *before = sent;
        }
        Ok(client.clone())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use kube::config::{ExecConfig, ExecInteractiveMode};

    use super::*;

    /// Making the client fails without the certificate and its key, so success shows that they were
    /// used.
    #[tokio::test]
    async fn a_certificate_of_a_program_is_used() {
        let own = rcgen::generate_simple_self_signed(["user".to_owned()]).unwrap();
        for (key, is_good) in [
            (own.signing_key.serialize_pem(), true),
            ("no key".to_owned(), false),
        ] {
            let printed = serde_json::json!({
                "apiVersion": "v",
                "kind": "ExecCredential",
                "status": {"clientCertificateData": own.cert.pem(), "clientKeyData": key},
            });
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("printed");
            std::fs::write(&file, printed.to_string()).unwrap();
            let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
            config.root_cert = Some(vec![own.cert.der().to_vec()]);
            config.auth_info.exec = Some(ExecConfig {
                api_version: Some("v".to_owned()),
                command: Some("cat".to_owned()),
                args: Some(vec![file.display().to_string()]),
                interactive_mode: Some(ExecInteractiveMode::Never),
                ..ExecConfig::default()
            });
            assert_eq!(client("prod", config).await.is_ok(), is_good);
        }
    }
}
