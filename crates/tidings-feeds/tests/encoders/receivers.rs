//! Real receivers: what they have of the same records, by key, time and severity.
//!
//! `cargo xtask feeds` builds them. Without them these tests pass and say what they skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_connect::proxy::Proxies;
use tidings_connect::{Client, ClientOptions};
use tidings_feeds::Record;
use tidings_feeds::encode::clickhouse::ClickHouse;
use tidings_feeds::encode::elasticsearch::{Elasticsearch, ElasticsearchOptions};
use tidings_feeds::encode::loki::{Line, Loki, LokiOptions};
use tidings_feeds::encode::otlp::{Names, Otlp};
use tidings_feeds::encode::{Answer, Encoder, Facts, Outcome, Verdict};
use tidings_testing::process::Process;
use tidings_testing::{free_port, programs};

use crate::events::{BACK_OFF, NODE, SERIES, record, records, source};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// What is compared: key, nanoseconds since 1970, and type.
type Received = Vec<(String, i64, String)>;

/// Returns records of each kind, and versions whose messages are as hostile as they can be.
fn sent() -> Vec<Record> {
    let mut sent = records();
    let messages = [
        "a \"quoted\" line\\n",
        "two\nlines\r\n",
        "\u{202e}\u{1f600}\u{0}",
        "{}",
        "{\"a\":1}",
    ];
    for number in 0..300_u32 {
        let event = [BACK_OFF, SERIES, NODE][number as usize % 3];
        let mut event: Value = serde_json::from_str(event).unwrap();
        let message = messages[number as usize % messages.len()];
        event["message"] = json!(format!(
            "{number} {}",
            message.repeat(1 + number as usize % 50)
        ));
        event["metadata"]["resourceVersion"] = json!((10_000 + number).to_string());
        event["lastTimestamp"] = json!(format!(
            "2026-01-03T10:{:02}:{:02}Z",
            number / 60,
            number % 60
        ));
        sent.push(record(&event.to_string()));
    }
    sent
}

fn expected(sent: &[Record]) -> Received {
    let mut expected: Received = sent
        .iter()
        .map(|record| {
            let event_type = match record.facts() {
                Facts::Event(event) => event.event().r#type(),
                Facts::Notice(notice) => notice.event_type,
            };
            (
                record.id.clone(),
                nanoseconds(&record.at().to_string()),
                event_type.to_owned(),
            )
        })
        .collect();
    expected.sort();
    expected
}

fn nanoseconds(text: &str) -> i64 {
    let at: jiff::Timestamp = text.parse().unwrap();
    i64::try_from(at.as_nanosecond()).unwrap()
}

struct Receiver {
    client: Client<Full<Bytes>>,
    base: String,
    process: Process,
    folder: TempDir,
}

impl Receiver {
    /// Starts a program that is ready when it prints a line with this text.
    fn start(
        program: PathBuf,
        ready: &str,
        arguments: impl FnOnce(u16, &TempDir) -> Vec<String>,
    ) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program);
        command.args(arguments(port, &folder)).stdin(Stdio::null());
        let (process, line) = Process::start_and_hear_of(&mut command, ready).unwrap();
        assert!(line.contains(ready), "it ended with {line:?}");
        let mut options = ClientOptions::new(tidings_connect::tls(None).unwrap());
        options.allows_plain = true;
        options.proxies = Proxies::Fixed(None);
        Self {
            client: Client::new(options).unwrap(),
            base: format!("http://127.0.0.1:{port}"),
            process,
            folder,
        }
    }

    async fn request(
        &self,
        request: http::request::Builder,
        path: &str,
        body: Bytes,
    ) -> (http::response::Parts, Bytes) {
        let uri: Uri = format!("{}{path}", self.base).parse().unwrap();
        let request: Request<_> = request.uri(uri).body(Full::new(body)).unwrap();
        let response = self.client.request(request).await.unwrap();
        let (head, body) = response.into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    }

    /// Sends the records in three requests, and expects that the receiver takes all of them.
    async fn send(
        &self,
        encoder: &dyn Encoder,
        records: &[Record],
        path: &str,
        headers: &[(&str, &str)],
    ) {
        for records in records.chunks(records.len().div_ceil(3)) {
            let encoded = encoder.encode(&source(), records);
            let mut request = Request::builder().method(encoded.method);
            for (name, value) in encoded.headers {
                request = request.header(name, value);
            }
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let path = format!("{path}{}", encoded.path);
            let (head, body) = self.request(request, &path, encoded.body).await;
            let answer = Answer {
                status: head.status,
                headers: &head.headers,
                body: &body,
            };
            match encoder.judge(&answer, records) {
                Verdict::Delivered => {}
                Verdict::Items(outcomes) => {
                    assert_eq!(outcomes.len(), records.len(), "{body:?}");
                    let of_each = |outcome: &Outcome| *outcome == Outcome::Delivered;
                    assert!(outcomes.iter().all(of_each), "{body:?}");
                }
                verdict => panic!("{verdict:?}: {body:?}"),
            }
        }
    }
}

