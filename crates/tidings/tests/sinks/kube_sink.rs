//! `KubeSink` over real HTTP: a loopback server with scripted answers, including bytes that no HTTP
//! library would send.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{occurrences, states};
use tidings::advanced::{Backoff, CorrelatorOptions, DeliveryOptions, RetryPolicy};
use tidings::{
    Broadcaster, EventSource, EventType, KubeSink, Occurrence, Reference, ReferenceFields, Sink,
    SinkOptions, StatusFailure, WriteError, WriteErrorKind,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// One request as the server received it.
#[derive(Clone, Debug)]
struct Seen {
    connection: usize,
    /// Method and path.
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The server's reaction to a request.
#[derive(Clone, Debug)]
enum Reply {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Sends these bytes and ends the connection.
    BytesThenClose(Vec<u8>),
    /// Ends the connection without an answer.
    Close,
    /// Does not answer, and notifies when the client is gone.
    Hang(mpsc::UnboundedSender<()>),
}

struct Server {
    address: std::net::SocketAddr,
    script: Script,
}

#[derive(Clone, Default)]
struct Script {
    seen: Arc<Mutex<Vec<Seen>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
}

impl Server {
    /// Answers requests with `replies`, in order, on as many connections as are made.
    async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script::default();
        script.replies.lock().unwrap().extend(replies);
        let server = Self {
            address: listener.local_addr().unwrap(),
            script: script.clone(),
        };
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, connection, script.clone()));
            }
        });
        server
    }

    fn sink(&self) -> KubeSink {
        sink_to(self.address)
    }

    fn seen(&self) -> Vec<Seen> {
        self.script.seen.lock().unwrap().clone()
    }
}

fn sink_to(address: std::net::SocketAddr) -> KubeSink {
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    KubeSink::from_config(config).unwrap()
}

async fn serve(mut stream: TcpStream, connection: usize, script: Script) {
    while let Some(request) = read_request(&mut stream, connection).await {
        script.seen.lock().unwrap().push(request);
        let reply = script.replies.lock().unwrap().pop_front();
        match reply.expect("a reply for every request") {
            Reply::Bytes(bytes) => stream.write_all(&bytes).await.unwrap(),
            Reply::BytesThenClose(bytes) => return stream.write_all(&bytes).await.unwrap(),
            Reply::Close => return,
            Reply::Hang(gone) => {
                // Returns when the client closes its side.
                let _ = stream.read(&mut [0; 1]).await;
                return gone.send(()).unwrap();
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut seen = Seen {
        connection,
        line: line.trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body: Vec::new(),
    };
    let length = seen
        .header("content-length")
        .map_or(0, |text| text.parse().unwrap());
    seen.body.resize(length, 0);
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}

fn answer_with(code: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!("HTTP/1.1 {code} X\r\ncontent-length: {length}\r\n{headers}\r\n");
    Reply::Bytes((head + body).into_bytes())
}

fn answer(code: u16, body: &str) -> Reply {
    answer_with(code, "content-type: application/json\r\n", body)
}

fn status(code: u16, reason: &str) -> Reply {
    let status = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"because","reason":"{reason}","code":{code}}}"#
    );
    answer(code, &status)
}

fn code_of(error: &WriteError) -> u16 {
    match &error.kind {
        WriteErrorKind::Status(failure) => failure.code,
        other => panic!("{other:?} is no answer"),
    }
}

