//! Options of a correlator, with defaults and client-go's values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Event;

/// The prefix of a combined event's message.
pub const COMBINED_MESSAGE_PREFIX: &str = "(combined from similar events): ";

/// How similar events are grouped: see [`CorrelatorOptions::aggregate_key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateKey {
    /// Events with the same group are similar.
    pub group: String,
    /// Distinguishes the members of a group.
    pub member: String,
}

type AggregateKeyFunction = Arc<dyn Fn(&Event) -> AggregateKey + Send + Sync>;
type TextFunction = Arc<dyn Fn(&Event) -> String + Send + Sync>;

/// Which events share one budget of the spam filter.
#[derive(Clone)]
pub(crate) enum SpamKey {
    /// Events of one source about one object with one type and reason.
    Reason,
    /// Events of one source about one object with one type, as in client-go.
    Object,
    /// Events for which this function gives the same text.
    Custom(TextFunction),
}

/// Options of a [`Correlator`](super::Correlator): a value with a setter for each, checked when the
/// correlator is made.
///
/// client-go's `CorrelatorOptions`; [`CorrelatorOptions::client_go`] behaves as client-go does,
/// [`Default`] better.
///
/// ```
/// use std::time::Duration;
/// use tidings_core::CorrelatorOptions;
///
/// let options = CorrelatorOptions::default()
///     .spam_burst(50)
///     .aggregate_interval(Duration::from_secs(300));
/// ```
#[derive(Clone)]
#[must_use]
pub struct CorrelatorOptions {
    /// Whether to follow client-go's rules, including its mistakes.
    pub(crate) client_go: bool,
    pub(crate) cache_entries_max: usize,
    pub(crate) cache_bytes_max: usize,
    pub(crate) aggregate: bool,
    pub(crate) aggregate_events: usize,
    pub(crate) aggregate_interval: Duration,
    pub(crate) aggregate_key: Option<AggregateKeyFunction>,
    pub(crate) aggregate_message: Option<TextFunction>,
    pub(crate) spam_filter: bool,
    pub(crate) spam_burst: u32,
    pub(crate) spam_qps: f32,
    pub(crate) spam_key: SpamKey,
}

/// 100,000 active objects, and some spare entries.
const CACHE_ENTRIES_MAX: usize = 131_072;
const CACHE_BYTES_MAX: usize = 96 << 20;

impl Default for CorrelatorOptions {
    /// The rules as client-go's documentation states them, without its mistakes:
    ///
    /// - Ten events that differ only in message, each within 10 minutes of the one before, are
    ///   combined into one from the tenth on. The combined event keeps annotations, labels, action,
    ///   related object and reporter of the latest, and has a valid name.
    /// - Repeats become a count on the first. An event that could not be created yet is created
    ///   with its true count. A repeat whose annotations or labels differ brings them along.
    /// - Each reason has its own budget per source, object and type: 25 at once, then one every 5
    ///   minutes. The first occurrence of a reason always passes.
    /// - Each of the three caches holds 131,072 entries and 96 MiB.
    fn default() -> Self {
        Self {
            client_go: false,
            cache_entries_max: CACHE_ENTRIES_MAX,
            cache_bytes_max: CACHE_BYTES_MAX,
            aggregate: true,
            aggregate_events: 10,
            aggregate_interval: Duration::from_secs(600),
            aggregate_key: None,
            aggregate_message: None,
            spam_filter: true,
            spam_burst: 25,
            spam_qps: 1. / 300.,
            spam_key: SpamKey::Reason,
        }
    }
}

impl CorrelatorOptions {
    /// What client-go's correlator does with its default options, call for call:
    /// `NewEventCorrelator`.
    ///
    /// Two things differ. Where client-go drops a random member of a full group, here a member is
    /// dropped once client-go would more likely than not have dropped it; the same events always
    /// give the same calls. And different events never share a key. Caches hold 4,096 entries of
    /// any size. Counts wrap where client-go's do.
    pub fn client_go() -> Self {
        Self {
            client_go: true,
            cache_entries_max: 4096,
            cache_bytes_max: usize::MAX,
            spam_key: SpamKey::Object,
            ..Self::default()
        }
    }

    /// Maximum entries of each of the three caches: groups of similar events, counted events,
    /// budgets. With 0, every event is new. client-go's `LRUCacheSize`.
    ///
    /// The least recently used entry is evicted, and its group, count or budget starts afresh.
    pub const fn cache_entries_max(mut self, entries: usize) -> Self {
        self.cache_entries_max = entries;
        self
    }

    /// Approximate maximum bytes of each of the three caches. An entry takes about 200 bytes and
    /// its event.
    pub const fn cache_bytes_max(mut self, bytes: usize) -> Self {
        self.cache_bytes_max = bytes;
        self
    }

