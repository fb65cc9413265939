//! The connection to an API server: kubeconfigs as kubectl reads them, credential programs,
//! certificates, proxies, paths, and answers of other servers. If a kubectl is available, its
//! results are compared.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidings_testing::programs;

use super::support::{Cluster, Ran, event, lines_of, run, tidings};

/// An HTTP request, as the stub received it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The path with its query.
    pub(super) path: String,
    authorization: Option<String>,
    proxy_authorization: Option<String>,
}

/// A stub's answer: the status line's code and reason, further header lines, and the body.
pub(super) type Answer = (&'static str, String, String);

/// A server of plain HTTP with scripted answers, and the requests it received.
pub(super) struct Stub {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    pub(super) fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &log, &*answer));
            }
        });
        Self { address, asked }
    }

    pub(super) fn server(&self, path: &str) -> String {
        format!("--server=http://{}{path}", self.address)
    }

    fn paths(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|one| one.path.clone()).collect()
    }
}

/// Serves one connection.
fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line.is_empty() {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default();
        let mut asked = Asked {
            path: path.to_owned(),
            authorization: None,
            proxy_authorization: None,
        };
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => asked.authorization = Some(value.to_owned()),
                "proxy-authorization" => asked.proxy_authorization = Some(value.to_owned()),
                "content-length" => length = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (code, head, body) = answer(&asked);
        log.lock().unwrap().push(asked);
        let length = body.len();
        let text = format!("HTTP/1.1 {code}\r\n{head}Content-Length: {length}\r\n\r\n{body}");
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

pub(super) fn json_answer(code: &'static str, body: &Value) -> Answer {
    let head = "Content-Type: application/json\r\n".to_owned();
    (code, head, body.to_string())
}

pub(super) fn status(code: &'static str, number: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": number, "message": "said so",
    });
    json_answer(code, &status)
}

const PAGE: &str = "<!DOCTYPE html><html><head><title>Sign in</title></head></html>";

fn page(code: &'static str, more: &str) -> Answer {
    let head = format!("Content-Type: text/html; charset=utf-8\r\n{more}");
    (code, head, PAGE.to_owned())
}

/// A login page, a redirect to one, and JSON of another kind are errors for every verb.
#[test]
fn only_an_api_server_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let lines = file("events.jsonl");
    std::fs::write(
        &lines,
        lines_of(&[event("a.1", ("Pod", "a"), "Pulled", 60)]),
    )
    .unwrap();
    let verbs: [&[&str]; 8] = [
        &["events", "-A"],
        &["describe", "pod/a"],
        &["top", "-A"],
        &["record", "pod/a", "--reason=A", "-m=x", "--wait=2s"],
        &["import", &lines],
        &["export", &file("out.jsonl")],
        &["export", &file("versions.jsonl"), "--versions"],
        &["coverage"],
    ];
    let login = "302 Found, a redirect to https://login.example/start, in place of";
    for (answer, said) in [
        (
            page("200 OK", ""),
            "200 OK with text/html; charset=utf-8 in place of",
        ),
        (
            page(
                "302 Found",
                "Location: https://login.example/start?state=secret\r\n",
            ),
            login,
        ),
        (
            json_answer("200 OK", &json!({"login": "https://login.example"})),
            "",
        ),
    ] {
        let stub = Stub::start(move |_| answer.clone());
        for verb in verbs {
            let server = stub.server("");
            let ran = run(&[verb, &[&server]].concat());
            assert_ne!(ran.code, Some(0), "{verb:?} {said}: {ran:?}");
            assert!(ran.stderr.contains(said), "{verb:?}: {}", ran.stderr);
            assert!(!ran.stderr.contains("<html"), "{verb:?}: {}", ran.stderr);
            assert!(!ran.stderr.contains("secret"), "{verb:?}: {}", ran.stderr);
            assert!(
                !ran.stdout.contains("1 created"),
                "{verb:?}: {}",
                ran.stdout
            );
        }
    }
    // A list of other objects is no list of events.
    let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []});
    let stub = Stub::start(move |_| json_answer("200 OK", &pods));
    let ran = run(&["events", "-A", &stub.server("")]);
    assert!(
        ran.code == Some(3) && ran.stderr.contains("without a list of events"),
        "{ran:?}"
    );
}

