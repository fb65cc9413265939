//! Files that are replaced while the server runs.

use crate::support::{Authority, Credentials, Server, token, write};

const EVENTS: &str = "/api/v1/namespaces/shop/events";

#[tokio::test]
async fn replaced_files_are_in_force_and_broken_ones_are_not() {
    let (first, second) = (Authority::new("one"), Authority::new("two"));
    let server = Server::start(|options, folder| {
        options.security.client_ca_file = Some(write(folder, "clients.pem", &first.pem));
    })
    .await;
    let ann = |authority: &Authority| Credentials::Certificate(authority.client("ann", &[], 2040));
    let (of_first, of_second) = (
        server.client(&ann(&first)).await,
        server.client(&ann(&second)).await,
    );
    let by_token = server.client(&token("t-ann")).await;
    let reader = server.client(&token("t-reader")).await;
    let codes = async || {
        let mut codes = Vec::new();
        for client in [&of_first, &of_second, &by_token, &reader] {
            codes.push(client.get(EVENTS).await.code);
        }
        codes
    };
    assert_eq!(codes().await, [200, 401, 200, 200]);
    assert!(server.running.reload().await, "nothing has changed");

    // An authority whose clients are connected already; tokens; permissions.
    server.write("clients.pem", &second.pem);
    server.write("tokens.csv", "t-ann,ann,2\nt-reader,writer,4\n");
    assert!(server.running.reload().await);
    assert_eq!(codes().await, [401, 200, 200, 403]);
    server.write("rbac.yaml", "");
    assert!(server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);

    for (name, text) in [
        (
            "clients.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
        ("clients.pem", ""),
        ("tokens.csv", "t-ann\n"),
        ("rbac.yaml", "kind: Role"),
    ] {
        server.write(name, text);
        assert!(!server.running.reload().await, "{name} {text}");
        assert_eq!(codes().await, [401, 403, 403, 403], "{name} {text}");
    }
    std::fs::remove_file(server.folder.path().join("tokens.csv")).unwrap();
    assert!(!server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_replaced_certificate_is_served() {
    let (first, second) = (Authority::new("one"), Authority::new("two"));
    let (old, new) = (first.server(2040), second.server(2040));
    let server = Server::start(|options, folder| {
        // Clients trust what stands behind the certificate.
        let certificate = write(
            folder,
            "tls.crt",
            &format!("{}{}", old.certificate, first.pem),
        );
        options.security.tls_files = Some((certificate, write(folder, "tls.key", &old.key)));
    })
    .await;
    let reaches = async || {
        let client = server.as_admin().await;
        client
            .try_send(http::Method::GET, EVENTS, &[], &serde_json::Value::Null)
            .await
            .is_ok()
    };
    assert!(reaches().await);
    // Half of a replacement is none.
    server.write("tls.crt", &format!("{}{}", new.certificate, second.pem));
    assert!(!server.running.reload().await);
    assert!(reaches().await);
    server.write("tls.key", &new.key);
    assert!(server.running.reload().await);
    assert!(
        !reaches().await,
        "the kubeconfig trusts the former authority"
    );
    server.write("tls.crt", &format!("{}{}", old.certificate, first.pem));
    server.write("tls.key", &old.key);
    assert!(server.running.reload().await);
    assert!(reaches().await);

    // A renewed certificate of the same key, which is away for one look.
    let reloads = async || {
        let answer = server.as_admin().await.get("/metrics").await;
        let text = answer.body.as_str().unwrap().to_owned();
        let name = "tidings_file_reloads_total{result=\"success\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse::<u64>().unwrap()
    };
    let before = reloads().await;
    let renewed = format!("{}{}\n", old.certificate, first.pem);
    server.write("tls.crt", &renewed);
    std::fs::remove_file(server.folder.path().join("tls.key")).unwrap();
    assert!(!server.running.reload().await);
    assert!(reaches().await);
    server.write("tls.key", &old.key);
    assert!(server.running.reload().await);
    assert_eq!(reloads().await, before + 1);
    server.running.shutdown().await;
}
