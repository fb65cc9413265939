//! `tidings events -w`: no line is lost or repeated, whatever happens to the server.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::support::{Cluster, event};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tidings events -w`.
struct Watching {
    process: Child,
    lines: Receiver<String>,
    notes: Receiver<String>,
}

impl Watching {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        Self::start_as(cluster, "name", &[&["-w"], arguments].concat())
    }

    /// Starts a watch with another output format.
    fn start_as(cluster: &Cluster, form: &str, arguments: &[&str]) -> Self {
        let arguments = [&["events", "-A", "-o", form], arguments].concat();
        let mut process = cluster
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = follow(process.stdout.take().unwrap());
        let notes = follow(process.stderr.take().unwrap());
        Self {
            process,
            lines,
            notes,
        }
    }

    #[track_caller]
    fn next(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!(
                "{error}; it said {:?}",
                self.notes.try_iter().collect::<Vec<_>>()
            ),
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn follow(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn named(name: &str) -> serde_json::Value {
    event(name, ("Pod", "web"), "Pulled", 5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_printed_once_through_restarts() {
    let mut cluster = Cluster::with(&[named("before")]).await;
    let watching = Watching::start(&cluster, &[]);
    assert_eq!(watching.next(), "event/before");
    cluster.import(&[named("first")]);
    assert_eq!(watching.next(), "event/first");
    for round in 0..3 {
        let port = cluster.stop().await;
        let note = watching.notes.recv_timeout(PATIENCE).unwrap();
        // The server may have ended the watch properly; then only the next watch is cut.
        assert!(note.starts_with("the watch was interrupted"), "{note}");
        cluster.go_on(port).await;
        cluster.import(&[named(&format!("away.{round}"))]);
        assert_eq!(watching.next(), format!("event/away.{round}"));
        assert_eq!(
            watching.notes.recv_timeout(PATIENCE).unwrap(),
            "the watch continues without a gap"
        );
        cluster.import(&[named(&format!("back.{round}"))]);
        assert_eq!(watching.next(), format!("event/back.{round}"));
    }
    // No further line was printed.
    assert_eq!(
        watching.lines.try_iter().collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_wanted_is_not_printed_either() {
    let cluster = Cluster::with(&[named("a"), named("b")]).await;
    let watching = Watching::start(&cluster, &["--types=Warning", "--limit=1"]);
    cluster.import(&[
        named("c"),
        event("d", ("Pod", "web"), "BackOff", 1),
        named("e"),
    ]);
    assert_eq!(watching.next(), "event/d");
    cluster.import(&[event("f", ("Pod", "web"), "Failed", 1)]);
    assert_eq!(watching.next(), "event/f");
}

/// Existing events count, and no more than the requested number are shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_when_enough_was_shown() {
    let cluster = Cluster::with(&[
        event("a", ("Pod", "web"), "Killing", 30),
        event("b", ("Pod", "web"), "Killing", 20),
        event("c", ("Pod", "other"), "Pulled", 10),
    ])
    .await;
    let wanted = ["events", "-A", "-w", "-o=name", "--for=pod/web"];
    for (count, expected) in [
        ("--until-count=1", &["event/a"][..]),
        ("--until-count=2", &["event/a", "event/b"]),
    ] {
        let lines = cluster.lines(&[&wanted[..], &["--timeout=5m", count]].concat());
        assert_eq!(lines, expected, "{count}");
    }

    let arguments = [
        "--for=pod/web",
        "--filter=reason:Killing",
        "--until-count=3",
    ];
    let mut watching = Watching::start(&cluster, &arguments);
    assert_eq!(watching.next(), "event/a");
    assert_eq!(watching.next(), "event/b");
    cluster.import(&[
        event("d", ("Pod", "web"), "Pulled", 3),
        event("e", ("Pod", "web"), "Killing", 2),
    ]);
    assert_eq!(watching.next(), "event/e");
    assert_eq!(watching.process.wait().unwrap().code(), Some(0));
    let more: Vec<_> = watching.lines.iter().collect();
    assert_eq!(more, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_what_comes_counts_only_that() {
    let cluster = Cluster::with(&[named("before")]).await;
    let form = "custom-columns=NAME:.metadata.name";
    let arguments = ["--watch-only", "--until-count=1"];
    let mut watching = Watching::start_as(&cluster, form, &arguments);
    let is_watched = |metrics: String| {
        let mut lines = metrics.lines();
        lines
            .any(|line| line.starts_with("apiserver_longrunning_requests{") && line.ends_with(" 1"))
    };
    let begun = async { while !is_watched(cluster.metrics().await) {} };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    // As in kubectl, the heading is printed with the first event.
    assert!(watching.lines.try_recv().is_err());
    cluster.import(&[named("after")]);
    assert_eq!([watching.next(), watching.next()], ["NAME", "after"]);
    assert_eq!(watching.process.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_read_enough_ends_it() {
    let cluster = Cluster::with(&[named("a")]).await;
    let mut process = cluster
        .command(&["events", "-A", "-w", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    cluster.import(&[named("b"), named("c")]);
    assert_eq!(process.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
}
