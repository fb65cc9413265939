//! An OpenTelemetry collector that follows the same source: its k8sobjects receiver watches events,
//! its file exporter writes them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::archived::{Coverage, Kept};
use super::ledger::{Ledger, Verdict};
use super::writer::Writer;
use crate::clock;
use crate::error::{Result, fail};
use crate::http::Client;
use crate::process::Program;
use crate::servers::Followed;

/// Interval in which the suite looks whether the collector has ended by itself.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Maximum events that are written until the collector must have exported one of them.
const PROBES: usize = 240;
const BETWEEN_PROBES: Duration = Duration::from_millis(500);
/// The collector is taken to have exported everything when its file did not grow for this time.
const QUIET: Duration = Duration::from_secs(10);
/// Maximum number of such times to wait for that.
const QUIETS: usize = 12;

/// A running collector, which is started again whenever it ends.
pub(super) struct Collector {
    pub(super) program: Program,
    file: PathBuf,
    /// How often the collector ended by itself.
    pub(super) ends: u64,
    /// When it began to follow the source.
    since: i64,
}

impl Collector {
    /// Starts a collector that follows this source. Returns once it has exported one of the events
    /// that are written until then, which are added to the ledger.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        followed: Followed<'_>,
        source: &Client,
        random: &mut fastrand::Rng,
        ledger: &mut Ledger,
    ) -> Result<Self> {
        let kubeconfig = folder.join("collector-source.yaml");
        Followed::write(&[followed], &kubeconfig)?;
        let (settings, file) = (folder.join("collector.yaml"), folder.join("collected.json"));
        // With a rotation configured, the exporter writes each line at once and appends to an
        // existing file. This one's size is never reached.
        let text = format!(
            "receivers:\n  k8sobjects:\n    auth_type: kubeConfig\n    objects:\n    \
             - {{name: events, mode: watch, exclude_watch_type: [DELETED]}}\n\
             exporters:\n  file: {{path: '{}', rotation: {{max_megabytes: 100000}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  \
             pipelines:\n    logs: {{receivers: [k8sobjects], exporters: [file]}}\n",
            file.display()
        );
        std::fs::write(&settings, text)?;
        let arguments = ["--config", &*settings.to_string_lossy()];
        let program = Program::new(program, arguments, folder, "collector");
        let mut collector = Self {
            program: program.with("KUBECONFIG", &kubeconfig),
            file,
            ends: 0,
            since: 0,
        };
        collector.program.start()?;
        let mut writer = Writer::new(source, "probe", random.fork());
        for _ in 0..PROBES {
            writer.create().await;
            sleep(BETWEEN_PROBES).await;
            collector.restart_if_ended()?;
            if collector.written()? > 0 {
                ledger.add(writer.ledger);
                collector.since = clock::now();
                return Ok(collector);
            }
        }
        fail("the collector writes nothing")
    }

    /// Waits until everything is exported, and compares it with what was written.
    pub(super) async fn judge(&mut self, ledger: &Ledger) -> Result<Verdict> {
        self.settle().await?;
        let since = Coverage {
            since: self.since,
            ..Coverage::default()
        };
        Ok(ledger.judge(&self.versions()?, &since))
    }

    fn written(&self) -> std::io::Result<u64> {
        match std::fs::metadata(&self.file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            data => Ok(data?.len()),
        }
    }

    /// Starts the collector again if it has ended, as it does by itself if the source is down when
    /// it starts.
    fn restart_if_ended(&mut self) -> Result<()> {
        if self.program.check().is_err() {
            self.ends += 1;
            self.program.start()?;
        }
        Ok(())
    }

    /// For some time, starts the collector again whenever it ends by itself.
    pub(super) async fn look_after(&mut self, time: Duration) -> Result<()> {
        let until = clock::steady() + time;
        loop {
            let left = until.saturating_duration_since(clock::steady());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(BETWEEN_LOOKS)).await;
            self.restart_if_ended()?;
        }
    }

    /// Waits until the collector's file no longer grows.
    pub(super) async fn settle(&mut self) -> Result<()> {
        let mut written = self.written()?;
        for _ in 0..QUIETS {
            self.look_after(QUIET).await?;
            if self.written()? == written {
                break;
            }
            written = self.written()?;
        }
        Ok(())
    }

    /// Every version that the collector exported. A line that a kill left incomplete is skipped.
    fn versions(&self) -> Result<Vec<Kept>> {
        let text = std::fs::read(&self.file)?;
        let mut kept = Vec::new();
        for line in text.split(|byte| *byte == b'\n') {
            let line: Value = serde_json::from_slice(line).unwrap_or_default();
            for record in items(&line, ["resourceLogs", "scopeLogs", "logRecords"]) {
                kept.push(version(member(&record["body"], "object")));
            }
        }
        Ok(kept)
    }
}

/// The items of the innermost of three nested lists, which have these names.
pub(super) fn items<'a>(value: &'a Value, names: [&str; 3]) -> Vec<&'a Value> {
    names.iter().fold(vec![value], |values, name| {
        let lists = values.into_iter().map(|value| &value[*name]);
        lists.filter_map(Value::as_array).flatten().collect()
    })
}

/// The value of a key in a map. OTLP writes a map as a list of pairs of key and value.
fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    let members = value["kvlistValue"]["values"].as_array();
    let found = members
        .into_iter()
        .flatten()
        .find(|member| member["key"] == name);
    found.map_or(&Value::Null, |member| &member["value"])
}

fn version(event: &Value) -> Kept {
    let metadata = member(event, "metadata");
    let text = |name: &str| {
        let value = &member(metadata, name)["stringValue"];
        value.as_str().unwrap_or_default()
    };
    let count = member(event, "count");
    let double = count["doubleValue"].as_f64().map(|count| count as i64);
    Kept {
        uid: text("uid").to_owned(),
        name: format!("{}/{}", text("namespace"), text("name")),
        version: text("resourceVersion").parse().unwrap_or_default(),
        count: match count["intValue"].as_str() {
            Some(count) => count.parse().unwrap_or_default(),
            None => count["intValue"].as_i64().or(double).unwrap_or_default(),
        },
        // The collector's file is a log, so its order is that of arrival.
        is_in_order: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_line_of_the_file_exporter() {
        let line = r#"{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[
            {"body":{"kvlistValue":{"values":[
                {"key":"object","value":{"kvlistValue":{"values":[
                    {"key":"count","value":{"intValue":"3"}},
                    {"key":"metadata","value":{"kvlistValue":{"values":[
                        {"key":"name","value":{"stringValue":"a"}},
                        {"key":"namespace","value":{"stringValue":"default"}},
                        {"key":"resourceVersion","value":{"stringValue":"17"}},
                        {"key":"uid","value":{"stringValue":"u"}}]}}}]}}},
                {"key":"type","value":{"stringValue":"ADDED"}}]}}}]}]}]}"#;
        let line: Value = serde_json::from_str(line).unwrap();
        let records = items(&line, ["resourceLogs", "scopeLogs", "logRecords"]);
        let [record] = records[..] else {
            panic!("{records:?}");
        };
        let kept = version(member(&record["body"], "object"));
        assert_eq!(
            (&*kept.uid, &*kept.name, kept.version, kept.count),
            ("u", "default/a", 17, 3)
        );
    }
}