/// A proxy's error page, while its server restarts, is retried and shown in one line.
#[test]
fn a_page_of_a_bad_gateway_is_tried_again_and_told_in_a_line() {
    let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []});
    let asked = Mutex::new(0);
    let stub = Stub::start(move |_| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        if *asked < 3 {
            page("502 Bad Gateway", "")
        } else {
            json_answer("200 OK", &list)
        }
    });
    let ran = run(&["events", "-A", &stub.server("")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(stub.paths().len(), 3);
    let stub = Stub::start(|_| page("502 Bad Gateway", ""));
    let ran = run(&["events", "-A", &stub.server("")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let said = "502 Bad Gateway with text/html; charset=utf-8 in place of an API server's answer";
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert_eq!(first, format!("error: failed to read events: {said}"));
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("events.jsonl");
    std::fs::write(&lines, "{}").unwrap();
    let ran = run(&["import", lines.to_str().unwrap(), &stub.server("")]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert_eq!(first, format!("error: failed to reach the server: {said}"));
}

/// A kubeconfig: a line for its cluster and one for its user, in YAML, and whether kubectl reads
/// events with it. S is the address of the server, CA its authority in base64, T a token. Files of
/// these names, and some others, are beside the kubeconfig.
#[rustfmt::skip]
const KUBECONFIGS: &[(&str, &str, bool)] = &[
    // Addresses.
    ("{server: https://S, certificate-authority-data: CA}", "{token: T}", true),
    ("{server: HTTPS://S/, certificate-authority-data: CA}", "{token: T}", true),
    ("{server: 'https://S?a=b#c', certificate-authority-data: CA}", "{token: T}", true),
    ("{server: 'https://S/x', certificate-authority-data: CA}", "{token: T}", false),
    ("{server: S, certificate-authority-data: CA}", "{token: T}", false),
    ("{server: http://S}", "{token: T}", false),
    ("{server: 'S/x', certificate-authority-data: CA}", "{token: T}", false),
    ("{server: 'ftp://S', certificate-authority-data: CA}", "{token: T}", false),
    ("{server: 'https://127.0.0.1:70000', certificate-authority-data: CA}", "{token: T}", false),
    ("{server: 'https://127.0.0.1:x', certificate-authority-data: CA}", "{token: T}", false),
    ("{server: '', certificate-authority-data: CA}", "{token: T}", false),
    ("{certificate-authority-data: CA}", "{token: T}", false),
    ("{server: 7, certificate-authority-data: CA}", "{token: T}", false),
    ("{server: 'https://u:p@S', certificate-authority-data: CA}", "{token: T}", false),
    // Certificate authorities.
    ("{server: https://S, certificate-authority: ca}", "{token: T}", true),
    ("{server: https://S, certificate-authority: ./ca, certificate-authority-data: ''}", "{token: T}", true),
    ("{server: https://S, certificate-authority: '', certificate-authority-data: CA}", "{token: T}", true),
    ("{server: https://S, certificate-authority: ca, certificate-authority-data: CA}", "{token: T}", false),
    ("{server: https://S, certificate-authority: missing}", "{token: T}", false),
    ("{server: https://S, certificate-authority: token}", "{token: T}", false),
    ("{server: https://S, certificate-authority: more}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: 'WRAPPED'}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: '@@'}", "{token: T}", false),
    ("{server: https://S, certificate-authority-data: YWJj}", "{token: T}", false),
    ("{server: https://S}", "{token: T}", false),
    ("{server: https://S, insecure-skip-tls-verify: true}", "{token: T}", true),
    ("{server: https://S, insecure-skip-tls-verify: true, certificate-authority-data: CA}", "{token: T}", false),
    ("{server: https://S, insecure-skip-tls-verify: true, certificate-authority-data: ''}", "{token: T}", true),
    ("{server: https://S, insecure-skip-tls-verify: null, certificate-authority-data: CA}", "{token: T}", true),
    ("{server: https://S, insecure-skip-tls-verify: 'true'}", "{token: T}", false),
    ("{server: https://S, certificate-authority-data: CA, tls-server-name: localhost}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: CA, tls-server-name: ''}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: CA, tls-server-name: other}", "{token: T}", false),
    ("{server: https://S, certificate-authority-data: CA, disable-compression: true}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: CA, extensions: [{name: minikube.sigs.k8s.io, extension: {a: 1}}, {name: x}]}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: CA, unknown: [1]}", "{token: T, unknown: {a: 1}}", true),
    // Proxies.
    ("{server: https://S, certificate-authority-data: CA, proxy-url: ''}", "{token: T}", true),
    ("{server: https://S, certificate-authority-data: CA, proxy-url: 'http://127.0.0.1:1'}", "{token: T}", false),
    ("{server: https://S, certificate-authority-data: CA, proxy-url: 'ftp://127.0.0.1'}", "{token: T}", false),
    ("{server: https://S, certificate-authority-data: CA, proxy-url: '127.0.0.1:1'}", "{token: T}", false),
    // Tokens.
    ("{server: https://S, certificate-authority-data: CA}", "{tokenFile: token}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{tokenFile: token-with-newline}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: stale, tokenFile: token-with-newline}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, tokenFile: stale}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, tokenFile: missing}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, tokenFile: ''}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: '', tokenFile: token}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{tokenFile: missing}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{tokenFile: empty}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: wrong}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: 470123}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: \"a\\nb\"}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: stale, token: T}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{}", false),
    // Names and passwords, and client certificates.
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, username: '', password: '', client-certificate: '', client-key: '', client-certificate-data: ''}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, username: a}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{tokenFile: token, username: a}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{username: a, password: b}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-key: missing}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-certificate: ca}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-certificate: ca, client-key: missing}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-certificate: ca, client-certificate-data: CA, client-key: ca}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-certificate: pair, client-key: pair}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, client-key-data: 'no base64!'}", false),
    // Impersonation.
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, as: admin, as-groups: ['system:masters'], as-uid: '1', as-user-extra: {scopes: [a, b]}}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, as: nobody}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, as: ''}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, as-groups: [a]}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, as-uid: '1'}", false),
    // Credential programs.
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, interactiveMode: Never, args: [v1]}}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./program, args: [v1beta1], env: null}}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./program, args: [v1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, args: [v1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: ./program, args: [v1alpha1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, interactiveMode: Always, args: [v1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: program, interactiveMode: Never, args: [v1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: '', interactiveMode: Never}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, interactiveMode: Never, args: [v1], env: [{name: '', value: a}]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, interactiveMode: Never, args: [info], provideClusterInfo: true, env: [{name: SECRET, value: x, valueFrom: {a: 1}}]}}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program, interactiveMode: Sometimes, args: [v1]}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{token: T, exec: {apiVersion: client.authentication.k8s.io/v1, command: /missing, interactiveMode: Never}}", true),
    ("{server: https://S, certificate-authority-data: CA}", "{auth-provider: {name: gcp, config: {access-token: T}}}", false),
    ("{server: https://S, certificate-authority-data: CA}", "{auth-provider: {name: other}}", false),
];

