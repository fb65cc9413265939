//! The contract of a cluster's history, and what can be done with it.

use bytes::Bytes;
use tidings_store::{BoxFuture, ReadError};

use crate::coverage::{Counted, Coverage};
use crate::export::{ExportPart, Exported};
use crate::following::Following;
use crate::retention::{OutlookPage, Rules};
use crate::version::Versions;

/// Reads the kept history of one cluster's events. The newest version of each event is in a
/// [`Store`](tidings_store::Store) beside it.
pub trait History: Send + Sync + 'static {
    /// Returns what can be done with this cluster's events. The answer may change: a sealed archive
    /// can be watched once there are pending versions.
    fn capabilities(&self) -> Capabilities;

    /// Returns the state of following. Health checks and metrics call it often, so it must not
    /// block.
    fn following(&self) -> Following;

    /// Reads versions of the event with a key (`namespace/name`), newest first. `None` if there is
    /// no such event.
    ///
    /// A page ends at `limit` versions, or once they have about a megabyte, as an answer is made of
    /// the whole page. `after` is [`Versions::more`] of the page before.
    ///
    /// # Errors
    /// The history cannot be read.
    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>>;

    /// Reads the coverage of the cluster, or of a namespace. That of a namespace has nothing about
    /// other namespaces, and no numbers of the whole cluster.
    ///
    /// # Errors
    /// The history cannot be read.
    fn coverage(&self, namespace: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>>;

    /// Reads a page of a part of everything that is kept, as lines of an export
    /// ([`ExportLine`](crate::ExportLine)). `None` if the text is not a place in this part.
    ///
    /// The first page has no place, and the next begins at [`Exported::more`]. The events from one
    /// on begin at the place `0/NAMESPACE/NAME`. Default: `None`, for histories without
    /// [`Capabilities::export`].
    ///
    /// # Errors
    /// The history cannot be read.
    fn export(
        &self,
        place: Option<String>,
        part: ExportPart,
    ) -> BoxFuture<'_, Result<Option<Exported>, ReadError>> {
        drop((place, part));
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Reads a bounded number of events, and counts those that would end at once if these rules
    /// were in force. `None`, which is the default, if no rules are, as where nothing is followed.
    ///
    /// The first page has no place, and the next begins at [`OutlookPage::more`].
    ///
    /// # Errors
    /// The history cannot be read.
    fn outlook(
        &self,
        rules: Rules,
        place: Option<String>,
    ) -> BoxFuture<'_, Result<Option<OutlookPage>, ReadError>> {
        drop((rules, place));
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Counts requests to an object storage since the start; `None`, which is the default, if the
    /// history is not on one.
    fn requests(&self) -> Option<ObjectRequests> {
        None
    }
}

/// What can be done with a cluster's events.
///
/// ```
/// use tidings_history::{Capabilities, Counted};
///
/// let followed = Capabilities::default();
/// assert!(followed.delete && followed.export && followed.watch.is_ok());
/// assert_eq!(followed.counted, Counted::Events);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether events can be deleted. Default: yes.
    pub delete: bool,
    /// Whether events can be watched, or else where they can. Default: yes.
    pub watch: Result<(), Unwatched>,
    /// Whether everything can be exported. Default: yes.
    pub export: bool,
    /// What the numbers of counts mean. Default: events.
    pub counted: Counted,
    /// The order of lists. Default: by key.
    pub lists: ListOrder,
    /// What the resourceVersion of an event in a list is. Default: one of the store.
    pub numbers: Numbers,
    /// What reads use. Default: this machine.
    pub reads: Reads,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            delete: true,
            watch: Ok(()),
            export: true,
            counted: Counted::Events,
            lists: ListOrder::Key,
            numbers: Numbers::Store,
            reads: Reads::Local,
        }
    }
}

impl Capabilities {
    /// Returns the capabilities of files on object storage, which can only be read.
    pub fn of_files(watch: Result<(), Unwatched>) -> Self {
        Self {
            delete: false,
            watch,
            export: false,
            counted: Counted::Versions,
            lists: ListOrder::Object,
            numbers: Numbers::Source,
            reads: Reads::Remote,
        }
    }
}

/// Where events can be watched, if not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwatched {
    /// The address of the archive that follows the cluster, if that is known.
    pub address: Option<String>,
    /// The option that the server lacks for it; `None` if it has the option.
    pub option: Option<&'static str>,
}

/// The order of the events in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// By namespace and name of the event.
    Key,
    /// By namespace, kind and name of the object that the event is about. Objects are found by
    /// their names, not by their uids alone.
    Object,
}

/// What the resourceVersion of an event in a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A number of the store, the same for lists, watches and events.
    Store,
    /// The event's resourceVersion at its source.
    Source,
}

/// What reads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Memory or a disk of this machine.
    Local,
    /// Another machine: few large reads are better than many small ones.
    Remote,
}

/// Gives the pending versions of a cluster, which wait to be sealed into an object storage.
pub trait PendingVersions: Send + Sync + 'static {
    /// Makes a file of the pending versions in the feed's entries from a number on, and before `to`
    /// if that is given.
    ///
    /// # Errors
    /// The feed cannot be read, or the file cannot be made.
    fn pending(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Pending, ReadError>>;
}

/// The answer to a request for pending versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// The versions as a Parquet file.
    File(Vec<u8>),
    /// Some of the entries are sealed, and are no longer known here.
    Sealed,
    /// Nothing of the cluster was ever sealed.
    NotSealed,
}

/// Requests to an object storage since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectRequests {
    /// Requests.
    pub requests: u64,
    /// Requests that failed, or had an unexpected answer.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes: u64,
}
