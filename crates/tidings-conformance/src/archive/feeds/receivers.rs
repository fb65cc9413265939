//! The receivers: VictoriaLogs, an OpenTelemetry collector, chDB behind a small server, and files.
//! What each has is read from itself.

use std::path::{Path, PathBuf};

use http::{HeaderValue, Method};
use serde_json::{Value, json};
use tidings_testing::free_port;

use super::accounts::{Found, Key, key};
use crate::archive::collector::items;
use crate::error::Result;
use crate::http::Client;
use crate::process::Program;

/// The server in front of chDB.
const SHIM: &str = include_str!("clickhouse.py");

/// A program that receives.
pub(super) struct Receiver {
    pub(super) program: Program,
    pub(super) address: String,
    client: Client,
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
        arguments: impl FnOnce(&str) -> Result<Vec<String>>,
    ) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port());
        let mut receiver = Self {
            program: Program::new(file, arguments(&address)?, folder, name),
            client: Client::plain(&address),
            address,
            ready,
            is_fragile,
        };
        receiver.be_ready().await?;
        Ok(receiver)
    }

    /// VictoriaLogs has what it answered on disk some seconds later.
    pub(super) async fn victoria_logs(file: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("victoria-logs");
        Self::start((file, "victoria-logs"), folder, ("/health", true), |at| {
            Ok(vec![
                format!("-storageDataPath={}", data.display()),
                format!("-httpListenAddr={at}"),
                "-retentionPeriod=100y".to_owned(),
            ])
        })
        .await
    }

    /// A collector that writes what it received to a file before it answers.
    pub(super) async fn collector(file: &Path, folder: &Path) -> Result<Self> {
        Self::start((file, "otlp"), folder, ("/", false), |at| {
            let written =
                json!({"path": collected(folder), "rotation": {"max_megabytes": 100_000}});
            let settings = json!({
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": at}}}},
                "exporters": {"file": written},
                "service": {
                    "telemetry": {"metrics": {"level": "none"}},
                    "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["file"]}},
                },
            });
            let file = folder.join("otlp.yaml");
            std::fs::write(&file, settings.to_string())?;
            Ok(vec!["--config".to_owned(), file.display().to_string()])
        })
        .await
    }

    /// chDB, without a table yet.
    pub(super) async fn clickhouse(python: &Path, folder: &Path) -> Result<Self> {
        let shim = folder.join("clickhouse.py");
        std::fs::write(&shim, SHIM)?;
        let data = folder.join("clickhouse");
        Self::start((python, "clickhouse"), folder, ("/", false), |at| {
            let port = at.rsplit(':').next().unwrap_or_default();
            let [shim, data] = [&shim, &data].map(|path| path.display().to_string());
            Ok(vec![shim, port.to_owned(), data])
        })
        .await
    }

    /// Starts the program if it does not run, and waits until it answers.
    pub(super) async fn be_ready(&mut self) -> Result<()> {
        self.program.be_started().await?;
        let (client, path) = (&self.client, self.ready);
        let answer = async || client.call(Method::GET, path, "", "").await.ok();
        self.program.until(answer).await.map(drop)
    }

    /// Ends the program at once, if it keeps what it has answered.
    pub(super) async fn fall(&mut self) -> Result<()> {
        if self.is_fragile {
            self.program.end().await
        } else {
            self.program.kill().await
        }
    }

    /// Runs a statement of chDB.
    pub(super) async fn run(&self, statement: &str) -> Result<()> {
        let statement = statement.trim().trim_end_matches(';').to_owned();
        let reply = self.client.call(Method::POST, "/", "", statement).await?;
        reply.success("/").map(drop)
    }

    /// What a tenant of VictoriaLogs has, by two of its fields.
    pub(super) async fn logs(&self, tenant: &str, [id, occurrences]: [&str; 2]) -> Result<Found> {
        let fields = format!("fields%20{id},{occurrences}");
        let mut all = String::new();
        for path in [
            "/internal/force_flush",
            &format!("/select/logsql/query?query=*%20%7C%20{fields}"),
        ] {
            let mut request = self.client.request(Method::GET, path, "", "")?;
            let headers = request.headers_mut();
            headers.insert("AccountID", HeaderValue::from_str(tenant)?);
            let reply = self.client.send(request).await?.reply().await?;
            all = String::from_utf8_lossy(&reply.text).into_owned();
        }
        Ok(json_lines(&all)
            .filter_map(|line| {
                let number = line[occurrences].as_str()?.parse().ok()?;
                Some((key(line[id].as_str()?)?, number))
            })
            .collect())
    }

    /// The rows of chDB, as a query with FINAL sees them.
    pub(super) async fn rows(&self) -> Result<Found> {
        let path = "/?query=SELECT+uid,epoch,version,occurrences+FROM+kubernetes_events+FINAL\
             +WHERE+version%3E0+FORMAT+JSONEachRow";
        // The server in front of chDB runs queries of POST only.
        let reply = self.client.call(Method::POST, path, "", "").await?;
        let all = String::from_utf8_lossy(&reply.text);
        // Numbers of 64 bits may be texts.
        let number = |value: &Value| value.to_string().trim_matches('"').parse().ok();
        Ok(json_lines(&all)
            .filter_map(|line| {
                let uid = line["uid"].as_str()?.to_owned();
                let key = (uid, number(&line["epoch"])?, number(&line["version"])?);
                Some((key, number(&line["occurrences"])?))
            })
            .collect())
    }
}

/// The lines of a text that are JSON. A line that a kill has cut is left out.
fn json_lines(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.split('\n');
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// The file that the collector writes.
fn collected(folder: &Path) -> PathBuf {
    folder.join("otlp.json")
}

/// What the collector's file has. A line that a kill has cut was not answered.
pub(super) fn records(folder: &Path) -> Result<Found> {
    let mut found = Found::new();
    let text = std::fs::read(collected(folder))?;
    for line in json_lines(&String::from_utf8_lossy(&text)) {
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
pub(super) fn lines(file: &Path) -> Result<Vec<(Key, Value)>> {
    let mut found = Vec::new();
    let text = std::fs::read(file)?;
    for mut line in json_lines(&String::from_utf8_lossy(&text)) {
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
