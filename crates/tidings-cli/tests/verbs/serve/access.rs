//! Permissions on the command's server, tested with an unmodified kubectl; secrets in its log; and
//! its end after two signals. Without a kubectl on the PATH (or named by `KUBECTL`) the tests that
//! need one report that and pass.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_testing::process::Process;
use tidings_testing::programs;

use crate::support::{run, tidings};

const TOKENS: &str = "t-0123-admin,admin,1,\"system:masters\"\nt-4567-reader,reader,2,dev\n";
const PERMISSIONS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: dev}]
";

struct Server {
    process: Process,
    folder: TempDir,
}

impl Server {
    fn start(folder: TempDir, args: &[&str]) -> Self {
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("tokens.csv", TOKENS);
        write("rbac.yaml", PERMISSIONS);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command
            .args([
                "serve",
                "--secure-port",
                "0",
                "--data-dir",
                "data",
                "--token-auth-file",
                "tokens.csv",
            ])
            .args(["--authorization-rbac-file", "rbac.yaml"])
            .args(args)
            .current_dir(folder.path())
            .env("RUST_LOG", "trace")
            .stderr(File::create(folder.path().join("log")).unwrap());
        let (process, line) = Process::start_and_hear(&mut command).unwrap();
        let server = Self { process, folder };
        assert_eq!(line, "data/kubeconfig", "{}", server.log());
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path("log")).unwrap()).into_owned()
    }

    fn kubectl(&self, program: &Path, token: &str, args: &[&str]) -> Output {
        Command::new(program)
            .arg("--kubeconfig")
            .arg(self.path("data/kubeconfig"))
            .arg("--cache-dir")
            .arg(self.path("cache"))
            .args(["--token", token])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn terminate(&self) {
        self.process.signal("TERM");
    }
}

#[test]
fn kubectl_auth() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let server = Server::start(tempfile::tempdir().unwrap(), &[]);
    let (admin, reader) = ("t-0123-admin", "t-4567-reader");
    // Columns: the token, the arguments, the output of both streams, and whether the run succeeds.
    for (token, args, said, success) in [
        (
            reader,
            &["auth", "can-i", "list", "events", "-n", "shop"][..],
            "yes\n",
            true,
        ),
        (
            reader,
            &[
                "auth",
                "can-i",
                "watch",
                "events.events.k8s.io",
                "-n",
                "shop",
            ],
            "yes\n",
            true,
        ),
        (
            reader,
            &["auth", "can-i", "create", "events", "-n", "shop"],
            "no\n",
            false,
        ),
        (
            reader,
            &["auth", "can-i", "list", "events", "-A"],
            "no\n",
            false,
        ),
        (reader, &["auth", "can-i", "get", "/version"], "yes\n", true),
        (reader, &["auth", "can-i", "get", "/metrics"], "no\n", false),
        (admin, &["auth", "can-i", "*", "*", "-A"], "yes\n", true),
        (
            admin,
            &[
                "auth", "can-i", "list", "events", "-n", "shop", "--as", "somebody",
            ],
            "no\n",
            false,
        ),
        (
            admin,
            &[
                "auth",
                "can-i",
                "list",
                "events",
                "-n",
                "shop",
                "--as",
                "somebody",
                "--as-group",
                "dev",
            ],
            "yes\n",
            true,
        ),
        (
            reader,
            &["auth", "can-i", "--list", "-n", "shop"],
            "[get list watch]",
            true,
        ),
        (admin, &["auth", "can-i", "--list"], "*.*", true),
        (reader, &["auth", "whoami"], "reader", true),
        (
            reader,
            &["auth", "whoami"],
            "[dev system:authenticated]",
            true,
        ),
        (
            reader,
            &["get", "events", "-n", "shop"],
            "No resources found in shop namespace.",
            true,
        ),
        (
            reader,
            &["get", "events", "-n", "other"],
            r#"Error from server (Forbidden): events is forbidden: User "reader" cannot list resource "events" in API group "" in the namespace "other""#,
            false,
        ),
        (
            reader,
            &["get", "events", "-n", "shop", "--as", "admin"],
            r#"users "admin" is forbidden: User "reader" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            false,
        ),
        (
            "t-wrong",
            &["get", "events"],
            "You must be logged in to the server",
            false,
        ),
    ] {
        let output = server.kubectl(&kubectl, token, args);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(said), "{token} {args:?}: {text}");
        assert_eq!(output.status.success(), success, "{token} {args:?}: {text}");
    }
}

