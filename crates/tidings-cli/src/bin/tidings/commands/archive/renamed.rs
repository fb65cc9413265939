//! Recognises a cluster that is to be followed under another name than before, by its identity.
//!
//! Invariant: a cluster whose events are in the data folder under a name that is not wanted any
//! more is not begun anew under another name. Only where the identity or a former folder may not or
//! cannot be read, that cannot be known, and is logged.

use std::path::Path;
use std::time::Duration;

use tidings_archive::{Cluster, cluster_identity};
use tidings_cli::clusters::ClusterSetting;
use tidings_history::{Followed, History, timestamp};
use tokio::time::timeout;

use super::clusters::{self, ClusterError, Defaults};
use super::source::Source;

/// Maximum time for the cluster's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Refuses to begin a cluster anew that the data folder has under a name that is not `wanted`.
pub(super) async fn check(
    data_dir: &Path,
    defaults: &Defaults,
    (setting, source): (&ClusterSetting, &Source),
    wanted: &[String],
) -> Result<(), ClusterError> {
    let name = &setting.name;
    if clusters::folder(data_dir, name)?.is_dir() {
        return Ok(());
    }
    // Without a folder of clusters there is no former name.
    let mut former = clusters::kept(data_dir).unwrap_or_default();
    former.retain(|kept| !wanted.contains(&kept.name));
    if former.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = former.iter().map(|kept| kept.name.as_str()).collect();
    let names = names.join(", ");
    let unknown = |why: String| ClusterError::Unrecognized {
        name: name.clone(),
        former: names.clone(),
        why,
    };
    let identity = timeout(ANSWER, cluster_identity(&source.client)).await;
    let identity = match identity {
        Ok(Ok(Some(identity))) => identity,
        Ok(Ok(None)) => {
            tracing::warn!(
                cluster = name,
                former = names,
                "the cluster is begun anew: whether it was followed by a former name is not known, \
                 as the namespace kube-system may not be read"
            );
            return Ok(());
        }
        Ok(Err(error)) => return Err(unknown(error.to_string())),
        Err(_) => return Err(unknown("it does not answer".to_owned())),
    };
    let namespaces = defaults.namespaces_of(setting);
    for kept in &former {
        let followed = match followed_by(data_dir, defaults, kept, wanted.len()).await {
            Ok(followed) => followed,
            // The events of a new cluster are gone in an hour; a damaged folder stays.
            Err(error) => {
                tracing::error!(
                    cluster = name,
                    former = kept.name,
                    %error,
                    "it is not known whether the cluster was followed by this former name"
                );
                continue;
            }
        };
        let is_same = |one: &&Followed| {
            one.identity.as_ref() == Some(&identity) && overlaps(&one.namespace, namespaces)
        };
        if let Some(one) = followed.iter().find(is_same) {
            return Err(ClusterError::Renamed {
                name: name.clone(),
                former: kept.name.clone(),
                until: timestamp(one.complete_until),
            });
        }
    }
    Ok(())
}

/// Opens a cluster's folder, and returns which identities and namespaces were followed in it.
async fn followed_by(
    data_dir: &Path,
    defaults: &Defaults,
    kept: &ClusterSetting,
    clusters: usize,
) -> Result<Vec<Followed>, ClusterError> {
    let wrong = |source| ClusterError::Store {
        name: kept.name.clone(),
        source,
    };
    let folder = clusters::folder(data_dir, &kept.name)?;
    let mut options = defaults.options(kept, clusters);
    // A store that is only examined takes nothing from the clusters that are followed.
    (options.is_followed, options.shared_quota) = (false, None);
    let cluster = Cluster::open_kept(&folder, options).await;
    let cluster = cluster.map_err(wrong)?;
    let coverage = cluster.history().coverage(None).await;
    cluster.close().await;
    let coverage = coverage.map_err(|error| wrong(error.into()))?;
    Ok(coverage.followed)
}

/// Whether a namespace, empty for all, is among namespaces, which are all if there are none.
fn overlaps(namespace: &str, namespaces: &[String]) -> bool {
    namespace.is_empty() || namespaces.is_empty() || namespaces.iter().any(|one| one == namespace)
}
