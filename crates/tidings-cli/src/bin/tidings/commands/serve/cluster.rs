//! A cluster that reviews tokens and permissions, reached by a kubeconfig.

use std::path::Path;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, header};
use kube::{Client, Config};
use serde_json::Value;
use tidings_server::{ReviewError, Reviewer};

use crate::commands::cluster::{ClusterFlags, with_sources};
use crate::commands::connection;
use crate::commands::connection::answer::check_object;

/// Why callers' tokens are not sent to a cluster, and its reviews not believed: others on the
/// network could read the tokens and forge the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unverified {
    #[error(
        "it is reached without TLS; in its kubeconfig give an https:// address, with its certificate-authority"
    )]
    Plain,
    #[error(
        "its certificate is not verified; in its kubeconfig name its certificate-authority instead of insecure-skip-tls-verify"
    )]
    Certificate,
}

/// Checks that a cluster is reached by TLS and its certificate is verified. Addresses of this
/// machine are no exception, because other users of it may listen there, too.
pub(crate) fn verified(config: &Config) -> Result<(), Unverified> {
    if config.cluster_url.scheme_str() != Some("https") {
        Err(Unverified::Plain)
    } else if config.accept_invalid_certs {
        Err(Unverified::Certificate)
    } else {
        Ok(())
    }
}

/// The API server of the reviewing cluster.
pub(crate) struct Cluster {
    client: Client,
    address: String,
    pub(crate) verified: Result<(), Unverified>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Wraps the client of a cluster.
    pub(crate) fn of(client: Client, address: String, verified: Result<(), Unverified>) -> Self {
        Self {
            client,
            address,
            verified,
        }
    }

    /// Reads a kubeconfig. Whether the cluster answers shows with the first review.
    pub(crate) async fn connect(path: &Path) -> Result<Self, String> {
        let flags = ClusterFlags::of_context(Some(path.to_owned()), None);
        let config = flags.config().map_err(|error| error.to_string())?;
        let address = config.cluster_url.to_string();
        let verified = verified(&config);
        let client = connection::client(&address, config).await;
        let client = client.map_err(|error| with_sources(&error))?;
        Ok(Self::of(client, address, verified))
    }
}

impl Reviewer for Cluster {
    fn is_verified(&self) -> bool {
        self.verified.is_ok()
    }

    fn review<'a>(
        &'a self,
        path: &'static str,
        body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>> {
        async move {
            let unreadable = |why: String| ReviewError::Unreadable { why };
            let request = Request::post(path)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json")
                .body(body.to_string().into_bytes())
                .map_err(|error| unreadable(error.to_string()))?;
            // Read as text: kube would log an answer that it cannot parse, and with it a token.
            let answer = self.client.request_text(request).await;
            let answer = answer.map_err(|error| match error {
                kube::Error::Api(status) => ReviewError::Refused {
                    code: status.code,
                    message: status.message,
                },
                error => ReviewError::Unreachable {
                    why: with_sources(&error),
                },
            })?;
            check_object(answer.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
            serde_json::from_str(&answer).map_err(|error| unreadable(error.to_string()))
        }
        .boxed()
    }
}