/// A cluster that answers reviews.
struct Reviewing {
    address: SocketAddr,
    /// The cluster's certificate in PEM; without one it has no TLS.
    authority: Option<String>,
    token_reviews: Arc<AtomicUsize>,
}

impl Reviewing {
    fn start(is_secure: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())
            .unwrap();
        let config = Arc::new(config);
        let reviewing = Self {
            address: listener.local_addr().unwrap(),
            authority: is_secure.then(|| own.cert.pem()),
            token_reviews: Arc::default(),
        };
        let reviews = Arc::clone(&reviewing.token_reviews);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (reviews, config) = (Arc::clone(&reviews), Arc::clone(&config));
                let stream = stream.unwrap();
                thread::spawn(move || {
                    if is_secure {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        answer_reviews(rustls::StreamOwned::new(session, stream), &reviews)
                    } else {
                        answer_reviews(stream, &reviews)
                    }
                });
            }
        });
        reviewing
    }

    /// Writes a kubeconfig for the cluster, which optionally names its authority.
    fn write(&self, path: &Path, names_authority: bool) {
        let cluster = match &self.authority {
            None => json!({"server": format!("http://{}", self.address)}),
            Some(pem) if names_authority => {
                std::fs::write(path.with_extension("pem"), pem).unwrap();
                json!({"server": format!("https://{}", self.address), "certificate-authority": path.with_extension("pem")})
            }
            Some(_) => {
                json!({"server": format!("https://{}", self.address), "insecure-skip-tls-verify": true})
            }
        };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t-cdef-tidings"}}],
        });
        std::fs::write(path, kubeconfig.to_string()).unwrap();
    }
}

/// Answers `TokenReview` and `SubjectAccessReview` on a connection: `t-89ab-robot` is `robot`, who
/// may list events.
fn answer_reviews(stream: impl Read + Write, token_reviews: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader
                .read_line(&mut line)
                .ok()
                .filter(|count| *count > 0)?;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut review: Value = serde_json::from_slice(&body).ok()?;
        review["status"] = if review["kind"] == "TokenReview" {
            token_reviews.fetch_add(1, Ordering::Relaxed);
            json!({"authenticated": review["spec"]["token"] == "t-89ab-robot", "user": {"username": "robot"}})
        } else {
            json!({"allowed": review["spec"]["user"] == "robot" && review["spec"]["resourceAttributes"]["verb"] == "list"})
        };
        let answer = review.to_string();
        let head = format!(
            "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        reader
            .get_mut()
            .write_all((head + &answer).as_bytes())
            .ok()?;
    }
}

#[test]
fn a_cluster_is_asked_and_no_secret_is_logged() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    Reviewing::start(true).write(&folder.path().join("cluster"), true);
    let args = [
        "--authentication-kubeconfig",
        "cluster",
        "--authorization-kubeconfig",
        "cluster",
    ];
    let mut server = Server::start(folder, &args);
    for (token, verb, success) in [
        ("t-89ab-robot", &["get", "events", "-n", "shop"][..], true),
        (
            "t-89ab-robot",
            &["delete", "events", "--all", "-n", "shop"],
            true,
        ),
        (
            "t-89ab-robot",
            &["get", "event", "web.1", "-n", "shop"],
            false,
        ),
        ("t-4567-reader", &["get", "events", "-n", "shop"], true),
        ("t-4567-reader", &["get", "events", "-n", "other"], false),
        ("t-0123-admin", &["get", "events", "-A"], true),
        ("t-fedc-nobody", &["get", "events", "-n", "shop"], false),
    ] {
        let output = server.kubectl(&kubectl, token, verb);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            success,
            "{token} {verb:?}: {errors}"
        );
    }
    server.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    let log = server.log();
    assert!(log.contains("TRACE"), "the log is not the whole one");
    for secret in ["t-89ab", "t-4567", "t-0123", "t-fedc", "t-cdef"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
    let key = std::fs::read_to_string(server.path("data/pki/ca.key")).unwrap();
    assert!(
        !log.contains(key.lines().nth(1).unwrap()),
        "a private key is in the log"
    );
}

