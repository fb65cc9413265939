//! Tests of the selected cluster, by flags and files.

use std::path::Path;

use clap::Parser;
use rustls::CertificateError;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    namespaces: NamespaceFlags,
}

fn flags(words: &[&str]) -> ClusterFlags {
    let line = Line::try_parse_from([&["tidings"], words].concat());
    line.unwrap().cluster
}

/// A kubeconfig with one context, cluster and user, all named "one", and this current context.
fn selecting(current: &str, server: &str) -> String {
    let cluster = json!({"server": server, "insecure-skip-tls-verify": true});
    let kubeconfig = json!({
        "current-context": current,
        "contexts": [{"name": "one", "context": {"cluster": "one", "namespace": ""}}],
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "one", "user": {"token": "t"}}],
    });
    kubeconfig.to_string()
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

/// A kubeconfig that exists but cannot be used must not lead to another cluster.
#[test]
fn only_where_there_is_no_kubeconfig_is_it_the_cluster_around() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(&folder.path().join(name), text);
    let missing = folder.path().join("missing");
    let good = file("good", &selecting("one", "https://good:1"));
    let dangling = file("dangling", &selecting("gone", "https://other:1"));
    let unset = file("unset", &selecting("", "https://other:1"));
    let broken = file("broken", "contexts: {\n");
    let empty = file("empty", "");
    let (chosen, around) = ("https://good:1/", "https://around/");
    let given = "https://given:1/";
    let server = ["--server", "https://given:1"];
    for (paths, words, expected) in [
        (vec![&missing, &good], &[] as &[&str], Some(chosen)),
        (vec![&good, &missing], &[], Some(chosen)),
        // As in kubectl, an empty flag is none.
        (
            vec![&good],
            &[
                "--kubeconfig=",
                "--context=",
                "--cluster=",
                "--user=",
                "--server=",
                "--token=",
                "--certificate-authority=",
                "--tls-server-name=",
                "--as=",
            ],
            Some(chosen),
        ),
        (vec![&missing, &empty], &[], Some(around)),
        (vec![], &[], Some(around)),
        (vec![&missing], &["--context", "one"], None),
        (vec![&broken], &[], None),
        (vec![&broken], &server, None),
        (vec![&good, &broken], &[], None),
        (vec![&dangling], &[], None),
        (vec![&dangling], &server, None),
        (vec![&unset], &[], None),
        (vec![&unset], &server, Some(given)),
        (
            vec![&unset],
            &["--cluster", "one", "--user", "one"],
            Some("https://other:1/"),
        ),
        (
            vec![&unset],
            &["--cluster", "one", "--token", "t"],
            Some("https://other:1/"),
        ),
        (
            vec![&unset],
            &["--server", "https://given:1", "--user", "one"],
            Some(given),
        ),
        (vec![&unset], &["--user", "one"], None),
        (vec![&unset], &["--cluster", "gone"], None),
        // A cluster that no kubeconfig has is one of the archive at the given address.
        (
            vec![&good],
            &["--server", "https://given:1/", "--cluster", "home"],
            Some("https://given:1/clusters/home"),
        ),
        (
            vec![&good],
            &["--server", "https://given:1", "--cluster", "one"],
            Some(given),
        ),
        (
            vec![&good],
            &["--server", "https://given:1", "--cluster", "../x"],
            None,
        ),
        (vec![&good], &["--cluster", "home"], None),
    ] {
        let all: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        let flags = flags(words);
        let incluster = || Some(Config::new("https://around/".parse().unwrap()));
        let found = flags.config_of(&all, incluster);
        let found = found.map(|config| config.cluster_url.to_string());
        assert_eq!(
            found.as_deref().ok(),
            expected,
            "{paths:?} {words:?}: {found:?}"
        );
    }
    let nowhere = flags(&[]).config_of(&[missing], || None);
    assert!(nowhere.is_err_and(|why| why.to_string().contains("missing")));
    let by_server = flags(&server).config_of(&[], || None).unwrap();
    assert_eq!(by_server.cluster_url, given);
}

/// The authorities of the flag are used, whatever the kubeconfig says of certificates.
#[test]
fn authorities_that_are_named_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let text = selecting("one", "https://one:1");
    let path = write(&folder.path().join("config"), &text);
    let made = rcgen::generate_simple_self_signed(["one".to_owned()]).unwrap();
    let authority = write(&folder.path().join("ca.crt"), &made.cert.pem());
    let [path, authority] = [&path, &authority].map(|path| path.to_str().unwrap());
    let named = ["--kubeconfig", path];
    let asked = ["--certificate-authority", authority];
    let skipped = ["--insecure-skip-tls-verify"];
    for (words, is_skipped) in [
        (&named[..], true),
        (&[&named[..], &asked].concat(), false),
        (&[&named[..], &skipped].concat(), true),
    ] {
        let config = flags(words).config().unwrap();
        assert_eq!(config.accept_invalid_certs, is_skipped, "{words:?}");
        // The namespace is set to an empty text.
        assert_eq!(config.default_namespace, "default");
    }
    let words = [&["tidings"], &asked[..], &skipped].concat();
    assert!(Line::try_parse_from(words).is_err());
}

#[test]
fn an_empty_namespace_is_none() {
    let outside = ["a b", "../x", "..", "shop/web", "shop?"].map(|name| ["-n", name]);
    for words in &outside {
        let refused = Line::try_parse_from([&["tidings"], &words[..]].concat());
        assert!(refused.is_err(), "{words:?}");
    }
    for (name, expected) in [("shop", Some("shop")), ("", None)] {
        let line = Line::try_parse_from(["tidings", "-n", name]).unwrap();
        assert_eq!(line.namespaces.name(), expected);
    }
}

