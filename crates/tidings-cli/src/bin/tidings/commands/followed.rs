//! Follows clusters into a folder for as long as a verb shows their events.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tidings_archive::Cluster;
use tidings_history::History;
use tidings_server::FollowedCluster;

use super::archive::clusters::Defaults;
use super::archive::connector::open_all;
use super::cluster::{CommandError, tell};
use super::data_dir;

/// Memory for the indexes and caches of all clusters together, in bytes.
const MEMORY: usize = 64 << 20;
/// Retention of events in the folder of --keep.
const EVENT_TTL: Duration = Duration::from_secs(90 * 24 * 3600);
/// Interval at which the connections to the clusters are checked.
const LOOK: Duration = Duration::from_secs(2);

/// The clusters to follow, or the captures to read.
#[derive(Debug, clap::Args)]
pub(crate) struct FollowFlags {
    /// Kubeconfig of the clusters [default: $KUBECONFIG, ~/.kube/config, or the cluster this runs
    /// in]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of a cluster to follow; may be repeated [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Vec<String>,
    /// Namespace to follow; may be repeated [default: all]
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Vec<String>,
    /// Folder to keep the events in, for 90 days. tidings archive --data-dir continues with the
    /// same folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Show captures instead of a cluster: files, folders and archives, as tidings import takes
    /// them; may be repeated
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context", "namespace", "keep"])]
    pub(crate) file: Vec<PathBuf>,
}

/// Clusters that are followed.
pub(crate) struct FollowedClusters {
    clusters: Vec<Cluster>,
    /// The folder is no other process's.
    _taken: File,
}

impl FollowFlags {
    /// Refuses several namespaces: of an archive, one namespace or all are read.
    ///
    /// # Errors
    /// [`CommandError::Usage`]: there are several.
    pub(crate) fn check_one_namespace(&self) -> Result<(), CommandError> {
        match self.namespace.as_slice() {
            [] | [_] => Ok(()),
            _ => Err(CommandError::Usage(
                "of an archive, one namespace or all are read: give -n once, or --keep to follow \
                 the cluster itself"
                    .to_owned(),
            )),
        }
    }

    /// Refuses options that say how to follow, where nothing is followed.
    ///
    /// # Errors
    /// [`CommandError::Usage`] names the option.
    pub(crate) fn check_unused(&self) -> Result<(), CommandError> {
        let (option, instead) = if !self.namespace.is_empty() {
            (
                "-n",
                "give a user who may list events of these namespaces only",
            )
        } else if self.keep.is_some() {
            ("--keep", "the server keeps the events")
        } else {
            return Ok(());
        };
        Err(CommandError::Usage(format!(
            "{option} is for a cluster that is followed, and this is a tidings server: {instead}"
        )))
    }

    /// Begins to follow the clusters into the folder of --keep, or else into a temporary one.
    pub(crate) async fn follow(
        &self,
        temporary: &Path,
    ) -> Result<(FollowedClusters, Vec<FollowedCluster>), Box<dyn Error>> {
        let data_dir = self.keep.as_deref().unwrap_or(temporary);
        let defaults = Defaults {
            kubeconfig: self.kubeconfig.clone(),
            namespaces: self.namespace.clone(),
            event_ttl: EVENT_TTL,
            memory: MEMORY,
            ..Defaults::default()
        };
        let settings = defaults.of_contexts(&self.context, None)?;
        let taken = data_dir::take_for_archive(data_dir)?;
        let mut clusters = Vec::with_capacity(settings.len());
        let mut served = Vec::with_capacity(settings.len());
        for opened in open_all(data_dir, &defaults, settings).await {
            let mut opened = opened.map_err(|error| -> Box<dyn Error> { error })?;
            served.push(opened.begin_serving().await);
            clusters.push(opened.cluster);
        }
        let followed = FollowedClusters {
            clusters,
            _taken: taken,
        };
        Ok((followed, served))
    }
}

impl FollowedClusters {
    /// Prints what is wrong with a cluster, whenever that changes.
    pub(crate) async fn complain(&self) {
        let mut told: Vec<Option<String>> = vec![None; self.clusters.len()];
        loop {
            tokio::time::sleep(LOOK).await;
            for (cluster, told) in self.clusters.iter().zip(&mut told) {
                let why = cluster.history().following().why;
                if why != *told {
                    // The server's message is untrusted.
                    let words = why.as_deref().unwrap_or("followed again");
                    tell(&format!("cluster {}: {words}", cluster.name()));
                    *told = why;
                }
            }
        }
    }

    /// Ends following.
    pub(crate) async fn close(self) {
        for cluster in self.clusters {
            cluster.close().await;
        }
    }
}
