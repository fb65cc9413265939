//! The rules of Kubernetes Events.
//!
//! They cover the event itself, when two events are the same, how repeats are counted and floods
//! limited, what is written to the API server, and what is retried after a failure. For readers it
//! has [filters](filter) of events and [tables](top) of what happened most.
//!
//! The crate has no I/O, no clock, no async and no global state: inputs in, decisions out, and time
//! is an argument. The `tidings` crate adds threads, queues and HTTP. Use this crate alone to drive
//! the rules yourself, as the conformance suite does.
//!
//! As with every library on k8s-openapi, the final program chooses the version of Kubernetes with
//! one of k8s-openapi's `v1_*` features or `latest`. To build this crate alone, choose one on the
//! command line: `cargo check -p tidings-core --features k8s-openapi/latest`.

mod bucket;
mod cache;
mod context;
pub mod convert;
mod correlator;
mod delivery;
mod event;
mod event_limits;
mod field_selector;
pub mod fields;
pub mod filter;
mod key;
mod name;
pub mod occurrences;
mod outcome;
mod ownership;
mod packed;
mod patch;
mod printable;
pub mod reading;
mod recorded;
mod reference;
mod retry;
mod source;
mod time;
pub mod top;
pub mod validate;
pub mod wire;

pub use bucket::{TokenBucket, TokenRate};
pub use cache::CacheStats;
pub use context::EventContext;
pub use correlator::{
    AggregateKey, COMBINED_MESSAGE_PREFIX, Correlated, Correlator, CorrelatorOptions,
    CorrelatorStats, InvalidCorrelatorOptions, InvalidSeriesOptions, LAST_NOTE_ANNOTATION,
    Occurrence, OccurrenceKind, Series, SeriesOptions, SeriesStats,
};
pub use delivery::{
    Deliverable, Delivery, DeliveryOptions, DeliveryStats, Handled, InvalidDeliveryOptions,
    Overflow, Settled, Write, WriteId,
};
pub use event::{
    ClusterScopedNamespace, Event, EventType, FixedNamespace, InvalidNamespace, NewEvent,
    TEXT_BYTES_MAX, UnsupportedEventType,
};
pub use event_limits::{OMITTED_ANNOTATION, TRUNCATION_MARKER};
pub use field_selector::{EventApi, field_selector};
pub use key::CountKey;
pub use name::{EventName, NameStamps};
pub use outcome::{DropCause, DropCounts, Fate};
pub use ownership::{
    Told, generated_from, is_named_after, owner_by_name, possible_owners, told_of,
};
#[doc(hidden)]
pub use packed::floor_char_boundary;
pub use printable::{is_printable, printable};
pub use reference::{Reference, ReferenceFields};
pub use retry::{
    Backoff, RetryClass, RetryPolicy, StatusErrors, StatusFailure, WriteError, WriteErrorKind,
};
pub use source::EventSource;
pub use time::{Monotonic, Now};