/// Lines of complete kubeconfigs, with `GOOD` for the valid cluster and user.
#[rustfmt::skip]
const WHOLE: &[(&str, bool)] = &[
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]", true),
    ("GOOD\napiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: ''}}]", true),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: Foo_Bar}}]", true),
    ("GOOD\napiVersion: v2\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]", false),
    ("GOOD\napiVersion: v1\nkind: Pod\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]", false),
    ("GOOD\ncurrent-context: c\npreferences: {}\nextensions: null\ncontexts: [{name: c, context: {cluster: c, user: u}}, {name: half, context: {user: u}}, {name: none}]", true),
    ("GOOD\ncurrent-context: gone\ncontexts: [{name: c, context: {cluster: c, user: u}}]", false),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: gone, user: u}}]", false),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: gone}}]", false),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {user: u}}]", false),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}, {name: c, context: {cluster: c, user: u}}]", false),
    ("GOOD\ncurrent-context: c\ncontexts: {}", false),
    ("GOOD\ncurrent-context: 1\ncontexts: [{name: '1', context: {cluster: c, user: u}}]", false),
    ("\u{feff}GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]", true),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: T}}, {name: v, user: {exec: {command: x, interactiveMode: Sometimes}}}]", true),
    ("GOOD\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n---\n{", true),
    ("just a text", false),
    ("{", false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_are_read_as_kubectl_reads_them() {
    let cluster = Cluster::with(&[event("a.1", ("Pod", "a"), "Pulled", 60)]).await;
    let folder = tempfile::tempdir().unwrap();
    let given = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let field = |name: &str| {
        let (_, rest) = given.split_once(&format!("{name}: ")).unwrap();
        rest.lines()
            .next()
            .unwrap()
            .trim()
            .trim_matches('"')
            .to_owned()
    };
    let (server, ca, token) = (
        field("server"),
        field("certificate-authority-data"),
        field("token"),
    );
    let server = server.trim_start_matches("https://");
    let pem = STANDARD.decode(&ca).unwrap();
    let pair = rcgen::generate_simple_self_signed(["u".to_owned()]).unwrap();
    let pair = pair.signing_key.serialize_pem() + &pair.cert.pem();
    let more = [b"# A bundle.\n", &pem[..], b"\nwords\n", pair.as_bytes()].concat();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    for (name, text) in [
        ("ca", &pem[..]),
        ("more", &more),
        ("pair", pair.as_bytes()),
        ("token", token.as_bytes()),
        ("token-with-newline", format!("{token}\r\n").as_bytes()),
        ("stale", b"stale"),
        ("empty", b"\n"),
        (
            "program",
            format!(
                r#"#!/bin/sh
version=$1
if [ "$1" = info ]; then
  version=v1
  case "$KUBERNETES_EXEC_INFO" in *'"server":"https://{server}'*certificate* | *certificate*'"server":"https://{server}'*) ;; *) exit 1 ;; esac
  [ "$SECRET" = x ] || exit 2
fi
cat
echo "{{\"apiVersion\": \"client.authentication.k8s.io/$version\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"{token}\"}}}}"
"#
            )
            .as_bytes(),
        ),
    ] {
        write(name, text);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let program = folder.path().join("program");
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let (head, tail) = ca.split_at(64);
    let filled = |text: &str| {
        let wrapped = format!("{head}\\r\\n{tail}\\n");
        let text = text.replace("'WRAPPED'", &format!("\"{wrapped}\""));
        let text = text.replace("-data: CA", &format!("-data: {ca}"));
        let text = text.replace("://S", &format!("://{server}"));
        let text = text.replace("@S", &format!("@{server}"));
        let text = text.replace("server: S", &format!("server: '{server}'"));
        let text = text.replace("'S/x'", &format!("'{server}/x'"));
        text.replace("oken: T", &format!("oken: {token}"))
    };
    let good = filled(
        "clusters: [{name: c, cluster: {server: https://S, certificate-authority-data: CA}}]\nusers: [{name: u, user: {token: T}}]",
    );
    let parts = KUBECONFIGS.iter().map(|(cluster, user, works)| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters:\n- name: c\n  cluster: {}\nusers:\n- name: u\n  user: {}\n",
            filled(cluster),
            filled(user)
        );
        (format!("{cluster} {user}"), text, *works)
    });
    let whole = WHOLE.iter().map(|(text, works)| {
        let filled = filled(text).replace("GOOD", &good);
        ((*text).to_owned(), filled, *works)
    });
    let kubectl = programs::kubectl();
    let path = folder.path().join("config");
    let mut wrong = Vec::new();
    for (what, text, works) in parts.chain(whole) {
        std::fs::write(&path, &text).unwrap();
        let path = path.to_str().unwrap();
        let ran = run(&["events", "-A", "--kubeconfig", path]);
        if (ran.code == Some(0)) != works || ran.stderr.contains("panic") {
            wrong.push(format!("tidings: {what}: {ran:?}"));
        }
        // An error contains no secrets.
        if !works && (ran.stderr.contains(&token) || ran.stderr.contains("470123")) {
            wrong.push(format!("tidings tells a secret: {what}: {ran:?}"));
        }
        if let Some(kubectl) = &kubectl {
            let mut command = Command::new(kubectl);
            command.args([
                "--kubeconfig",
                path,
                "get",
                "events",
                "-A",
                "--request-timeout=20s",
            ]);
            command.env("HOME", folder.path()).stdin(Stdio::null());
            let ran: Ran = command.output().unwrap().into();
            if (ran.code == Some(0)) != works {
                wrong.push(format!("kubectl: {what}: {ran:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A kubeconfig with this user, for a stub or a server.
pub(super) fn kubeconfig(server: &str, cluster: &Value, user: &Value) -> String {
    let mut cluster = cluster.clone();
    cluster["server"] = server.into();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    })
    .to_string()
}

/// The server of a cluster, its kubeconfig entry without the address, and the token.
fn parts_of(cluster: &Cluster) -> (String, Value, String) {
    let found = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let found = serde_json::to_value(&found).unwrap();
    let mut entry = found["clusters"][0]["cluster"].clone();
    let server = entry["server"].as_str().unwrap().to_owned();
    entry.as_object_mut().unwrap().remove("server");
    let token = found["users"][0]["user"]["token"].as_str().unwrap();
    (server, entry, token.to_owned())
}

/// A program that records each run, runs a command, and prints a token.
#[cfg(unix)]
fn program(folder: &Path, does: &str, token: &str) -> Value {
    let noted = folder.join("noted");
    let status = format!(r#"{{"token": "{token}"}}"#);
    let script = format!(
        "echo run >> '{}'; {does}; echo '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {status}}}'",
        noted.display()
    );
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "IfAvailable", "provideClusterInfo": true,
    }})
}

#[cfg(unix)]
fn runs(folder: &Path) -> usize {
    let noted = folder.join("noted");
    let count = std::fs::read_to_string(&noted)
        .unwrap_or_default()
        .lines()
        .count();
    let _ = std::fs::remove_file(noted);
    count
}

/// kubectl does the same: it runs the program once, shows its standard error, and keeps standard
/// input for itself.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_program_is_run_once_and_gets_no_input_of_the_command() {
    let cluster = Cluster::with(&[event("a.1", ("Pod", "a"), "Pulled", 60)]).await;
    let (server, entry, token) = parts_of(&cluster);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let with = |does: &str, token: &str| {
        let user = program(folder.path(), does, token);
        std::fs::write(&path, kubeconfig(&server, &entry, &user)).unwrap();
    };
    let command = |words: &[&str]| {
        let mut command = tidings(words);
        command.arg("--kubeconfig").arg(&path);
        command
    };
    let piped = |mut command: Command, text: &str| -> Ran {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap().into()
    };
    with("cat; echo shown >&2", &token);
    for words in [
        &["events", "-A"] as &[&str],
        &["describe", "pod/a", "-n", "shop"],
        &["top", "-A"],
        &[
            "record",
            "pod/a",
            "--reason=A",
            "-m=x",
            "-n",
            "shop",
            "--wait=20s",
        ],
    ] {
        let ran = piped(command(words), "eaten?\n");
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("shown"), "{words:?}: {ran:?}");
        assert_eq!(runs(folder.path()), 1, "{words:?}");
    }
    let events: Vec<Value> = (0..40)
        .map(|number| event(&format!("b.{number}"), ("Pod", "b"), "Pulled", 60))
        .collect();
    let ran = piped(command(&["import", "-"]), &lines_of(&events));
    assert!(ran.stdout.contains("40 created"), "{ran:?}");
    assert_eq!(runs(folder.path()), 1);
    // The program whose credentials are rejected is run once more, and not once for each request.
    with("true", "expired");
    let ran = piped(command(&["import", "-"]), &lines_of(&events));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(runs(folder.path()), 2);
    // The second token is accepted.
    let second = format!(
        "[ $(wc -l < '{}') = 1 ] || exec echo '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"{token}\"}}}}'",
        folder.path().join("noted").display()
    );
    with(&second, "expired");
    let ran = piped(command(&["import", "-"]), &lines_of(&events));
    assert_eq!(runs(folder.path()), 2);
    assert!(!ran.stderr.contains(&token), "{ran:?}");
    // No output of the program is shown.
    with(&format!("echo {token}; exit 3"), &token);
    let ran = piped(command(&["events", "-A"]), "");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("\"sh\"") && !ran.stderr.contains(&token),
        "{ran:?}"
    );
    // A missing program is named, with its kubeconfig's installation hint.
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program", "interactiveMode": "Never",
        "installHint": "Install it:\n  apt install it\n",
    }});
    std::fs::write(&path, kubeconfig(&server, &entry, &user)).unwrap();
    let ran = piped(command(&["events", "-A"]), "");
    for said in ["\"no-such-program\"", "Install it:   apt install it"] {
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}

