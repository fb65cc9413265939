//! `tidings archive --feeds` and `tidings feeds`: the archive is killed, and nothing is missing at
//! the receivers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidings_feeds::ReceiverOptions;
use tidings_testing::process::Process;

#[path = "../../../tidings-feeds/tests/convert/receivers.rs"]
mod receivers;

use super::support::{Cluster, Ran, metrics_of_archive, page_of_archive, run, tidings};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// A secret of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Records = Arc<Mutex<Vec<Value>>>;

/// Receives CloudEvents until the test ends. Each third request gets an error.
fn receiver() -> (Records, u16) {
    let records = Records::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let all = Arc::clone(&records);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            // The archive may have been killed meanwhile.
            let _ = receive(stream.unwrap(), number, &all);
        }
    });
    (records, port)
}

fn receive(mut stream: TcpStream, number: usize, all: &Records) -> std::io::Result<()> {
    let mut from = BufReader::new(stream.try_clone()?);
    let (mut len, mut is_signed) = (0, false);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
        is_signed |= line.starts_with("webhook-signature: v1,");
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    let status = match number % 3 {
        2 => "503 Service Unavailable",
        _ if is_signed => "204 No Content",
        _ => "401 Unauthorized",
    };
    if status.starts_with("204") {
        let events: Vec<Value> = serde_json::from_slice(&body).unwrap();
        all.lock().unwrap().extend(events);
    }
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for what another program does"
)]
fn within<T>(time: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = found();
        if found.is_some() || begun.elapsed() > time {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn until<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, found).expect(what)
}

