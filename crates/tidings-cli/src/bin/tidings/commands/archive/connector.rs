//! Connects to clusters with kubeconfigs, opens their stores, and makes the server's view of each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{StreamExt, stream};
use tidings_archive::{
    Cluster, Connector, FormerNameError, OPENED_AT_ONCE, Refusal, Setting, check_former_names,
};
use tidings_cli::clusters::ClusterSetting;
use tidings_history::timestamp;
use tidings_server::FollowedCluster;

use super::clusters::{self, ClusterError, Defaults};
use super::kubeconfigs;
#[cfg(feature = "objects")]
use super::sealing;
use super::source::Source;

/// Connects to the clusters of kubeconfigs, and opens them in a data folder.
pub(super) struct Kubeconfigs {
    pub(super) data_dir: PathBuf,
    pub(super) defaults: Arc<Defaults>,
}

/// An open cluster.
pub(in crate::commands) struct Opened {
    pub(in crate::commands) cluster: Cluster,
    /// The connection to its source until the cluster is served, if it is followed.
    source: Option<Source>,
}

impl Connector for Kubeconfigs {
    type Setting = ClusterSetting;
    type Source = Source;
    type Cluster = Opened;

    fn files(&self, settings: &[ClusterSetting]) -> Vec<Option<u64>> {
        let mut hashes = HashMap::new();
        let hash = |setting: &ClusterSetting| {
            let hash = setting.is_followed().then(|| {
                let hash = hashes.entry(self.defaults.kubeconfigs(setting));
                *hash.or_insert_with_key(|files: &Vec<PathBuf>| kubeconfigs::hash(files))
            });
            hash.flatten()
        };
        settings.iter().map(hash).collect()
    }

    async fn connect(&self, setting: &ClusterSetting) -> Result<Source, Refusal> {
        Ok(self.defaults.connect(setting).await?)
    }

    async fn open(
        &self,
        setting: &ClusterSetting,
        source: Option<Source>,
        wanted: &[String],
    ) -> Result<Opened, Refusal> {
        if let Some(source) = &source {
            self.check_name(setting, source, wanted).await?;
        }
        open(
            &self.data_dir,
            &self.defaults,
            setting,
            source,
            wanted.len(),
        )
        .await
    }

    async fn close(&self, opened: Opened) {
        self.defaults.close(opened.cluster).await;
    }
}

impl Kubeconfigs {
    /// Refuses to begin a cluster anew that the data folder has under a name that is not `wanted`.
    async fn check_name(
        &self,
        setting: &ClusterSetting,
        source: &Source,
        wanted: &[String],
    ) -> Result<(), ClusterError> {
        let name = &setting.name;
        if clusters::folder(&self.data_dir, name)?.is_dir() {
            return Ok(());
        }
        // Without a folder of clusters there is no former name.
        let kept = clusters::kept(&self.data_dir).unwrap_or_default();
        let former = kept.into_iter().map(|kept| kept.name);
        let former: Vec<String> = former.filter(|kept| !wanted.contains(kept)).collect();
        let folders = clusters::folders(&self.data_dir);
        let options = self.defaults.options(setting, wanted.len());
        let checked = check_former_names(&folders, &former, &source.client, &options);
        let name = name.clone();
        checked.await.map_err(|error| match error {
            FormerNameError::Renamed { former, until } => ClusterError::Renamed {
                name,
                former,
                until: timestamp(until),
            },
            error => ClusterError::Unrecognized {
                name,
                former: former.join(", "),
                why: error.to_string(),
            },
        })
    }
}

/// Opens the store of a cluster, and follows the cluster if there is a source.
async fn open(
    data_dir: &Path,
    defaults: &Defaults,
    setting: &ClusterSetting,
    source: Option<Source>,
    clusters: usize,
) -> Result<Opened, Refusal> {
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
    if let Some(continuation) = &defaults.continues
        && let Err(error) = sealing::take_over(continuation, &mut cluster, source.as_ref()).await
    {
        cluster.close().await;
        return Err(error.into());
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
    Ok(Opened { cluster, source })
}

/// Connects to several clusters and opens them, a few at a time.
pub(in crate::commands) async fn open_all(
    data_dir: &Path,
    defaults: &Defaults,
    settings: Vec<ClusterSetting>,
) -> Vec<Result<Opened, Refusal>> {
    let clusters = settings.len();
    stream::iter(settings)
        .map(|setting| async move {
            let source = defaults.connect(&setting).await?;
            open(data_dir, defaults, &setting, Some(source), clusters).await
        })
        .buffered(OPENED_AT_ONCE)
        .collect()
        .await
}

impl Opened {
    /// Makes the server's view of the cluster.
    pub(in crate::commands) async fn begin_serving(&mut self) -> FollowedCluster {
        let (cluster, source) = (&self.cluster, self.source.take());
        let history = Arc::new(cluster.counted_history().await);
        let mut followed = FollowedCluster::new(cluster.name(), cluster.store(), history);
        cluster
            .store_identity()
            .clone_into(&mut followed.store_identity);
        #[cfg(feature = "objects")]
        {
            followed.pending = Some(Arc::new(tidings_objects::Waiting::of(cluster)));
        }
        let Some(source) = source else {
            return followed;
        };
        if source.is_asked {
            if let Err(why) = source.verified {
                tracing::warn!(
                    cluster = followed.name,
                    "no token of a caller is sent to the cluster, and its users are refused: {why}"
                );
            }
            followed.access = Some(Arc::new(source.reviewer()));
        }
        followed.pass_through = source.pass_through;
        followed.passed_user = source.passed_user;
        followed.client_certificate_ends = source.client_certificate_ends;
        followed.namespace = source.namespace;
        followed
    }
}