/// The certificate that openssl req -x509 makes, one whose authority is not named, so that only the
/// serving certificate itself is trusted, and authorities that Go refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serving_certificate_is_its_own_authority() {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair, KeyUsagePurpose, date_time_ymd,
    };

    let folder = tempfile::tempdir().unwrap();
    let params = |name: &str, is_ca: bool| {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    };
    let own = KeyPair::generate().unwrap();
    // A leaf of an authority, and the authority.
    let issued = |change: fn(&mut CertificateParams)| {
        let mut authority = params("ca", true);
        change(&mut authority);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(authority, key).unwrap();
        let leaf = params("127.0.0.1", false).signed_by(&own, &authority);
        (leaf.unwrap().pem(), authority.pem())
    };
    let (signed, authority) = issued(|_| {});
    let over = issued(|it| it.not_after = date_time_ymd(2020, 1, 1));
    let to_come = issued(|it| it.not_before = date_time_ymd(4000, 1, 1));
    let ca_false = issued(|it| it.is_ca = IsCa::ExplicitNoCa);
    let no_constraints = issued(|it| it.is_ca = IsCa::NoCa);
    let no_issuer = issued(|it| it.key_usages = vec![KeyUsagePurpose::DigitalSignature]);
    let for_clients =
        issued(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    let ca_true = params("127.0.0.1", true).self_signed(&own).unwrap().pem();
    let other_name = params("other.example", true)
        .self_signed(&own)
        .unwrap()
        .pem();
    let twin = params("127.0.0.1", true).self_signed(&own).unwrap().pem();
    let kubectl = programs::kubectl();
    for (what, serving, trusted, works) in [
        ("a leaf", &signed, &signed, true),
        ("a leaf of an authority", &signed, &authority, true),
        ("an authority that expired", &over.0, &over.1, false),
        ("an authority of later", &to_come.0, &to_come.1, false),
        ("CA:FALSE", &ca_false.0, &ca_false.1, false),
        ("no CA", &no_constraints.0, &no_constraints.1, false),
        ("no keyCertSign", &no_issuer.0, &no_issuer.1, false),
        ("for clients", &for_clients.0, &for_clients.1, false),
        ("CA:TRUE", &ca_true, &ca_true, true),
        ("the same key", &ca_true, &twin, false),
        ("another name", &other_name, &other_name, false),
        ("another authority", &ca_true, &authority, false),
    ] {
        let data = tempfile::tempdir().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, serving).unwrap();
        std::fs::write(&key, own.serialize_pem()).unwrap();
        let mut options = tidings_server::StartOptions::new(data.path());
        options.secure_port = 0;
        options.security.tls_files = Some((certificate, key));
        let server = tidings_server::start(options).await.unwrap();
        let found = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let found = serde_json::to_value(&found).unwrap();
        let user = &found["users"][0]["user"];
        let entry = json!({"certificate-authority-data": STANDARD.encode(trusted)});
        let path = folder.path().join("config");
        let address = format!("https://{}", server.address());
        std::fs::write(&path, kubeconfig(&address, &entry, user)).unwrap();
        let path = path.to_str().unwrap();
        let ran = run(&["events", "-A", "--kubeconfig", path]);
        assert_eq!(ran.code == Some(0), works, "{what}: {ran:?}");
        if let Some(kubectl) = &kubectl {
            let mut command = Command::new(kubectl);
            command.args(["--kubeconfig", path, "get", "events", "-A"]);
            command.env("HOME", folder.path()).stdin(Stdio::null());
            let ran: Ran = command.output().unwrap().into();
            // A certificate with the same name and key is a valid chain in Go, because the
            // signature is valid.
            if what != "the same key" {
                assert_eq!(ran.code == Some(0), works, "{what}: {ran:?}");
            }
        }
        server.shutdown().await;
    }
}

