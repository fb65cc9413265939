//! The operator's policies: namespaces, rate limits, sizes, and retention.

use http::Method;
use serde_json::{Value, json};
use tidings_server::{
    ApiOptions, EventRateLimitOptions, LimitType, Namespace, Namespaces, RetentionRules,
};

use crate::support::{Server, event, events};

const OTHER_GROUP: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";

fn server(change: impl FnOnce(&mut ApiOptions)) -> Server {
    let mut options = ApiOptions::default();
    change(&mut options);
    Server::with(options)
}

fn strict() -> Server {
    let mut namespaces = Namespaces::only(["shop"]).unwrap();
    namespaces.insert("old", Namespace::Terminating).unwrap();
    server(|options| options.namespaces = namespaces)
}

#[tokio::test]
async fn events_are_created_in_namespaces_that_are_there() {
    let server = strict();
    server.create("shop", "web.1").await;
    server.create("kube-system", "web.1").await;
    let status = server
        .post(&events("shpo"), &event("shpo", "web.1"))
        .await
        .expect(404);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "namespaces \"shpo\" not found", "reason": "NotFound",
            "details": {"name": "shpo", "kind": "namespaces"}, "code": 404,
        })
    );
    // A PUT that would create, and a dry run, are refused, too.
    let path = format!("{}/web.1", events("shpo"));
    server.put(&path, &event("shpo", "web.1")).await.expect(404);
    let dry = format!("{}?dryRun=All", events("shpo"));
    server.post(&dry, &event("shpo", "web.1")).await.expect(404);
    // Reads are not affected.
    let list = server.get(&events("shpo")).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_namespace_that_goes_takes_nothing_new() {
    let refused = |name: &str, group: &str| {
        let resource = if group.is_empty() {
            "events"
        } else {
            "events.events.k8s.io"
        };
        let mut details = json!({
            "name": name, "kind": "events",
            "causes": [{
                "reason": "NamespaceTerminating", "message": "namespace old is being terminated",
                "field": "metadata.namespace",
            }],
        });
        if !group.is_empty() {
            details["group"] = group.into();
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!(
                "{resource} \"{name}\" is forbidden: unable to create new content in namespace old because it is being terminated"
            ),
            "reason": "Forbidden", "details": details, "code": 403,
        })
    };
    let server = strict();
    let status = server.post(&events("old"), &event("old", "web.1")).await;
    assert_eq!(status.expect(403), refused("web.1", ""));
    let mut generated = event("old", "");
    generated["metadata"] = json!({"generateName": "web."});
    let status = server.post(&events("old"), &generated).await;
    assert_eq!(status.expect(403), refused("web.", ""));
    let path = "/apis/events.k8s.io/v1/namespaces/old/events";
    let status = server.post(path, &json!({"metadata": {"name": "n"}})).await;
    assert_eq!(status.expect(403), refused("n", "events.k8s.io"));

    // Existing events can be changed and deleted.
    let before = Server::new();
    before.create("old", "web.1").await;
    let mut namespaces = Namespaces::default();
    namespaces.insert("old", Namespace::Terminating).unwrap();
    let mut options = ApiOptions::default();
    options.namespaces = namespaces;
    let server = Server::over(before.store, before.clock, options);
    let path = format!("{}/web.1", events("old"));
    server
        .patch("merge", &path, &json!({"count": 8}))
        .await
        .expect(200);
    server.delete(&path).await.expect(200);
}

