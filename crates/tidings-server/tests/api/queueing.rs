//! Requests when all places are taken: which of them wait, and for how long.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::channel::oneshot;
use futures::{FutureExt, poll, stream};
use http::Method;
use serde_json::Value;
use tidings_server::clock::SystemClock;
use tidings_server::{ApiOptions, AuditLog, AuditOptions};

use crate::backend;
use crate::support::{Server, event, request, timer};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// A server with one place for writes.
fn server(change: impl FnOnce(&mut ApiOptions)) -> Server {
    let mut options = ApiOptions::default();
    options.max_mutating_requests_inflight = 1;
    change(&mut options);
    Server::with(options)
}

/// The body of an event that arrives when the sender is used.
fn held(name: &str) -> (oneshot::Sender<()>, Body) {
    let (release, released) = oneshot::channel();
    let bytes = Bytes::from(event("shop", name).to_string());
    let body = released.map(move |_| Ok::<_, std::io::Error>(bytes));
    (release, Body::from_stream(stream::once(body)))
}

/// A complete body that records when it is first read.
fn watched(name: &str) -> (Arc<AtomicBool>, Body) {
    let read = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&read);
    let bytes = Bytes::from(event("shop", name).to_string());
    let body = stream::once(async move {
        seen.store(true, Ordering::Relaxed);
        Ok::<_, std::io::Error>(bytes)
    });
    (read, Body::from_stream(body))
}

impl Server {
    /// The value of the metric's sample with this prefix.
    async fn sample(&self, name: &str) -> Option<f64> {
        let answer = self.get("/metrics").await;
        let mut lines = answer.text().lines();
        let line = lines.find(|line| line.starts_with(name))?;
        line.rsplit_once(' ').unwrap().1.parse().ok()
    }

    async fn waiting(&self) -> Option<f64> {
        const KIND: &str = "apiserver_current_inqueue_requests{request_kind=\"mutating\"}";
        const LEVEL: &str = "apiserver_flowcontrol_current_inqueue_requests{priority_level=\"mutating\",flow_schema=\"catch-all\"}";
        let waiting = self.sample(KIND).await;
        assert_eq!(waiting, self.sample(LEVEL).await);
        waiting
    }

    async fn rejected(&self, reason: &str) -> Option<f64> {
        let labels =
            format!("priority_level=\"mutating\",flow_schema=\"catch-all\",reason=\"{reason}\"");
        self.sample(&format!(
            "apiserver_flowcontrol_rejected_requests_total{{{labels}}}"
        ))
        .await
    }

    async fn revision(&self, name: &str) -> u64 {
        let event = self.get(&format!("{SHOP}/{name}")).await.expect(200);
        let version = event["metadata"]["resourceVersion"].as_str().unwrap();
        version.parse().unwrap()
    }
}

#[tokio::test]
async fn who_finds_no_place_waits_in_turn_and_its_body_is_not_read_before() {
    let server = server(|_| {});
    let (release, body) = held("a");
    let mut first = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
    assert!(poll!(first.as_mut()).is_pending());
    let (second_read, body) = watched("b");
    let mut second = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
    assert!(poll!(second.as_mut()).is_pending());
    let (third_read, body) = watched("c");
    let mut third = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
    assert!(poll!(third.as_mut()).is_pending());
    assert_eq!(server.waiting().await, Some(2.0));

    // Requests of other kinds do not wait.
    server.get(SHOP).await.expect(200);
    release.send(()).unwrap();
    assert_eq!(first.await.status(), 201);
    // However often the later request is polled, the earlier one is served first.
    assert!(poll!(third.as_mut()).is_pending());
    let read = |it: &AtomicBool| it.load(Ordering::Relaxed);
    assert!(!read(&second_read) && !read(&third_read));
    let (third, second) = futures::join!(third, second);
    assert_eq!(
        (second.status(), third.status()),
        (201.try_into().unwrap(), 201.try_into().unwrap())
    );
    assert!(server.revision("a").await < server.revision("b").await);
    assert!(server.revision("b").await < server.revision("c").await);

    assert_eq!(server.waiting().await, Some(0.0));
    let waits = "apiserver_flowcontrol_request_wait_duration_seconds_count{priority_level=\"mutating\",\
                 flow_schema=\"catch-all\",execute=\"true\"}";
    assert_eq!(server.sample(waits).await, Some(2.0));
    let dispatched = "apiserver_flowcontrol_dispatched_requests_total{priority_level=\"mutating\"";
    assert_eq!(server.sample(dispatched).await, Some(3.0));
}

