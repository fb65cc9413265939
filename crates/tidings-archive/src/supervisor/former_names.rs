//! Recognises a cluster that is to be followed under another name than before, by its identity.
//!
//! Invariant: a cluster whose events are kept under a name that is not wanted any more is not begun
//! anew under another name. Only where the identity or a former folder may not or cannot be read,
//! that cannot be known, and is logged.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use tidings_history::{Followed, History};
use tidings_store::UnixMillis;
use tidings_store::embedded::OpenError;
use tokio::time::timeout;

use crate::archive::{Cluster, ClusterError, ClusterOptions};
use crate::source::api_server::{Selection, cluster_identity};

/// Maximum time for the cluster's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Why a cluster is not begun anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormerNameError {
    /// The cluster was followed under another name.
    #[error("events of the same cluster are kept by the name {former:?}")]
    Renamed {
        /// The other name.
        former: String,
        /// The time up to which it was followed.
        until: UnixMillis,
    },
    /// The cluster's identity could not be read.
    #[error("{0}")]
    Unrecognized(String),
}

/// Refuses to begin a cluster anew, by these options, if it was followed under one of the `former`
/// names, each of which has a folder in `folders`.
///
/// # Errors
/// [`FormerNameError`].
pub async fn check_former_names(
    folders: &Path,
    former: &[String],
    client: &Client,
    options: &ClusterOptions,
) -> Result<(), FormerNameError> {
    if former.is_empty() {
        return Ok(());
    }
    let unknown = |why: String| Err(FormerNameError::Unrecognized(why));
    let identity = match timeout(ANSWER, cluster_identity(client)).await {
        Ok(Ok(Some(identity))) => identity,
        Ok(Ok(None)) => {
            tracing::warn!(
                cluster = options.name,
                former = former.join(", "),
                "the cluster is begun anew: whether it was followed by a former name is not known, \
                 as the namespace kube-system may not be read"
            );
            return Ok(());
        }
        Ok(Err(error)) => return unknown(error),
        Err(_) => return unknown("it does not answer".to_owned()),
    };
    for former in former {
        let followed = match followed_by(folders, former, options.clone()).await {
            Ok(followed) => followed,
            // Another attempt opened it, and will close it.
            Err(ClusterError::Open(error @ OpenError::InUse { .. })) => {
                return unknown(error.to_string());
            }
            // The events of a new cluster are gone in an hour; a damaged folder stays.
            Err(error) => {
                tracing::error!(
                    cluster = options.name,
                    former,
                    %error,
                    "it is not known whether the cluster was followed by this former name"
                );
                continue;
            }
        };
        let is_same = |one: &&Followed| {
            one.identity.as_ref() == Some(&identity)
                && overlaps(&one.namespace, &options.selections)
        };
        if let Some(one) = followed.iter().find(is_same) {
            return Err(FormerNameError::Renamed {
                former: former.clone(),
                until: one.complete_until,
            });
        }
    }
    Ok(())
}

/// Opens a cluster's folder, and returns which identities and namespaces were followed in it.
async fn followed_by(
    folders: &Path,
    name: &str,
    mut options: ClusterOptions,
) -> Result<Vec<Followed>, ClusterError> {
    name.clone_into(&mut options.name);
    // A store that is only examined takes nothing from the clusters that are followed.
    (options.is_followed, options.shared_quota) = (false, None);
    let cluster = Cluster::open_kept(&folders.join(name), options).await?;
    let coverage = cluster.history().coverage(None).await;
    cluster.close().await;
    Ok(coverage?.followed)
}

/// Whether events of a namespace, empty for all, are among those to follow.
fn overlaps(namespace: &str, selections: &[Selection]) -> bool {
    let mut namespaces = selections.iter().map(|selection| &selection.namespace);
    namespace.is_empty() || namespaces.any(|one| one.as_ref().is_none_or(|one| one == namespace))
}
