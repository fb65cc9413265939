//! Metrics, health, and compression on the wire.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use http::Method;
use serde_json::Value;
use tidings_server::clock::SystemClock;
use tidings_server::{
    ApiOptions, ApiServer, AuditLog, AuditOptions, Authenticator, EventRateLimitOptions,
    Namespaces, Token, User,
};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;

use crate::backend;
use crate::support::{START, Server, event, events, request};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// The samples by name and labels. Fails if the text is invalid.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.split(' ').collect();
            assert!(
                words.len() >= 3 && ["HELP", "TYPE"].contains(&words[0]),
                "{line}"
            );
            if words[0] == "TYPE" {
                assert!(
                    ["counter", "gauge", "histogram"].contains(&words[2]),
                    "{line}"
                );
                let before = types.insert(words[1].to_owned(), words[2].to_owned());
                assert_eq!(before, None, "{line}");
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| {
                name.strip_suffix(end)
                    .filter(|family| types.contains_key(*family))
            })
            .unwrap_or(name);
        assert!(types.contains_key(family), "{line} has no type");
        if let Some(labels) = sample
            .strip_prefix(name)
            .filter(|labels| !labels.is_empty())
        {
            let labels = labels
                .strip_prefix('{')
                .and_then(|labels| labels.strip_suffix('}'))
                .unwrap();
            for label in labels.split("\",") {
                let (label_name, value) = label.split_once("=\"").unwrap();
                assert!(
                    label_name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c == '_'),
                    "{line}"
                );
                assert!(!value.trim_end_matches('"').contains(['"', '\n']), "{line}");
            }
        }
        let before = samples.insert(sample.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{line} is there twice");
    }
    samples
}