#[tokio::test]
async fn beyond_the_queue_requests_are_told_to_come_back() {
    for (room, reason) in [(1, "queue-full"), (0, "concurrency-limit")] {
        let server = server(|options| options.max_requests_inqueue = room);
        let (_release, body) = held("a");
        let mut first = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
        assert!(poll!(first.as_mut()).is_pending());
        let other = event("shop", "b");
        let waiting = (0..room).map(|_| Box::pin(server.post(SHOP, &other)));
        let mut waiting: Vec<_> = waiting.collect();
        for post in &mut waiting {
            assert!(poll!(post).is_pending());
        }
        let refused = server.post(SHOP, &event("shop", "c")).now_or_never();
        let refused = refused.expect("it waits");
        assert_eq!(
            (refused.code.as_u16(), refused.header("retry-after")),
            (429, "1")
        );
        assert_eq!(
            refused.text(),
            "Too many requests, please try again later.\n"
        );
        assert_eq!(server.rejected(reason).await, Some(1.0));
        let terminations = "apiserver_request_terminations_total{verb=\"POST\"";
        assert_eq!(server.sample(terminations).await, Some(1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_longer_than_a_quarter_of_its_time() {
    if !backend::time_may_stop() {
        return;
    }
    let hour = Duration::from_secs(3600);
    for (limit, query, expected) in [
        // A write of one event may take 34 seconds, one of many a minute, and both at most their
        // own timeout.
        (hour, "", 8500),
        (hour, "?timeout=8s", 2000),
        (Duration::from_secs(1), "", 1000),
    ] {
        let server = server(|options| options.request_wait_limit = limit);
        let (_release, body) = held("a");
        let mut first = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
        assert!(poll!(first.as_mut()).is_pending());
        let asked = timer();
        let refused = server
            .post(&format!("{SHOP}{query}"), &event("shop", "b"))
            .await;
        assert_eq!(
            (refused.code.as_u16(), refused.header("retry-after")),
            (429, "1")
        );
        assert_eq!(asked.elapsed().as_millis(), expected, "{query}");
        assert_eq!(server.rejected("time-out").await, Some(1.0));
        assert_eq!(server.waiting().await, Some(0.0));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    for audited in [false, true] {
        let mut server = server(|_| {});
        if audited {
            // Audited requests run in their own task, which outlives the client.
            let log = AuditLog::open(AuditOptions::new(&path), Arc::new(SystemClock)).unwrap();
            let api = Arc::into_inner(server.api).unwrap();
            server.api = Arc::new(api.with_audit_log(log));
        }
        let until_waiting = async |count| {
            let reached = async {
                while server.waiting().await != Some(count) {
                    tokio::task::yield_now().await;
                }
            };
            let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
            reached.unwrap_or_else(|_| panic!("never {count} in the queue"));
        };
        let (release, body) = held("a");
        let mut first = pin!(server.respond(request(Method::POST, SHOP, &[], body)));
        assert!(poll!(first.as_mut()).is_pending());
        tokio::task::yield_now().await;
        let (read, body) = watched("b");
        let mut second = Box::pin(server.respond(request(Method::POST, SHOP, &[], body)));
        assert!(poll!(second.as_mut()).is_pending());
        until_waiting(1.0).await;
        let other = event("shop", "c");
        let mut third = Box::pin(server.post(SHOP, &other));
        assert!(poll!(third.as_mut()).is_pending());
        until_waiting(2.0).await;

        drop(second);
        until_waiting(1.0).await;
        assert_eq!(server.rejected("cancelled").await, Some(1.0));
        release.send(()).unwrap();
        assert_eq!(first.await.status(), 201);
        assert_eq!(third.await.code, 201);
        assert!(!read.load(Ordering::Relaxed));
        assert_eq!(server.get(&format!("{SHOP}/b")).await.code, 404);
    }
    let lines = std::fs::read_to_string(&path).unwrap();
    let codes = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["responseStatus"]["code"].as_u64().unwrap()
    });
    assert_eq!(codes.collect::<Vec<_>>(), [429, 201, 201]);
}

#[tokio::test]
async fn who_looks_after_the_server_needs_no_place() {
    let mut options = ApiOptions::default();
    options.max_requests_inflight = 1;
    let server = crate::streams::server_with(options, 3000, None).await;
    let one = "fieldSelector=metadata.name%3Da";
    let live = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = server.watch(&format!("{SHOP}?{live}&{one}")).await;
    let unread = server.respond(request(Method::GET, "/api/v1/events", &[], ""));
    let unread = unread.await;
    assert_eq!(unread.status(), 200);
    assert!(server.get(SHOP).now_or_never().is_none(), "it is served");
    for path in ["/healthz", "/livez", "/readyz", "/version", "/metrics"] {
        assert_eq!(server.get(path).await.code, 200, "{path}");
    }
    let count = "apiserver_current_inflight_requests{request_kind=\"readOnly\"}";
    assert_eq!(server.sample(count).await, Some(1.0));
    server.create("shop", "a").await;
    let line = watch.line().await;
    assert!(line.starts_with("ADDED a@"), "{line}");
    // A watch begins with a list.
    let path = format!("{SHOP}?watch=true");
    let waits = server.watch(&path);
    assert!(waits.now_or_never().is_none(), "it is served");
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_a_place_until_it_has_told_what_there_is() {
    if !backend::time_may_stop() {
        return;
    }
    let mut options = ApiOptions::default();
    options.max_requests_inflight = 1;
    let server = crate::streams::server_with(options, 3000, None).await;
    let taken = "apiserver_current_inflight_requests{request_kind=\"readOnly\"}";
    for read in [true, false] {
        let mut watch = server.watch("/api/v1/events?watch=true").await;
        assert_eq!(server.sample(taken).await, Some(1.0));
        let asked = timer();
        if read {
            for _ in 0..3000 {
                assert!(watch.line().await.starts_with("ADDED"));
            }
            assert!(poll!(pin!(watch.line())).is_pending());
        } else {
            // A client that does not read has as much time as any other request.
            tokio::time::sleep(Duration::from_secs(59)).await;
            assert_eq!(server.sample(taken).await, Some(1.0));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(server.sample(taken).await, Some(0.0));
        assert_eq!(asked.elapsed().is_zero(), read);
        server.get("/api/v1/events?limit=1").await.expect(200);
    }
}
