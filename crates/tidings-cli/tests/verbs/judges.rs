//! Programs of others that judge `tidings mcp`, over standard input and output and over HTTP: the
//! protocol's conformance suite, its inspector, and the client of its Python library.
//! `cargo xtask mcp` fetches them and names them in the environment; without it, nothing is judged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidings_server::{Running, StartOptions, start};

use super::support::{Cluster, event};

/// Scenarios of the suite that need no tools made for it, and a server over TLS.
const SCENARIOS: [&str; 5] = [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
];
/// Everyone may read events: neither the suite nor the inspector is given a token here.
const PERMISSIONS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: events}
rules: [{apiGroups: [""], resources: [events], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: events}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:anonymous"}]
"#;
/// A client of the library, which prints what it reads.
const CLIENT: &str = "
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            print(len((await session.list_tools()).tools), 'tools')
            found = await session.call_tool('search', {'reason': 'BackOff'})
            print(found.content[0].text)
            wrong = await session.call_tool('search', {'limit': 0})
            print(wrong.content[0].text)

asyncio.run(main())
";

/// A program's path from the environment, or a line that says what is skipped.
fn named(variable: &str) -> Option<OsString> {
    let found = std::env::var_os(variable);
    if found.is_none() {
        let line = format!("skipped: {variable} names no program; cargo xtask mcp does");
        std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    }
    found
}

/// The output of a program that must succeed.
fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let text = [ran.stdout, ran.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(ran.status.success(), "{command:?}: {text}");
    text
}

/// A server whose events everyone may read, its address, and the file of its authority.
async fn open_server(folder: &Path) -> (Running, String, PathBuf) {
    let permissions = folder.join("rbac.yaml");
    std::fs::write(&permissions, PERMISSIONS).unwrap();
    let mut options = StartOptions::new(folder.join("data"));
    options.secure_port = 0;
    options.security.anonymous_auth = true;
    options.security.authorization_rbac_file = Some(permissions);
    let running = start(options).await.unwrap();
    let address = format!("https://{}/mcp", running.address());
    (running, address, folder.join("data/pki/ca.crt"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes() {
    let Some((node, suite)) = named("MCP_NODE").zip(named("MCP_CONFORMANCE")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (running, address, authority) = open_server(folder.path()).await;
    for scenario in SCENARIOS {
        let mut command = Command::new(&node);
        command.arg(&suite).args(["server", "--url", &address]);
        command.args(["--scenario", scenario]);
        let found = output(command.env("NODE_EXTRA_CA_CERTS", &authority));
        assert!(
            found.contains("Passed: 1/1, 0 failed"),
            "{scenario}: {found}"
        );
    }
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_reads_over_both_transports() {
    let Some((node, inspector)) = named("MCP_NODE").zip(named("MCP_INSPECTOR")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (running, address, authority) = open_server(folder.path()).await;
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 60)]).await;
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_tidings");
    let by_stdio = [program, "mcp", "--kubeconfig", kubeconfig];
    let by_http = [address.as_str(), "--transport", "http"];
    for transport in [&by_stdio[..], &by_http] {
        let inspect = |words: &[&str]| {
            let mut command = Command::new(&node);
            command
                .arg(&inspector)
                .arg("--cli")
                .args(transport)
                .args(words);
            output(command.env("NODE_EXTRA_CA_CERTS", &authority))
        };
        let tools = inspect(&["--method", "tools/list"]);
        assert!(tools.contains("\"readOnlyHint\": true"), "{tools}");
        let found = inspect(&["--method", "tools/call", "--tool-name", "clusters"]);
        assert!(
            found.contains("events are written to this server itself"),
            "{found}"
        );
    }
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_reads() {
    let Some(python) = named("MCP_PYTHON") else {
        return;
    };
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 60)]).await;
    let mut command = Command::new(python);
    command.args([
        "-c",
        CLIENT,
        env!("CARGO_BIN_EXE_tidings"),
        "mcp",
        "--kubeconfig",
    ]);
    let found = output(command.arg(cluster.kubeconfig()));
    for words in [
        "7 tools",
        "BackOff shop Pod/web: ",
        "limit: is a whole number from 1 to 100",
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
}