/// VictoriaLogs takes all forms. It keeps no keys, so records that come twice would be there twice.
#[tokio::test]
async fn victoria_logs_has_each_record_once_in_three_forms() {
    let Some(program) = programs::victoria_logs() else {
        return;
    };
    let receiver = Receiver::start(program, "started server at", |port, folder| {
        vec![
            format!("-storageDataPath={}", folder.path().display()),
            format!("-httpListenAddr=127.0.0.1:{port}"),
            "-retentionPeriod=100y".to_owned(),
        ]
    });
    let sent = sent();
    let loki = |line| {
        Loki::new(LokiOptions {
            line,
            ..LokiOptions::default()
        })
    };
    let elasticsearch = Elasticsearch::new(ElasticsearchOptions::default());
    let names = [("VL-Msg-Field", "message"), ("VL-Time-Field", "@timestamp")];
    let forms: [(_, &dyn Encoder, _, Headers<'_>, [&str; 2]); 5] = [
        (
            "1",
            &loki(Line::Logfmt),
            "/insert/loki/api/v1/push",
            &[],
            ["id", "level"],
        ),
        (
            "2",
            &loki(Line::Json),
            "/insert/loki/api/v1/push",
            &[],
            ["id", "level"],
        ),
        (
            "3",
            &elasticsearch,
            "/insert/elasticsearch",
            &names,
            ["event.id", "kubernetes.event.type"],
        ),
        (
            "4",
            &Otlp::new(Names::Tidings),
            "/insert/opentelemetry",
            &[],
            ["log.record.uid", "severity_text"],
        ),
        (
            "5",
            &Otlp::new(Names::K8sEvents),
            "/insert/opentelemetry",
            &[],
            ["log.record.uid", "severity_text"],
        ),
    ];
    for (tenant, encoder, path, headers, [key, level]) in forms {
        let mut headers = headers.to_vec();
        headers.push(("AccountID", tenant));
        receiver.send(encoder, &sent, path, &headers).await;
        let get = || Request::get("/").header("AccountID", tenant);
        receiver
            .request(get(), "/internal/force_flush", Bytes::new())
            .await;
        let query = "/select/logsql/query?query=*";
        let (head, body) = receiver.request(get(), query, Bytes::new()).await;
        assert!(head.status.is_success(), "{body:?}");
        let mut received: Received = std::str::from_utf8(&body)
            .unwrap()
            .lines()
            .map(|line| {
                let fields: BTreeMap<String, String> = serde_json::from_str(line).unwrap();
                let of = |name| {
                    fields
                        .get(name)
                        .unwrap_or_else(|| panic!("no {name} in {line}"))
                };
                let level = of(level).replace("Info", "Normal");
                let key = of(key).trim_start_matches("prod/").to_owned();
                (key, nanoseconds(of("_time")), level)
            })
            .collect();
        received.sort();
        assert_eq!(received, expected(&sent), "{path}");
    }
}

/// The collector's own receiver reads our protobuf, and its exporter writes what it read.
#[tokio::test]
async fn a_collector_has_each_log_record_once() {
    let Some(program) = programs::otel_collector() else {
        return;
    };
    let mut receiver = Receiver::start(program, "Everything is ready", |port, folder| {
        let config = folder.path().join("config.json");
        let written = folder.path().join("logs.json");
        let configuration = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
            "exporters": {"file": {"path": written}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        });
        fs::write(&config, configuration.to_string()).unwrap();
        vec!["--config".to_owned(), config.display().to_string()]
    });
    let sent = sent();
    receiver.send(&Otlp::default(), &sent, "", &[]).await;
    receiver.process.signal("TERM");
    receiver.process.wait();
    let written = fs::read_to_string(receiver.folder.path().join("logs.json")).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut received = Received::new();
    for line in written.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for logs in list(&line["resourceLogs"]) {
            for log in list(&logs["scopeLogs"][0]["logRecords"]) {
                let attributes = list(&log["attributes"]);
                let key = attributes
                    .iter()
                    .find(|of| of["key"] == "log.record.uid")
                    .unwrap();
                let key = key["value"]["stringValue"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("prod/");
                let at = log["timeUnixNano"].as_str().unwrap().parse().unwrap();
                let severity = log["severityNumber"].as_u64().unwrap();
                let level = if severity == 13 { "Warning" } else { "Normal" };
                received.push((key.to_owned(), at, level.to_owned()));
            }
        }
    }
    received.sort();
    assert_eq!(received, expected(&sent));
}

/// ClickHouse as a library reads the rows twice, with the same token.
#[test]
fn clickhouse_has_each_row_once() {
    const PROGRAM: &str = "
import sys
from chdb.session import Session
create, folder, rows = sys.argv[1], sys.argv[2], sys.stdin.read()
session = Session(folder)
session.query('CREATE DATABASE events ENGINE = Atomic')
session.query('USE events')
session.query(create)
for _ in range(2):
    session.query('INSERT INTO kubernetes_events SETTINGS insert_deduplication_token = \\'a\\' FORMAT JSONEachRow ' + rows)
print(session.query('SELECT uid, epoch, version, last_seen, type, message FROM kubernetes_events', 'JSONEachRow'))
";
    let Some(python) = programs::engines() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let encoder = ClickHouse::default();
    let sent = sent();
    // The table of a test keeps rows of any age.
    let template = encoder
        .template()
        .replace("TTL toDateTime(observed) + INTERVAL 90 DAY\n", "");
    let rows = folder.path().join("rows.jsonl");
    fs::write(&rows, encoder.encode(&source(), &sent).body).unwrap();
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, template.trim_end().trim_end_matches(';')]);
    command.arg(folder.path().join("session"));
    command.stdin(fs::File::open(rows).unwrap());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    let mut received: Received = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let mut key = text_of(&row["uid"]);
            if !key.contains('/') {
                key = format!("{key}/{}/{}", row["epoch"], row["version"]).replace('"', "");
            }
            let at = text_of(&row["last_seen"]).replace(' ', "T") + "Z";
            (key, nanoseconds(&at), text_of(&row["type"]))
        })
        .collect();
    received.sort();
    assert_eq!(received, expected(&sent));
}
