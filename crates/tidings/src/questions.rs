//! Questions to a sink at start: whether it accepts events.k8s.io/v1, and whether events may be
//! written to it.
//!
//! If the sink may choose, it also chooses core/v1 when only that may be written. An old Role
//! without events.k8s.io then loses no event.
//!
//! Invariant: only an answer decides. During an outage, or with an expired token, the sink is asked
//! again and again: nothing could be written meanwhile, and a choice of core/v1 would hold for the
//! life of the process.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tidings_core::{EventApi, RetryPolicy, WriteError, WriteErrorKind};
use tokio::sync::watch;

use crate::clock::{Clock, entropy};
use crate::registry::{Phase, reached};
use crate::sampling::is_sampled;
use crate::sink::Sink;

/// A task that asks a sink until there is an answer.
pub(crate) struct Questions<S> {
    pub(crate) sink: Arc<S>,
    pub(crate) retry: RetryPolicy,
    pub(crate) clock: Clock,
    pub(crate) phase: watch::Receiver<Phase>,
}

impl<S: Sink> Questions<S> {
    /// Decides whether to write events.k8s.io/v1: the sink accepts it, and it is not the case that
    /// only core/v1 may be written.
    pub(crate) async fn serves_events_v1(self) -> bool {
        let what = "whether the server has events.k8s.io/v1";
        match self.ask(what, || self.sink.serves(EventApi::Events)).await {
            Ok(served) => {
                tracing::debug!(served, "Asked whether the server has events.k8s.io/v1");
                served && !self.allows_only_core().await
            }
            Err(error) => {
                tracing::warn!(%error, "The server does not say whether it has events.k8s.io/v1: writing core/v1");
                false
            }
        }
    }

    async fn allows_only_core(&self) -> bool {
        let what = "whether events may be written";
        let Err(denied) = self.ask(what, || self.sink.check(EventApi::Events)).await else {
            return false;
        };
        let only_core = denied.kind == WriteErrorKind::Invalid
            && self
                .ask(what, || self.sink.check(EventApi::Core))
                .await
                .is_ok();
        if only_core {
            tracing::warn!("Writing core/v1 although events.k8s.io/v1 is served: {denied}");
        }
        only_core
    }

    /// Checks access to events of `api`, and logs a missing permission.
    pub(crate) async fn check(self, api: EventApi) {
        let what = "whether events may be written";
        match self.ask(what, || self.sink.check(api)).await {
            Ok(()) => {}
            Err(error) if error.kind == WriteErrorKind::Invalid => {
                tracing::error!("Unable to write events: {error}");
            }
            Err(error) => {
                tracing::warn!(%error, "The server does not say whether events may be written");
            }
        }
    }

    /// Repeats a question until there is a final answer.
    async fn ask<T, F: Future<Output = Result<T, WriteError>>>(
        &self,
        what: &str,
        question: impl Fn() -> F,
    ) -> Result<T, WriteError> {
        let mut phase = self.phase.clone();
        let mut failures = 0_u32;
        let mut draining = false;
        loop {
            // Called inside the future, as a sink may panic before it returns one.
            let answer = AssertUnwindSafe(async { question().await });
            let answer = answer.catch_unwind().await;
            let error = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => WriteError::invalid("the sink panicked"),
            };
            if is_final(&error) {
                return Err(error);
            }
            failures = failures.saturating_add(1);
            if is_sampled(u64::from(failures - 1), 1) {
                tracing::warn!(%error, failures, "Unable to ask {what} (will ask again)");
            }
            let asked = match &error.kind {
                WriteErrorKind::Status(failure) => failure.retry_after,
                _ => None,
            };
            let asked = asked.map(|wait| wait.min(self.retry.retry_after_max));
            let wait = self.retry.wait(failures, asked, entropy());
            let until = self.clock.monotonic().saturating_add(wait);
            tokio::select! {
                () = self.clock.sleep_until(until) => {}
                // At the start of a shutdown the question is repeated at once, as every write is.
                () = reached(&mut phase, Phase::Draining), if !draining => draining = true,
            }
        }
    }
}

/// Whether an error is a final answer, regardless of the [`RetryPolicy`]: a refusal, or asking is
/// not allowed or not possible.
fn is_final(error: &WriteError) -> bool {
    match &error.kind {
        WriteErrorKind::Status(failure) => matches!(failure.code, 403 | 404),
        WriteErrorKind::Invalid => true,
        _ => false,
    }
}
