//! The store of the tests: in memory or, by an environment variable, on an etcd that ends with the
//! test.

use std::sync::Arc;

use tidings_store::Store;
use tidings_store::clock::ManualClock;
use tidings_store::memory::MemoryStore;

/// The environment variable that selects the store: `etcd`, otherwise memory.
pub(crate) const VARIABLE: &str = "TIDINGS_API_STORE";

pub(crate) fn is_etcd() -> bool {
    cfg!(feature = "etcd") && std::env::var_os(VARIABLE).is_some_and(|store| store == "etcd")
}

/// Whether a test may pause timers. With a store in another process it may not: paused timers would
/// not wait for it.
pub(crate) fn time_may_stop() -> bool {
    !is_etcd()
}

/// An empty store.
pub(crate) fn store(clock: &ManualClock) -> Arc<dyn Store> {
    #[cfg(feature = "etcd")]
    if is_etcd() {
        return on_etcd::store(clock);
    }
    Arc::new(MemoryStore::new(Arc::new(clock.clone()), 1000))
}

#[cfg(feature = "etcd")]
pub(crate) use on_etcd::patient;

#[cfg(feature = "etcd")]
mod on_etcd {
    use std::cell::RefCell;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use tidings_server::describe;
    use tidings_store::Store;
    use tidings_store::clock::ManualClock;
    use tidings_store::etcd::{EtcdOptions, EtcdStore};
    use tidings_testing::etcd::Cluster;
    use tokio::runtime::Runtime;

    thread_local! {
        /// The clusters of this thread's test; every test has its own thread.
        static CLUSTERS: RefCell<Vec<Cluster>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn store(clock: &ManualClock) -> Arc<dyn Store> {
        // The etcd has no peers, and may become the leader soon.
        let soon = ["--heartbeat-interval", "20", "--election-timeout", "200"];
        let cluster = Cluster::start(1, &soon).unwrap();
        let options = patient(&cluster);
        CLUSTERS.with_borrow_mut(|clusters| clusters.push(cluster));
        let clock = Arc::new(clock.clone());
        // The store's background tasks outlive calls, and a test cannot block on a runtime within
        // another.
        let open = || runtime().block_on(EtcdStore::open(options, clock, Arc::new(describe)));
        let store = std::thread::scope(|scope| scope.spawn(open).join()).unwrap();
        Arc::new(store.unwrap())
    }

    /// Options for a busy machine, on which an etcd may take long to answer.
    pub(crate) fn patient(cluster: &Cluster) -> EtcdOptions {
        let mut options = EtcdOptions::new(cluster.endpoints());
        options.connect_timeout = Duration::from_secs(30);
        options.attempt_timeout = Duration::from_secs(120);
        options.request_timeout = Duration::from_secs(120);
        options
    }

    fn runtime() -> &'static Runtime {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME.get_or_init(|| Runtime::new().unwrap())
    }
}
