//! A slow store: requests end at their deadlines, and abandoned writes are completed.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{poll, stream};
use http::{Method, header};
use serde_json::{Value, json};
use tidings_server::clock::SystemClock;
use tidings_server::{ApiOptions, AuditLog, AuditOptions, timeline};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::backend;
use crate::remote::Remote;
use crate::support::{START, Server, event, request, timer};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// A server over a slow store, the sender of its signal, and the number of waiting requests.
fn server() -> (Server, watch::Sender<bool>, watch::Receiver<usize>) {
    server_with(ApiOptions::default())
}

fn server_with(options: ApiOptions) -> (Server, watch::Sender<bool>, watch::Receiver<usize>) {
    let clock = ManualClock::at(UnixMillis(START));
    let (store, release, asked) = Remote::slow(backend::store(&clock));
    let server = Server::over(Arc::new(store), clock, options);
    (server, release, asked)
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_answered_at_its_deadline() {
    if !backend::time_may_stop() {
        return;
    }
    let (server, _release, _) = server();
    for (method, query, seconds) in [
        (Method::POST, "", 34),
        (Method::POST, "?timeout=5s", 5),
        // No more than the usual timeout.
        (Method::POST, "?timeout=50s", 34),
        (Method::GET, "", 60),
        (Method::GET, "?timeout=5s", 5),
    ] {
        let asked = timer();
        let body = event("shop", "a").to_string();
        let uri = format!("{SHOP}{query}");
        let answer = server.call(method.clone(), &uri, &[], body).await;
        assert_eq!(
            asked.elapsed(),
            Duration::from_secs(seconds),
            "{method} {uri}"
        );
        assert_eq!(
            answer.expect(504),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 504, "reason": "Timeout",
                "message": "Timeout: request did not complete within the allotted timeout", "details": {},
            })
        );
    }
    let metrics = server.get("/metrics").await;
    for (verb, count) in [("POST", 3), ("LIST", 2)] {
        let aborts = format!("apiserver_request_aborts_total{{verb=\"{verb}\"");
        let mut lines = metrics.text().lines();
        let line = lines.find(|line| line.starts_with(&aborts)).unwrap();
        assert!(line.ends_with(&format!(" {count}")), "{line}");
    }
}

/// Runs a test with a server that has an audit log, and returns the lines.
pub(crate) async fn logged(
    server: Server,
    test: impl AsyncFnOnce(&Server),
) -> Vec<(Value, Value, Value, Value)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let log = AuditLog::open(AuditOptions::new(&path), Arc::new(SystemClock)).unwrap();
    let api = Arc::into_inner(server.api).unwrap().with_audit_log(log);
    let server = Server {
        api: Arc::new(api),
        ..server
    };
    let written = async {
        test(&server).await;
        while server.api.audit_counts().unwrap().written == 0 {
            tokio::task::yield_now().await;
        }
    };
    let written = tokio::time::timeout(Duration::from_secs(60), written).await;
    written.expect("nothing is written down");
    let lines = std::fs::read_to_string(&path).unwrap();
    let line = |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let status = &line["responseStatus"];
        let name = &line["objectRef"]["name"];
        (
            line["verb"].clone(),
            name.clone(),
            status["code"].clone(),
            status["reason"].clone(),
        )
    };
    lines.lines().map(line).collect()
}

#[tokio::test]
async fn a_write_whose_client_goes_away_is_finished_and_written_down() {
    let (server, release, mut asked) = server();
    let lines = logged(server, async |server| {
        let body = event("shop", "a").to_string();
        let mut write = Box::pin(server.respond(request(Method::POST, SHOP, &[], body)));
        assert!(poll!(write.as_mut()).is_pending());
        asked.wait_for(|asked| *asked == 1).await.unwrap();
        drop(write);
        release.send_replace(true);
        while server.get(&format!("{SHOP}/a")).await.code != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        lines,
        [(json!("create"), json!("a"), json!(201), Value::Null)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_ended_at_its_deadline_is_written_down_with_its_name() {
    if !backend::time_may_stop() {
        return;
    }
    let (server, _release, _) = server();
    let lines = logged(server, async |server| {
        let mut event = event("shop", "");
        event["metadata"] = json!({"generateName": "web."});
        assert_eq!(server.post(SHOP, &event).await.code, 504);
    })
    .await;
    let [(verb, name, code, reason)] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!((verb, code), (&json!("create"), &json!(504)));
    assert_eq!(reason, "Timeout");
    assert!(name.as_str().unwrap().starts_with("web."), "{name}");
}

#[tokio::test]
async fn a_write_whose_body_breaks_off_is_none_and_is_written_down() {
    let (server, release, _) = server();
    release.send_replace(true);
    let lines = logged(server, async |server| {
        let body = event("shop", "a").to_string();
        let (begin, _) = body.split_at(body.len() - 1);
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let body = stream::iter([Ok(Bytes::from(begin.to_owned())), Err(reset)]);
        let write = request(
            Method::PUT,
            &format!("{SHOP}/a"),
            &[],
            Body::from_stream(body),
        );
        assert_eq!(server.respond(write).await.status(), 400);
        assert_eq!(server.get(&format!("{SHOP}/a")).await.code, 404);
    })
    .await;
    let refused = (json!("update"), json!("a"), json!(400), json!("BadRequest"));
    assert_eq!(lines, [refused]);
}

/// The types of counted events that were not read are looked up by reason.
#[tokio::test]
async fn pictures_that_look_something_up_keep_no_other_from_being_drawn() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut options = ApiOptions::default();
    // The limit is less than the parts of a range: no event is read, and all are counted.
    options.timeline.read_limit = 1;
    let (server, release, mut asked) = server_with(options);
    release.send_replace(true);
    server.create("shop", "a").await;
    release.send_replace(false);
    let begun = *asked.borrow();
    // One router, because it has the threads.
    let router = timeline(Arc::clone(&server.api));
    let view = |query: &str, token: &str| {
        let uri = format!("/timeline/api/view?{query}");
        let mut request = request(Method::GET, &uri, &[], "");
        let token = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, token);
        router.clone().oneshot(request)
    };
    // As many requests as threads, or as many as one user may make at once.
    let threads = thread::available_parallelism().unwrap().get().min(2);
    let ann = (0..threads).map(|_| tokio::spawn(view("", "s3cret")));
    let looking: Vec<_> = ann.collect();
    let all = asked.wait_for(|asked| *asked == begun + threads);
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(
        all.is_ok_and(|asked| asked.is_ok()),
        "they wait for each other"
    );
    // A search for a text in events uses no counts.
    let drawn = tokio::time::timeout(PATIENCE, view("filter=restarting", "other")).await;
    let drawn = drawn.expect("it waits for a store that it does not need");
    assert_eq!(drawn.unwrap().status(), 200);
    release.send_replace(true);
    for looked in looking {
        assert_eq!(looked.await.unwrap().unwrap().status(), 200);
    }
}
