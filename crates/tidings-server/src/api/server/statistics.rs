//! The store's statistics, which are requested at most once a second.

use std::time::{Duration, Instant};

use tidings_store::{Stats, Store};
use tokio::sync::Mutex;

use crate::clock;

/// Time for which statistics are reused.
const FRESH: Duration = Duration::from_secs(1);

/// The latest statistics. Health checks are open to all clients, and counting has a cost.
#[derive(Debug, Default)]
pub(crate) struct ObservedStore(Mutex<Option<(Instant, Result<Stats, String>)>>);

impl ObservedStore {
    /// The store's statistics, or why they are not available. Concurrent callers share one request
    /// to the store.
    pub(crate) async fn stats(&self, store: &dyn Store) -> Result<Stats, String> {
        let mut latest = self.0.lock().await;
        if let Some((at, answer)) = &*latest
            && clock::monotonic().saturating_duration_since(*at) < FRESH
        {
            return answer.clone();
        }
        let answer = store.stats().await.map_err(|error| error.to_string());
        *latest = Some((clock::monotonic(), answer.clone()));
        answer
    }
}