/// The clusters of an archive may not know each other's users.
#[test]
fn of_all_clusters_those_that_cannot_be_read_are_named() {
    for (known, code, named) in [
        (&["home", "edge"] as &[&str], 0, &[] as &[&str]),
        (&["home"], 0, &["edge"]),
        (&[], 3, &["home", "edge"]),
    ] {
        let stub = Stub::start(move |asked: &Asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let cluster = path.strip_prefix("/clusters/");
            let cluster = cluster.and_then(|below| below.split('/').next());
            match cluster {
                None if path == "/clusters" => {
                    let clusters = json!([{"name": "home"}, {"name": "edge"}]);
                    json_answer("200 OK", &json!({"clusters": clusters}))
                }
                None if path == "/readyz" => {
                    let health = "[-]cluster away: unreachable\n[-]cluster home: late\n";
                    ("200 OK", String::new(), health.to_owned())
                }
                Some(cluster) if known.contains(&cluster) && path.ends_with("/events") => {
                    let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [
                        event(&format!("in-{cluster}"), ("Pod", "web"), "Pulled", 5)
                    ]});
                    json_answer("200 OK", &list)
                }
                Some(_) if path.ends_with("/events") => status("401 Unauthorized", 401),
                _ => status("404 Not Found", 404),
            }
        });
        let server = format!("http://{}", stub.address);
        let words = format!("events -o name -A --server {server} --token t --cluster all");
        let words: Vec<&str> = words.split(' ').collect();
        let ran = run(&words);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        // The archive could not open it, so that it is in no list.
        let note = "cluster away is not shown: unreachable\n";
        assert!(ran.stderr.contains(note), "{ran:?}");
        for cluster in ["home", "edge"] {
            assert_eq!(
                ran.stdout.contains(&format!("in-{cluster}")),
                known.contains(&cluster),
                "{ran:?}"
            );
            let note = format!("cluster {cluster} is not shown: failed to authenticate");
            assert_eq!(
                ran.stderr.contains(&note),
                named.contains(&cluster),
                "{ran:?}"
            );
        }
    }
}

