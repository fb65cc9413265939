//! The example program that delivers to a webhook: it is killed again and again, and the receiver
//! refuses some requests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use serde_json::Value;
use tidings_archive::Cluster;
use tidings_history::{Feed, Limits, Start};
use tidings_testing::free_port;
use tidings_testing::process::Process;

use crate::support::{Source, options, until};

#[expect(dead_code, reason = "the program's main function is not run here")]
#[path = "../../examples/webhook_sink.rs"]
mod webhook_sink;

const FOLDER: &str = "SINK_FOLDER";
const URL: &str = "SINK_URL";

/// Ids of delivered versions, in the order in which they came.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<String>>>);

impl Received {
    fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Answers one request. Each third one is refused, some of them after they were received.
    fn answer(&self, mut stream: TcpStream, number: usize) -> std::io::Result<()> {
        let mut from = BufReader::new(stream.try_clone()?);
        let mut len = 0;
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        if number % 6 != 2 {
            let events: Vec<Value> = serde_json::from_slice(&body).unwrap();
            let ids = events.iter().map(|event| {
                assert_eq!(event["type"], "dev.tidings.event.v1", "{event}");
                event["id"].as_str().unwrap().to_owned()
            });
            self.0.lock().unwrap().extend(ids);
        }
        let status = match number % 3 {
            2 => "503 Service Unavailable",
            _ => "204 No Content",
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes())
    }

    /// Receives on a port until the test ends.
    fn listen(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = self.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                // The program may have been killed meanwhile.
                let _ = received.answer(stream.unwrap(), number);
            }
        });
        port
    }
}

#[tokio::test]
async fn a_consumer_that_waits_hears_that_the_cluster_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::open_kept(folder.path(), options()).await.unwrap();
    let feed = cluster.feed();
    let name = "one".parse().unwrap();
    let mut cursor = feed.cursor(name, Start::Now).await.unwrap();
    assert!(cursor.next(Limits::default()).await.unwrap().is_none());
    let ((), ()) = tokio::join!(cursor.changed(), cluster.close());
    assert!(cursor.next(Limits::default()).await.is_err());
}

/// The program, if this process was started to be it.
#[tokio::test(flavor = "multi_thread")]
async fn the_program() {
    if let (Ok(folder), Ok(url)) = (std::env::var(FOLDER), std::env::var(URL)) {
        webhook_sink::run(Path::new(&folder), &url).await.unwrap();
    }
}

fn start(folder: &Path, kubeconfig: &Path, port: u16) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sink::the_program", "--nocapture"]);
    command.env(FOLDER, folder).env("KUBECONFIG", kubeconfig);
    command.env(URL, format!("http://127.0.0.1:{port}"));
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    Process::start(&mut command).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_every_version_whenever_the_program_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let [at_source, kept] = ["source", "archive"].map(|name| folder.path().join(name));
    let source = Source::start(&at_source, free_port()).await;
    let received = Received::default();
    let port = received.listen();
    let mut written = BTreeMap::<String, Vec<String>>::new();
    let mut random = fastrand::Rng::with_seed(36);
    let mut program = start(&kept, source.server.kubeconfig(), port);
    // The first version shows that the cursor exists.
    source.create("web.0").await;
    until(async || (!received.ids().is_empty()).then_some(())).await;
    for round in 0..8 {
        for number in 0..10 {
            let name = format!("web.{round}.{}", number % 4);
            let event = match number {
                0..4 => source.create(&name).await,
                _ => source.count(&name, number + 1).await,
            };
            let uid = event.uid().unwrap();
            let id = format!("{uid}/0/{}", event.resource_version().unwrap());
            written.entry(uid).or_default().push(id);
            if random.u8(..10) == 0 {
                program = {
                    drop(program);
                    start(&kept, source.server.kubeconfig(), port)
                };
            }
        }
        // It is killed within a request, after it, or before the commit.
        let so_far = received.ids().len();
        let more = so_far + random.usize(1..4);
        let waited = until(async || (received.ids().len() >= more).then_some(()));
        let _ = tokio::time::timeout(Duration::from_secs(5), waited).await;
        drop(program);
        program = start(&kept, source.server.kubeconfig(), port);
    }
    let all: BTreeSet<_> = written.values().flatten().cloned().collect();
    until(async || {
        let ids: BTreeSet<_> = received.ids().into_iter().collect();
        all.is_subset(&ids).then_some(())
    })
    .await;
    drop(program);
    let ids = received.ids();
    // Nothing else came, and each event's versions in their order.
    assert!(ids.iter().collect::<BTreeSet<_>>().len() <= all.len() + 1);
    assert!(ids.len() > all.len() + 1, "some came twice");
    for versions in written.values() {
        let firsts = versions.iter().map(|id| ids.iter().position(|it| it == id));
        assert!(firsts.is_sorted(), "{versions:?}");
    }
    source.server.shutdown().await;
}
