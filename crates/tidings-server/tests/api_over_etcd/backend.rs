//! The store the tests run over: one on an etcd that ends with the test.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use tidings_server::describe;
use tidings_store::Store;
use tidings_store::clock::ManualClock;
use tidings_store::etcd::{EtcdOptions, EtcdStore};
use tidings_store::memory::MemoryStore;
use tokio::runtime::Runtime;

use crate::process::Cluster;

/// Timers of a test that run ahead by themselves would not wait for another process.
pub(crate) const TIME_MAY_STOP: bool = false;

thread_local! {
    /// Every test has a thread.
    static CLUSTERS: RefCell<Vec<Cluster>> = const { RefCell::new(Vec::new()) };
}

/// A store that was never written to.
pub(crate) fn store(clock: &ManualClock) -> Arc<dyn Store> {
    // It has no peers, and may become the leader soon.
    let soon = ["--heartbeat-interval", "20", "--election-timeout", "200"];
    let Some(cluster) = Cluster::start(1, &soon) else {
        return Arc::new(MemoryStore::new(Arc::new(clock.clone()), 1000));
    };
    let endpoints = cluster.endpoints();
    CLUSTERS.with_borrow_mut(|clusters| clusters.push(cluster));
    let clock = Arc::new(clock.clone());
    // What a store does by itself outlives the calls to it, and a test cannot wait for one runtime
    // within another.
    let open = || {
        runtime().block_on(EtcdStore::open(
            EtcdOptions::new(endpoints),
            clock,
            Arc::new(describe),
        ))
    };
    let store = std::thread::scope(|scope| scope.spawn(open).join()).unwrap();
    Arc::new(store.unwrap())
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}
