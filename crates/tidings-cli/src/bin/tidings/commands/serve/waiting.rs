//! Requests pending versions from the archive that follows the clusters.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::AsyncReadExt;
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use tidings_objects::WaitingSource;
use tidings_store::BoxFuture;

use crate::commands::cluster::{ClusterFlags, with_sources};
use crate::commands::connection;

/// Maximum bytes read of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A cluster at the archive that follows it.
pub(super) struct Source {
    cluster: String,
    kubeconfig: PathBuf,
    /// The client of the kubeconfig as of the last successful request.
    client: Mutex<Option<Client>>,
    address: Mutex<Option<String>>,
}

impl Source {
    pub(super) fn new(cluster: &str, kubeconfig: &Path) -> Self {
        Self {
            cluster: cluster.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            client: Mutex::default(),
            address: Mutex::default(),
        }
    }

    async fn client(&self) -> Result<Client, String> {
        if let Some(client) = &*self.client.lock() {
            return Ok(client.clone());
        }
        let context = Some(self.cluster.clone());
        let flags = ClusterFlags::of_context(Some(self.kubeconfig.clone()), context);
        let config = flags.config().map_err(|error| error.to_string())?;
        *self.address.lock() = Some(config.cluster_url.to_string());
        let client = connection::client(&self.cluster, config).await;
        let client = client.map_err(|error| with_sources(&error))?;
        *self.client.lock() = Some(client.clone());
        Ok(client)
    }

    async fn ask(&self, from: u64, to: Option<u64>) -> Result<Option<Bytes>, String> {
        let to = to.map_or_else(String::new, |to| format!("&to={to}"));
        let request = Request::get(format!("/waiting?from={from}{to}"));
        let request = request
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let answer = match self.client().await?.request_stream(request).await {
            Err(kube::Error::Api(status)) if status.code == 410 => return Ok(None),
            Err(kube::Error::Api(status)) => return Err(status.message.clone()),
            Err(error) => return Err(with_sources(&error)),
            Ok(answer) => answer,
        };
        let mut bytes = Vec::new();
        let mut answer = answer.take(ANSWER_BYTES_MAX + 1);
        let read = answer.read_to_end(&mut bytes).await;
        read.map_err(|error| with_sources(&error))?;
        if bytes.len() as u64 > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        Ok(Some(bytes.into()))
    }
}

impl WaitingSource for Source {
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        Box::pin(async move {
            let answer = self.ask(from, to).await;
            if answer.is_err() {
                // The kubeconfig may have changed.
                self.client.lock().take();
            }
            answer
        })
    }

    /// The archive's address in the kubeconfig, as of the last request.
    fn address(&self) -> Option<String> {
        self.address.lock().clone()
    }
}
