//! An etcd that fails. Without one on the PATH (or in `ETCD`) the tests report that and pass.

use std::sync::Arc;
use std::time::Duration;

use tidings_server::{ApiOptions, describe};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::etcd::{EtcdOptions, EtcdStore};
use tidings_testing::etcd::Cluster;

use crate::backend::patient;
use crate::support::{START, Server, event};

const SHOP: &str = "/api/v1/namespaces/shop/events";

/// A server that waits for its etcd no longer than `request_timeout`.
async fn server(cluster: &Cluster, request_timeout: Duration) -> Server {
    let clock = ManualClock::at(UnixMillis(START));
    // The first use of a new etcd may take longer.
    let open = EtcdStore::open(
        patient(cluster),
        Arc::new(clock.clone()),
        Arc::new(describe),
    );
    drop(open.await.unwrap());
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.request_timeout = request_timeout;
    let store = EtcdStore::open(options, Arc::new(clock.clone()), Arc::new(describe))
        .await
        .unwrap();
    Server::over(Arc::new(store), clock, ApiOptions::default())
}

/// If an etcd accepts a write without answering, the outcome is unknown; if it is down, the write
/// was not done.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_outcome_is_open_is_told_from_one_that_was_not_done() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let server = server(&cluster, Duration::from_secs(1)).await;
    server.create("shop", "web.1").await;
    cluster.members[0].signal("STOP");
    let answer = server.post(SHOP, &event("shop", "web.2")).await;
    cluster.members[0].signal("CONT");
    let status = answer.expect(504);
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(answer.header("retry-after"), "");

    cluster.members[0].kill();
    // The first write may have been in transit when the connection broke.
    let first = server.post(SHOP, &event("shop", "web.3")).await;
    assert!(matches!(first.code.as_u16(), 500 | 504), "{}", first.text());
    let status = server.post(SHOP, &event("shop", "web.4")).await.expect(500);
    assert_eq!(status["status"], "Failure");
}
