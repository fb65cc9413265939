//! Measures storing: the embedded store, beside raw etcd and beside a bare log.
//!
//! Each part runs in a process of its own, so that it has its own maximum of memory, and prints
//! figures as lines of JSON. The same writers pass the same events to all three. A write returns
//! when it is on disk:
//!
//! - **embedded**: the store, through its contract, with its default options.
//! - **etcd**: create-if-absent transactions over gRPC to an etcd on the same disk, with a lease
//!   for every 1,000 events: the requests of kube-apiserver for each event, without its own work.
//!   etcd has no index by object, so reads of an object's events are not measured.
//! - **log**: a checksummed append-only file with group commit and `fdatasync`, which cannot be
//!   read: the floor.

mod embedded;
mod etcd;
pub(crate) mod events;
mod log;
mod mixed;
pub(crate) mod real;
mod target;

use std::path::PathBuf;

use crate::Failure;
use target::Sizes;

/// Measures one part, and prints figures as lines of JSON.
#[derive(clap::Parser)]
pub struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// A folder for the files, on the disk to measure
    #[arg(long, global = true, default_value = ".")]
    folder: PathBuf,
    /// Number of events
    #[arg(long, global = true, default_value_t = 50_000)]
    events: u64,
    /// Number of events that are updated
    #[arg(long, global = true, default_value_t = 20_000)]
    updates: u64,
    /// Number of writers at the same time
    #[arg(long, global = true, default_value_t = 64)]
    writers: u64,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Creates and updates in the embedded store
    Writes,
    /// Creates of records with different lifetimes, while months pass, in the empty store and in
    /// the full one
    Archive,
    /// Reads of the store that `writes` or `archive` left in the folder
    Reads,
    /// Lists of everything, while nothing is written and beside writers
    Lists,
    /// Half of the events expire beside other writers
    Expiry,
    /// The ends of records with different lifetimes
    Mixture,
    /// A few records that are patched repeatedly
    Patches,
    /// Real events from a folder of JSON Lines
    Real { captures: PathBuf },
    /// The same writes to etcd, which the environment variable ETCD names, in a temporary folder
    Etcd,
    /// The same writes to a bare log
    Log,
}

/// Measures a part.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (folder, events) = (&arguments.folder, arguments.events);
    let sizes = Sizes {
        count: events,
        updates: arguments.updates.min(events),
        writers: arguments.writers,
    };
    match arguments.part {
        Part::Writes => embedded::writes(folder, sizes).await,
        Part::Archive => embedded::archive(folder, events).await,
        Part::Reads => embedded::reads(folder, events).await,
        Part::Lists => embedded::lists(folder, events).await,
        Part::Expiry => mixed::expiry(folder, events).await,
        Part::Mixture => mixed::mixture(folder, events).await,
        Part::Patches => mixed::patches(folder, events).await,
        Part::Real { captures } => embedded::real(folder, &captures, events).await,
        Part::Etcd => etcd::etcd(sizes).await,
        Part::Log => log::log(folder, sizes).await,
    }
}