#[tokio::test]
async fn namespaces_can_be_read() {
    let server = strict();
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                let name = item["metadata"]["name"].as_str().unwrap();
                format!("{name} {}", item["status"]["phase"].as_str().unwrap())
            })
            .collect()
    };
    let list = server.get("/api/v1/namespaces").await.expect(200);
    assert_eq!(
        names(&list),
        [
            "default Active",
            "kube-public Active",
            "kube-system Active",
            "old Terminating",
            "shop Active"
        ]
    );
    let one = server.get("/api/v1/namespaces/old").await.expect(200);
    assert_eq!(
        (&one["kind"], &one["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    let status = server.get("/api/v1/namespaces/shpo").await.expect(404);
    assert_eq!(status["message"], "namespaces \"shpo\" not found");
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = server
        .get_as("/api/v1/namespaces", accept)
        .await
        .expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(
        table["rows"][3]["cells"],
        json!(["old", "Terminating", "<unknown>"])
    );
    assert_eq!(table["rows"][3]["object"]["kind"], "PartialObjectMetadata");
    let protobuf = "application/vnd.kubernetes.protobuf";
    let other = format!("{protobuf}, text/html");
    for accept in [protobuf, other.as_str()] {
        let answer = server.get_as("/api/v1/namespaces", accept).await;
        assert_eq!(answer.code, 406, "{accept}");
        let told = String::from_utf8_lossy(&answer.body);
        assert!(told.contains("application/json, application/yaml"));
        assert!(!told.contains("application/yaml, "), "{told}");
    }
    // Controllers in Go prefer protobuf to all other encodings they accept.
    for accept in [
        "*/*",
        "application/*",
        "application/json",
        "application/json;q=0.5",
    ] {
        let accept = format!("{protobuf}, {accept}");
        for path in ["/api/v1/namespaces", "/api/v1/namespaces/old"] {
            let answer = server.get_as(path, &accept).await;
            assert_eq!(answer.header("content-type"), "application/json");
            assert_eq!(answer.expect(200)["apiVersion"], "v1", "{path} {accept}");
        }
    }

    // Where every name is a namespace, those with events are listed.
    let any = Server::new();
    any.create("shop", "web.1").await;
    let list = any.get("/api/v1/namespaces").await.expect(200);
    assert_eq!(names(&list).last().unwrap(), "shop Active");
    any.get("/api/v1/namespaces/anything").await.expect(200);
    any.get("/api/v1/namespaces/Not_a_name").await.expect(404);
}

fn limits(limits: &str) -> EventRateLimitOptions {
    let text = format!(
        "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: {limits}"
    );
    EventRateLimitOptions::parse(&text).unwrap()
}

#[tokio::test]
async fn events_over_the_limit_are_refused_as_upstream_refuses_them() {
    let limits = limits("[{type: Namespace, qps: 1, burst: 3}, {type: Server, qps: 1, burst: 4}]");
    let server = server(|options| options.event_rate_limit = limits);
    let shop = events("shop");
    server.create("shop", "a").await;
    let path = format!("{shop}/a");
    server
        .patch("merge", &path, &json!({"count": 8}))
        .await
        .expect(200);
    // Dry runs, reads, deletes and invalid requests take no tokens.
    let dry = format!("{shop}?dryRun=All");
    server.post(&dry, &event("shop", "b")).await.expect(201);
    server.get(&path).await.expect(200);
    let mut invalid = event("shop", "b");
    invalid["involvedObject"]["namespace"] = "bank".into();
    server.post(&shop, &invalid).await.expect(422);
    server.delete(&path).await.expect(200);
    // The other API group shares the limit.
    let note = json!({
        "metadata": {"name": "n"}, "eventTime": "2026-03-04T05:06:00.000000Z", "type": "Normal", "reason": "R",
        "action": "A", "reportingController": "example.com/c", "reportingInstance": "c-1",
        "regarding": {"namespace": "shop"},
    });
    server.post(OTHER_GROUP, &note).await.expect(201);

    let answer = server.post(&shop, &event("shop", "b")).await;
    assert_eq!(
        answer.expect(429),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Too many requests: limit reached on type Namespace for key shop",
            "reason": "TooManyRequests", "code": 429,
        })
    );
    assert_eq!(answer.header("retry-after"), "");
    let status = server.post(&shop, &event("shop", "b")).await.expect(429);
    assert_eq!(
        status["message"],
        "Too many requests: [limit reached on type Namespace for key shop, limit reached on type Server for key ]"
    );
    let counts = server.api.admission_counts();
    assert_eq!(
        (counts.rate_limited, counts.rejected),
        (vec![(LimitType::Namespace, 2), (LimitType::Server, 1)], 2)
    );
    server.clock.advance(1000);
    server.create("shop", "b").await;
}

