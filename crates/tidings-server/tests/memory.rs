//! The memory of an answer while it is made and sent is bounded by a few pages of the store,
//! whatever is requested.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use http::{Method, Request};
use k8s_pb::api::core::v1::{Event, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use prost::Message;
use serde_json::Value;
use tidings_server::{
    ApiOptions, ApiServer, Authenticator, Authorizer, Token, User, router, timeline,
};
use tidings_store::clock::ManualClock;
use tidings_store::memory::MemoryStore;
use tidings_store::{
    BoxFuture, Counts, CountsRequest, Deleted, ListRequest, NewRecord, NewestRequest,
    PAGE_BYTES_MAX, Page, ReadError, Record, Revision, Stats, Store, UnixMillis, Watch, WatchError,
    WriteError,
};
use tidings_testing::allocations::{COUNTING, Counting, Peak};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: Counting = COUNTING;

const START: i64 = 1_772_600_767_000;
const EVENTS: usize = 64;
const EVENT_LEN: usize = 1 << 20;
/// Two stored pages, one of events that are being deleted, the sent bytes, and some slack.
const CEILING: usize = 5 * (PAGE_BYTES_MAX + EVENT_LEN);

/// Watchers that do not read.
const WATCHERS: usize = 16;
/// Concurrent views, searches and exports.
const AT_ONCE: usize = 24;
/// Users, each of whom may hold only a part of the budget; each name is also the user's token.
const USERS: [&str; 3] = ["bob", "eve", "joe"];
/// Maximum memory of all concurrent requests, with the test's own buffers.
const ALL_AT_ONCE_MAX: usize = 144 << 20;
/// Changes of events at once, and what they may hold together.
const CHANGES: usize = 150;
const CHANGES_MAX: usize = 64 << 20;
/// What answers to one user may hold together, of those that are usually small.
const SMALL_OF_USER: usize = 18 << 20;
/// What the page of metrics holds while it is made.
const METRICS: usize = 512 << 10;

/// A store that returns copies of its records, like one on disk, counts them, and measures the
/// memory in use at each request.
struct Copying {
    store: MemoryStore,
    held: Arc<Peak>,
    copies: Arc<AtomicUsize>,
}

impl Copying {
    fn copy(&self, record: &Record) -> Record {
        let copy = Record {
            value: Bytes::copy_from_slice(&record.value),
            ..record.clone()
        };
        self.held.look();
        self.copies.fetch_add(1, Ordering::Relaxed);
        copy
    }

    fn copies(&self, mut page: Page) -> Page {
        page.records = page.records.iter().map(|it| self.copy(it)).collect();
        page
    }
}

impl Store for Copying {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store.create(key, record)
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store.update(key, record, expected)
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        self.held.look();
        self.store.delete(key, expected)
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            let record = self.store.get(key).await?;
            Ok(record.map(|record| self.copy(&record)))
        })
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { Ok(self.copies(self.store.list(request).await?)) })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        self.store.counts(request)
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { Ok(self.copies(self.store.newest(request).await?)) })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        self.store.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.compact(revision)
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        self.store.expire()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        self.store.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}

fn stored(name: &str) -> Vec<u8> {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectMeta::default()
        }),
        involved_object: Some(ObjectReference {
            namespace: Some("shop".to_owned()),
            ..ObjectReference::default()
        }),
        last_timestamp: Some(Time {
            seconds: Some(START / 1000),
            nanos: None,
        }),
        message: Some("x".repeat(EVENT_LEN)),
        ..Event::default()
    };
    // An `Unknown`: its type, and the event.
    let event = event.encode_to_vec();
    let mut value = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12".to_vec();
    prost::encode_length_delimiter(event.len(), &mut value).unwrap();
    value.extend(event);
    value.extend(b"\x1a\0\"\0");
    value
}

/// A server with many large events, the memory held from now on, and the number of events read.
async fn server() -> (Arc<ApiServer>, Arc<Peak>, Arc<AtomicUsize>) {
    let clock = ManualClock::at(UnixMillis(START));
    let store = MemoryStore::new(Arc::new(clock.clone()), 1000);
    for number in 0..EVENTS {
        let name = format!("e{number:03}");
        let mut record = NewRecord::new(stored(&name));
        record.index.last_seen = UnixMillis(START);
        store
            .create(format!("shop/{name}").into(), record)
            .await
            .unwrap();
    }
    let held = Arc::new(Peak::default());
    let copies = Arc::new(AtomicUsize::new(0));
    let store = Copying {
        store,
        held: Arc::clone(&held),
        copies: Arc::clone(&copies),
    };
    let mut options = ApiOptions::default();
    options.request_wait_limit = Duration::from_secs(1);
    let token = |token: &str, user: &str| Token {
        token: token.into(),
        user: User::new(user, "", []),
    };
    let mut tokens: Vec<_> = USERS.iter().map(|user| token(user, user)).collect();
    tokens.push(token("s3cret", "ann"));
    let server = ApiServer::new(
        Arc::new(store),
        Arc::new(Arc::new(clock)),
        Authenticator::new(tokens),
        options,
    )
    .with_authorizer(Authorizer::always_allow());
    (Arc::new(server), held, copies)
}

