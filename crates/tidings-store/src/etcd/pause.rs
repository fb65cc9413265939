//! Back-off between the attempts of a request.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// A back-off: no pause first, then 20 ms, doubling up to half a second.
#[derive(Default)]
pub(super) struct Pause {
    millis: u64,
}

impl Pause {
    pub(super) async fn wait(&mut self) {
        let millis = self.millis;
        self.millis = (millis * 2).clamp(20, 500);
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Waits for the next pause; returns false if the deadline comes first.
    pub(super) async fn wait_until(&mut self, deadline: Instant) -> bool {
        timeout_at(deadline, self.wait()).await.is_ok()
    }
}