/// client-go `CreateWithEventNamespace`, `PatchWithEventNamespace` and `UpdateWithEventNamespace`,
/// and their tests.
#[tokio::test]
async fn each_verb_is_one_request_to_the_namespace_of_the_event() {
    let (first, second) = occurrences("other", "p");
    let event = String::from_utf8(first.create_body()).unwrap();
    let server = Server::start([
        answer(201, &event),
        answer(200, &event),
        answer(200, &event),
    ])
    .await;
    let sink = server.sink();
    sink.create(&first).await.unwrap();
    sink.patch(&second).await.unwrap();
    sink.update(&second).await.unwrap();

    let json = "application/json";
    let name = first.name();
    let expected = [
        (
            "POST /api/v1/namespaces/other/events".to_owned(),
            json,
            first.create_body(),
        ),
        (
            format!("PATCH /api/v1/namespaces/other/events/{name}"),
            "application/strategic-merge-patch+json",
            second.patch_body(),
        ),
        (
            format!("PUT /api/v1/namespaces/other/events/{name}"),
            json,
            second.create_body(),
        ),
    ];
    let seen = server.seen();
    assert_eq!(seen.len(), expected.len());
    for (seen, (line, content_type, body)) in seen.iter().zip(expected) {
        assert_eq!(seen.line, line);
        assert_eq!(seen.header("content-type"), Some(content_type), "{line}");
        assert_eq!(seen.body, body, "{line}");
        assert_eq!(seen.connection, 0, "{line}: the connection is used again");
    }
}

