//! Delivers every version of a cluster's events from an archive to receivers.
//!
//! A [`Record`] is what a receiver gets: a version of an event, or the statement that versions are
//! missing. An [`Encoder`](encode::Encoder) makes requests of records in the receiver's form, and
//! judges the answers record by record. [`Feeds`] delivers the feeds of an archive: a task for each
//! feed and cluster reads a batch by its cursor, sends it until each record is delivered or a
//! dead letter, and commits the cursor.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use tidings_feeds::{FeedOptions, Feeds, FileOptions, ReceiverOptions};
//! use tidings_history::{Feed, History};
//! use tidings_store::clock::SystemClock;
//!
//! # async fn deliver(
//! #     feed: Arc<dyn Feed>, history: Arc<dyn History>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let file = FileOptions { path: "events.jsonl".into(), rotate: 100 << 20, keep: 5 };
//! let lines = FeedOptions::new("lines", ReceiverOptions::File(file));
//! let feeds = Feeds::new("archive/feeds".into(), Arc::new(SystemClock));
//! feeds.configure(vec![lines]).await;
//! // The cursor exists before the cluster is followed, so nothing is missed.
//! feeds.start("prod", feed, history).await;
//! for status in feeds.status().await {
//!     println!("{} {:?} {}", status.feed, status.state, status.totals.delivered);
//! }
//! # Ok(())
//! # }
//! ```

mod conditions;
pub mod convert;
mod dead;
mod delivery;
pub mod encode;
mod exclusive;
mod feeds;
mod file;
mod http;
mod lines;
mod measures;
mod options;
mod receiver;
mod record;
mod requests;
mod series;
mod status;
#[cfg(test)]
mod testing;
mod thin;
mod worker;

pub use self::http::{Connection, Credentials};
pub use conditions::Condition;
pub use dead::{DeadLetterCount, DeadLetterSummary};
pub use delivery::DeadCause;
pub use feeds::{Feeds, FeedsError};
pub use file::FileOptions;
pub use options::{FEEDS_MAX, FeedOptions, From, NAME_LEN_MAX};
pub use receiver::{Form, ReceiverOptions};
pub use record::{Record, RecordBody, Source, VersionRecord};
pub use series::{SERIES_MAX, Series};
pub use status::{FeedStatus, RetryStatus, State, Totals};
pub use tidings_api::conditions::Conditions;
