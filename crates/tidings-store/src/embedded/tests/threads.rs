//! Tests of the threads of a store.

use std::collections::BTreeSet;

use tracing::span::Id;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::*;

/// A tracing layer that records which threads enter a span.
#[derive(Clone, Default)]
struct Within(Arc<Mutex<BTreeSet<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Within {
    fn on_enter(&self, _: &Id, _: Context<'_, S>) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default().to_owned();
        self.0.lock().insert(name);
    }
}

/// An archive has a store for each cluster, and each of these threads may log.
#[tokio::test]
async fn all_threads_log_in_the_span_in_which_the_store_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let within = Within::default();
    let logging = tracing_subscriber::registry().with(within.clone());
    let open = || EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let store =
        tracing::subscriber::with_default(logging, || tracing::error_span!("store").in_scope(open));
    // After closing, each thread has begun and ended.
    store.close().await;
    let within = within.0.lock();
    let names = within.iter();
    let threads = names.filter_map(|name| name.strip_prefix("tidings-"));
    let threads: Vec<_> = threads.collect();
    assert_eq!(threads, ["index", "merge", "store", "train"]);
}
