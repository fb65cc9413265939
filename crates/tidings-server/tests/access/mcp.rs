//! The Model Context Protocol over HTTP: each caller reads what its own token may list, in both
//! generations of the protocol, and a page of another origin reads nothing.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tidings_history::{Capabilities, Cause, Coverage, Following, Gap, History, Versions};
use tidings_server::FollowedCluster;
use tidings_store::memory::MemoryStore;
use tidings_store::{BoxFuture, ReadError, UnixMillis};

use crate::clusters::Archive;
use crate::support::{Authority, Caller, Credentials, Server, token, write};
use crate::timeline::knowing;

const HEADERS: [(&str, &str); 1] = [("accept", "application/json, text/event-stream")];

/// A request of the revisions from 2026-07-28 on, each of which stands alone.
fn alone(method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

async fn send(caller: &Caller, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    send_to(caller, "/mcp", headers, body).await
}

async fn send_to(
    caller: &Caller,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let headers = [&HEADERS, headers].concat();
    let answer = caller.try_send(Method::POST, path, &headers, body).await;
    let answer = answer.unwrap();
    (answer.code, answer.body)
}

/// The text of a tool's answer, and whether it is an error.
async fn tool(caller: &Caller, name: &str, arguments: Value) -> (String, bool) {
    tool_at(caller, "/mcp", name, arguments).await
}

async fn tool_at(caller: &Caller, path: &str, name: &str, arguments: Value) -> (String, bool) {
    let params = json!({"name": name, "arguments": arguments});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    let (code, new) = send_to(caller, path, &headers, &alone("tools/call", &params)).await;
    assert_eq!(code, 200, "{new}");
    let (code, old) = send_to(caller, path, &[], &request("tools/call", &params)).await;
    assert_eq!(code, 200, "{old}");
    let text = |answer: &Value| {
        let text = &answer["result"]["content"][0]["text"];
        text.as_str().unwrap().to_owned()
    };
    assert_eq!(new["result"]["resultType"], "complete");
    assert_eq!(old["result"].get("resultType"), None);
    // The clock may go on between the two.
    assert_eq!(text(&new).lines().count(), text(&old).lines().count());
    (text(&new), new["result"]["isError"] == true)
}

/// A server with an event in each of two namespaces.
async fn server(clients: &Authority) -> Server {
    let server = Server::start(|options, folder| {
        options.security.client_ca_file = Some(write(folder, "clients.pem", &clients.pem));
    })
    .await;
    let admin = server.as_admin().await;
    for namespace in ["shop", "other"] {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let event = json!({
            "metadata": {"name": format!("web-of-{namespace}"), "namespace": namespace},
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web"},
            "reason": format!("ReasonOf{namespace}"),
            "message": "db.other.svc and db.shop.svc do not answer",
            "type": "Warning",
            "source": {"component": "kubelet", "host": "node-1"},
        });
        assert_eq!(admin.send(Method::POST, &path, &event).await.code, 201);
    }
    server
}

#[tokio::test]
async fn each_caller_reads_what_it_may_list() {
    let clients = Authority::new("clients");
    let server = server(&clients).await;
    let all = json!({"since": "2000d"});
    let by_certificate = Credentials::Certificate(clients.client("reader", &[], 2040));
    for (who, mine, others) in [
        (token("t-reader"), "shop", "other"),
        (token("t-stranger"), "other", "shop"),
        (by_certificate, "shop", "other"),
    ] {
        let caller = server.client(&who).await;
        for (name, arguments) in [
            ("clusters", json!({})),
            ("coverage", json!({})),
            ("search", all.clone()),
            (
                "object",
                json!({"kind": "Pod", "name": "web", "namespace": mine, "since": "2000d"}),
            ),
            ("event", json!({"id": format!("-/{mine}/web-of-{mine}")})),
            ("top", json!({"by": "namespace", "since": "2000d"})),
            ("top", all.clone()),
            ("compare", all.clone()),
        ] {
            let (text, is_error) = tool(&caller, name, arguments).await;
            assert!(!is_error, "{name}: {text}");
            assert!(
                text.contains(&format!("you may read only the namespaces {mine}")),
                "{text}"
            );
            for word in [format!("ReasonOf{others}"), format!("web-of-{others}")] {
                assert!(!text.contains(&word), "{name}: {text}");
            }
            let is_about_events = !matches!(name, "clusters" | "coverage");
            assert!(!is_about_events || text.contains(mine), "{name}: {text}");
        }
        for (name, arguments) in [
            ("search", json!({"namespace": others, "since": "2000d"})),
            (
                "event",
                json!({"id": format!("-/{others}/web-of-{others}")}),
            ),
        ] {
            let (text, is_error) = tool(&caller, name, arguments).await;
            assert!(is_error && text.contains("\ninstead: "), "{text}");
            assert!(!text.contains("ReasonOf"), "{text}");
        }
        let uri = format!("tidings://-/events/{mine}/web-of-{mine}");
        let (code, found) = send(
            &caller,
            &[],
            &request("resources/read", &json!({"uri": uri})),
        )
        .await;
        assert_eq!(code, 200);
        let found = found["result"]["contents"][0]["text"].as_str().unwrap();
        assert!(found.contains(&format!("ReasonOf{mine}")));
    }
}

#[tokio::test]
async fn only_callers_and_their_own_pages_are_served() {
    let server = server(&Authority::new("clients")).await;
    let reader = server.client(&token("t-reader")).await;
    let list = request("tools/list", &json!({}));
    let (code, answer) = send(&reader, &[], &list).await;
    assert_eq!(
        (code, answer["result"]["tools"].as_array().unwrap().len()),
        (200, 7)
    );
    for tool in answer["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    let host = server.running.address().to_string();
    let own = format!("https://{host}");
    assert_eq!(send(&reader, &[("origin", &own)], &list).await.0, 200);
    for origin in ["https://evil.example", "null", "http://127.0.0.1"] {
        let (code, answer) = send(&reader, &[("origin", origin)], &list).await;
        assert_eq!(code, 403, "{origin}: {answer}");
    }
    let (code, _) = send(&reader, &[("impersonate-user", "admin")], &list).await;
    assert_eq!(code, 400);
    let long = request("tools/list", &json!({"_meta": {"x": "x".repeat(70_000)}}));
    assert_eq!(send(&reader, &[], &long).await.0, 413);
    // A user without permissions, and nobody.
    let updater = server.client(&token("t-updater")).await;
    assert_eq!(send(&updater, &[], &list).await.0, 403);
    let nobody = server.client(&Credentials::Nothing).await;
    assert_eq!(send(&nobody, &[], &list).await.0, 401);
    // Not even the cookie of a session lets anyone in.
    let cookie = [("cookie", "tidings-timeline=abc")];
    assert_eq!(send(&nobody, &cookie, &list).await.0, 401);
    assert_eq!(reader.get("/mcp").await.code, 405);
    assert_eq!(server.as_admin().await.get("/mcpx").await.code, 404);
}

#[tokio::test]
async fn without_a_timeline_the_protocol_is_not_served() {
    let server = Server::start(|options, _| options.api.timeline.enabled = false).await;
    let admin = server.as_admin().await;
    let list = request("tools/list", &json!({}));
    assert_eq!(send(&admin, &[], &list).await.0, 404);
}

/// A cluster with gaps.
struct Flapping(Vec<Gap>);

impl History for Flapping {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn versions(
        &self,
        _: Bytes,
        _: Option<u64>,
        _: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        Box::pin(ready(Ok(None)))
    }

    fn coverage(&self, _: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        let coverage = Coverage {
            gaps: self.0.clone(),
            ..Coverage::default()
        };
        Box::pin(ready(Ok(coverage)))
    }

    fn following(&self) -> Following {
        Following::new("watching")
    }
}

/// An hour in milliseconds.
const HOUR: i64 = 3_600_000;

/// A cluster with gaps of a minute, one at the beginning of each of these hours since 1970.
fn flapping(name: &str, hours: impl Iterator<Item = i64>) -> FollowedCluster {
    let gap = |hour| {
        let (from, to) = (UnixMillis(hour * HOUR), UnixMillis(hour * HOUR + 60_000));
        Gap::new(from, to, Cause::Unreachable)
    };
    let history = Flapping(hours.map(gap).collect());
    FollowedCluster::new(name, Arc::new(MemoryStore::default()), Arc::new(history))
}

#[tokio::test]
async fn gaps_of_the_range_are_told_however_many_come_later() {
    let archive = Archive::start(vec![
        flapping("edge", 0..700),
        flapping("prod", std::iter::once(5)),
    ])
    .await;
    let admin = archive.to_root(&token("t-admin")).await;
    let early = json!({"since": "1970-01-01T04:00:00Z", "until": "1970-01-01T06:00:00Z"});
    let (text, _) = tool(&admin, "search", early.clone()).await;
    for part in [
        "2 of 2 clusters have gaps in this time",
        "edge: MISSING: 2 gaps in this time",
        "prod: MISSING: 1 gap in this time",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, _) = tool(&admin, "coverage", early).await;
    assert!(text.contains("3 gaps are in this time;"), "{text}");
    let (text, _) = tool(&admin, "coverage", json!({"maxBytes": 65_536})).await;
    assert!(
        text.contains("701 gaps are in this time;")
            && text.contains("450 of them, the earliest of their clusters, are not listed"),
        "{text}"
    );
    assert!(text.contains("gap of prod: 1970-01-01T05:00:00Z"), "{text}");
}

/// The cluster of the address is the default of every read, and its bound.
#[tokio::test]
async fn the_cluster_of_the_address_is_the_only_one() {
    let (clusters, shown) = knowing().await;
    let archive = Archive::start(clusters).await;
    let all = json!({"since": "2000d"});
    for who in ["t-of-prod", "t-admin"] {
        let caller = archive.to_root(&token(who)).await;
        for (name, arguments) in [
            ("clusters", json!({})),
            ("coverage", json!({})),
            ("search", all.clone()),
            ("search", json!({"since": "2000d", "cluster": "prod"})),
            (
                "search",
                json!({"since": "2000d", "filter": "-cluster:none"}),
            ),
            ("top", json!({"by": "namespace", "since": "2000d"})),
            ("event", json!({"id": "prod/shop/a.1"})),
        ] {
            let (text, is_error) = tool_at(&caller, "/mcp?cluster=prod", name, arguments).await;
            assert!(!is_error && text.contains("prod"), "{who} {name}: {text}");
            for word in ["edge", "b.1"] {
                assert!(!text.contains(word), "{who} {name}: {text}");
            }
        }
        for arguments in [
            json!({"since": "2000d", "cluster": "edge"}),
            json!({"since": "2000d", "filter": "cluster:edge"}),
            json!({"since": "2000d", "filter": "cluster:edge cluster:prod"}),
        ] {
            let (text, is_error) = tool_at(&caller, "/mcp?cluster=prod", "search", arguments).await;
            assert!(is_error && text.contains("\ninstead: "), "{who}: {text}");
            assert!(
                text.contains("the address selects clusters"),
                "{who}: {text}"
            );
        }
        let list = request("tools/list", &json!({}));
        let path = "/mcp?cluster=prod&namespace=shop";
        assert_eq!(send_to(&caller, path, &[], &list).await.0, 400);
    }
    // No other cluster gets the token of a user of this one.
    assert!(shown[1].lock().unwrap().is_empty());
}
