//! `tidings mcp` as a separate process, over standard input and output: a server's own answers, a
//! followed cluster, and a capture, in both generations of the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_server::{StartOptions, start};

use super::support::{Cluster, event, lines_of, tidings};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `tidings mcp`, and its client.
pub(crate) struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Whether every request stands alone, as from 2026-07-28 on.
    stands_alone: bool,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Agent {
    pub(crate) fn start(command: &mut Command, stands_alone: bool) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut agent = Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            stands_alone,
        };
        if stands_alone {
            let found = agent.ask("server/discover", json!({}));
            assert_eq!(found["serverInfo"].as_object().map(|_| ()), None);
            let versions = found["supportedVersions"].as_array().unwrap();
            assert!(versions.contains(&json!("2026-07-28")), "{found}");
        } else {
            let hello = json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            });
            let found = agent.ask("initialize", hello);
            assert_eq!(found["protocolVersion"], "2025-06-18");
            assert_eq!(found["serverInfo"]["name"], "tidings");
            agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        agent
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// The result of a request.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.stands_alone {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
        }
        self.write(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).expect(&line);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> String {
        let params = json!({"name": name, "arguments": arguments});
        let found = self.ask("tools/call", params);
        found["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Asks a tool until its answer has a text.
    #[expect(
        clippy::disallowed_methods,
        reason = "it is waited for what another program does"
    )]
    fn until(&mut self, name: &str, arguments: &Value, text: &str) -> String {
        let began = Instant::now();
        loop {
            let found = self.tool(name, arguments);
            if found.contains(text) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
        }
    }

    /// Closes the input, and returns the exit code and what the process said on standard error.
    pub(crate) fn end_and_hear(mut self) -> (Option<i32>, String) {
        self.input = None;
        let mut said = String::new();
        if let Some(mut error) = self.process.stderr.take() {
            error.read_to_string(&mut said).unwrap();
        }
        (self.process.wait().unwrap().code(), said)
    }

    /// Closes the input, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        self.input = None;
        self.process.wait().unwrap().code()
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_the_answers_of_a_server() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 60)]).await;
    for stands_alone in [false, true] {
        let mut agent = Agent::start(&mut cluster.command(&["mcp"]), stands_alone);
        let tools = agent.ask("tools/list", json!({}));
        assert_eq!(tools["tools"].as_array().unwrap().len(), 7);
        let found = agent.tool("search", &json!({"reason": "BackOff"}));
        assert!(found.contains("BackOff shop Pod/web: "), "{found}");
        assert!(
            found.contains("no gap: events are written to this server itself"),
            "{found}"
        );
        let found = agent.tool("event", &json!({"id": "-/shop/none"}));
        assert!(
            found.contains("\ninstead: the event or cluster is not there"),
            "{found}"
        );
        let prompt = agent.ask(
            "prompts/get",
            json!({"name": "handover", "arguments": {"since": "8h"}}),
        );
        assert!(prompt["messages"][0]["content"]["text"].is_string());
        assert_eq!(agent.end(), Some(0));
    }
}

/// An option that restricts what is followed is not ignored where nothing is.
#[tokio::test(flavor = "multi_thread")]
async fn options_of_following_are_refused_on_a_server() {
    let cluster = Cluster::with(&[]).await;
    for (option, value) in [
        ("-n", "shop"),
        ("--namespace", "shop"),
        ("--keep", "folder"),
    ] {
        let mut command = cluster.command(&["mcp", option, value]);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains("is for a cluster that is followed"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_a_followed_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StartOptions::new(folder.path());
    options.secure_port = 0;
    // As any other API server.
    options.api.timeline.enabled = false;
    let server = start(options).await.unwrap();
    let kubeconfig = server.kubeconfig().to_str().unwrap();
    let event = event("web.1", ("Pod", "web"), "BackOff", 60);
    let capture = folder.path().join("events.jsonl");
    std::fs::write(&capture, lines_of(&[event])).unwrap();
    let import = [
        "import",
        "--kubeconfig",
        kubeconfig,
        capture.to_str().unwrap(),
    ];
    assert!(tidings(&import).output().unwrap().status.success());
    let temporary = tempfile::tempdir().unwrap();
    let mut command = tidings(&["mcp", "--kubeconfig", kubeconfig]);
    command.env("TMPDIR", temporary.path());
    let mut agent = Agent::start(&mut command, false);
    let found = agent.until("search", &json!({}), ", complete until 20");
    for words in [
        "BackOff shop Pod/web: ",
        "before that only what the cluster still had",
    ] {
        assert!(found.contains(words), "{found}");
    }
    assert_eq!(entries(temporary.path()), 1);
    assert_eq!(agent.end(), Some(0));
    assert_eq!(entries(temporary.path()), 0);
    server.shutdown().await;
}

#[test]
fn an_agent_reads_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("events.jsonl");
    std::fs::write(
        &capture,
        lines_of(&[event("web.1", ("Pod", "web"), "BackOff", 7 * 86_400)]),
    )
    .unwrap();
    let mut command = tidings(&["mcp", "--file", capture.to_str().unwrap()]);
    let mut agent = Agent::start(&mut command, true);
    let found = agent.tool(
        "object",
        &json!({"kind": "Pod", "name": "web", "namespace": "shop"}),
    );
    assert!(
        found.contains("| web: 1 warning and 0 other events"),
        "{found}"
    );
    // A capture is of the past: its times count from its newest event, and it never says that it
    // has everything.
    for (tool, asked) in [
        ("search", json!({})),
        ("top", json!({})),
        ("search", json!({"reason": "None"})),
    ] {
        let found = agent.tool(tool, &asked);
        let begin = "coverage: this server: a capture: only what the cluster still had";
        assert!(found.starts_with(begin), "{found}");
        let matches = asked["reason"] != "None";
        assert_eq!(found.contains("BackOff"), matches, "{found}");
    }
    assert_eq!(agent.end(), Some(0));
}
