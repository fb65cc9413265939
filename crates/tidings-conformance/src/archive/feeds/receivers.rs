//! The receivers: VictoriaLogs, an OpenTelemetry collector, chDB behind a small server, and files.
//! What each has is read from itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tidings_testing::free_port;
use tokio::time::sleep;

use super::accounts::{Found, key};
use crate::archive::clock;
use crate::archive::collector::items;
use crate::archive::error::ArchiveError;
use crate::archive::program::Program;
use crate::http::send_plainly;

/// Maximum time until a receiver is ready.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// The server in front of chDB.
const SHIM: &str = include_str!("clickhouse.py");

/// Paths of the receivers' programs.
#[derive(Clone, Debug)]
pub(in crate::archive) struct Receivers {
    pub(in crate::archive) victoria_logs: PathBuf,
    pub(in crate::archive) collector: PathBuf,
    /// A Python with chDB.
    pub(in crate::archive) python: PathBuf,
}

/// A program that receives.
pub(super) struct Receiver {
    pub(super) program: Program,
    pub(super) address: String,
    /// A path that is answered when it is ready.
    ready: &'static str,
    /// Whether it loses what it has answered if it is killed, so that it must be asked to end.
    is_fragile: bool,
}

impl Receiver {
    async fn start(
        (file, name): (&Path, &str),
        folder: &Path,
        (ready, is_fragile): (&'static str, bool),
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Result<Self, ArchiveError> {
        let address = format!("127.0.0.1:{}", free_port());
        let program = Program::new(file, arguments(&address), folder, name);
        let mut receiver = Self {
            program,
            address,
            ready,
            is_fragile,
        };
        receiver.be_ready().await?;
        Ok(receiver)
    }

    /// VictoriaLogs has what it answered on disk some seconds later.
    pub(super) async fn victoria_logs(file: &Path, folder: &Path) -> Result<Self, ArchiveError> {
        let data = folder.join("victoria-logs");
        Self::start((file, "victoria-logs"), folder, ("/health", true), |at| {
            vec![
                format!("-storageDataPath={}", data.display()),
                format!("-httpListenAddr={at}"),
                "-retentionPeriod=100y".to_owned(),
            ]
        })
        .await
    }

    /// A collector that writes what it received to a file before it answers.
    pub(super) async fn collector(file: &Path, folder: &Path) -> Result<Self, ArchiveError> {
        let settings = folder.join("otlp.yaml");
        let written = collected(folder);
        let start = |at: &str| {
            let settings = json!({
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": at}}}},
                "exporters": {"file": {"path": written, "rotation": {"max_megabytes": 100_000}}},
                "service": {
                    "telemetry": {"metrics": {"level": "none"}},
                    "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["file"]}},
                },
            });
            settings.to_string()
        };
        let port = format!("127.0.0.1:{}", free_port());
        std::fs::write(&settings, start(&port))?;
        let program = Program::new(
            file,
            vec!["--config".to_owned(), settings.display().to_string()],
            folder,
            "otlp",
        );
        let mut receiver = Self {
            program,
            address: port,
            ready: "/",
            is_fragile: false,
        };
        receiver.be_ready().await?;
        Ok(receiver)
    }

    /// chDB, without a table yet.
    pub(super) async fn clickhouse(python: &Path, folder: &Path) -> Result<Self, ArchiveError> {
        let shim = folder.join("clickhouse.py");
        std::fs::write(&shim, SHIM)?;
        let data = folder.join("clickhouse");
        Self::start((python, "clickhouse"), folder, ("/", false), |at| {
            let port = at.rsplit(':').next().unwrap_or_default();
            let [shim, data] = [&shim, &data].map(|path| path.display().to_string());
            vec![shim, port.to_owned(), data]
        })
        .await
    }

    /// Starts the program if it does not run, and waits until it answers.
    pub(super) async fn be_ready(&mut self) -> Result<(), ArchiveError> {
        self.program.be_started().await?;
        let until = clock::steady() + PATIENCE;
        while self.get(self.ready).await.is_err() {
            self.program.check()?;
            if clock::steady() > until {
                return Err(ArchiveError::NotReceiving(self.address.clone()));
            }
            sleep(BETWEEN_LOOKS).await;
        }
        Ok(())
    }

    /// Ends the program at once, if it keeps what it has answered.
    pub(super) async fn fall(&mut self) -> Result<(), ArchiveError> {
        if self.is_fragile {
            self.program.end().await
        } else {
            self.program.kill().await
        }
    }

    async fn get(&self, path: &str) -> Result<Bytes, ArchiveError> {
        let request = Request::get(path).body(Full::default());
        let request = request.map_err(crate::http::HttpError::from)?;
        Ok(send_plainly(&self.address, request).await?.body().await?)
    }

    /// Runs a statement of chDB.
    pub(super) async fn run(&self, statement: &str) -> Result<(), ArchiveError> {
        let statement = statement.trim().trim_end_matches(';').to_owned();
        let request = Request::post("/").body(Full::new(statement.into()));
        let request = request.map_err(crate::http::HttpError::from)?;
        let answer = send_plainly(&self.address, request).await?;
        let (path, status) = ("/".to_owned(), answer.status);
        let body = answer.body().await?;
        if status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        Err(ArchiveError::Answer { path, status, text })
    }

    /// What a tenant of VictoriaLogs has, by two of its fields.
    pub(super) async fn logs(
        &self,
        tenant: &str,
        [id, occurrences]: [&str; 2],
    ) -> Result<Found, ArchiveError> {
        let ask = async |path: &str| {
            let request = Request::get(path).header("AccountID", tenant);
            let request = request.body(Full::default());
            let request = request.map_err(crate::http::HttpError::from)?;
            let answer = send_plainly(&self.address, request).await?;
            Ok::<_, ArchiveError>(answer.body().await?)
        };
        ask("/internal/force_flush").await?;
        let fields = format!("fields%20{id},{occurrences}");
        let all = ask(&format!("/select/logsql/query?query=*%20%7C%20{fields}")).await?;
        let lines = all.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        Ok(lines
            .filter_map(|line| {
                let number = line[occurrences].as_str()?.parse().ok()?;
                Some((key(line[id].as_str()?)?, number))
            })
            .collect())
    }

    /// The rows of chDB: as they are stored, or what a query with FINAL sees.
    pub(super) async fn rows(&self, is_final: bool) -> Result<Found, ArchiveError> {
        let last = if is_final { "+FINAL" } else { "" };
        let path = format!(
            "/?query=SELECT+uid,epoch,version,occurrences+FROM+kubernetes_events{last}\
             +WHERE+version>0+FORMAT+JSONEachRow"
        )
        .replace('>', "%3E");
        let request = Request::post(path).body(Full::default());
        let request = request.map_err(crate::http::HttpError::from)?;
        let all = send_plainly(&self.address, request).await?.body().await?;
        let lines = all.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        // Numbers of 64 bits may be texts.
        let number = |value: &Value| value.to_string().trim_matches('"').parse().ok();
        Ok(lines
            .filter_map(|line| {
                let uid = line["uid"].as_str()?.to_owned();
                let key = (uid, number(&line["epoch"])?, number(&line["version"])?);
                Some((key, number(&line["occurrences"])?))
            })
            .collect())
    }
}

/// The file that the collector writes.
fn collected(folder: &Path) -> PathBuf {
    folder.join("otlp.json")
}

/// What the collector's file has. A line that a kill has cut was not answered.
pub(super) fn records(folder: &Path) -> Result<Found, ArchiveError> {
    let mut found = Found::new();
    for line in std::fs::read(collected(folder))?.split(|byte| *byte == b'\n') {
        let line: Value = serde_json::from_slice(line).unwrap_or_default();
        for record in items(&line, ["resourceLogs", "scopeLogs", "logRecords"]) {
            let attributes = record["attributes"].as_array();
            let of = |name: &str| {
                let mut all = attributes.into_iter().flatten();
                all.find(|it| it["key"] == name).map(|it| &it["value"])
            };
            let id = of("log.record.uid").and_then(|it| it["stringValue"].as_str());
            let occurrences = of("tidings.event.occurrences");
            let occurrences = occurrences.and_then(|it| it["intValue"].as_str()?.parse().ok());
            found.extend(id.and_then(key).zip(occurrences));
        }
    }
    Ok(found)
}

/// What a file of JSON Lines has, of a feed or of an export: an export has no occurrences.
pub(super) fn lines(file: &Path) -> Result<Vec<(super::accounts::Key, Value)>, ArchiveError> {
    let mut found = Vec::new();
    for line in std::fs::read(file)?.split(|byte| *byte == b'\n') {
        let mut line: Value = serde_json::from_slice(line).unwrap_or_default();
        if line["kind"] != "Version" {
            continue;
        }
        let metadata = &line["event"]["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        let version = version.parse().unwrap_or_default();
        let epoch = line["epoch"].as_u64().unwrap_or_default();
        found.push(((uid, epoch, version), line.take()));
    }
    Ok(found)
}