/// Requests stay below the given path, and credentials are sent nowhere else.
#[test]
fn requests_stay_below_the_path_of_the_server() {
    const ABOVE: &str = "/k8s/clusters/c-1";
    let coverage = json!({"cluster": "prod", "events": 1, "following": []});
    for (is_archive, path, expected) in [
        (true, "/k8s/clusters/c-1/clusters/prod", ABOVE),
        (true, "/clusters/prod", ""),
        (false, "/k8s/clusters/c-1", ABOVE),
    ] {
        for verb in [
            &["coverage"] as &[&str],
            &["events", "-A", "--cluster", "all"],
        ] {
            let coverage = coverage.clone();
            let root = format!("{expected}/clusters");
            let stub = Stub::start(move |asked: &Asked| {
                let path = asked.path.split('?').next().unwrap_or_default();
                let version = if is_archive {
                    "v1.34.0+tidings-0.1.0"
                } else {
                    "v1.34.0"
                };
                if path.ends_with("/version") {
                    json_answer(
                        "200 OK",
                        &json!({"gitVersion": version, "major": "1", "minor": "34"}),
                    )
                } else if is_archive && path == root {
                    json_answer("200 OK", &json!({"clusters": [{"name": "prod"}]}))
                } else if is_archive && path.ends_with("/clusters/prod/coverage") {
                    json_answer("200 OK", &coverage)
                } else if is_archive && path.ends_with("/events") {
                    let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []});
                    json_answer("200 OK", &list)
                } else {
                    status("404 Not Found", 404)
                }
            });
            // A cluster is named in its kubeconfig only.
            let folder = tempfile::tempdir().unwrap();
            let config = folder.path().join("config");
            let server = format!("http://{}{path}", stub.address);
            std::fs::write(
                &config,
                kubeconfig(&server, &json!({}), &json!({"token": "t"})),
            )
            .unwrap();
            let config = config.to_str().unwrap();
            let ran = run(&[verb, &["--kubeconfig", config]].concat());
            assert_eq!(ran.code == Some(0), is_archive, "{path} {verb:?}: {ran:?}");
            for asked in stub.paths() {
                assert!(
                    asked.starts_with(&format!("{expected}/")),
                    "{path} {verb:?}: {asked}"
                );
            }
            let root = format!("{expected}/clusters");
            let paths = stub.paths();
            assert!(paths.contains(&root), "{path} {verb:?}: {paths:?}");
            // No credentials are sent over plain HTTP.
            let asked = stub.asked.lock().unwrap();
            assert!(
                asked.iter().all(|one| one.authorization.is_none()),
                "{asked:?}"
            );
        }
    }
}