/// The answer with an event of this resourceVersion.
fn event(version: &str) -> Reply {
    answer(
        200,
        &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

/// The body of a patch that is made for a resourceVersion.
fn version(occurrence: &Occurrence, version: &str) -> Vec<u8> {
    let body = occurrence.patch_body_of_version(version).unwrap();
    let own = String::from_utf8(occurrence.patch_body()).unwrap();
    let of_version = format!(r#","metadata":{{"resourceVersion":"{version}"}}}}"#);
    assert_eq!(
        String::from_utf8(body.clone()).unwrap(),
        own.trim_end_matches('}').to_owned() + &of_version
    );
    body
}

/// A patch states the resourceVersion it was made for. If that is unknown, or another client
/// changed the event, it is requested first.
#[tokio::test]
async fn a_patch_names_the_version_it_is_for() {
    let [first, second, third] = states(CorrelatorOptions::default(), "default", "p");
    let ask = b"{}".to_vec();
    // The write succeeds, but the answer is lost.
    let server = Server::start([
        event("1"),
        Reply::Close,
        status(409, "Conflict"),
        event("2"),
        event("3"),
        event("4"),
    ])
    .await;
    let sink = server.sink();
    sink.create(&first).await.unwrap();
    assert_eq!(
        sink.patch(&second).await.unwrap_err().kind,
        WriteErrorKind::Transport
    );
    sink.patch(&third).await.unwrap();
    sink.clone().patch(&third).await.unwrap();
    let bodies: Vec<Vec<u8>> = server
        .seen()
        .into_iter()
        .skip(1)
        .map(|seen| seen.body)
        .collect();
    assert_eq!(
        bodies,
        [
            version(&second, "1"),
            version(&third, "1"),
            ask.clone(),
            version(&third, "2"),
            version(&third, "3")
        ]
    );

    // Another process created the event, and a third changes it all the time; it is deleted; and
    // the server that created it again returns no resourceVersions.
    let changed = || status(409, "Conflict");
    let server = Server::start([
        event("1"),
        changed(),
        event("2"),
        changed(),
        status(404, "NotFound"),
        answer(201, "{}"),
        answer(200, "{}"),
    ])
    .await;
    let sink = server.sink();
    for code in [409, 409, 404] {
        assert_eq!(code_of(&sink.patch(&second).await.unwrap_err()), code);
    }
    sink.create(&second).await.unwrap();
    sink.patch(&third).await.unwrap();
    let bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|seen| seen.body).collect();
    let expected = [
        ask.clone(),
        version(&second, "1"),
        ask.clone(),
        version(&second, "2"),
        ask,
        second.create_body(),
        third.patch_body(),
    ];
    assert_eq!(bodies, expected);
}

/// client-go's patches have no resourceVersion; nor do those of a sink that remembers none, or
/// forgot.
#[tokio::test]
async fn a_patch_without_a_known_version_names_none() {
    let [first, second, _] = states(CorrelatorOptions::default(), "default", "p");
    let [_, as_client_go] = states(CorrelatorOptions::client_go(), "default", "p");
    let server = Server::start([
        event("1"),
        event("2"),
        event("3"),
        event("4"),
        event("5"),
        event("6"),
    ])
    .await;
    server.sink().patch(&as_client_go).await.unwrap();
    server.sink().versions_max(0).patch(&second).await.unwrap();
    let sink = server.sink().versions_max(1);
    sink.create(&first).await.unwrap();
    sink.create(&occurrences("default", "other").0)
        .await
        .unwrap();
    sink.patch(&second).await.unwrap();
    let seen = server.seen();
    let bodies: Vec<&[u8]> = [0, 1, 4, 5]
        .into_iter()
        .map(|place: usize| &*seen[place].body)
        .collect();
    assert_eq!(
        bodies,
        [
            &*as_client_go.patch_body(),
            &second.patch_body(),
            b"{}",
            &version(&second, "5")
        ]
    );
}

/// A truncated answer has no resourceVersion: neither this patch nor a later one is sent without
/// one.
#[tokio::test]
async fn a_version_that_did_not_arrive_is_asked_for_again() {
    let event = r#"{"kind":"Event","metadata":{"resourceVersion":"7"},"count":1}"#;
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"metadata\"".to_vec();
    let [_, second, third] = states(CorrelatorOptions::default(), "default", "p");
    for unreadable in [
        Reply::BytesThenClose(cut.clone()),
        // The answer is slow.
        Reply::Bytes(cut),
        answer(200, "<html>"),
    ] {
        let server = Server::start([unreadable, answer(200, event), answer(200, event)]).await;
        let sink = server.sink();
        let error = sink.patch(&second).await.unwrap_err();
        assert_eq!(error.kind, WriteErrorKind::Transport);
        sink.patch(&third).await.unwrap();
        let bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|seen| seen.body).collect();
        let versioned = third.patch_body_of_version("7").unwrap();
        assert_eq!(bodies, [b"{}".to_vec(), b"{}".to_vec(), versioned]);
    }
}

/// The failing halves of client-go's TestCreateWithEventNamespace, TestPatchWithEventNamespace and
/// TestUpdateWithEventNamespace.
#[tokio::test]
async fn a_sink_of_one_namespace_asks_nothing_of_others() {
    let server = Server::start([answer(201, "{}")]).await;
    let sink = server.sink().namespace("mine");
    let (first, second) = occurrences("other", "p");
    for (verb, result) in [
        ("create", sink.create(&first).await),
        ("patch", sink.patch(&second).await),
        ("update", sink.update(&second).await),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind, WriteErrorKind::Invalid);
        let start = format!("can't {verb} an event with namespace \"other\" in namespace \"mine\"");
        assert!(error.message.starts_with(&start), "{error}");
    }
    assert!(server.seen().is_empty());
    sink.create(&occurrences("mine", "p").0).await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn error_answers_are_told_apart() {
    let terminating = r#"{"kind":"Status","status":"Failure","message":"being terminated","reason":"Forbidden","code":403,
        "details":{"causes":[{"reason":"NamespaceTerminating","message":"x","field":"metadata.namespace"}]}}"#;
    let date =
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:44 GMT\r\n";
    let large = "x".repeat(1 << 20);
    #[rustfmt::skip]
    let table = [
        // Columns: answer, code, reason, retry after, whether the namespace is terminating.
        (status(409, "AlreadyExists"), 409, "AlreadyExists", None, false),
        (answer(403, terminating), 403, "Forbidden", None, true),
        (status(404, "NotFound"), 404, "NotFound", None, false),
        (answer_with(429, "retry-after: 3\r\n", ""), 429, "", Some(3), false),
        (answer_with(429, date, "slow down"), 429, "", Some(7), false),
        (status(500, "InternalError"), 500, "InternalError", None, false),
        (answer(502, "<html>"), 502, "", None, false),
        (answer(422, "{\"kind\":\"Status\",\"code\":"), 422, "", None, false),
        (answer(302, ""), 302, "", None, false),
        (answer(503, &large), 503, "", None, false),
    ];
    let server = Server::start(table.iter().map(|row| row.0.clone())).await;
    let sink = server.sink();
    let (first, _) = occurrences("default", "p");
    for (_, code, reason, retry_after, namespace_terminating) in table {
        let error = sink.create(&first).await.unwrap_err();
        let expected = StatusFailure {
            code,
            reason: reason.to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
            namespace_terminating,
        };
        assert_eq!(error.kind, WriteErrorKind::Status(expected));
        let start = format!("the server answered {code}");
        assert!(error.message.starts_with(&start), "{error}");
        assert!(error.message.len() < 1000, "an excerpt is enough");
    }
}

