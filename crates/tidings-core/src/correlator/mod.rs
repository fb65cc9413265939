//! Correlation: similar events are combined, repeats are counted, floods are filtered. client-go's
//! `EventCorrelator` (`tools/record/events_cache.go`).
//!
//! ```text
//!   event ─▶ aggregate ─▶ spam filter ─▶ count ─▶ Create | Patch | filtered | held back ─▶ refresh: Patch
//! ```
//!
//! Decisions depend only on the arguments, not on a clock or randomness, so the same calls give the
//! same results. A filtered event is counted, too. Counts of events that the spam filter held back
//! are written later (`refresh.rs`).

mod aggregate;
mod count;
mod occurrence;
mod options;
mod refresh;
mod series;
mod series_options;
mod spam;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use aggregate::Aggregator;
use count::Counter;
pub(crate) use occurrence::PatchForm;
pub use occurrence::{Correlated, Occurrence, OccurrenceKind};
use options::SpamKey;
pub use options::{
    AggregateKey, COMBINED_MESSAGE_PREFIX, CorrelatorOptions, InvalidCorrelatorOptions,
};
pub use series::{Series, SeriesStats};
pub use series_options::{InvalidSeriesOptions, LAST_NOTE_ANNOTATION, SeriesOptions};
use spam::SpamFilter;

use crate::bucket::TokenRate;
use crate::cache::CacheStats;
use crate::key::{Key, Keys, Projection};
use crate::name::client_go_combined_name;
use crate::{Event, Monotonic, NameStamps, Now};

/// Combines similar events, counts repeats and filters floods.
///
/// ```
/// use std::sync::Arc;
/// use tidings_core::{
///     ClusterScopedNamespace, Correlated, Correlator, CorrelatorOptions, Event, EventSource, EventType, NameStamps, NewEvent, Now,
///     OccurrenceKind, Reference, ReferenceFields, TEXT_BYTES_MAX,
/// };
///
/// let names = Arc::new(NameStamps::new(1));
/// let mut correlator = Correlator::new(CorrelatorOptions::default(), Arc::clone(&names))?;
///
/// let pod = Reference::new(ReferenceFields { kind: "Pod", namespace: "default", name: "web-0", ..Default::default() });
/// let at: jiff::Timestamp = "2024-01-01T00:00:00Z".parse()?;
/// let event = Event::new(
///     &NewEvent {
///         source: &EventSource::component("example-controller"),
///         regarding: &pod,
///         related: None,
///         event_type: EventType::Warning,
///         reason: "BackOff",
///         action: "",
///         message: &"restarting failed container",
///         annotations: None,
///         labels: None,
///         cluster_scoped_namespace: &ClusterScopedNamespace::Default,
///         text_bytes_max: TEXT_BYTES_MAX,
///     },
///     &names,
///     at,
/// );
///
/// for (kind, count) in [(OccurrenceKind::Create, 1), (OccurrenceKind::Patch, 2)] {
///     let Correlated::Write(occurrence) = correlator.correlate(Now::at(at), &event) else {
///         unreachable!("a first budget is 25 events");
///     };
///     assert_eq!((occurrence.kind(), occurrence.count()), (kind, count));
///     correlator.acknowledged(&occurrence);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Correlator {
    options: CorrelatorOptions,
    names: Arc<NameStamps>,
    keys: Keys,
    aggregator: Aggregator,
    counter: Counter,
    spam_filter: SpamFilter,
}

impl Correlator {
    /// Makes a correlator without history. `names` makes the names of combined events; its seed
    /// also seeds the hashes.
    ///
    /// # Errors
    ///
    /// [`InvalidCorrelatorOptions`] when an option is out of its range.
    pub fn new(
        options: CorrelatorOptions,
        names: Arc<NameStamps>,
    ) -> Result<Self, InvalidCorrelatorOptions> {
        options.validate()?;
        let bounds = (options.cache_entries_max, options.cache_bytes_max);
        Ok(Self {
            keys: Keys::new(names.seed()),
            aggregator: Aggregator::new(
                bounds,
                options.aggregate_events,
                options.aggregate_interval,
                options.client_go,
            ),
            counter: Counter::new(bounds, options.client_go),
            spam_filter: SpamFilter::new(
                bounds,
                TokenRate::new(options.spam_qps, options.spam_burst),
            ),
            options,
            names,
        })
    }

    /// Correlates `event` at `now`. client-go's `EventCorrelate`.
    ///
    /// For every [`Correlated::Write`], call [`Correlator::acknowledged`] or [`Correlator::lost`]
    /// once, when its outcome is known. Until it is lost, a handed-out write counts as written, so
    /// that the next event of its kind is a patch. After each call, call
    /// [`Correlator::poll_evicted`] until it returns `None`.
    pub fn correlate(&mut self, now: Now, event: &Event) -> Correlated {
        let (event, context) = event.split_context();
        let (event, key, aggregate) = self.aggregated(now, &event);
        let passes = !self.options.spam_filter || {
            let key = self.spam_key(&event);
            self.spam_filter.pass(now.monotonic, key)
        };
        self.counter
            .count(now.monotonic, key, (event, context), aggregate, passes)
    }

