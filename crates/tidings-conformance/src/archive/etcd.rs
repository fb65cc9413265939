//! An etcd with the same port and folder across restarts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tidings_testing::free_port;
use tokio::time::sleep;

use super::error::ArchiveError;
use super::program::Program;
use crate::http::{HttpError, send_plainly};

/// Maximum attempts to reach a started etcd, for slow machines.
const TRIES: usize = 600;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// An etcd that can be killed and started again on the same port and folder.
pub(super) struct Etcd {
    pub(super) program: Program,
    pub(super) url: String,
    pub(super) data: PathBuf,
    address: String,
}

impl Etcd {
    pub(super) async fn start(etcd: &Path, folder: &Path) -> Result<Self, ArchiveError> {
        let data = folder.join("etcd");
        let address = format!("127.0.0.1:{}", free_port());
        let (url, peers) = (
            format!("http://{address}"),
            format!("http://127.0.0.1:{}", free_port()),
        );
        let arguments = [
            "--data-dir",
            &data.to_string_lossy(),
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &format!("default={peers}"),
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        let mut etcd = Self {
            program: Program::new(etcd, arguments, folder, "etcd"),
            url,
            data,
            address,
        };
        etcd.be_ready().await?;
        Ok(etcd)
    }

    /// Starts etcd if it does not run, and waits until it answers.
    pub(super) async fn be_ready(&mut self) -> Result<(), ArchiveError> {
        self.program.be_started().await?;
        for _ in 0..TRIES {
            self.program.check()?;
            if self.ask("/v3/maintenance/status", &json!({})).await.is_ok() {
                return Ok(());
            }
            sleep(BETWEEN_TRIES).await;
        }
        Err(ArchiveError::Etcd("it did not become ready".into()))
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, ArchiveError> {
        let body = Bytes::from(body.to_string());
        let request = Request::post(path).body(Full::new(body));
        let request = request.map_err(HttpError::from)?;
        let answer = send_plainly(&self.address, request).await?;
        Ok(serde_json::from_slice(&answer.body().await?).unwrap_or_default())
    }

    /// Compacts etcd's history up to the current revision.
    pub(super) async fn compact(&self) -> Result<(), ArchiveError> {
        let status = self.ask("/v3/maintenance/status", &json!({})).await?;
        let revision = &status["header"]["revision"];
        let body = json!({"revision": revision, "physical": true});
        let answer = self.ask("/v3/kv/compaction", &body).await?;
        match answer["error"].as_str() {
            None => Ok(()),
            Some(error) => Err(ArchiveError::Etcd(error.to_owned())),
        }
    }
}
