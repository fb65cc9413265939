//! Requests of every kind, changed at random: bytes flipped, removed, doubled, or replaced by
//! special words.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use tidings_testing::requests::{self, CREATE, is_fair, parse, send};

const REQUESTS: u64 = 6_000;

/// The requests that are mutated, as HTTP/1 text without authorization.
const SEEDS: &[&str] = &[
    CREATE,
    "POST /apis/events.k8s.io/v1/namespaces/shop/events\ncontent-type: application/yaml\naccept: application/yaml\n\n\
     apiVersion: events.k8s.io/v1\nkind: Event\nmetadata: {name: web.y, namespace: shop}\neventTime: \"2026-03-04T05:06:07.000000Z\"\nreportingController: k.io/c\nreportingInstance: c-1\naction: Do\nreason: R\nregarding: {kind: Pod, namespace: shop, name: web}\nnote: |\n  hello\ntype: Normal\nseries: {count: 2, lastObservedTime: \"2026-03-04T05:06:07.000000Z\"}\n",
    "POST /api/v1/namespaces/shop/events?dryRun=All&pretty=true\ncontent-type: application/json\n\n{\"metadata\":{\"generateName\":\"web-\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\"}],\"finalizers\":[\"a/b\"]},\"involvedObject\":{\"namespace\":\"shop\"}}",
    "PUT /api/v1/namespaces/shop/events/web.1?fieldManager=m\ncontent-type: application/json\n\n{\"metadata\":{\"name\":\"web.1\",\"resourceVersion\":\"1\"},\"involvedObject\":{\"namespace\":\"shop\"},\"count\":7}",
    "PATCH /api/v1/namespaces/shop/events/web.1\ncontent-type: application/strategic-merge-patch+json\n\n{\"count\":2,\"metadata\":{\"ownerReferences\":[{\"$patch\":\"delete\",\"uid\":\"u\"}],\"$setElementOrder/finalizers\":[\"a/b\"],\"$deleteFromPrimitiveList/finalizers\":[\"a/b\"]},\"series\":{\"$retainKeys\":[\"count\"],\"count\":2}}",
    "PATCH /api/v1/namespaces/shop/events/web.1\ncontent-type: application/merge-patch+json\n\n{\"message\":null,\"series\":{\"count\":3,\"lastObservedTime\":\"2026-03-04T05:06:07.000000Z\"}}",
    "PATCH /apis/events.k8s.io/v1/namespaces/shop/events/web.1\ncontent-type: application/json-patch+json\n\n[{\"op\":\"add\",\"path\":\"/metadata/labels/x~1y\",\"value\":\"z\"},{\"op\":\"copy\",\"from\":\"/reason\",\"path\":\"/note\"},{\"op\":\"test\",\"path\":\"/type\",\"value\":\"Warning\"},{\"op\":\"move\",\"from\":\"/note\",\"path\":\"/action\"},{\"op\":\"remove\",\"path\":\"/metadata/annotations\"}]",
    "PATCH /api/v1/namespaces/shop/events/web.3?fieldManager=m&force=true\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: Event\nmetadata: {name: web.3, namespace: shop, labels: {a: b}}\ninvolvedObject: {kind: Pod, namespace: shop, name: web}\nreason: R\n",
    "GET /api/v1/namespaces/shop/events?limit=1&fieldSelector=involvedObject.kind%3DPod,type!%3DNormal,reason%3D%3DBackOff&labelSelector=a%20in%20(b,c),!d,e%20notin%20(f)\naccept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.9\n\n",
    "GET /api/v1/events?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJzaG9wL3dlYi4xXHUwMDAwIn0\naccept: application/vnd.kubernetes.protobuf\n\n",
    "GET /apis/events.k8s.io/v1/events?resourceVersion=1&resourceVersionMatch=Exact&limit=3\naccept: application/yaml\n\n",
    "GET /api/v1/events?watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\naccept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io\n\n",
    "GET /api/v1/watch/namespaces/shop/events/web.1?timeoutSeconds=1&includeObject=Object\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n",
    "GET /api/v1/namespaces/shop/events/web.2?resourceVersion=1&includeObject=None\nuser-agent: curl/8\naccept: */*\naccept-encoding: gzip\n\n",
    "DELETE /api/v1/namespaces/shop/events/web.2\ncontent-type: application/json\n\n{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Background\",\"preconditions\":{\"uid\":\"u\",\"resourceVersion\":\"2\"},\"dryRun\":[\"All\"]}",
    "DELETE /api/v1/namespaces/shop/events?labelSelector=a%3Db&limit=1\n\n",
    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews\ncontent-type: application/json\n\n{\"spec\":{\"resourceAttributes\":{\"verb\":\"list\",\"resource\":\"events\",\"namespace\":\"shop\"}}}",
    "POST /apis/authentication.k8s.io/v1/selfsubjectreviews\ncontent-type: application/yaml\n\nkind: SelfSubjectReview\n",
    "GET /apis\naccept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\nif-none-match: \"x\"\n\n",
    "GET /openapi/v3/api/v1?hash=x\naccept: application/json\n\n",
    "GET /readyz?verbose&exclude=store\n\n",
    "GET /api/v1/namespaces/shop?timeout=8s\n\n",
];

/// Words with a meaning to some parser.
const WORDS: &[&[u8]] = &[
    b"null",
    b"-1",
    b"0",
    b"9223372036854775808",
    b"1e999",
    b"\"\"",
    b"{}",
    b"[]",
    b"\\ud800",
    b"\xff\xfe",
    b"\x00",
    b"%00",
    b"%2f",
    b"%",
    b"..",
    b"/",
    b"~0",
    b"~2",
    b"&",
    b"*",
    b"!!binary ",
    b"&a [*a]",
    b"k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Event",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"metadata",
    b"$patch",
    b"$retainKeys",
    b"$setElementOrder/",
    b"continue=",
    b"resourceVersion=",
    b"limit=-1",
    b"watch=1",
    b"&timeout=0s",
    b"timeoutSeconds=99999999999",
    b"fieldSelector=",
    b"labelSelector=",
    b" in (",
    b"!",
    b"\\,",
    b"application/vnd.kubernetes.protobuf",
    b"application/cbor",
    b"text/html",
    b";as=Table",
    b";q=2",
    b",",
    b"2026-13-45T99:99:99Z",
    b"0000-01-01T00:00:00Z",
    b"\r",
    b"\xe2\x80\xae",
];

#[tokio::test(start_paused = true)]
async fn mutated_requests_are_answered_and_the_client_is_blamed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let requests = number("TIDINGS_HOSTILE_REQUESTS").unwrap_or(REQUESTS);
    let first = number("TIDINGS_HOSTILE_SEED").unwrap_or(0);
    let mut api = requests::server().await;
    let mut answered = 0;
    for seed in first..first + requests {
        if seed % 500 == 0 {
            // Events written by chance must not slow down later requests.
            api = requests::server().await;
        }
        let text = mutate(seed);
        let Some(request) = parse(&text) else {
            continue;
        };
        let answer = AssertUnwindSafe(send(&api, request)).catch_unwind().await;
        let shown = String::from_utf8_lossy(&text);
        let (status, body) = answer.unwrap_or_else(|_| panic!("seed {seed} panics:\n{shown}"));
        assert!(
            is_fair(status, &body),
            "seed {seed} is answered {status} {}:\n{shown}",
            String::from_utf8_lossy(&body)
        );
        answered += 1;
    }
    assert!(
        answered > requests / 3,
        "only {answered} of {requests} were requests"
    );
}