#[tokio::test]
async fn limits_are_by_user_and_counted() {
    let by_user = limits("[{type: User, qps: 1, burst: 1}]");
    let limited = server(|options| options.event_rate_limit = by_user);
    limited.create("shop", "a").await;
    let status = limited.post(&events("shop"), &event("shop", "b")).await;
    assert_eq!(
        status.expect(429)["message"],
        "Too many requests: limit reached on type User for key ann"
    );

    let counts = limited.api.admission_counts();
    assert_eq!(
        (counts.rate_limited, counts.rejected),
        (vec![(LimitType::User, 1)], 1)
    );
}

/// A change that is repeated because another was faster takes one token.
#[tokio::test]
async fn a_retried_patch_costs_one_token() {
    let limits = limits("[{type: Server, qps: 1, burst: 5}]");
    let server = server(|options| options.event_rate_limit = limits);
    server.create("shop", "a").await;
    let path = format!("{}/a", events("shop"));
    let patches = (0..4).map(|number| {
        let patch = json!({"metadata": {"labels": {format!("l{number}"): "x"}}});
        let (server, path) = (&server, path.clone());
        async move { server.patch("merge", &path, &patch).await.code }
    });
    let codes = futures::future::join_all(patches).await;
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    server
        .patch("merge", &path, &json!({"count": 9}))
        .await
        .expect(429);
}

#[tokio::test]
async fn large_events_are_refused() {
    let mut large = event("shop", "a");
    large["message"] = "x".repeat(10_000).into();
    let refusing = server(|options| options.event_bytes_max = 4096);
    let status = refusing.post(&events("shop"), &large).await.expect(413);
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    let said = status["message"].as_str().unwrap();
    assert!(said.ends_with("the limit is 4096"), "{said}");
    assert_eq!(refusing.api.admission_counts().oversized, 1);

    // A change that makes an event too large is refused, too.
    refusing.create("shop", "b").await;
    let path = format!("{}/b", events("shop"));
    let annotated = json!({"metadata": {"annotations": {"a": "x".repeat(5000)}}});
    refusing.patch("merge", &path, &annotated).await.expect(413);
    assert_eq!(refusing.api.admission_counts().oversized, 2);
}

#[tokio::test]
async fn rules_say_how_long_events_are_kept() {
    let rules = RetentionRules::parse(
        "rules:
- {type: Warning, ttl: 2d}
- {reason: Pulled, ttl: 10m}
",
    );
    let server = server(|options| options.retention = rules.unwrap());
    let names = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (name, event_type, reason) in [
        ("day", "Warning", "Pulled"),
        ("hour", "Normal", "Created"),
        ("minutes", "Normal", "Pulled"),
    ] {
        let mut event = event("shop", name);
        event["type"] = event_type.into();
        event["reason"] = reason.into();
        server.post(&events("shop"), &event).await.expect(201);
    }
    let minute = 60_000;
    server.clock.advance(10 * minute);
    let left = server.get(&events("shop")).await.expect(200);
    assert_eq!(names(left), ["day", "hour"]);
    // Each write restarts the TTL, by the rules for the new event.
    let path = format!("{}/hour", events("shop"));
    server
        .call(
            Method::PATCH,
            &path,
            &[("content-type", "application/merge-patch+json")],
            json!({"type": "Warning"}).to_string(),
        )
        .await
        .expect(200);
    server.clock.advance(2 * 24 * 60 * minute - 10 * minute - 1);
    let left = server.get(&events("shop")).await.expect(200);
    assert_eq!(names(left), ["day", "hour"]);
    server.clock.advance(1);
    let left = server.get(&events("shop")).await.expect(200);
    assert_eq!(names(left), ["hour"]);
    server.clock.advance(10 * minute);
    server.get(&path).await.expect(404);
}