/// The error lists the contexts to choose from.
#[test]
fn a_kubeconfig_without_a_current_context_names_its_contexts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let unset = write(&path, &selecting("", "https://other:1"));
    let refused = flags(&[]).config_of(&[unset], || None).unwrap_err();
    let said = "no current context, but one: name";
    assert!(refused.to_string().contains(said), "{refused}");
    let empty = "clusters: []\ncontexts: []\nusers: []\n";
    write(&path, empty);
    let flags = flags(&["--kubeconfig", path.to_str().unwrap()]);
    let refused = flags.config_of(&[], || None).unwrap_err();
    assert!(
        refused.to_string().ends_with("it has no context"),
        "{refused}"
    );
}

/// The error names the unreadable file, in our words and not in the client's.
#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [config, authority, missing] =
        ["config", "ca.crt", "missing"].map(|name| folder.path().join(name));
    write(&config, &selecting("one", "https://one:1"));
    write(&authority, "not a certificate\n");
    let [config, authority, missing] =
        [&config, &authority, &missing].map(|path| path.to_str().unwrap());
    for (words, said, path) in [
        (
            ["--kubeconfig", missing, "--context", "one"],
            "use the kubeconfig: read ",
            missing,
        ),
        (
            ["--kubeconfig", config, "--certificate-authority", missing],
            "use --certificate-authority: ",
            missing,
        ),
        (
            ["--kubeconfig", config, "--certificate-authority", authority],
            "use --certificate-authority: ",
            authority,
        ),
    ] {
        let error = flags(&words).config().unwrap_err();
        let why = error.to_string();
        assert!(why.starts_with(said) && why.contains(path), "{why}");
        assert!(!why.contains('"'), "{why}");
        assert_eq!(error.exit_code(), USAGE);
    }
}

#[test]
fn a_namespace_is_advised_where_none_was_named() {
    for (scope, is_advised) in [
        ("at the cluster scope", true),
        ("in the namespace \"shop\"", false),
    ] {
        let why = format!("User \"ann\" cannot list resource \"events\" {scope}");
        let status = kube::core::Status::failure(&why, "Forbidden").with_code(403);
        let error = kube::Error::Api(status.boxed());
        let hint = CommandError::request("read events", "events", error).hint();
        let hint = hint.unwrap();
        assert!(hint.starts_with("tidings rbac events prints "), "{hint}");
        assert_eq!(hint.contains("name it with -n"), is_advised, "{hint}");
    }
}

#[test]
fn a_forbidden_archive_has_permissions_of_its_own() {
    for (group, uses) in [("", "events"), (tidings_server::PAST_GROUP, "past-events")] {
        let mut status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        status.details = Some(kube::core::response::StatusDetails {
            group: group.to_owned(),
            name: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        let error = kube::Error::Api(status.boxed());
        let hint = CommandError::request("read events", "events", error).hint();
        let hint = hint.unwrap();
        assert!(
            hint.starts_with(&format!("tidings rbac {uses} prints ")),
            "{hint}"
        );
    }
}

#[test]
fn a_failure_is_told_without_the_clients_word_for_it() {
    let error = kube::Error::Service("nothing answers".into());
    let error = CommandError::Unreachable(error);
    assert_eq!(error.to_string(), "reach the server: nothing answers");
}

#[test]
fn the_advice_about_a_certificate_depends_on_its_fault() {
    let unsupported = CertificateError::UnsupportedSignatureAlgorithmContext {
        signature_algorithm_id: Vec::new(),
        supported_algorithms: Vec::new(),
    };
    for (why, said) in [
        (CertificateError::UnknownIssuer, "--certificate-authority"),
        (unsupported, "Ed25519"),
    ] {
        let error = std::io::Error::other(rustls::Error::InvalidCertificate(why));
        let error = kube::Error::Service(Box::new(error));
        assert!(unreachable_hint(&error).contains(said), "{error}");
    }
}

/// A server that expects TLS answers a request without TLS with an alert.
#[tokio::test]
async fn the_advice_depends_on_what_the_server_answers() {
    for (answer, said) in [
        (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "https://"),
        (b"", "is it running"),
    ] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(answer).await.unwrap();
        });
        let flags = flags(&["--server", &address]);
        let config = flags.config_of(&[], || None).unwrap();
        let client = flags.client(config).await.unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        let hint = CommandError::Unreachable(error).hint().unwrap();
        assert!(hint.contains(said), "{hint}");
    }
}

/// The message fits after "failed to".
#[test]
fn all_clusters_are_not_one() {
    let refused = flags(&["--cluster", "all"]).config();
    let why = refused.unwrap_err().to_string();
    assert!(why.starts_with("use --cluster all, which is for "), "{why}");
}

/// A proxy in front of another server may have such a path, too.
#[test]
fn the_root_of_an_archive_is_above_the_last_cluster() {
    for (address, root) in [
        ("https://a:6443/", None),
        ("https://a/clusters/prod", Some("https://a")),
        ("https://a/clusters/prod/", Some("https://a")),
        (
            "https://r/k8s/clusters/c-1/clusters/prod",
            Some("https://r/k8s/clusters/c-1"),
        ),
        ("https://r/k8s/clusters/c-1/x", None),
        ("https://a/clusters", None),
    ] {
        assert_eq!(root_of(address), root, "{address}");
    }
}