/// A role may allow events of one API group only.
#[test]
fn a_user_who_may_read_one_group_of_events_reads_that() {
    for (allowed, code) in [
        ("/api/v1/", 0),
        ("/apis/events.k8s.io/v1/", 0),
        ("/none/", 1),
    ] {
        let stub = Stub::start(move |asked: &Asked| {
            if !asked.path.starts_with(allowed) {
                return status("403 Forbidden", 403);
            }
            let mut event = json!({
                "metadata": {"name": "a.1", "namespace": "shop", "resourceVersion": "5"},
                "reason": "Pulled", "type": "Normal",
            });
            let (about, text) = if allowed.starts_with("/apis") {
                ("regarding", "note")
            } else {
                ("involvedObject", "message")
            };
            event[about] = json!({"kind": "Pod", "namespace": "shop", "name": "a"});
            event[text] = json!("told by it");
            let list = json!({
                "kind": "EventList", "apiVersion": "v1",
                "metadata": {"resourceVersion": "9"}, "items": [event],
            });
            json_answer("200 OK", &list)
        });
        for verb in [
            &["events", "-n", "shop"] as &[&str],
            &["describe", "pod/a", "-n", "shop"],
        ] {
            let ran = run(&[verb, &[&stub.server("")]].concat());
            assert_eq!(ran.code, Some(code), "{allowed} {verb:?}: {ran:?}");
            assert_eq!(
                ran.stdout.contains("told by it"),
                code == 0,
                "{allowed} {verb:?}: {ran:?}"
            );
        }
    }
}

