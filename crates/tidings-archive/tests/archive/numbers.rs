//! Two archives of one cluster, as the API server serves them: each refuses resourceVersions of the
//! other, so that the client lists again.

use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt;
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use serde_json::Value;
use tidings_archive::Cluster;
use tidings_server::clock::SystemClock;
use tidings_server::{ApiOptions, ApiServer, Authenticator, Token, User, router};

use crate::support::{Source, names, open, until};

const EVENTS: &str = "/api/v1/namespaces/shop/events";
/// The query of a watch that begins with the existing events.
const INITIAL: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// A client of an archive.
fn reader(archive: &Cluster) -> Client {
    let tokens = vec![Token {
        token: "t".into(),
        user: User::new("reader", "", ["system:masters".to_owned()]),
    }];
    let server = ApiServer::new(
        archive.store(),
        Arc::new(SystemClock),
        Authenticator::new(tokens),
        ApiOptions::default(),
    );
    Client::new(router(Arc::new(server)), "shop")
}

fn request(uri: &str) -> Request<Vec<u8>> {
    let request = Request::get(uri).header("authorization", "Bearer t");
    request.body(Vec::new()).unwrap()
}

/// The body of an answer, or the status code of a refusal.
async fn answer(client: &Client, uri: &str) -> Result<Value, u16> {
    match client.request::<Value>(request(uri)).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{uri}: {error}"),
    }
}

/// The name of the first event of a watch, or the code with which it ends.
async fn watched(client: &Client, query: &str) -> Result<String, u16> {
    let uri = format!("{EVENTS}?watch=true&timeoutSeconds=60&{query}");
    let events = client.request_events::<Value>(request(&uri)).await;
    let mut events = pin!(events.unwrap());
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
            Ok(event["metadata"]["name"].as_str().unwrap().to_owned())
        }
        Some(WatchEvent::Error(status)) => Err(status.code),
        other => panic!("{uri}: {other:?}"),
    }
}

/// A field of a list's metadata.
fn told(list: &Value, name: &str) -> String {
    list["metadata"][name].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_archive_of_the_cluster_has_numbered_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&folder.path().join("source"), 0).await;
    let one = open(&folder.path().join("one"), &source).await;
    for name in ["a", "b", "c"] {
        source.create(name).await;
        // Events are written one by one, so that this archive has higher revisions than the other.
        let store = one.store();
        let key = format!("shop/{name}");
        until(async || store.get(key.clone().into()).await.unwrap()).await;
    }
    let other = open(&folder.path().join("other"), &source).await;
    until(async || (names(&*other.store()).await.len() == 3).then_some(())).await;

    let readers = [reader(&one), reader(&other)];
    let mut versions = Vec::new();
    for (mine, others) in [(0, 1), (1, 0)] {
        let [mine, others] = [&readers[mine], &readers[others]];
        let list = answer(mine, &format!("{EVENTS}?limit=1")).await.unwrap();
        let (version, token) = (told(&list, "resourceVersion"), told(&list, "continue"));
        let newest = format!("{EVENTS}?order=newest&limit=1");
        let next = told(&answer(mine, &newest).await.unwrap(), "continue");
        for uri in [
            format!("{EVENTS}?resourceVersion={version}"),
            format!("{EVENTS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
            format!("{EVENTS}?resourceVersion={version}&resourceVersionMatch=Exact"),
            format!("{EVENTS}?resourceVersion={version}&limit=2"),
            format!("{EVENTS}?limit=1&continue={token}"),
            format!("{newest}&continue={next}"),
            format!("{EVENTS}/a?resourceVersion={version}"),
        ] {
            assert!(answer(mine, &uri).await.is_ok(), "{uri}");
            assert_eq!(answer(others, &uri).await, Err(410), "{uri}");
        }
        for query in ["", INITIAL] {
            let query = format!("resourceVersion={version}&{query}");
            assert_eq!(watched(others, &query).await, Err(410), "{query}");
        }
        // Requests without a resourceVersion of a store get the same answer from all.
        for query in ["", "resourceVersion=0", "resourceVersion=1"] {
            assert!(answer(mine, &format!("{EVENTS}?{query}")).await.is_ok());
            assert_eq!(watched(mine, query).await.as_deref(), Ok("a"), "{query}");
        }
        versions.push(version);
    }

    // A watch can be resumed at its own archive, also after a restart.
    source.create("d").await;
    for (reader, version) in readers.iter().zip(&versions) {
        let query = format!("resourceVersion={version}");
        assert_eq!(watched(reader, &query).await.as_deref(), Ok("d"));
    }
    one.close().await;
    let one = open(&folder.path().join("one"), &source).await;
    let query = format!("resourceVersion={}", versions[0]);
    let again = watched(&reader(&one), &query).await;
    assert_eq!(again.as_deref(), Ok("d"));
    one.close().await;
    other.close().await;
    source.server.shutdown().await;
}
