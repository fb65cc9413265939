//! The part of kube-apiserver's admission chain that concerns events.
//!
//! A write needs an existing namespace, an event that is not too large, and a rate within the
//! limits.

mod event_rate_limit;
mod judgements;
pub(crate) mod namespaces;
pub(crate) mod retention;

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_pb::api::core::v1::Event;
use prost::Message;

use self::event_rate_limit::EventRateLimit;
pub use self::event_rate_limit::{EventLimit, EventRateLimitOptions, LimitType};
pub(crate) use self::judgements::Operation;
use self::judgements::{Judge, Judgements};
pub use self::namespaces::{Namespace, Namespaces, NamespacesError};
use crate::clock::{self, Clock};
use crate::http::status::Status;
use crate::metrics::Text;
use tidings_api::codec::Api;

/// Bytes of the envelope around a stored event.
const ENVELOPE_BYTES: usize = 32;

/// Counts of admission decisions since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionCounts {
    /// Events that exceeded each limit, in the configuration's order.
    pub rate_limited: Vec<(LimitType, u64)>,
    /// Writes refused because of rate limits. One event may exceed several limits.
    pub rejected: u64,
    /// Events refused because they were too large.
    pub oversized: u64,
}

/// The admission chain with its state.
pub(crate) struct Admission {
    namespaces: Namespaces,
    bytes_max: usize,
    rate: Option<EventRateLimit>,
    rejected: AtomicU64,
    oversized: AtomicU64,
    judgements: Judgements,
}

impl Admission {
    pub(crate) fn new(
        namespaces: Namespaces,
        bytes_max: usize,
        limits: &EventRateLimitOptions,
    ) -> Self {
        Self {
            namespaces,
            bytes_max,
            rate: (!limits.limits.is_empty()).then(|| EventRateLimit::new(limits)),
            rejected: AtomicU64::new(0),
            oversized: AtomicU64::new(0),
            judgements: Judgements::default(),
        }
    }

    /// Refuses a create in a namespace that does not exist or is terminating.
    pub(crate) fn check_namespace(
        &self,
        api: Api,
        namespace: &str,
        event: &Event,
    ) -> Result<(), Status> {
        if self.namespaces.named().is_none() {
            return self.find_namespace(api, namespace, event);
        }
        self.judged(Judge::NamespaceLifecycle, Operation::Create, || {
            self.find_namespace(api, namespace, event)
        })
    }

    fn find_namespace(&self, api: Api, namespace: &str, event: &Event) -> Result<(), Status> {
        match self.namespaces.find(namespace) {
            Some(Namespace::Active) => Ok(()),
            Some(Namespace::Terminating) => {
                let metadata = event.metadata.as_ref();
                let names = metadata.map(|it| [it.name(), it.generate_name()]);
                let name = names.iter().flatten().find(|name| !name.is_empty());
                let name = name.copied().unwrap_or("Unknown");
                Err(Status::namespace_terminating(api, name, namespace))
            }
            None => Err(Status::namespace_not_found(namespace)),
        }
    }

    /// Refuses an event that is too large, with 413. kube-apiserver with etcd refuses with 500.
    pub(crate) fn check_size(&self, event: &Event) -> Result<(), Status> {
        let mut len = event.encoded_len() + ENVELOPE_BYTES;
        // The resourceVersion is not stored.
        let metadata = event.metadata.as_ref();
        if let Some(version) = metadata.and_then(|it| it.resource_version.as_ref()) {
            len = len.saturating_sub(version.len() + 2);
        }
        if len <= self.bytes_max {
            return Ok(());
        }
        self.oversized.fetch_add(1, Ordering::Relaxed);
        Err(Status::event_too_large(len, self.bytes_max))
    }

    /// Starts the rate limits for one request. They apply once, however often the request is
    /// retried internally.
    pub(crate) fn gate<'a>(
        &'a self,
        clock: &'a dyn Clock,
        user: &'a str,
        dry_run: bool,
    ) -> Gate<'a> {
        Gate {
            admission: self,
            clock,
            user,
            passed: dry_run || self.rate.is_none(),
        }
    }

    /// Runs a plugin for a write, and measures its time.
    fn judged(
        &self,
        by: Judge,
        operation: Operation,
        judge: impl FnOnce() -> Result<(), Status>,
    ) -> Result<(), Status> {
        let began = clock::monotonic();
        let judgement = judge();
        let took = clock::monotonic().saturating_duration_since(began);
        self.judgements.add(by, operation, judgement.is_err(), took);
        judgement
    }

    /// Appends the metrics.
    pub(crate) fn write(&self, text: &mut Text) {
        self.judgements.write(text);
        let admission = self.counts();
        let name = "tidings_event_rate_limit_reached_total";
        text.metric(name, "counter", "Events that found a limit reached.");
        // Several limits may have the same type, so their counts are added.
        for limit_type in LimitType::ALL {
            let of_type = |it: &&(LimitType, u64)| it.0 == limit_type;
            let mut counts = admission.rate_limited.iter().filter(of_type).peekable();
            if counts.peek().is_some() {
                let labels = [("type", limit_type.name())];
                text.sample(name, &labels, counts.map(|it| it.1).sum::<u64>());
            }
        }
        let name = "tidings_oversized_events_total";
        text.metric(name, "counter", "Events above the limit of their size.");
        text.sample(name, &[("outcome", "refused")], admission.oversized);
    }

    pub(crate) fn counts(&self) -> AdmissionCounts {
        let rate = self.rate.as_ref();
        AdmissionCounts {
            rate_limited: rate.map_or_else(Vec::new, EventRateLimit::counts),
            rejected: self.rejected.load(Ordering::Relaxed),
            oversized: self.oversized.load(Ordering::Relaxed),
        }
    }
}

/// The rate limits for one request; see [`Admission::gate`].
pub(crate) struct Gate<'a> {
    admission: &'a Admission,
    clock: &'a dyn Clock,
    user: &'a str,
    passed: bool,
}

impl Gate<'_> {
    /// Takes the event's tokens at the first call; later calls do nothing.
    pub(crate) fn pass(&mut self, operation: Operation, event: &Event) -> Result<(), Status> {
        if self.passed {
            return Ok(());
        }
        self.passed = true;
        let Some(rate) = &self.admission.rate else {
            return Ok(());
        };
        let admission = self.admission;
        admission.judged(Judge::EventRateLimit, operation, || {
            rate.accept(self.clock.monotonic(), self.user, event)
                .map_err(|message| {
                    admission.rejected.fetch_add(1, Ordering::Relaxed);
                    Status::too_many_requests(&message)
                })
        })
    }
}