fn start(folder: &Path, cluster: &Cluster) -> (Process, String) {
    let mut command = tidings(&["archive", "--secure-port=0", "--name", "prod"]);
    command.args(["--data-dir", text(&folder.join("data"))]);
    command.args(["--feeds", text(&folder.join("feeds.yaml"))]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    Process::start_and_hear(command.stderr(Stdio::null())).unwrap()
}

fn feeds(kubeconfig: &str, arguments: &[&str]) -> Ran {
    let all = [&["feeds"], arguments, &["--kubeconfig", kubeconfig]].concat();
    run(&all)
}

/// The status of a feed.
fn status(kubeconfig: &str, feed: &str) -> Option<Value> {
    let ran = feeds(kubeconfig, &["status", feed, "-o", "json"]);
    serde_json::from_str(ran.stdout.lines().next()?).ok()
}

/// The ids of the lines of a file, each of which is complete.
fn ids_of_lines(path: &Path) -> Vec<String> {
    let lines = std::fs::read_to_string(path).unwrap();
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let metadata = &line["event"]["metadata"];
        let [uid, number] = [&metadata["uid"], &metadata["resourceVersion"]];
        let (uid, number) = (uid.as_str().unwrap(), number.as_str().unwrap());
        format!("{uid}/{}/{number}", line["epoch"])
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_have_every_version_although_the_archive_is_killed() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (records, port) = receiver();
    std::fs::write(folder.join("secret"), SECRET).unwrap();
    let hook =
        format!("- name: hook\n  webhook: {{url: 'http://127.0.0.1:{port}', secretFile: secret}}");
    let lines = "- name: lines\n  filter: -reason:Unwanted\n  file: {path: lines.jsonl}\n\
                 - name: count\n  metrics: {}";
    std::fs::write(
        folder.join("feeds.yaml"),
        format!("feeds:\n{hook}\n{lines}\n"),
    )
    .unwrap();
    let (mut process, mut kubeconfig) = start(folder, &cluster);
    for round in 0..4 {
        for number in 0..6 {
            let reason = format!("Wanted{round}{number}");
            let reason = if number == 5 { "Unwanted" } else { &reason };
            cluster.lines(&["record", "pod/web", "--reason", reason, "-m", "hello"]);
        }
        let more = records.lock().unwrap().len() + round % 3;
        within(Duration::from_secs(3), || {
            (records.lock().unwrap().len() >= more).then_some(())
        });
        // It is killed.
        drop(process);
        (process, kubeconfig) = start(folder, &cluster);
    }
    let of_hook = until("24 versions are delivered", || {
        let status = status(&kubeconfig, "hook")?;
        (status["delivered"] == 24 && status["backlogVersions"] == 0).then_some(status)
    });
    assert_eq!(of_hook["dead"], serde_json::json!({}), "{of_hook}");
    let delivered: BTreeSet<_> = records
        .lock()
        .unwrap()
        .iter()
        .map(|record| record["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(delivered.len(), 24);
    until("20 versions are in the file", || {
        let status = status(&kubeconfig, "lines")?;
        (status["delivered"] == 20 && status["filtered"] == 4).then_some(())
    });
    let in_file: BTreeSet<_> = ids_of_lines(&folder.join("lines.jsonl"))
        .into_iter()
        .collect();
    assert!(in_file.len() == 20 && in_file.is_subset(&delivered));
    let metrics = metrics_of_archive(Path::new(&kubeconfig), "prod").await;
    for line in [
        "tidings_feed_delivered_total{cluster=\"prod\",feed=\"hook\"} 24",
        "tidings_feed_backlog_versions{cluster=\"prod\",feed=\"lines\"} 0",
        "tidings_feed_state{cluster=\"prod\",feed=\"lines\",state=\"idle\"} 1",
        "tidings_feed_dead_total{cluster=\"prod\",feed=\"hook\",cause=\"rejected\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    until("24 versions are counted", || {
        (status(&kubeconfig, "count")?["delivered"] == 24).then_some(())
    });
    let events = page_of_archive(Path::new(&kubeconfig), "prod", "/metrics/events").await;
    assert!(
        events.contains("# TYPE kubernetes_events_total counter"),
        "{events}"
    );
    let checked = feeds(&kubeconfig, &["check", "lines"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let text = std::fs::read_to_string(folder.join("lines.jsonl")).unwrap();
    assert!(
        text.lines().last().unwrap().contains("\"kind\":\"Test\""),
        "{text}"
    );
    for (arguments, expected) in [
        (&["dead-letters", "hook"][..], "AT"),
        (
            &["dead-letters", "hook", "--drop"],
            "0 dead letters are deleted",
        ),
        (&["skip", "hook", "--to", "now"], "end of its backlog"),
        (&["status"], "delivered"),
    ] {
        let ran = feeds(&kubeconfig, arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let said = ran.stdout.to_lowercase();
        assert!(said.contains(&expected.to_lowercase()), "{ran:?}");
    }
    assert_ne!(feeds(&kubeconfig, &["template", "hook"]).code, Some(0));
    assert_ne!(feeds(&kubeconfig, &["remove", "hook"]).code, Some(0));
    // A feed that is not in the file any more keeps its cursor until it is removed.
    std::fs::write(folder.join("feeds.yaml"), format!("feeds:\n{lines}\n")).unwrap();
    until("the feed is off", || {
        (status(&kubeconfig, "hook")?["state"] == "off").then_some(())
    });
    let removed = feeds(&kubeconfig, &["remove", "hook"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(status(&kubeconfig, "hook").is_none());
    drop(process);
}

/// Each block of YAML is a file, a feed or a member of a feed, except the roles.
#[test]
fn the_examples_of_the_documentation_are_accepted() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/how-to/deliver-events-onward.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("\n```").unwrap().0);
    let mut receivers = BTreeSet::new();
    for block in blocks.filter(|block| !block.starts_with("apiVersion:")) {
        let file = match block {
            file if file.starts_with("feeds:") => file.to_owned(),
            feed if feed.starts_with("- name:") => format!("feeds:\n{feed}"),
            member => format!("feeds:\n- name: a\n  stdout: {{}}\n{member}"),
        };
        let feeds = tidings_cli::feeds::parse(&file, Path::new("/etc"), Path::new("/data"));
        let feeds = feeds.unwrap_or_else(|why| panic!("{why}:\n{file}"));
        receivers.extend(feeds.into_iter().map(|feed| {
            match feed.receiver {
                ReceiverOptions::Http(_, form) => format!("{form:?}")
                    .split(['(', ' ', '{'])
                    .next()
                    .unwrap()
                    .to_owned(),
                other => format!("{other:?}").split('(').next().unwrap().to_owned(),
            }
        }));
    }
    let expected = [
        "ClickHouse",
        "Elasticsearch",
        "File",
        "Loki",
        "Metrics",
        "Otlp",
        "Stdout",
        "Webhook",
    ];
    assert_eq!(receivers, expected.map(str::to_owned).into());
}

#[test]
fn a_template_of_a_file_needs_no_archive() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("feeds.yaml");
    let feeds = "feeds:\n- {name: out, stdout: {}}\n- {name: ch, clickhouse: {url: 'http://a', table: x.y}}";
    std::fs::write(&file, feeds).unwrap();
    for (name, code, said) in [
        ("ch", 0, "CREATE TABLE IF NOT EXISTS `x`.`y`"),
        ("out", 1, "the receiver of out needs none"),
        ("hook", 1, "there is no feed \"hook\""),
    ] {
        let ran = run(&["feeds", "template", name, "--feeds", text(&file)]);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, Some(code), "{all}");
        assert!(all.contains(said), "{all}");
    }
}

#[test]
fn a_wrong_file_of_feeds_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("feeds.yaml");
    std::fs::write(&file, "feeds:\n- name: a\n  stdot: {}\n").unwrap();
    let data = folder.path().join("data");
    let ran = run(&["archive", "--data-dir", text(&data), "--feeds", text(&file)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("line 3") && ran.stderr.contains("stdot"),
        "{ran:?}"
    );
}

/// Also if several rules lead to a receiver.
#[test]
fn an_archive_reads_each_converted_receiver() {
    for (receiver, member, _) in receivers::RECEIVERS {
        let rules = "[{receiver: r}, {type: Warning, receiver: r}]";
        let text = format!("route: {{match: {rules}}}\nreceivers:\n- name: r\n  {receiver}\n");
        let converted = tidings_feeds::convert::convert(&text).unwrap();
        let folder = Path::new("/etc/tidings");
        let feeds = tidings_cli::feeds::parse(&converted.feeds, folder, Path::new("/data"));
        let feeds = feeds.unwrap_or_else(|why| panic!("{receiver}: {why}"));
        assert_eq!(feeds.is_empty(), member.is_empty(), "{receiver}");
    }
}

/// What the converter prints is a file of feeds, and what it cannot take over has its line.
#[test]
fn a_configuration_of_another_program_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let configuration = "route:
  drop: [{namespace: '*test*'}]
  match: [{receiver: dump}, {type: Warning, receiver: team}]
receivers:
- name: dump
  elasticsearch: {hosts: ['https://es:9200'], indexFormat: 'kube-{2006-01-02}', apiKey: '${KEY}'}
- name: team
  loki: {url: 'http://loki:3100/loki/api/v1/push', streamLabels: {env: prod}}
";
    std::fs::write(&file, configuration).unwrap();
    let ran = run(&["feeds", "convert", "--from", "kee", text(&file)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let feeds = tidings_cli::feeds::parse(&ran.stdout, folder.path(), Path::new("/data")).unwrap();
    let names: Vec<_> = feeds.iter().map(|feed| feed.name.as_str()).collect();
    assert_eq!(names, ["dump", "team"]);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.stderr);
    assert!(lines[0].starts_with("line 2: route.drop[0].namespace: the pattern is invalid"));
    assert!(lines[1].starts_with("line 6: receivers[0].elasticsearch.apiKey: write the secret"));
    std::fs::write(&file, "receivers: []").unwrap();
    let ran = run(&["feeds", "convert", "--from", "kee", text(&file)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(run(&["feeds", "convert", text(&file)]).code, Some(2));
}
