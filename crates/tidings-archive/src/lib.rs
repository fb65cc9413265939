//! Follows the Events of Kubernetes clusters and keeps them for months, with all their versions.
//!
//! A [`Cluster`] is a folder and a client. It lists and watches the events of the client's cluster,
//! writes every version it observes into the folder's store, and continues from its position when
//! it is opened again. Nothing is changed in the cluster. [`Cluster::store`] has the newest version
//! of each event, as an API server serves it; [`Cluster::history`] has the older versions and the
//! covered times.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use tidings_archive::{Cluster, ClusterOptions};
//! use tidings_history::History;
//! use tidings_store::ListRequest;
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube::Client::try_default().await?;
//! let mut options = ClusterOptions::new("prod");
//! options.quota = Some(20 << 30);
//! let cluster = Cluster::open(Path::new("./archive/prod"), &client, options).await?;
//!
//! let page = cluster.store().list(ListRequest::prefix("shop/").limit(1)).await?;
//! if let Some(event) = page.records.into_iter().next() {
//!     let found = cluster.history().versions(event.key, None, 100).await?;
//!     for version in found.unwrap_or_default().versions {
//!         println!("{} at {:?}", version.number, version.observed_at);
//!     }
//! }
//! for gap in cluster.history().coverage(None).await?.gaps {
//!     println!("from {:?} to {:?}: {}", gap.from, gap.to, gap.cause.name());
//! }
//! cluster.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Supervisor`] keeps several clusters open and followed. It connects to a cluster again when
//! its setting or credentials change, and tries a refused one again. Its [`Connector`] makes the
//! clients.
//!
//! # What is promised
//!
//! - A version is identified by the event's uid and its resourceVersion at the source. Observing it
//!   again changes nothing.
//! - The position in the source is written in the same commit as the events, so a process that is
//!   killed at any moment neither skips nor duplicates an event.
//! - While the source remembers what followed the last position (five minutes by default), every
//!   version is kept. After that, the last version of each event that still exists is kept, and a
//!   [`Gap`](tidings_history::Gap) states when versions may be missing, and why.
//! - Memory does not grow with the number of events at the source.
//! - A consumer with a named cursor of the [feed](Cluster::feed) gets every version at least once,
//!   or a count of those that it lost.
//!
//! # Limits
//!
//! - A source that was restored from a backup is detected if it is behind the position at the next
//!   request. A source that has caught up by then is not detected.
//! - Another cluster at the same address is refused if the uid of the namespace `kube-system` can
//!   be read in both.
//! - Only one process can open a folder. Two archives of a cluster need two folders.
//! - An event longer than half of [`VALUE_LEN_MAX`](tidings_store::VALUE_LEN_MAX), or one that
//!   cannot be read, is not kept; it is counted and reported as a gap.
//!
//! `tidings-server` serves an archive over HTTP; the program is `tidings archive`.

mod archive;
mod clocks;
mod follow;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod keep;
#[cfg(test)]
mod simulation;
mod source;
mod supervisor;
mod version;

pub use archive::{Cluster, ClusterError, ClusterOptions, import};
pub use clocks::Clocks;
pub use history::ClusterHistory;
pub use keep::consumers::{
    ClusterFeed, Commit, Continued, Continues, JournalError, Part, SEALED_BEYOND_MAX, Unerased,
    Unsealed,
};
pub use keep::coverage::{EVENT_TTL, KeepFor, Lives, Position, RetentionPolicy, RuleOf};
pub use keep::feed::NotSealed;
pub use keep::retention::SharedQuota;
pub use keep::served::REVISION_BITS;
pub use keep::transfer::{ImportError, Imported};
pub use source::api_server::{Selection, cluster_identity};
pub use supervisor::{
    Connector, Ended, FormerNameError, Host, OPENED_AT_ONCE, Refusal, Setting, Supervisor,
    check_former_names,
};