async fn answer(
    server: &Arc<ApiServer>,
    method: &Method,
    path: &str,
    accept: &str,
) -> BodyDataStream {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer s3cret")
        .header("accept", accept);
    let request = request.body(Body::empty()).unwrap();
    let answer = router(Arc::clone(server)).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200, "{method} {path}");
    answer.into_body().into_data_stream()
}

/// The maximum memory in use while an answer is read, and the answer's length.
async fn most_held(method: &Method, path: &str, accept: &str) -> (usize, usize) {
    let (server, held, _) = server().await;
    let mut chunks = answer(&server, method, path, accept).await;
    let mut len = 0;
    while let Some(chunk) = chunks.next().await {
        held.look();
        len += chunk.unwrap().len();
    }
    (held.bytes(), len)
}

/// One test, because it measures the memory of the whole process.
#[tokio::test]
async fn an_answer_takes_a_few_pages_however_long_it_is() {
    const SHOP: &str = "/api/v1/namespaces/shop/events";
    const JSON: &str = "application/json";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let newest = &format!("{SHOP}?order=newest&limit=500");
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let whole_rows = &format!("{newest}&includeObject=Object");
    for (method, path, accept) in [
        (Method::GET, SHOP, JSON),
        (Method::GET, newest, JSON),
        (Method::GET, newest, PROTOBUF),
        (Method::GET, whole_rows, table),
        (Method::DELETE, SHOP, JSON),
        (Method::DELETE, SHOP, PROTOBUF),
        (Method::DELETE, &format!("{SHOP}?limit=60"), JSON),
        (Method::DELETE, &format!("{SHOP}?dryRun=All"), JSON),
    ] {
        let (most, len) = most_held(&method, path, accept).await;
        assert!(
            len > 59 * EVENT_LEN,
            "{method} {path} {accept}: {len} bytes"
        );
        assert!(
            most < CEILING,
            "{method} {path} {accept}: {most} bytes held, {CEILING} expected at most"
        );
    }

    // Watchers that read no further than the first existing events.
    let (server, held, _) = server().await;
    let mut unread = Vec::new();
    for _ in 0..WATCHERS {
        let mut watch = answer(&server, &Method::GET, &format!("{SHOP}?watch=1"), JSON).await;
        let first = watch.next().await.unwrap().unwrap();
        unread.push((watch, first));
        held.look();
    }
    let most = held.bytes();
    assert!(
        most < CEILING + WATCHERS * 2 * EVENT_LEN,
        "{most} bytes held by watchers"
    );
    // No event is skipped at the end of a page.
    let mut told = Vec::new();
    let (mut watch, first) = unread.remove(0);
    told.extend(names(&first));
    while told.len() < EVENTS {
        told.extend(names(&watch.next().await.unwrap().unwrap()));
    }
    let expected = (0..EVENTS).map(|number| format!("e{number:03}"));
    assert_eq!(told, expected.collect::<Vec<_>>());

    a_picture_of_large_events_reads_each_about_once().await;
    what_is_asked_at_once_holds_no_more_than_the_budget().await;
    changes_at_once_hold_no_more_than_the_budget().await;
    pages_of_metrics_that_nobody_reads_have_a_bound().await;
}

