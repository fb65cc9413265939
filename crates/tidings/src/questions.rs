//! What a sink is asked at start: whether it takes events.k8s.io/v1, and whether events may be
//! written to it.
//!
//! Where the sink may choose, it is core/v1 also when only that may be written: a Role from before
//! events.k8s.io costs no event.
//!
//! Invariant: only an answer decides. While a proxy, a rotated token or an outage stands between,
//! the sink is asked again, for as long as it takes: nothing could be written meanwhile anyway, and
//! core/v1 would be for the life of the process.

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
    /// Whether events are to be written as events.k8s.io/v1: the sink takes it, and does not say
    /// that only core/v1 may be written.
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

    /// Logs what keeps events from being written as `api`, if anything does.
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

    /// Asks until there is an answer, or will never be one.
    async fn ask<T, F: Future<Output = Result<T, WriteError>>>(
        &self,
        what: &str,
        question: impl Fn() -> F,
    ) -> Result<T, WriteError> {
        let mut phase = self.phase.clone();
        let mut failures = 0_u32;
        let mut draining = false;
        loop {
            // Within, as a sink may panic before it returns a future.
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
                // Once more at once, as every write is tried then.
                () = reached(&mut phase, Phase::Draining), if !draining => draining = true,
            }
        }
    }
}

/// Whether there will be no other answer, whatever the [`RetryPolicy`] says of writes: it is no, or
/// the server may not say, or has nothing that could be asked, or no request can be made.
fn is_final(error: &WriteError) -> bool {
    match &error.kind {
        WriteErrorKind::Status(failure) => matches!(failure.code, 403 | 404),
        WriteErrorKind::Invalid => true,
        _ => false,
    }
}