/// Without TLS a proxy forwards the request itself: many refuse tunnels to other ports than 443.
#[test]
fn a_proxy_forwards_requests_without_tls() {
    let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []});
    let stub = Stub::start(move |_| json_answer("200 OK", &list));
    for server in ["http://api.invalid:8080", "http://api.invalid"] {
        let mut command = tidings(&["events", "-A", &format!("--server={server}")]);
        let proxy = format!("http://user:secret@{}", stub.address);
        command.env("HTTP_PROXY", proxy).env("NO_PROXY", "");
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let asked = stub.asked.lock().unwrap().pop().unwrap();
        let path = format!("{server}/api/v1/events");
        assert!(asked.path.starts_with(&path), "{asked:?}");
        let login = format!("Basic {}", STANDARD.encode("user:secret"));
        assert_eq!(asked.proxy_authorization, Some(login));
    }
}

/// The error names the failed proxy, without its password.
#[test]
fn a_proxy_is_named_when_it_fails() {
    for (no_proxy, is_asked) in [("", true), ("other.example", true), ("10.0.0.0/8", false)] {
        let mut command = tidings(&[
            "events",
            "-A",
            "--server=https://10.255.255.1:6443",
            "--token=t",
            "--request-timeout=2s",
        ]);
        command
            .env("HTTPS_PROXY", "http://user:secret@127.0.0.1:1")
            .env("NO_PROXY", no_proxy);
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert_eq!(
            ran.stderr.contains("through the proxy http://127.0.0.1:1"),
            is_asked,
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
}
