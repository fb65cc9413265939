//! The history of a cluster's Kubernetes Events, as archives keep and serve it.
//!
//! A [`Version`] is one state of an event at its source. [`Coverage`] says from when to when an
//! archive has the versions of a cluster, with each [`Gap`] in which some may be missing, and how
//! long events are kept ([`Retention`]). [`Following`] is the state of following the cluster now.
//! [`History`] is the contract of whoever keeps all of this: an archive on a disk, or one on object
//! storage. [`Feed`] is the ordered log of new versions, which consumers read by durable cursors.
//!
//! Types with serde's traits are answers of an archive's API, and the lines of its exports: a
//! server writes them, and clients read what it wrote into the same types. The crate has no input
//! or output of its own.
//!
//! ```
//! use tidings_history::{Cause, Coverage, Gap};
//! use tidings_store::UnixMillis;
//!
//! let gap = Gap::new(UnixMillis(0), UnixMillis(90_000), Cause::Compacted);
//! let coverage = Coverage { gaps: vec![gap], ..Coverage::default() };
//! let missing: i64 = coverage.gaps.iter().map(Gap::missing_millis).sum();
//! assert_eq!(missing, 90_000);
//! ```

mod answer;
mod coverage;
mod export;
mod feed;
mod following;
mod gap;
mod history;
mod retention;
mod version;
mod wire;

pub use answer::{Answer, ClusterPath, Clusters, Count, Counts};
pub use coverage::{Counted, Coverage, Followed, OverQuota, Progress, SealedTime, Totals};
pub use export::{EXPORT_FORM, ExportHead, ExportLine, ExportPart, Exported};
pub use feed::{
    Batch, CURSORS_MAX, Cursor, CursorName, CursorStatus, Feed, FeedError, IN_FLIGHT_MAX, Limits,
    Offset, STATE_LEN_MAX, Skip, Start,
};
pub use following::{Following, Taken};
pub use gap::{Cause, Gap, StoredGap, stored_gaps};
pub use history::{
    Capabilities, History, ListOrder, Numbers, ObjectRequests, Pending, PendingVersions, Reads,
    Unwatched,
};
pub use retention::{HeldRules, Outlook, OutlookPage, Retention, RuleOutlook, Rules};
pub use version::{ENDED_AFTER, ENDED_AT, Ended, OBSERVED_AT, Version, Versions};
pub use wire::timestamp;
