//! The cost of every request is proportional to its size, and error answers are bounded. Each case
//! is sent in two sizes through the real router, the second four times the first. Both are compared
//! by allocated bytes, processor time, and the length of the answer.
//!
//! One test measures at a time, because allocator and processor time are those of the whole
//! process.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod cases;

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request};
use tidings_server::{ApiOptions, ApiServer, Authenticator, Authorizer, Token, User, router};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::memory::MemoryStore;
use tidings_testing::allocations::{self, COUNTING, Counting};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: Counting = COUNTING;

/// Maximum bytes of an error answer.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Maximum growth of the cost; quadratic cost would grow sixteenfold.
const GROWTH_MAX: u64 = 8;
/// Costs below this are ignored: a server and its tables take as much.
const NOISE_BYTES: u64 = 1024 * 1024;
const NOISE_NANOS: u64 = 20_000_000;

/// One request.
pub(crate) struct Sent {
    method: Method,
    uri: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Sent {
    pub(crate) fn new(method: Method, uri: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            method,
            uri: uri.into(),
            headers: vec![("authorization", "Bearer s3cret".into())],
            body: body.into(),
        }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(given, _)| *given != name);
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub(crate) fn without_credentials(mut self) -> Self {
        self.headers.clear();
        self
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.uri);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }
}

/// The cost of a request.
#[derive(Debug)]
struct Cost {
    code: u16,
    bytes: u64,
    nanos: Option<u64>,
    answer: Vec<u8>,
}

fn server() -> Arc<ApiServer> {
    let clock = ManualClock::at(UnixMillis(1_772_600_767_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone()), 1000));
    let token = Token {
        token: "s3cret".into(),
        user: User::new("ann", "7", ["dev".to_owned()]),
    };
    let options = ApiOptions::default();
    let server = ApiServer::new(
        store,
        Arc::new(Arc::new(clock)),
        Authenticator::new(vec![token]),
        options,
    );
    Arc::new(server.with_authorizer(Authorizer::always_allow()))
}

/// Processor time of all threads so far, if the system reports it: long bodies are handled on other
/// threads.
fn processor_nanos() -> Option<u64> {
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        told.split_whitespace().next()?.parse::<u64>().ok()
    };
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    threads.map(of_thread).sum()
}

/// Sends all requests to a new server; the last one is measured.
fn cost(requests: &[Sent]) -> Cost {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let api = server();
        let (last, before) = requests.split_last().unwrap();
        for sent in before {
            let answer = router(Arc::clone(&api)).oneshot(sent.request()).await;
            let code = answer.unwrap().status();
            assert!(code.is_success(), "{} {}: {code}", sent.method, sent.uri);
        }
        let request = last.request();
        let router = router(Arc::clone(&api));
        let region = allocations::region();
        let begun = processor_nanos();
        let answer = router.oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        let nanos = begun
            .zip(processor_nanos())
            .map(|(begun, ended)| ended - begun);
        Cost {
            code,
            bytes: region.change().bytes_allocated as u64,
            nanos,
            answer: body.unwrap().to_vec(),
        }
    })
}

#[test]
fn four_times_the_input_costs_four_times_as_much() {
    let only = std::env::var("TIDINGS_INPUT").ok();
    let mut failures = Vec::new();
    for (name, size, codes, requests) in cases::ALL {
        if only.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        // A first run builds tables that are made only once.
        cost(&requests(8));
        let small = cost(&requests(*size));
        let large = cost(&requests(4 * size));
        let said = |cost: &Cost| {
            format!(
                "{} in {:?} ns with {} bytes, {} of them sent: {}",
                cost.code,
                cost.nanos,
                cost.bytes,
                cost.answer.len(),
                String::from_utf8_lossy(cost.answer.get(..200).unwrap_or(&cost.answer))
            )
        };
        println!("{name}\n  {}\n  {}", said(&small), said(&large));
        if ![small.code, large.code]
            .iter()
            .all(|code| codes.contains(code))
        {
            failures.push(format!(
                "{name}: answered {} and {}",
                small.code, large.code
            ));
        }
        if large.bytes > GROWTH_MAX * small.bytes.max(NOISE_BYTES) {
            failures.push(format!(
                "{name}: {} bytes, then {}",
                small.bytes, large.bytes
            ));
        }
        let grew = |(small, large): (u64, u64)| large > GROWTH_MAX * small.max(NOISE_NANOS);
        if small.nanos.zip(large.nanos).is_some_and(grew) {
            failures.push(format!(
                "{name}: {:?} ns, then {:?}",
                small.nanos, large.nanos
            ));
        }
        for cost in [&small, &large] {
            if cost.code >= 400 && cost.answer.len() > REFUSAL_BYTES_MAX {
                failures.push(format!("{name}: an answer of {} bytes", cost.answer.len()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
