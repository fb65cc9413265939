//! What the store says of itself, asked for at most once a second however many ask.

use std::time::{Duration, Instant};

use tidings_store::{Stats, Store};
use tokio::sync::Mutex;

use crate::clock;

/// An answer is as good as new for this long.
const FRESH: Duration = Duration::from_secs(1);

/// The latest answer. Health checks are open to all clients, and counting in a store is not free.
#[derive(Debug, Default)]
pub(crate) struct ObservedStore(Mutex<Option<(Instant, Result<Stats, String>)>>);

impl ObservedStore {
    /// The store's counts, or why they are not available. Callers that come while the store is
    /// being asked wait for that answer.
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