/// Their requests are short, but each decodes, changes, encodes and answers an event of a megabyte.
async fn changes_at_once_hold_no_more_than_the_budget() {
    let (server, held, _) = server().await;
    let requests = (0..CHANGES).map(|number| {
        let path = format!("/api/v1/namespaces/shop/events/e{:03}", number % EVENTS);
        let user = USERS[number % USERS.len()];
        let request = Request::patch(path)
            .header("authorization", format!("Bearer {user}"))
            .header("content-type", "application/merge-patch+json");
        let request = request.body(Body::from(format!("{{\"count\":{number}}}")));
        router(Arc::clone(&server)).oneshot(request.unwrap())
    });
    let answers = join_all(requests).await;
    held.look();
    let (mut served, mut refused) = (0, 0);
    for answer in &answers {
        match answer.as_ref().unwrap().status().as_u16() {
            200 => served += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    let most = held.bytes();
    assert!(served > 0 && refused > 0, "{served} served");
    assert!(most < CHANGES_MAX, "{most} bytes held by {served} changes");
    // A small one is answered meanwhile.
    let one = "/api/v1/namespaces/shop/events?limit=1";
    drop(answer(&server, &Method::GET, one, "application/json").await);
}

async fn pages_of_metrics_that_nobody_reads_have_a_bound() {
    let (server, _, _) = server().await;
    let (mut unread, mut len) = (Vec::new(), 0);
    let last = loop {
        let request = Request::get("/metrics").header("authorization", "Bearer bob");
        let request = request.body(Body::empty()).unwrap();
        let answer = router(Arc::clone(&server)).oneshot(request).await.unwrap();
        if answer.status() != 200 || len > SMALL_OF_USER {
            break answer.status();
        }
        len += usize::try_from(answer.body().size_hint().lower()).unwrap();
        unread.push(answer);
    };
    assert_eq!(last, 429, "{} pages, {len} bytes", unread.len());
    // That of somebody else is made.
    drop(answer(&server, &Method::GET, "/metrics", "text/plain").await);
}

/// Each request alone reads all events. Requests that get no memory in time are told to retry.
async fn what_is_asked_at_once_holds_no_more_than_the_budget() {
    let (server, held, _) = server().await;
    let paths = ["view", "events?limit=500", "export", "view?filter=x", "top"];
    let requests = (0..AT_ONCE).map(|number| {
        let path = format!("/timeline/api/{}", paths[number % paths.len()]);
        let user = USERS[number / paths.len() % USERS.len()];
        let request = Request::get(path).header("authorization", format!("Bearer {user}"));
        timeline(Arc::clone(&server)).oneshot(request.body(Body::empty()).unwrap())
    });
    let mut served = 0;
    let mut unread = Vec::new();
    for answer in join_all(requests).await {
        let answer = answer.unwrap();
        if answer.status() == 429 {
            assert_eq!(answer.headers()["retry-after"], "1");
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            let status: Value = serde_json::from_slice(&body.unwrap()).unwrap();
            assert_eq!(status["reason"], "TooManyRequests");
            assert_eq!(status["details"]["retryAfterSeconds"], 1);
            continue;
        }
        assert_eq!(answer.status(), 200);
        served += 1;
        // Half of the clients do not read.
        if served % 2 == 0 {
            unread.push(answer);
        } else {
            let mut chunks = answer.into_body().into_data_stream();
            while let Some(chunk) = chunks.next().await {
                held.look();
                chunk.unwrap();
            }
        }
        held.look();
    }
    assert!(served > AT_ONCE / 4, "{served} served");
    let most = held.bytes();
    assert!(
        most < ALL_AT_ONCE_MAX,
        "{most} bytes held by requests at once"
    );
    // Small requests are answered meanwhile, and the memory is released with the answers.
    let one = "/api/v1/namespaces/shop/events?limit=1";
    let mut chunks = answer(&server, &Method::GET, one, "application/json").await;
    while let Some(chunk) = chunks.next().await {
        chunk.unwrap();
    }
    drop((unread, chunks));
    // The task that makes an answer notices that its reader is gone, and ends.
    let free = async {
        while !holds_nothing(&server).await {
            tokio::task::yield_now().await;
        }
    };
    let is_free = tokio::time::timeout(Duration::from_secs(60), free).await;
    assert!(is_free.is_ok(), "memory of dropped answers is held");
}

/// Whether no answer but that of the metrics holds memory, by the metrics.
async fn holds_nothing(server: &Arc<ApiServer>) -> bool {
    let mut metrics = answer(server, &Method::GET, "/metrics", "text/plain").await;
    let mut text = Vec::new();
    while let Some(chunk) = metrics.next().await {
        text.extend(chunk.unwrap());
    }
    let text = String::from_utf8(text).unwrap();
    let pools = [
        ("small", METRICS),
        ("large", 0),
        ("views", 0),
        ("streams", 0),
    ];
    pools.iter().all(|(pool, bytes)| {
        text.contains(&format!(
            "tidings_answer_memory_held_bytes{{pool=\"{pool}\"}} {bytes}\n"
        ))
    })
}

/// If a requested page is larger than the store's page, it is read twice; that happens only for the
/// first page.
async fn a_picture_of_large_events_reads_each_about_once() {
    let (server, _, copies) = server().await;
    let request = Request::get("/timeline/api/view").header("authorization", "Bearer s3cret");
    let request = request.body(Body::empty()).unwrap();
    let answer = timeline(server).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    let view: Value = serde_json::from_slice(&body.unwrap()).unwrap();
    assert_eq!(view["lanes"][0]["events"], EVENTS, "{view}");
    let copies = copies.load(Ordering::Relaxed);
    assert!(copies < EVENTS * 5 / 4, "{copies} of {EVENTS}");
}

/// The names of the added events in a chunk of a watch.
fn names(chunk: &[u8]) -> Vec<String> {
    let lines = chunk
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let name = |line| {
        let added: Value = serde_json::from_slice(line).unwrap();
        added["object"]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    lines.map(name).collect()
}