#[tokio::test(start_paused = true)]
async fn unchanged_requests_are_what_they_seem() {
    for seed in SEEDS {
        let api = requests::server().await;
        let (status, body) = send(&api, parse(seed.as_bytes()).unwrap()).await;
        // Mutations of a request that fails at once would test little.
        assert_ne!(status, 400, "{seed}: {}", String::from_utf8_lossy(&body));
        assert!(is_fair(status, &body), "{seed}: {status}");
    }
}

fn mutate(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = SEEDS[random.usize(..SEEDS.len())].as_bytes().to_vec();
    for _ in 0..random.usize(1..6) {
        let (from, to) = stretch(&mut random, text.len());
        match random.u8(..7) {
            0 => drop(text.drain(from..to)),
            1 => {
                let again = text[from..to].to_vec();
                text.splice(to..to, again);
            }
            2 => {
                if let Some(byte) = text.get_mut(from) {
                    *byte ^= 1 << random.u8(..8);
                }
            }
            3 => drop(text.splice(from..from, random.choice(WORDS).unwrap().iter().copied())),
            4 => drop(text.splice(from..to, random.choice(WORDS).unwrap().iter().copied())),
            5 => {
                let other = SEEDS[random.usize(..SEEDS.len())].as_bytes();
                let (start, end) = stretch(&mut random, other.len());
                text.splice(from..to, other[start..end].iter().copied());
            }
            _ => {
                // The head of one request with the body of another.
                let other = SEEDS[random.usize(..SEEDS.len())];
                if let (Some((head, _)), Some(at)) = (
                    other.split_once("\n\n"),
                    text.windows(2).position(|pair| pair == b"\n\n"),
                ) {
                    text.splice(..at, head.bytes());
                }
            }
        }
    }
    text
}

/// A random range of a text, mostly a short one.
fn stretch(random: &mut fastrand::Rng, length: usize) -> (usize, usize) {
    let from = random.usize(..=length);
    let longest = 1 << random.u8(..8);
    (from, (from + random.usize(..=longest)).min(length))
}
