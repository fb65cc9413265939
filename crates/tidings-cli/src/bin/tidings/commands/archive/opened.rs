//! Opens the stores of clusters, follows the clusters, and makes the server's view of each.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, stream};
use tidings_archive::Cluster;
use tidings_cli::clusters::ClusterSetting;
use tidings_server::FollowedCluster;

use super::clusters::{self, ClusterError, Defaults};
#[cfg(feature = "objects")]
use super::sealing;
use super::source::Source;

/// Maximum clusters that are opened at the same time.
pub(super) const OPENED_AT_ONCE: usize = 8;

/// Why a cluster was not opened.
pub(super) type OpenedError = Box<dyn Error + Send + Sync>;

/// The source of a cluster, if it is followed, and its opened store.
pub(super) type Opened = Result<(Option<Source>, Cluster), OpenedError>;

/// Connects to the source of a cluster, if it is to be followed.
pub(super) async fn source_of(
    defaults: &Defaults,
    setting: &ClusterSetting,
) -> Result<Option<Source>, ClusterError> {
    if defaults.no_follow || !setting.is_followed() {
        return Ok(None);
    }
    defaults.connect(setting).await.map(Some)
}

/// Opens the store of a cluster, and follows the cluster if there is a source.
pub(super) async fn open(
    data_dir: &Path,
    defaults: &Defaults,
    setting: &ClusterSetting,
    source: Option<Source>,
    clusters: usize,
) -> Opened {
    let folder = clusters::folder(data_dir, &setting.name)?;
    if !setting.is_followed() && !folder.is_dir() {
        let name = &setting.name;
        let why =
            format!("nothing is kept of {name:?}, which is not to be followed (follow: false)");
        return Err(ClusterError::Name(why).into());
    }
    let mut options = defaults.options(setting, clusters);
    options.is_followed = source.is_some();
    let opened = Cluster::open_kept(&folder, options.clone()).await;
    let mut cluster = opened.map_err(|error| ClusterError::Store {
        name: setting.name.clone(),
        source: error,
    })?;
    #[cfg(feature = "objects")]
    if let Some(place) = &defaults.continues {
        sealing::take_over(place, &mut cluster).await?;
    }
    if let Some(feeds) = &defaults.feeds {
        // Cursors exist before anything is observed.
        let (feed, history) = (cluster.feed(), cluster.history());
        let (feed, history) = (Arc::new(feed), Arc::new(history));
        feeds.start(&setting.name, feed, history).await;
    }
    if let Some(source) = &source {
        options.authorities.clone_from(&source.authorities);
        cluster.follow(&source.client, options);
    }
    Ok((source, cluster))
}

/// Connects to several clusters and opens them, a few at a time.
pub(in crate::commands) async fn open_all(
    data_dir: &Path,
    defaults: &Defaults,
    settings: Vec<ClusterSetting>,
    clusters: usize,
) -> Vec<(ClusterSetting, Opened)> {
    stream::iter(settings)
        .map(|setting| async {
            let opened = async {
                let source = source_of(defaults, &setting).await?;
                open(data_dir, defaults, &setting, source, clusters).await
            };
            let opened = opened.await;
            (setting, opened)
        })
        .buffered(OPENED_AT_ONCE)
        .collect()
        .await
}

/// Makes the server's view of a cluster.
pub(in crate::commands) async fn to_serve(
    cluster: &Cluster,
    source: Option<&Source>,
) -> FollowedCluster {
    let history = Arc::new(cluster.counted_history().await);
    let mut followed = FollowedCluster::new(cluster.name(), cluster.store(), history);
    cluster
        .store_identity()
        .clone_into(&mut followed.store_identity);
    #[cfg(feature = "objects")]
    {
        followed.pending = Some(Arc::new(tidings_objects::Waiting::of(cluster)));
    }
    followed.pass_through = source.and_then(|source| source.pass_through.clone());
    followed.passed_user = source.and_then(|source| source.passed_user.clone());
    followed.client_certificate_ends = source.and_then(|source| source.client_certificate_ends);
    followed.namespace = source.and_then(|source| source.namespace.clone());
    if let Some(source) = source.filter(|source| source.is_asked) {
        if let Err(why) = source.verified {
            tracing::warn!(
                cluster = followed.name,
                "no token of a caller is sent to the cluster, and its users are refused: {why}"
            );
        }
        followed.access = Some(Arc::new(source.reviewer()));
    }
    followed
}
