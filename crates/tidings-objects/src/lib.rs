//! Keeps versions of Kubernetes Events on object storage, in an open format.
//!
//! The versions that an archive observed are sealed into Parquet files, which every engine that
//! knows the format can read.
//!
//! A [`Place`] is a bucket or a folder. A [`Sealer`] writes the versions of a
//! [`Cluster`](tidings_archive::Cluster) to files, merges files and deletes expired ones.
//! [`check()`] compares everything with what it should be. A [`Reader`] serves what is sealed, and
//! the pending versions that [`Waiting`] has. `docs/archive-format.md` has the columns.
//!
//! # What is promised
//!
//! - A [`Manifest`] names all files of an archive, with their sizes and checksums. Manifests are
//!   numbered, and each is written only where none has its number: of two writers at once, one
//!   fails. A reader of the newest manifest sees a whole archive.
//! - The manifest that names sealed versions also says how far versions are sealed. If the process
//!   ends at any moment, no version is skipped or doubled; files without a manifest are deleted
//!   later.
//! - Only the store that began the archive of a cluster continues it, or another one that was told
//!   to ([`take_over`]). A store notes each manifest before it writes it. By this, a store that was
//!   restored from a copy knows that it is older than the archive, and seals nothing.

mod background;
mod check;
mod clean;
mod client;
mod continued;
mod described;
mod erase;
mod file;
#[cfg(feature = "filling")]
mod filling;
mod folder;
mod foreign;
#[cfg(feature = "filling")]
mod forged;
#[cfg(fuzzing)]
pub mod fuzzing;
mod manifest;
mod merge;
mod place;
mod private;
mod reader;
mod row;
mod schedule;
mod seal;
mod seal_error;
mod unfinished;
mod waiting;

pub use check::{CheckError, Checked, check, newest};
pub use continued::{ContinueError, take_over};
pub use file::read::FileError;
#[cfg(feature = "filling")]
pub use filling::Filler;
pub use folder::FolderError;
#[cfg(feature = "filling")]
pub use forged::Forged;
pub use manifest::{File, Manifest, OverQuota, Removed, Rollup};
pub use place::{Place, PlaceError};
pub use reader::{
    AskError, HearError, HeardOf, LookError, ReadOptions, Reader, SealedCluster, SealedHistory,
    WaitingSource,
};
pub use row::Unreadable;
pub use seal::{SealOptions, Sealed, Sealer};
pub use seal_error::SealError;
pub use unfinished::LocalError;
pub use waiting::{Waiting, WaitingError};
