//! What the supervisor asks of the program: connections to clusters, their opening, and a server.

use std::error::Error;

/// Why a cluster was refused.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// How a cluster is followed. If it differs from before, the cluster is followed anew.
pub trait Setting: Clone + PartialEq + Send + Sync + 'static {
    /// Returns the cluster's name, which no other setting has.
    fn name(&self) -> &str;

    /// Whether the cluster is followed. Otherwise it is opened and served as it was kept.
    fn is_followed(&self) -> bool;
}

/// A cluster's setting, and the hash of the files on which its connection depends. The hash is
/// taken before an attempt begins, so that a change of the files during the attempt is noticed.
#[derive(Clone, PartialEq)]
pub(super) struct Target<S> {
    pub(super) setting: S,
    pub(super) files: Option<u64>,
}

impl<S: Setting> Target<S> {
    pub(super) fn name(&self) -> &str {
        self.setting.name()
    }

    /// Whether a cluster must be followed anew that was connected with another target. If no file
    /// exists any more, the connection stays: without files it might lead to another cluster.
    pub(super) fn differs_from(&self, former: &Self) -> bool {
        self.setting != former.setting || self.files.is_some() && self.files != former.files
    }
}

/// Connects to clusters and opens them. A cluster that is not wanted any more ends the future that
/// connects to it, not the one that opens it.
pub trait Connector: Send + Sync + 'static {
    /// How a cluster is followed.
    type Setting: Setting;
    /// A connection to a cluster.
    type Source: Send + 'static;
    /// An open cluster.
    type Cluster: Send + 'static;

    /// Returns a hash of the files on which the connection of each setting depends, in the same
    /// order; `None` for a setting that needs no connection, or whose files do not exist.
    fn files(&self, settings: &[Self::Setting]) -> Vec<Option<u64>>;

    /// Connects to a cluster. This may take any time.
    fn connect(
        &self,
        setting: &Self::Setting,
    ) -> impl Future<Output = Result<Self::Source, Refusal>> + Send;

    /// Opens a cluster, and follows it if there is a source. `wanted` are the names of all wanted
    /// clusters.
    fn open(
        &self,
        setting: &Self::Setting,
        source: Option<Self::Source>,
        wanted: &[String],
    ) -> impl Future<Output = Result<Self::Cluster, Refusal>> + Send;

    /// Stops following a cluster and closes it. What was kept stays.
    fn close(&self, cluster: Self::Cluster) -> impl Future<Output = ()> + Send;
}

/// The program around a supervisor: it serves the open clusters and reports refusals.
pub trait Host<C: Connector> {
    /// Begins to serve an opened cluster, which is closed if that fails.
    fn add(
        &mut self,
        setting: &C::Setting,
        cluster: &mut C::Cluster,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Ends serving a cluster, which is closed afterwards. It is opened again as `next` says, or is
    /// not wanted any more.
    fn remove(
        &mut self,
        former: &C::Setting,
        next: Option<&C::Setting>,
    ) -> impl Future<Output = ()> + Send;

    /// Reports that a cluster is not followed as it is set. `is_new` says whether the reason
    /// differs from the previous one.
    fn refused(&mut self, setting: &C::Setting, why: Refusal, is_new: bool);
}
