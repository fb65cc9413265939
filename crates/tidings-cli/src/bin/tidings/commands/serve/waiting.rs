//! Requests pending versions from the archive that follows the clusters, with one task for each
//! cluster.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::AsyncReadExt;
use http::Request;
use jiff::Timestamp;
use kube::Client;
use tidings_objects::{SealedCluster, WaitingSource};
use tidings_store::BoxFuture;

use crate::commands::cluster::{ClusterFlags, with_sources};
use crate::commands::connection;

/// Maximum bytes read of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Maximum wait for the first answer.
const FIRST: Duration = Duration::from_secs(5);

/// A cluster at the archive that follows it.
pub(super) struct Source {
    cluster: String,
    kubeconfig: PathBuf,
    /// The client of the kubeconfig as of the last successful request.
    client: Mutex<Option<Client>>,
    address: Mutex<Option<String>>,
    answered_at: Mutex<Option<Timestamp>>,
}

impl Source {
    pub(super) fn new(cluster: &str, kubeconfig: &Path) -> Self {
        Self {
            cluster: cluster.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            client: Mutex::default(),
            address: Mutex::default(),
            answered_at: Mutex::default(),
        }
    }

    /// Whether all pending versions were ever received.
    pub(super) fn was_answered(&self) -> bool {
        lock(&self.answered_at).is_some()
    }

    /// The time since all pending versions were last received.
    pub(super) fn since_answer(&self, now: Timestamp) -> Option<Duration> {
        let at = *lock(&self.answered_at);
        at.map(|at| now.duration_since(at).try_into().unwrap_or_default())
    }

    /// The archive's address in the kubeconfig, as of the last request.
    pub(super) fn address(&self) -> Option<String> {
        lock(&self.address).clone()
    }

    async fn client(&self) -> Result<Client, String> {
        if let Some(client) = &*lock(&self.client) {
            return Ok(client.clone());
        }
        let context = Some(self.cluster.clone());
        let flags = ClusterFlags::of_context(Some(self.kubeconfig.clone()), context);
        let config = flags.config().map_err(|error| error.to_string())?;
        *lock(&self.address) = Some(config.cluster_url.to_string());
        let client = connection::client(&self.cluster, config).await;
        let client = client.map_err(|error| with_sources(&error))?;
        *lock(&self.client) = Some(client.clone());
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
                lock(&self.client).take();
            }
            answer
        })
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests pending versions once, with a short timeout; the task asks again.
pub(super) async fn hear_first(cluster: &SealedCluster, source: &Source) {
    let heard = tokio::time::timeout(FIRST, cluster.hear()).await;
    if let Ok(Ok(())) = heard {
        *lock(&source.answered_at) = Some(crate::clock::now());
    }
}

/// Requests pending versions at intervals, and logs when there is no answer.
pub(super) async fn keep_hearing(cluster: SealedCluster, source: Arc<Source>, interval: Duration) {
    let mut was_well = true;
    loop {
        let heard = cluster.hear().await;
        let name = cluster.name();
        match &heard {
            Ok(()) => {
                *lock(&source.answered_at) = Some(crate::clock::now());
                if !was_well {
                    tracing::info!(cluster = name, "the pending versions are known again");
                }
            }
            Err(error) if was_well => {
                tracing::warn!(cluster = name, %error, "the pending versions are not known");
            }
            Err(_) => {}
        }
        was_well = heard.is_ok();
        tokio::time::sleep(interval).await;
    }
}
