//! Delivers every version of a cluster's events from an archive to receivers.
//!
//! A [`Record`] is what a receiver gets: a version of an event, or the statement that versions are
//! missing. An [`Encoder`](encode::Encoder) makes requests of records in the receiver's form, and
//! judges the answers record by record.

mod conditions;
pub mod convert;
pub mod encode;
mod record;
mod series;

pub use conditions::Condition;
pub use record::{Record, RecordBody, Source, VersionRecord};
pub use series::{SERIES_MAX, Series};