/// Others on the network could read the token.
#[test]
fn no_callers_token_is_sent_to_a_cluster_that_is_not_verified() {
    let (secure, plain) = (Reviewing::start(true), Reviewing::start(false));
    for (cluster, names_authority, is_asked, why) in [
        (&secure, true, true, ""),
        (&secure, false, false, "instead of insecure-skip-tls-verify"),
        (&plain, false, false, "it is reached without TLS"),
    ] {
        for program in [
            &["serve", "--authentication-kubeconfig"][..],
            &[
                "archive",
                "--cluster-access",
                "--pass-through",
                "--kubeconfig",
            ],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name).display().to_string();
            cluster.write(&folder.path().join("cluster"), names_authority);
            let arguments = [
                &path("cluster"),
                "--secure-port=0",
                "--data-dir",
                &path("data"),
            ];
            let arguments = [program, &arguments].concat();
            let (mut process, kubeconfig) =
                Process::start_and_hear(tidings(&arguments).stderr(Stdio::piped())).unwrap();
            let shown = ["--token", "t-89ab-robot", "--request-timeout", "30s"];
            let events = ["events", "-n", "shop", "--kubeconfig", &kubeconfig];
            let refused = run(&[&events[..], &shown].concat());
            process.signal("TERM");
            let log = process.errors();
            let reviews = cluster.token_reviews.swap(0, Ordering::Relaxed);
            assert_eq!(reviews > 0, is_asked, "{program:?}: {refused:?} {log}");
            if !is_asked {
                assert!(refused.stderr.contains("nauthorized"), "{refused:?}");
                let lines = log.lines().filter(|line| line.contains(why));
                assert_eq!(lines.count(), 1, "{log}");
            }
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start(tempfile::tempdir().unwrap(), &[]);
    let kubeconfig = std::fs::read_to_string(server.path("data/kubeconfig")).unwrap();
    let (_, rest) = kubeconfig.split_once("https://").unwrap();
    let address = rest.lines().next().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(server.path("data/pki/ca.crt")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(session, TcpStream::connect(address).unwrap());
    // A body that never arrives delays the server's end.
    stream
        .write_all(
            b"POST /api/v1/namespaces/shop/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t-0123-admin\r\n\
              content-length: 100\r\nexpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");

    server.terminate();
    while !server.log().contains("a second signal stops at once") {
        thread::yield_now();
    }
    server.terminate();
    assert_eq!(server.process.wait().code(), Some(1));
    assert!(
        server
            .log()
            .contains("a second signal stopped the server at once")
    );
}

/// The kubeconfig works whatever names the certificate has.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_by_each_name_of_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let given = rcgen::generate_simple_self_signed([
        "*.example.org".to_owned(),
        "events.example.org".to_owned(),
    ])
    .unwrap();
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, given.cert.pem()).unwrap();
    std::fs::write(&key, given.signing_key.serialize_pem()).unwrap();
    let names = ["events.example.org", "192.0.2.7"].map(str::to_owned);
    for (files, works, fails) in [
        (
            None,
            &["", "events.example.org", "192.0.2.7", "localhost"] as &[&str],
            "other.example.org",
        ),
        (
            Some((certificate, key)),
            &["", "events.example.org", "other.example.org"],
            "127.0.0.1",
        ),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut options = tidings_server::StartOptions::new(data.path());
        options.secure_port = 0;
        options.security.tls_names = names.to_vec();
        options.security.tls_files = files;
        let server = tidings_server::start(options).await.unwrap();
        let path = server.kubeconfig().to_str().unwrap();
        let events = |name: &str| {
            run(&[
                "events",
                "-A",
                "--kubeconfig",
                path,
                "--tls-server-name",
                name,
            ])
        };
        for name in works {
            assert_eq!(events(name).code, Some(0), "{name}: {:?}", events(name));
        }
        assert_eq!(events(fails).code, Some(3), "{fails}");
        server.shutdown().await;
    }
}
