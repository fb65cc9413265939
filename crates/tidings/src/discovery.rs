//! Asking a sink whether it takes events.k8s.io/v1.
//!
//! Invariant: only an answer about the group decides. While a proxy, a rotated token or an outage stands between, the sink is asked again, for as
//! long as it takes: nothing could be written meanwhile anyway, and core/v1 would be for the life of the process.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tidings_core::{EventApi, RetryPolicy, WriteError, WriteErrorKind};
use tokio::sync::watch;

use crate::clock::{Clock, entropy};
use crate::recorder::is_sampled;
use crate::registry::{Phase, reached};
use crate::sink::Sink;

/// Asks until there is an answer.
pub(crate) async fn serves_events_v1(
    sink: Arc<impl Sink>,
    retry: RetryPolicy,
    clock: Clock,
    mut phase: watch::Receiver<Phase>,
) -> bool {
    let mut failures = 0_u32;
    let mut draining = false;
    loop {
        let answer = AssertUnwindSafe(sink.serves(EventApi::Events)).catch_unwind();
        let error = match answer.await {
            Ok(Ok(served)) => {
                tracing::debug!(served, "Asked whether the server has events.k8s.io/v1");
                return served;
            }
            Ok(Err(error)) => error,
            Err(_) => WriteError::invalid("the sink panicked"),
        };
        if is_final(&error) {
            tracing::warn!(%error, "The server does not say whether it has events.k8s.io/v1: writing core/v1");
            return false;
        }
        failures = failures.saturating_add(1);
        if is_sampled(u64::from(failures - 1), 1) {
            tracing::warn!(%error, failures, "Unable to ask whether the server has events.k8s.io/v1 (will ask again)");
        }
        let asked = match &error.kind {
            WriteErrorKind::Status(failure) => failure.retry_after,
            _ => None,
        };
        let asked = asked.map(|wait| wait.min(retry.retry_after_max));
        let wait = retry.wait(failures, asked, entropy());
        let until = clock.monotonic().saturating_add(wait);
        tokio::select! {
            () = clock.sleep_until(until) => {}
            // Once more at once, as every write is tried then.
            () = reached(&mut phase, Phase::Draining), if !draining => draining = true,
        }
    }
}

/// Whether there will be no other answer, whatever the [`RetryPolicy`] says of writes: the server may not say, or has no such group, or no request
/// can be made.
fn is_final(error: &WriteError) -> bool {
    match &error.kind {
        WriteErrorKind::Status(failure) => matches!(failure.code, 403 | 404),
        WriteErrorKind::Invalid => true,
        _ => false,
    }
}
