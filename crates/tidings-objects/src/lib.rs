//! Keeps versions of Kubernetes Events on object storage, in an open format: what an archive has
//! observed is sealed into Parquet files, and every engine that knows the format reads them.
//!
//! A [`Place`] is a bucket or a folder. A [`Sealer`] makes files of the versions of a
//! [`Cluster`](tidings_archive::Cluster), merges them, and deletes what is over. [`check()`]
//! compares everything with what it should be. A [`Reader`] serves what is sealed, and what
//! [`Waiting`] has that is not sealed yet. `docs/archive-format.md` has the columns.
//!
//! # What is promised
//!
//! - A [`Manifest`] names all files of an archive, with their sizes and sums. Manifests are
//!   numbered, and written only where there is none of that number: of two writers at once one
//!   fails. A reader of the newest one sees an archive that is whole.
//! - How far versions are sealed is in the manifest that names them. The end of the process at any
//!   moment neither skips nor doubles a version; files without a manifest are removed later.
//! - Only the store that began the archive of a cluster continues it, or another one that was told
//!   to ([`take_over`]). A store notes each manifest before it writes it; one that was restored
//!   from a copy knows by this that it is older than the archive, and seals nothing.

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
#[expect(missing_docs, reason = "for fuzz targets only")]
pub mod fuzzing;
mod manifest;
mod merge;
mod place;
mod private;
mod reader;
mod row;
mod seal;
mod unfinished;
mod waiting;

pub use check::{CheckError, Checked, check, newest};
pub use continued::{ContinueError, take_over};
pub use file::read::FileError;
#[cfg(feature = "filling")]
pub use filling::{FilledVersion, Filler};
pub use folder::FolderError;
#[cfg(feature = "filling")]
pub use forged::Forged;
pub use manifest::{File, Manifest, OverQuota, Removed, Rollup};
pub use place::{Place, PlaceError};
pub use reader::{
    AskError, Asked, HearError, HeardOf, LookError, ReadOptions, Reader, SealedCluster,
    WaitingSource,
};
pub use row::Unreadable;
pub use seal::{SealError, SealOptions, Sealed, Sealer};
pub use unfinished::LocalError;
pub use waiting::{Waiting, WaitingError};