#[tokio::test]
async fn what_is_counted() {
    let mut options = ApiOptions::default();
    options.max_mutating_requests_inflight = 2;
    let server = Server::with(options);
    server.create("shop", "a").await;
    server
        .post(&format!("{SHOP}?dryRun=All"), &event("shop", "b"))
        .await
        .expect(201);
    server.post(SHOP, &event("shop", "a")).await.expect(409);
    server.get(SHOP).await.expect(200);
    server
        .get("/apis/events.k8s.io/v1/events?limit=1")
        .await
        .expect(200);
    server.get("/api/v1/namespaces/strange\"\\/x").await;
    let mut watch = server
        .watch(&format!("{SHOP}?watch=true&allowWatchBookmarks=true"))
        .await;
    watch.next().await.unwrap();

    let answer = server.get("/metrics").await;
    assert_eq!(
        answer.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let samples = parse(answer.text());
    let labels = |verb: &str, group: &str, scope: &str, rest: &str| {
        format!(
            "{{verb=\"{verb}\",{rest}group=\"{group}\",version=\"v1\",resource=\"events\",subresource=\"\",\
             scope=\"{scope}\",component=\"apiserver\""
        )
    };
    let total = |verb, group, scope, dry_run: &str, code: &str| {
        let labels = labels(verb, group, scope, &format!("dry_run=\"{dry_run}\","));
        samples
            .get(&format!(
                "apiserver_request_total{labels},code=\"{code}\"}}"
            ))
            .copied()
    };
    assert_eq!(total("POST", "", "namespace", "", "201"), Some(1.0));
    assert_eq!(total("POST", "", "namespace", "All", "201"), Some(1.0));
    assert_eq!(total("POST", "", "namespace", "", "409"), Some(1.0));
    assert_eq!(total("LIST", "", "namespace", "", "200"), Some(1.0));
    assert_eq!(
        total("LIST", "events.k8s.io", "cluster", "", "200"),
        Some(1.0)
    );
    assert_eq!(
        total("WATCH", "", "namespace", "", "200"),
        None,
        "it is not over"
    );
    let sample = |name: &str, labels: &str| samples.get(&format!("{name}{labels}")).copied();
    let watching = labels("WATCH", "", "namespace", "");
    assert_eq!(
        sample("apiserver_longrunning_requests", &format!("{watching}}}")),
        Some(1.0)
    );
    let listed = labels("LIST", "", "namespace", "");
    assert_eq!(
        sample("apiserver_response_sizes_count", &format!("{listed}}}")),
        Some(1.0)
    );
    assert!(sample("apiserver_response_sizes_sum", &format!("{listed}}}")).unwrap() > 100.0);
    let bucket = format!(
        "{},le=\"+Inf\"}}",
        labels("LIST", "", "namespace", "dry_run=\"\",")
    );
    assert_eq!(
        sample("apiserver_request_duration_seconds_bucket", &bucket),
        Some(1.0)
    );
    for (name, value) in [
        ("apiserver_storage_objects{resource=\"events\"}", 1.0),
        (
            "apiserver_resource_objects{group=\"\",resource=\"events\"}",
            1.0,
        ),
        (
            // These requests take no place.
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"}",
            0.0,
        ),
        (
            "apiserver_current_inflight_requests{request_kind=\"mutating\"}",
            0.0,
        ),
        (
            "apiserver_storage_list_total{group=\"\",resource=\"events\"}",
            2.0,
        ),
        (
            "apiserver_watch_list_duration_seconds_count{group=\"\",version=\"v1\",resource=\"events\",scope=\"namespace\"}",
            1.0,
        ),
        ("tidings_storage_expiry_lag_seconds", 0.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
    assert!(
        samples
            .keys()
            .any(|name| name.starts_with("kubernetes_build_info{major=\"1\""))
    );
    assert!(samples["authentication_attempts{result=\"success\"}"] >= 7.0);
    #[cfg(target_os = "linux")]
    assert!(samples["process_resident_memory_bytes"] > 1e6 && samples["process_open_fds"] > 2.0);
    assert!(
        !answer.text().contains("strange"),
        "what clients send is no label"
    );

    drop(watch);
    let samples = parse(server.get("/metrics").await.text());
    let watched = labels("WATCH", "", "namespace", "dry_run=\"\",");
    assert_eq!(
        samples.get(&format!("apiserver_request_total{watched},code=\"200\"}}")),
        Some(&1.0)
    );
    assert_eq!(
        samples.get(&format!("apiserver_longrunning_requests{watching}}}")),
        Some(&0.0)
    );
    // The existing event, and the bookmark after it.
    let events = "{group=\"\",version=\"v1\",resource=\"events\"}";
    assert_eq!(
        samples.get(&format!("apiserver_watch_events_total{events}")),
        Some(&2.0)
    );
}

#[tokio::test]
async fn what_becomes_of_a_request_before_it_is_served_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(START));
    let mut options = ApiOptions::default();
    options.namespaces = Namespaces::only(["shop"]).unwrap();
    options.event_rate_limit = EventRateLimitOptions::parse(
        "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, \
         limits: [{type: Server, qps: 1, burst: 2}]}",
    )
    .unwrap();
    options.event_bytes_max = 2000;
    let token = |token: &str, name: &str, group: &str| Token {
        token: token.into(),
        user: User::new(name, "", [group.to_owned()]),
    };
    let tokens = vec![
        token("s3cret", "admin", "system:masters"),
        token("other", "ann@example.com", "dev"),
    ];
    let store = backend::store(&clock);
    let log = AuditOptions::new(folder.path().join("audit.log"));
    let api = ApiServer::new(
        store.clone(),
        Arc::new(Arc::new(clock.clone())),
        Authenticator::new(tokens),
        options,
    )
    .with_audit_log(AuditLog::open(log, Arc::new(SystemClock)).unwrap());
    let server = Server {
        store,
        clock,
        api: Arc::new(api),
    };

    server.create("shop", "a").await;
    let labelled = serde_json::json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{SHOP}/a");
    server.patch("merge", &path, &labelled).await.expect(200);
    // Events beyond the rate limit, in no namespace, and too large.
    let more = event("shop", "b");
    server.post(SHOP, &more).await.expect(429);
    let elsewhere = event("elsewhere", "b");
    server
        .post(&events("elsewhere"), &elsewhere)
        .await
        .expect(404);
    let mut large = event("shop", "c");
    large["message"] = "x".repeat(3000).into();
    server.post(SHOP, &large).await.expect(413);
    let ask = |token: &str| {
        let mut asked = request(Method::GET, SHOP, &[], "");
        let value = format!("Bearer {token}").parse().unwrap();
        asked.headers_mut().insert("authorization", value);
        asked
    };
    assert_eq!(server.send(ask("other")).await.code, 403);
    assert_eq!(server.send(ask("wrong")).await.code, 401);

    let samples = parse(server.get("/metrics").await.text());
    let admission = "apiserver_admission_controller_admission_duration_seconds_count";
    for (name, value) in [
        ("authentication_attempts{result=\"success\"}".into(), 7.0),
        ("authentication_attempts{result=\"failure\"}".into(), 1.0),
        (
            "authentication_duration_seconds_count{result=\"success\"}".into(),
            7.0,
        ),
        (
            "authenticated_user_requests{username=\"admin\"}".into(),
            6.0,
        ),
        (
            "authenticated_user_requests{username=\"email_id\"}".into(),
            1.0,
        ),
        (
            "authorization_attempts_total{result=\"allowed\"}".into(),
            6.0,
        ),
        (
            "authorization_attempts_total{result=\"no-opinion\"}".into(),
            1.0,
        ),
        (
            format!(
                "{admission}{{name=\"NamespaceLifecycle\",operation=\"CREATE\",rejected=\"true\",type=\"admit\"}}"
            ),
            1.0,
        ),
        (
            format!(
                "{admission}{{name=\"EventRateLimit\",operation=\"CREATE\",rejected=\"false\",type=\"validate\"}}"
            ),
            1.0,
        ),
        (
            format!(
                "{admission}{{name=\"EventRateLimit\",operation=\"UPDATE\",rejected=\"false\",type=\"validate\"}}"
            ),
            1.0,
        ),
        (
            format!(
                "{admission}{{name=\"EventRateLimit\",operation=\"CREATE\",rejected=\"true\",type=\"validate\"}}"
            ),
            1.0,
        ),
        (
            "tidings_event_rate_limit_reached_total{type=\"Server\"}".into(),
            1.0,
        ),
        (
            "tidings_oversized_events_total{outcome=\"refused\"}".into(),
            1.0,
        ),
        // Writes that passed admission, whatever their result.
        ("apiserver_audit_event_total".into(), 5.0),
        ("apiserver_audit_error_total{plugin=\"log\"}".into(), 0.0),
        (
            "apiserver_delegated_authn_request_total{code=\"200\"}".into(),
            0.0,
        ),
        (
            "tidings_file_reloads_total{result=\"success\"}".to_owned(),
            0.0,
        ),
    ] {
        assert_eq!(samples.get(&name), Some(&value), "{name}");
    }
}

#[tokio::test]
async fn health_says_what_kube_apiservers_says() {
    let server = Server::new();
    for (uri, code, text) in [
        ("/livez", 200, "ok"),
        (
            "/livez?verbose",
            200,
            "[+]ping ok\n[+]store ok\nlivez check passed\n",
        ),
        (
            "/readyz?verbose&exclude=x&exclude=etcd",
            200,
            "[+]ping ok\n[+]store excluded: ok\n[+]shutdown ok\n\
             warn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n",
        ),
        ("/healthz/ping", 200, "ok"),
        ("/readyz/shutdown", 200, "ok"),
    ] {
        let answer = server.get(uri).await;
        assert_eq!((answer.code.as_u16(), answer.text()), (code, text), "{uri}");
        assert_eq!(
            answer.header("content-type"),
            "text/plain; charset=utf-8",
            "{uri}"
        );
    }
    assert_eq!(server.get("/livez/shutdown").await.code, 404);

    let server = Server::new();
    server.store.close().await;
    server.api.stop();
    let answer = server.get("/readyz").await;
    assert_eq!(
        (answer.code.as_u16(), answer.text()),
        (
            500,
            "[+]ping ok\n[-]store failed: reason withheld\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
        )
    );
    let answer = server.get("/readyz/shutdown").await;
    assert_eq!(
        answer.text(),
        "internal server error: process is shutting down\n"
    );
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_accepts_it() {
    let server = Server::new();
    for n in 0..400 {
        server.create("shop", &format!("e{n}")).await;
    }
    let plain = server.get(SHOP).await;
    assert!(plain.body.len() > 128 * 1024);
    assert_eq!(
        (plain.header("content-encoding"), plain.header("vary")),
        ("", "")
    );
    for accept in ["gzip", "deflate, gzip"] {
        let headers = [("accept-encoding", accept)];
        let answer = server.call(Method::GET, SHOP, &headers, "").await;
        assert_eq!(
            (answer.header("content-encoding"), answer.header("vary")),
            ("gzip", "Accept-Encoding")
        );
        assert_eq!(answer.header("content-length"), "");
        assert!(answer.body.len() * 5 < plain.body.len());
        let mut text = Vec::new();
        GzDecoder::new(&answer.body[..])
            .read_to_end(&mut text)
            .unwrap();
        assert_eq!(text, plain.body);
    }
    // A list of several pages, in another form.
    for n in 400..1100 {
        server.create("shop", &format!("e{n}")).await;
    }
    let headers = [("accept-encoding", "gzip"), ("accept", "application/yaml")];
    let answer = server.call(Method::GET, SHOP, &headers, "").await;
    let mut text = String::new();
    GzDecoder::new(&answer.body[..])
        .read_to_string(&mut text)
        .unwrap();
    let list: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1100);

    for (uri, accept) in [
        (format!("{SHOP}?limit=10"), "gzip"),
        (SHOP.to_owned(), "br"),
        (SHOP.to_owned(), "gzip;q=0"),
        (format!("{SHOP}?watch=true&timeoutSeconds=1"), "gzip"),
    ] {
        let headers = [("accept-encoding", accept)];
        let answer = server.call(Method::GET, &uri, &headers, "").await;
        assert_eq!(answer.header("content-encoding"), "", "{uri} {accept}");
    }
}