    /// The number of similar events from which on they are combined; at least 1. client-go's
    /// `MaxEvents`.
    pub const fn aggregate_events(mut self, events: usize) -> Self {
        self.aggregate_events = events;
        self
    }

    /// Time after the last similar event after which a group starts afresh. client-go's
    /// `MaxIntervalInSeconds`.
    pub const fn aggregate_interval(mut self, interval: Duration) -> Self {
        self.aggregate_interval = interval;
        self
    }

    /// Never combine events that differ in message.
    pub const fn without_aggregation(mut self) -> Self {
        self.aggregate = false;
        self
    }

    /// Groups events by `key` in place of source, object, type and reason. client-go's `KeyFunc`.
    ///
    /// Outside [`CorrelatorOptions::client_go`] the event's namespace takes part in addition: a
    /// combined event lies in one namespace.
    pub fn aggregate_key(
        mut self,
        key: impl Fn(&Event) -> AggregateKey + Send + Sync + 'static,
    ) -> Self {
        self.aggregate_key = Some(Arc::new(key));
        self
    }

    /// Makes the message of a combined event from its latest one; by default
    /// [`COMBINED_MESSAGE_PREFIX`] and the message. client-go's `MessageFunc`.
    pub fn aggregate_message(
        mut self,
        message: impl Fn(&Event) -> String + Send + Sync + 'static,
    ) -> Self {
        self.aggregate_message = Some(Arc::new(message));
        self
    }

    /// Maximum events of one budget that may pass at once; at least 1 (0 only with
    /// [`CorrelatorOptions::client_go`], where nothing passes then). client-go's `BurstSize`.
    pub const fn spam_burst(mut self, events: u32) -> Self {
        self.spam_burst = events;
        self
    }

    /// Events a second by which a budget grows: a finite number, at least 0. client-go's `QPS`.
    pub const fn spam_qps(mut self, events_per_second: f32) -> Self {
        self.spam_qps = events_per_second;
        self
    }

    /// One budget for all reasons of a type, as in client-go: an event that repeats often can
    /// displace others about the same object.
    pub fn spam_key_by_object(mut self) -> Self {
        self.spam_key = SpamKey::Object;
        self
    }

    /// One budget per text that `key` gives. client-go's `SpamKeyFunc`.
    pub fn spam_key(mut self, key: impl Fn(&Event) -> String + Send + Sync + 'static) -> Self {
        self.spam_key = SpamKey::Custom(Arc::new(key));
        self
    }

    /// Filter nothing.
    pub const fn without_spam_filter(mut self) -> Self {
        self.spam_filter = false;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// [`InvalidCorrelatorOptions`] names the first option that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), InvalidCorrelatorOptions> {
        if self.aggregate && self.aggregate_events == 0 {
            return Err(InvalidCorrelatorOptions::AggregateEvents);
        }
        if self.spam_filter && !(self.spam_qps.is_finite() && self.spam_qps >= 0.) {
            return Err(InvalidCorrelatorOptions::SpamQps(self.spam_qps));
        }
        if self.spam_filter && self.spam_burst == 0 && !self.client_go {
            return Err(InvalidCorrelatorOptions::SpamBurst);
        }
        Ok(())
    }
}

/// An option of a correlator that is out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCorrelatorOptions {
    /// [`CorrelatorOptions::aggregate_events`] is 0.
    #[error(
        "aggregate_events is 0: it must be at least 1; without_aggregation() leaves similar events apart"
    )]
    AggregateEvents,
    /// [`CorrelatorOptions::spam_qps`] is negative or not finite.
    #[error(
        "spam_qps is {0}: it must be a finite number of events a second, at least 0; without_spam_filter() filters nothing"
    )]
    SpamQps(f32),
    /// [`CorrelatorOptions::spam_burst`] is 0.
    #[error(
        "spam_burst is 0, so that no event would ever pass: it must be at least 1; without_spam_filter() filters nothing"
    )]
    SpamBurst,
}

impl fmt::Debug for CorrelatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let custom = |function: bool| if function { "custom" } else { "default" };
        f.debug_struct("CorrelatorOptions")
            .field("client_go", &self.client_go)
            .field("cache_entries_max", &self.cache_entries_max)
            .field("cache_bytes_max", &self.cache_bytes_max)
            .field("aggregate", &self.aggregate)
            .field("aggregate_events", &self.aggregate_events)
            .field("aggregate_interval", &self.aggregate_interval)
            .field("aggregate_key", &custom(self.aggregate_key.is_some()))
            .field(
                "aggregate_message",
                &custom(self.aggregate_message.is_some()),
            )
            .field("spam_filter", &self.spam_filter)
            .field("spam_burst", &self.spam_burst)
            .field("spam_qps", &self.spam_qps)
            .field(
                "spam_key",
                &match self.spam_key {
                    SpamKey::Reason => "by reason",
                    SpamKey::Object => "by object",
                    SpamKey::Custom(_) => "custom",
                },
            )
            .finish()
    }
}