/// client-go treats an undecodable success as a failure, and creates the event again.
#[tokio::test]
async fn success_is_success_whatever_follows_it() {
    let cut = b"HTTP/1.1 201 Created\r\ncontent-length: 1000\r\n\r\n{\"kind\"";
    let server = Server::start([
        answer(201, "\u{0}garbage"),
        answer(200, ""),
        Reply::Bytes(cut.to_vec()),
        Reply::BytesThenClose(cut.to_vec()),
        answer(201, "{}"),
    ])
    .await;
    let sink = server.sink();
    let (first, _) = occurrences("default", "p");
    for _ in 0..5 {
        sink.create(&first).await.unwrap();
    }
}

#[tokio::test]
async fn no_answer_is_a_failure_that_may_pass() {
    let server = Server::start([
        Reply::Close,
        Reply::BytesThenClose(b"HTTP/1.1 201 Cre".to_vec()),
        Reply::BytesThenClose(b"SSH-2.0-OpenSSH_9.7\r\n".to_vec()),
        answer(201, "{}"),
    ])
    .await;
    let sink = server.sink();
    let (first, _) = occurrences("default", "p");
    for _ in 0..3 {
        let error = sink.create(&first).await.unwrap_err();
        assert_eq!(error.kind, WriteErrorKind::Transport, "{error}");
    }
    sink.create(&first).await.expect("the sink still works");

    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let error = sink_to(address).create(&first).await.unwrap_err();
    assert_eq!(error.kind, WriteErrorKind::Transport);
    assert!(
        error.message.contains("refused"),
        "the cause is named: {error}"
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_left_after_the_request_timeout() {
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    // A busy machine may take longer than the timeout to send a request.
    let server = Server::start((0..1000).map(|_| Reply::Hang(gone.clone()))).await;
    let sink = server.sink().request_timeout(Duration::from_millis(50));
    let (first, _) = occurrences("default", "p");
    while server.seen().is_empty() {
        let error = sink.create(&first).await.unwrap_err();
        assert_eq!(error.kind, WriteErrorKind::Timeout);
        assert!(error.message.contains("50ms"), "{error}");
    }
    is_gone.recv().await.expect("the connection is closed");
}

#[tokio::test]
async fn dropping_a_call_cancels_its_request() {
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let server = Server::start([Reply::Hang(gone)]).await;
    let sink = server.sink();
    let (first, _) = occurrences("default", "p");
    let call = tokio::spawn(async move { sink.create(&first).await });
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    is_gone.recv().await.expect("the connection is closed");
}

/// Only the delivery retries; kube by itself would send up to fifteen more requests.
#[tokio::test]
async fn one_call_is_one_request() {
    let server = Server::start([status(503, "ServiceUnavailable"), answer(201, "{}")]).await;
    let sink = server.sink();
    let (first, _) = occurrences("default", "p");
    assert_eq!(code_of(&sink.create(&first).await.unwrap_err()), 503);
    assert_eq!(server.seen().len(), 1);
}

/// client-go `rest` TestCheckRetryHandles429And5xx: a POST survives these answers, and each attempt
/// sends the whole event. In client-go only an answer with `Retry-After` is retried.
#[tokio::test]
async fn a_write_outlives_429_and_5xx_and_is_sent_whole_each_time() {
    let failures = [429, 500, 501, 504].map(|code| answer(code, ""));
    let server = Server::start(failures.into_iter().chain([answer(201, "{}")])).await;
    let retry = RetryPolicy::default().backoff(Backoff::Constant(Duration::ZERO));
    let options = SinkOptions::default().delivery(DeliveryOptions::default().retry(retry));
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(server.sink(), options)
        .unwrap();
    let pod = Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "default",
        name: "p",
        ..ReferenceFields::default()
    });
    let recorder = broadcaster.recorder(EventSource::component("ctl"));
    recorder.event(&pod, EventType::Warning, "BackOff", "x".repeat(10_000));
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!((report.offered, report.delivered), (1, 1), "{report}");

    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    assert!(seen[0].body.len() > 10_000);
    for request in &seen {
        assert_eq!(request.line, "POST /api/v1/namespaces/default/events");
        assert_eq!(request.body, seen[0].body);
    }
}

