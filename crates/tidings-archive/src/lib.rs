//! Follows the Events of Kubernetes clusters and keeps them for months, with all their versions.

mod archive;
mod follow;
mod keep;
#[cfg(test)]
mod simulation;
mod source;
mod version;

pub use archive::{
    Cluster, ClusterError, ClusterOptions, Following, ObservedVersion, Past, Versions,
};
pub use keep::coverage::Coverage;
pub use keep::keeper::KeepFor;
pub use keep::position::{Cause, Gap, Position};
pub use keep::retention::Trimmed;
pub use source::api_server::Selection;
