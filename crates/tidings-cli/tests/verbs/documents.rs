//! Every command line in the documents is run or, if it cannot be, its flags are checked.
//!
//! Lines after `$ ` in `console` blocks are run, each document as one shell session, in a folder
//! with the files that the document mentions. Lines in `sh` blocks need a cluster, a registry or
//! root. Those of tidings must have valid flags. Those that only read a cluster's events, or record
//! one, are run on our own cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tidings_testing::programs;

use super::support::{Cluster, archive, rollout, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const DOCUMENTS: [&str; 15] = [
    "README.md",
    "deploy/README.md",
    "docs/archive-reference.md",
    "docs/archive.md",
    "docs/tutorial.md",
    "docs/how-to/follow-other-clusters.md",
    "docs/how-to/keep-a-clusters-events-for-a-quarter.md",
    "docs/how-to/keep-an-archive-in-a-bucket.md",
    "docs/how-to/keep-events-off-the-clusters-etcd.md",
    "docs/how-to/look-at-a-support-bundle.md",
    "docs/how-to/read-an-archive.md",
    "docs/how-to/record-from-a-controller.md",
    "docs/how-to/run-an-archive-on-a-machine.md",
    "docs/timeline-reference.md",
    "docs/timeline.md",
];

/// The lines of a document's blocks of one kind.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let mut lines = Vec::new();
    let mut inside = None;
    for line in text.lines() {
        match (inside, line.strip_prefix("```")) {
            (None, Some(opened)) => inside = Some(opened),
            (Some(_), Some(_)) => inside = None,
            (Some(opened), None) if opened == kind => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// Runs a session. A server listens on a free port, and the session waits for the line it prints.
fn session(text: &str) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for line in blocks(text, "console")
        .into_iter()
        .filter_map(|line| line.strip_prefix("$ "))
    {
        let command = line.split(" #").next().unwrap_or(line).trim_end();
        let Some(server) = command.strip_suffix('&').filter(|line| {
            line.starts_with("tidings serve") || line.starts_with("tidings archive")
        }) else {
            script.push_str(line);
            script.push('\n');
            continue;
        };
        let folder = server
            .split_whitespace()
            .skip_while(|word| *word != "--data-dir")
            .nth(1)
            .unwrap();
        let ready = format!("tidings events -A --kubeconfig {folder}/kubeconfig");
        script.push_str(server);
        script.push_str(" --secure-port 0 2>/dev/null &\nuntil ");
        script.push_str(&ready);
        script.push_str(" >/dev/null 2>&1; do sleep 0.1; done\n");
    }
    script
}

#[test]
fn every_command_line_that_is_shown_works() {
    if programs::kubectl().is_none() {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_tidings"));
    let before = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program.parent().unwrap().to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&before));
    let path = std::env::join_paths(folders).unwrap();
    let mut count = 0;
    for name in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let script = session(&text);
        count += script
            .lines()
            .filter(|line| line.starts_with("tidings") || line.starts_with("kubectl"))
            .count();
        let folder = tempfile::tempdir().unwrap();
        let bundle = json!({"apiVersion": "v1", "kind": "List", "items": rollout()}).to_string();
        std::fs::create_dir(folder.path().join("bundle-files")).unwrap();
        let tar = archive(&[("support-bundle/cluster-resources/events/shop.json", &bundle)]);
        std::fs::write(folder.path().join("bundle.tar.gz"), tar).unwrap();
        std::fs::write(folder.path().join("events.json"), bundle).unwrap();
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name}:\n{script}\n{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(
        count > 30,
        "only {count} lines were found: are the blocks still called console?"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_lines_for_elsewhere_are_understood() {
    let cluster = Cluster::with(&rollout()).await;
    let (mut checked, mut ran) = (0, 0);
    for name in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        for line in blocks(&text, "sh") {
            let Some(arguments) = line.strip_prefix("tidings ") else {
                continue;
            };
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let help = run(&[words[0], "--help"]).stdout;
            for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let flag = flag.split('=').next().unwrap();
                assert!(
                    help.contains(&format!("--{flag}")),
                    "{name}: tidings {} has no --{flag}",
                    words[0]
                );
            }
            checked += 1;
            let is_for_any_cluster = matches!(words[0], "describe" | "events" | "record" | "top")
                && !line.contains("--server")
                && !line.contains("--context")
                && !line.contains("--kubeconfig");
            if is_for_any_cluster {
                // A watch would not end.
                let line = line.split('#').next().unwrap().trim_end();
                let line = line.strip_suffix(" -w").unwrap_or(line);
                let output = Command::new("bash")
                    .args([
                        "-c",
                        &line.replacen("tidings", env!("CARGO_BIN_EXE_tidings"), 1),
                    ])
                    .env("KUBECONFIG", cluster.kubeconfig())
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{name}: {line}: {output:?}");
                ran += 1;
            }
        }
    }
    assert!(checked > ran && ran > 5, "{checked} were found, {ran} ran");
}

/// Links in the documents lead to existing targets.
#[test]
fn links_lead_somewhere() {
    for name in DOCUMENTS.iter().copied().chain(["docs/command.md"]) {
        let path = root().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            assert!(
                path.parent().unwrap().join(file).exists(),
                "{name} points to {target}"
            );
        }
    }
}