const GROUP: &str = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"events.k8s.io/v1","resources":[{"name":"events","singularName":"event","namespaced":true,"kind":"Event","verbs":["create","patch"]}]}"#;

/// client-go's `NewEventBroadcasterAdapter` treats any failure as "not served", and its core/v1
/// half drops action and related.
#[tokio::test]
async fn only_an_answer_decides_about_the_api_group() {
    let rows = [
        (vec![answer(200, GROUP)], "events.k8s.io/v1"),
        (vec![status(404, "NotFound")], "v1"),
        (vec![status(403, "Forbidden")], "v1"),
        (vec![answer(200, &GROUP.replace("events", "other"))], "v1"),
        (
            vec![
                Reply::Close,
                status(503, "ServiceUnavailable"),
                status(429, "TooManyRequests"),
                status(401, "Unauthorized"),
                // Answers as proxies write them.
                answer(503, r#"{"message":"no healthy upstream"}"#),
                answer(200, "no list"),
                answer(200, GROUP),
            ],
            "events.k8s.io/v1",
        ),
        (
            (0..20)
                .map(|_| status(401, "Unauthorized"))
                .chain([answer(200, GROUP)])
                .collect(),
            "events.k8s.io/v1",
        ),
    ];
    // The policy for writes does not apply: under client-go's, each of these errors would be final.
    let policies = [RetryPolicy::default(), RetryPolicy::client_go()];
    let rows = policies
        .iter()
        .flat_map(|retry| rows.clone().map(|(replies, api)| (retry, replies, api)));
    for (retry, replies, api_version) in rows {
        let asked = replies.len();
        let replies = replies.into_iter().chain([answer(201, "{}")]);
        let server = Server::start(replies).await;
        let broadcaster = Broadcaster::new();
        let options = SinkOptions::default()
            .events_v1_if_served(tidings::advanced::SeriesOptions::default())
            .delivery(
                DeliveryOptions::default()
                    .retry(retry.clone().backoff(Backoff::Constant(Duration::ZERO))),
            );
        broadcaster
            .start_recording_to_sink_with(server.sink(), options)
            .unwrap();
        let object = |kind, name| {
            Reference::new(ReferenceFields {
                kind,
                name,
                namespace: "default",
                ..ReferenceFields::default()
            })
        };
        let recorder = broadcaster.recorder(EventSource::component("example.com/controller"));
        let written = recorder
            .build(&object("Pod", "web"), EventType::Warning, "BackOff")
            .action("Restarting")
            .related(&object("Node", "node-1"))
            .send_and_wait()
            .await;
        assert!(written.unwrap().is_written());
        let seen = server.seen();
        assert_eq!(
            seen.len(),
            asked + 1,
            "asked until it is known, and then never again"
        );
        for asked in &seen[..asked] {
            assert_eq!(asked.line, "GET /apis/events.k8s.io/v1");
        }
        let body: serde_json::Value = serde_json::from_slice(&seen[asked].body).unwrap();
        assert_eq!(body["apiVersion"], api_version, "{}", seen[asked].line);
        assert_eq!(body["action"], "Restarting");
        assert_eq!(body["related"]["name"], "node-1");
    }
}

/// The server is asked until the deadline of the shutdown, and waiting events are reported as
/// pending.
#[tokio::test]
async fn a_group_that_is_never_known_keeps_no_shutdown() {
    let (gone, mut hung_up) = mpsc::unbounded_channel();
    let server = Server::start([Reply::Hang(gone)]).await;
    let broadcaster = Broadcaster::new();
    let options =
        SinkOptions::default().events_v1_if_served(tidings::advanced::SeriesOptions::default());
    broadcaster
        .start_recording_to_sink_with(server.sink(), options)
        .unwrap();
    let pod = Reference::new(ReferenceFields::default());
    let recorder = broadcaster.recorder(EventSource::component("c"));
    recorder.normal(&pod, "Started", "m");
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_eq!((report.offered, report.pending), (1, 1), "{report}");
    hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn a_sink_asks_what_it_may_and_says_which_rule_is_missing() {
    use tidings::{AccessError, EventApi};

    let review = |allowed| {
        let review = format!(
            r#"{{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{{}},"status":{{"allowed":{allowed}}}}}"#
        );
        answer(201, &review)
    };
    let server = Server::start([
        review(true),
        review(true),
        review(true),
        review(false),
        review(false),
        review(false),
        status(500, "InternalError"),
        answer(201, "{}"),
    ])
    .await;
    let sink = server.sink();
    sink.check_access(EventApi::Events, "").await.unwrap();
    let asked: serde_json::Value = serde_json::from_slice(&server.seen()[1].body).unwrap();
    assert_eq!(
        asked["spec"]["resourceAttributes"],
        serde_json::json!({"group": "events.k8s.io", "resource": "events", "verb": "patch", "namespace": ""})
    );

    let error = sink.check_access(EventApi::Core, "kube-system").await;
    let message = "may not patch events of the core API group in namespace \"kube-system\": bind its service account there to a Role \
                   with this rule:\n- apiGroups: [\"\"]\n  resources: [\"events\"]\n  verbs: [\"create\", \"patch\"]\n";
    assert_eq!(error.unwrap_err().to_string(), message);
    let of_one = sink.clone().namespace("mine");
    match of_one.check_access(EventApi::Events, "").await.unwrap_err() {
        AccessError::Denied {
            verbs, namespace, ..
        } => {
            assert_eq!(
                (verbs, namespace.as_str()),
                (vec!["create", "patch"], "mine")
            );
        }
        other => panic!("{other}"),
    }
    for _ in 0..2 {
        let error = sink.check_access(EventApi::Core, "").await.unwrap_err();
        assert!(matches!(error, AccessError::Unknown(_)), "{error}");
    }
}

/// The check is repeated until there is an answer, once for each namespace, and logged as one
/// error; recording does not wait for it.
#[tokio::test]
async fn permissions_are_asked_for_at_start_when_that_is_wanted() {
    let review = |allowed| answer(201, &format!(r#"{{"status":{{"allowed":{allowed}}}}}"#));
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_max_level(tracing::Level::ERROR)
        .with_ansi(false)
        .without_time()
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start([
        status(503, "ServiceUnavailable"),
        review(true),
        review(false),
        review(true),
        review(true),
        answer(201, "{}"),
    ])
    .await;
    let options = SinkOptions::default().delivery(
        DeliveryOptions::default()
            .retry(RetryPolicy::default().backoff(Backoff::Constant(Duration::ZERO))),
    );
    let broadcaster = Broadcaster::new();
    let sink = server.sink().check_access_at_start(["shop", "kube-system"]);
    broadcaster
        .start_recording_to_sink_with(sink, options)
        .unwrap();
    let ours = || {
        log.text()
            .find("ERROR tidings")
            .map(|at| log.text().split_off(at))
    };
    while ours().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        ours().unwrap().trim_end(),
        "ERROR tidings::questions: Unable to write events: may not patch events of the core API group in namespace \"shop\": \
         bind its service account there to a Role with this rule:\n- apiGroups: [\"\"]\n  resources: [\"events\"]\n  verbs: [\"create\", \"patch\"]"
    );
    let recorder = broadcaster.recorder(EventSource::component("c"));
    let pod = Reference::new(ReferenceFields::default());
    let written = recorder.record_and_wait(&pod, EventType::Normal, "Started", "m");
    assert!(written.await.unwrap().is_written());
    assert_eq!(server.seen().len(), 6, "asked once");

    // A server that never answers the check does not prevent writes.
    let (gone, mut hung_up) = mpsc::unbounded_channel();
    let server = Server::start([Reply::Hang(gone), answer(201, "{}")]).await;
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(server.sink().check_access_at_start([""]));
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    let recorder = broadcaster.recorder(EventSource::component("c"));
    let written = recorder.record_and_wait(&pod, EventType::Normal, "Started", "m");
    assert!(written.await.unwrap().is_written());
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    assert_eq!(report.delivered, 1, "{report}");
    hung_up.recv().await.unwrap();
}

/// If the choice is left to discovery, missing permissions for events.k8s.io/v1 are logged once,
/// and core/v1 is written.
#[tokio::test]
async fn what_keeps_from_events_v1_is_said_with_the_rule_to_add() {
    let review = |allowed| {
        let review = r#"{"kind":"SelfSubjectAccessReview","metadata":{},"status":"#;
        answer(201, &format!(r#"{review}{{"allowed":{allowed}}}}}"#))
    };
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .without_time()
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let resources = r#"{"groupVersion":"events.k8s.io/v1","resources":[{"name":"events","singularName":"event","namespaced":true,"kind":"Event","verbs":["create"]}]}"#;
    let mut replies = vec![answer(200, resources), review(false), review(false)];
    // The requests to core/v1, before and at the start, and the event.
    replies.extend((0..5).map(|_| review(true)));
    let server = Server::start(replies).await;
    let options =
        SinkOptions::default().events_v1_if_served(tidings::advanced::SeriesOptions::default());
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(server.sink().check_access_at_start([""]), options)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("c"));
    let pod = Reference::new(ReferenceFields::default());
    let written = recorder.record_and_wait(&pod, EventType::Normal, "Started", "m");
    assert!(written.await.unwrap().is_written());
    let lines = server.seen().into_iter().map(|request| request.line);
    let written: Vec<_> = lines.filter(|line| line.ends_with("/events")).collect();
    assert_eq!(written, ["POST /api/v1/namespaces/default/events"]);
    let text = log.text();
    let ours: Vec<_> = text.match_indices("tidings::questions: ").collect();
    assert_eq!(ours.len(), 1, "{text}");
    assert!(
        text.contains(
            "WARN tidings::questions: Writing core/v1 although events.k8s.io/v1 is served: may not create or patch events of events.k8s.io in \
             all namespaces: bind its service account to a ClusterRole with this rule:\n- apiGroups: [\"events.k8s.io\"]"
        ),
        "{text}"
    );
}

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// client-go sends its events.k8s.io/v1 events as protobuf. A server that does not support it costs
/// one more request, once.
#[tokio::test]
async fn protobuf_is_sent_where_it_is_taken() {
    let (first, second) = occurrences("default", "p");
    let refusal = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x09\x22\x07Invalid";
    let mut refused = b"HTTP/1.1 422 X\r\ncontent-length: 29\r\n\r\n".to_vec();
    refused.extend_from_slice(refusal);
    let server = Server::start([
        answer(201, "{}"),
        Reply::Bytes(refused),
        answer(200, "{}"),
        status(415, "UnsupportedMediaType"),
        answer(201, "{}"),
        answer(201, "{}"),
    ])
    .await;
    let sink = server.sink().protobuf(true);
    sink.create(&first).await.unwrap();
    match sink.create(&first).await.unwrap_err().kind {
        WriteErrorKind::Status(failure) => {
            assert_eq!((failure.code, &*failure.reason), (422, "Invalid"));
        }
        other => panic!("{other:?}"),
    }
    sink.patch(&second).await.unwrap();
    sink.clone().create(&first).await.unwrap();
    sink.create(&first).await.unwrap();

    let (json, protobuf) = ("application/json", "application/vnd.kubernetes.protobuf");
    let patch = "application/strategic-merge-patch+json";
    let both = "application/vnd.kubernetes.protobuf, application/json";
    let rows = [
        (protobuf, both, first.create_body_protobuf()),
        (protobuf, both, first.create_body_protobuf()),
        (patch, both, second.patch_body()),
        (protobuf, both, first.create_body_protobuf()),
        (json, json, first.create_body()),
        (json, json, first.create_body()),
    ];
    let seen = server.seen();
    assert_eq!(seen.len(), rows.len());
    for (seen, (content_type, accept, body)) in seen.iter().zip(rows) {
        assert_eq!(seen.header("content-type"), Some(content_type));
        assert_eq!(seen.header("accept"), Some(accept));
        assert_eq!(seen.body, body);
    }
}
