//! `tidings timeline` as a separate process: only its link gives access, and it leaves no files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testing::process::Process;

use super::support::{Cluster, event, tidings};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends a GET over plain HTTP with these headers; returns the answer.
fn get(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    stream
        .write_all(format!("{head}{headers}\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The address and path of a link.
fn parts(link: &str) -> (&str, String) {
    let rest = link.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    (address, format!("/{path}"))
}

/// Opens a link, and returns the session's cookie.
fn enter(link: &str) -> String {
    let (address, path) = parts(link);
    let answer = get(address, &path, "");
    let (_, cookie) = answer.split_once("set-cookie: ").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    format!("cookie: {cookie}\r\n")
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for what another program does"
)]
async fn a_timeline_shows_a_cluster_and_leaves_nothing_behind() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 60)]).await;
    let kept = tempfile::tempdir().unwrap();
    let keep = kept.path().join("events");
    for arguments in [vec![], vec!["--keep", keep.to_str().unwrap()]] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = cluster.command(&["timeline", "--no-open"]);
        command
            .args(&arguments)
            .env("TMPDIR", temporary.path())
            .stderr(Stdio::piped());
        let (mut process, link) = Process::start_and_hear(&mut command).unwrap();
        assert_eq!(entries(temporary.path()), 1);
        let (address, _) = parts(&link);
        assert!(address.starts_with("127.0.0.1:"), "{link}");
        let refused = get(address, "/timeline/api/overview", "");
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        let cookie = enter(&link);
        let began = Instant::now();
        loop {
            let found = get(address, "/timeline/api/events?from=0", &cookie);
            if found.contains("web.1") {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            std::thread::sleep(Duration::from_millis(50));
        }
        process.signal("INT");
        let errors = process.errors();
        assert!(errors.contains("Ctrl-C ends it"), "{errors}");
        assert_eq!(process.wait().code(), Some(0), "{errors}");
        assert_eq!(entries(temporary.path()), 0);
        assert_eq!(keep.join("clusters").is_dir(), !arguments.is_empty());
    }
}

/// Refuses the request of a connection with this message.
fn refuse(stream: TcpStream, message: &str) -> std::io::Result<()> {
    let mut request = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if request.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let status = json!({"kind": "Status", "code": 403, "message": message}).to_string();
    let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close";
    let length = status.len();
    let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{status}");
    request.get_mut().write_all(answer.as_bytes())
}

/// Starts an API server that refuses everything with this message; returns its address.
fn refusing(message: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that has disconnected needs no answer.
            std::thread::spawn(move || refuse(stream, message));
        }
    });
    format!("http://{address}")
}

/// A server's message may contain escape sequences.
#[test]
fn what_a_cluster_says_is_a_line_of_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let server = refusing("\u{1b}[31mgone\nagain");
    let kubeconfig = json!({
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": server}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let mut timeline = tidings(&["timeline", "--no-open", "--kubeconfig"])
        .arg(&path)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = mpsc::channel();
    let errors = BufReader::new(timeline.stderr.take().unwrap());
    std::thread::spawn(move || {
        let lines = errors.lines().map_while(Result::ok);
        // The test may have ended reading.
        lines.map_while(|line| sender.send(line).ok()).count()
    });
    let said = loop {
        let line = lines.recv_timeout(PATIENCE).unwrap();
        if line.starts_with("cluster one: ") {
            break line;
        }
    };
    timeline.kill().unwrap();
    timeline.wait().unwrap();
    assert_eq!(said, "cluster one: \\u{1b}[31mgone again (403)");
}