    /// Records that `occurrence` was written. client-go's `UpdateState`; it has an effect only with
    /// [`CorrelatorOptions::client_go`].
    pub fn acknowledged(&mut self, occurrence: &Occurrence) {
        if self.options.client_go {
            let key = self
                .keys
                .key(&occurrence.event, Projection::CLIENT_GO_REPEAT);
            self.counter.acknowledged_as_client_go(key, occurrence);
        }
    }

    /// Records that `occurrence` was not written itself: it was dropped, or merged into a later one
    /// that will be. If nothing was written yet, the next event of its kind is a create with the
    /// true count.
    ///
    /// client-go does not learn of such a loss, and patches an event that does not exist.
    pub fn lost(&mut self, occurrence: &Occurrence) {
        if !self.options.client_go {
            self.counter.lost(occurrence);
        }
    }

    /// After [`Correlator::lost`], for a write that may succeed later: takes its held-back events
    /// ([`Occurrence::held_back`]) back. A refresh in half a minute settles them. Returns whether
    /// that is so; otherwise, because the count was evicted, they are lost with the write.
    pub fn put_back(&mut self, now: Monotonic, occurrence: &Occurrence) -> bool {
        occurrence.held_back() > 0 && self.counter.put_back(now, occurrence)
    }

    /// Returns the last write of a count that was evicted from its cache, and whose held-back
    /// events no write has settled. As for every [`Correlated::Write`], call [`Correlator::lost`]
    /// if it is not made.
    pub fn poll_evicted(&mut self) -> Option<Occurrence> {
        self.counter.poll_evicted()
    }

    /// Returns the next count to refresh, if one is due. The write settles the held-back events
    /// that it counts. Call again until it returns `None`, or until there is no room for another
    /// write. As for every [`Correlated::Write`], call [`Correlator::lost`] if it is not made.
    pub fn poll_refresh(&mut self, now: Monotonic) -> Option<Occurrence> {
        self.poll_evicted().or_else(|| self.counter.refresh(now))
    }

    /// When to call [`Correlator::poll_refresh`] next.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.counter.poll_timeout()
    }

    /// Returns the next count that is behind, due or not. For the shutdown, or to settle held-back
    /// events early.
    pub fn poll_last(&mut self, now: Monotonic) -> Option<Occurrence> {
        self.poll_evicted()
            .or_else(|| self.counter.refresh_any(now))
    }

    /// Statistics of the caches.
    pub fn stats(&self) -> CorrelatorStats {
        CorrelatorStats {
            aggregate: self.aggregator.stats(),
            count: self.counter.stats(),
            spam: self.spam_filter.stats(),
        }
    }

    /// Returns the event to count and its key: `event` with its own key, or the combined event with
    /// the key of its group.
    fn aggregated(&mut self, now: Now, event: &Event) -> (Event, Key, bool) {
        let client_go = self.options.client_go;
        if self.options.aggregate {
            let (group, custom_member) = match &self.options.aggregate_key {
                None => {
                    let projection = if client_go {
                        Projection::CLIENT_GO_SIMILAR
                    } else {
                        Projection::SIMILAR
                    };
                    (self.keys.key(event, projection), None)
                }
                Some(function) => {
                    let AggregateKey { group, member } = function(event);
                    let projection = if client_go {
                        Projection::CLIENT_GO_CUSTOM
                    } else {
                        Projection::CUSTOM
                    };
                    (self.keys.custom(event, projection, group), Some(member))
                }
            };
            let member = custom_member.as_deref().unwrap_or(event.message());
            if self.aggregator.note(now.monotonic, &group, member) {
                return (self.combined(now, event), group, true);
            }
        }
        let projection = if client_go {
            Projection::CLIENT_GO_REPEAT
        } else {
            Projection::REPEAT
        };
        (event.clone(), self.keys.key(event, projection), false)
    }

    fn combined(&self, now: Now, event: &Event) -> Event {
        let message = match &self.options.aggregate_message {
            Some(function) => function(event),
            None => [COMBINED_MESSAGE_PREFIX, event.message()].concat(),
        };
        let name = if self.options.client_go {
            client_go_combined_name(event.regarding().name(), now.wall)
        } else {
            self.names.name(event.regarding(), now.wall)
        };
        event.combined(name, &message, now.wall, !self.options.client_go)
    }

    fn spam_key(&self, event: &Event) -> Key {
        match &self.options.spam_key {
            SpamKey::Reason => self.keys.key(event, Projection::BUDGET_BY_REASON),
            SpamKey::Object => self.keys.key(event, Projection::BUDGET_BY_OBJECT),
            SpamKey::Custom(function) => {
                let text = function(event);
                self.keys.custom(event, Projection::CLIENT_GO_CUSTOM, text)
            }
        }
    }
}

/// Statistics of a correlator's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CorrelatorStats {
    /// Groups of similar events.
    pub aggregate: CacheStats,
    /// Counted events.
    pub count: CacheStats,
    /// Budgets of the spam filter.
    pub spam: CacheStats,
}
