//! The clusters to follow and their settings, from the command line or from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::Context;
use parking_lot::{RwLock, RwLockReadGuard};
use tidings_archive::{
    Clocks, Cluster, ClusterOptions, EVENT_TTL, Lives, RetentionPolicy, Selection, SharedQuota,
};
use tidings_cli::clusters::{ClusterFile, ClusterSetting, check_name, name_of_context};
use tidings_feeds::Feeds;
use tidings_server::{PassThroughError, RetentionRules};
use tidings_store::embedded::EmbeddedOptions;

use super::source::{self, Source};
use crate::commands::cluster::{ClusterFlags, with_sources};
use crate::commands::kubeconfig;
use crate::commands::kubeconfig::chosen::has_token;

/// Minimum memory of one cluster's index, in bytes.
const INDEX_BYTES_MIN: usize = 256 << 10;
/// Minimum memory for the sample from which compression is learned, in bytes.
const SAMPLE_BYTES_MIN: usize = 64 << 10;

/// Why a cluster is not followed.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ClusterError {
    #[error("cluster {name:?}: {why}")]
    Config { name: String, why: String },
    #[error(
        "cluster {name:?}: requests cannot be passed to it: {source}; with passThrough: false in the file of --clusters it is followed without that"
    )]
    PassThrough {
        name: String,
        source: PassThroughError,
    },
    #[error("cluster {name:?}: {source}")]
    Store {
        name: String,
        source: tidings_archive::ClusterError,
    },
    #[error(
        "cluster {name:?}: the data folder has events of the same cluster until {until}, by the name {former:?}: follow it by that name, or remove them (--forget {former}); to begin anew beside them, keep {former:?} in the file of --clusters with follow: false"
    )]
    Renamed {
        name: String,
        former: String,
        until: Timestamp,
    },
    #[error(
        "cluster {name:?}: it is not known whether it is one of those that the data folder has by other names ({former}): {why}"
    )]
    Unrecognized {
        name: String,
        former: String,
        why: String,
    },
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("{0}")]
    Name(String),
}

/// Settings of clusters that their own setting leaves unset.
#[derive(Default)]
pub(in crate::commands) struct Defaults {
    pub(in crate::commands) kubeconfig: Option<PathBuf>,
    /// The path of the kubeconfig that the archive writes, if it writes one.
    pub(in crate::commands) own_kubeconfig: Option<PathBuf>,
    pub(in crate::commands) namespaces: Vec<String>,
    pub(in crate::commands) event_ttl: Duration,
    /// The rules of retention, which are read again when their file changes.
    pub(in crate::commands) retention: RwLock<Retention>,
    pub(in crate::commands) quota: Option<usize>,
    /// The quota of all clusters together.
    pub(in crate::commands) quota_total: Option<Arc<SharedQuota>>,
    pub(in crate::commands) pass_through: bool,
    pub(in crate::commands) cluster_access: bool,
    /// Memory for all clusters together, in bytes.
    pub(in crate::commands) memory: usize,
    /// The cluster whose API server serves what is past, and which reviews its users therefore.
    pub(in crate::commands) home: Option<String>,
    /// Whether observed versions are queued to be sealed.
    pub(in crate::commands) seal: bool,
    /// The clusters' clocks, by which the archive judges its own.
    pub(in crate::commands) clocks: Arc<Clocks>,
    /// The feeds that deliver the clusters' events.
    pub(in crate::commands) feeds: Option<Feeds>,
    /// The place of the sealed archives that new data folders continue.
    #[cfg(feature = "objects")]
    pub(in crate::commands) continues: Option<super::sealing::Continuation>,
}

/// Retention rules, and the text they were parsed from.
#[derive(Clone, Default)]
pub(in crate::commands) struct Retention {
    rules: RetentionRules,
    text: String,
}

impl Retention {
    /// Reads the rules of a file; without a path there are none.
    pub(in crate::commands) fn read(path: Option<&Path>) -> Result<Self, ClusterError> {
        match path {
            None => Ok(Self::default()),
            Some(path) => Self::of(path, text_of(path)?),
        }
    }

    fn of(path: &Path, text: String) -> Result<Self, ClusterError> {
        let rules = RetentionRules::parse(&text).map_err(wrong_file(path))?;
        Ok(Self { rules, text })
    }
}

/// Makes errors about a file.
pub(super) fn wrong_file<E: ToString>(path: &Path) -> impl Fn(E) -> ClusterError {
    |why| ClusterError::File {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// Reads a file of clusters.
pub(in crate::commands) fn read(path: &Path) -> Result<ClusterFile, ClusterError> {
    of_text(path, &text_of(path)?)
}

/// A file of clusters, rules or feeds that is read repeatedly.
///
/// The file may be half written when it is read, and its beginning may be a valid file with fewer
/// clusters, a smaller quota or fewer rules. So a text counts only when it is read twice in a row.
#[derive(Debug, Default)]
pub(super) struct Reread {
    text: Option<String>,
    complaint: String,
}

impl Reread {
    /// Reads the clusters; `None` if the text differs from that of the previous read.
    pub(super) fn clusters(&mut self, path: &Path) -> Result<Option<ClusterFile>, ClusterError> {
        let text = self.text(path)?;
        text.map(|text| of_text(path, &text)).transpose()
    }

    /// Reads the rules of retention; `None` if the text differs from that of the previous read, or
    /// is that of the rules in use.
    pub(super) fn retention(
        &mut self,
        path: &Path,
        used: &Retention,
    ) -> Result<Option<Retention>, ClusterError> {
        let text = self.text(path)?;
        let changed = text.filter(|text| *text != used.text);
        changed.map(|text| Retention::of(path, text)).transpose()
    }

    /// Reads the text; `None` if it differs from that of the previous read.
    pub(super) fn text(&mut self, path: &Path) -> Result<Option<String>, ClusterError> {
        let text = text_of(path)?;
        let is_same = self.text.as_ref() == Some(&text);
        self.text = Some(text.clone());
        Ok(is_same.then_some(text))
    }

    /// Logs why the file cannot be used, once for each reason.
    pub(super) fn tell<T>(
        &mut self,
        read: Result<Option<T>, ClusterError>,
        effect: &'static str,
    ) -> Option<T> {
        let error = match read {
            Ok(read) => {
                if read.is_some() {
                    self.complaint.clear();
                }
                return read;
            }
            Err(error) => error.to_string(),
        };
        if self.complaint != error {
            tracing::error!(error, "{effect}");
            self.complaint = error;
        }
        None
    }
}

pub(super) fn text_of(path: &Path) -> Result<String, ClusterError> {
    std::fs::read_to_string(path).map_err(wrong_file(path))
}

fn of_text(path: &Path, text: &str) -> Result<ClusterFile, ClusterError> {
    let mut file = tidings_cli::clusters::parse(text).map_err(wrong_file(path))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for cluster in &mut file.clusters {
        cluster.kubeconfig = cluster.kubeconfig.take().map(|path| folder.join(path));
    }
    Ok(file)
}

/// The clusters that have a folder in the data folder, to be served as they were kept.
pub(super) fn kept(data_dir: &Path) -> Result<Vec<ClusterSetting>, ClusterError> {
    let path = folders(data_dir);
    let entries = std::fs::read_dir(&path).map_err(wrong_file(&path))?;
    let mut settings = Vec::new();
    for entry in entries {
        let entry = entry.map_err(wrong_file(&path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if check_name(&name).is_ok() && entry.path().is_dir() {
            settings.push(ClusterSetting {
                follow: Some(false),
                ..ClusterSetting::named(name)
            });
        }
    }
    settings.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(settings)
}

/// The folder that has a folder for each cluster.
pub(super) fn folders(data_dir: &Path) -> PathBuf {
    data_dir.join("clusters")
}

/// The folder of a cluster.
pub(in crate::commands) fn folder(data_dir: &Path, name: &str) -> Result<PathBuf, ClusterError> {
    check_name(name).map_err(ClusterError::Name)?;
    Ok(folders(data_dir).join(name))
}

impl Defaults {
    /// Closes a cluster whose events may be delivered.
    pub(super) async fn close(&self, cluster: Cluster) {
        if let Some(feeds) = &self.feeds {
            feeds.stop(cluster.name()).await;
        }
        cluster.close().await;
    }

    /// The clusters of these contexts, or of the current one.
    pub(in crate::commands) fn of_contexts(
        &self,
        contexts: &[String],
        name: Option<&str>,
    ) -> Result<Vec<ClusterSetting>, ClusterError> {
        if name.is_some() && contexts.len() > 1 {
            let why = "--name is for one cluster: give each a name with --clusters";
            return Err(ClusterError::Name(why.into()));
        }
        let mut contexts: Vec<_> = contexts.iter().cloned().map(Some).collect();
        if contexts.is_empty() {
            // An unreadable kubeconfig is reported when the cluster is connected to.
            let read = match &self.kubeconfig {
                Some(path) => kubeconfig::read(path).ok(),
                None => kubeconfig::merged(&kubeconfig::of_environment())
                    .ok()
                    .flatten(),
            };
            let current = read.as_ref().and_then(kubeconfig::current_context);
            contexts.push(current.map(str::to_owned));
        }
        let mut settings = Vec::<ClusterSetting>::new();
        for context in contexts {
            let name = match (name, &context) {
                (Some(name), _) => name.to_owned(),
                (None, Some(context)) => name_of_context(context),
                (None, None) => "in-cluster".into(),
            };
            check_name(&name).map_err(ClusterError::Name)?;
            if let Some(other) = settings.iter().find(|setting| setting.name == name) {
                let other = other.context.as_deref().unwrap_or_default();
                let context = context.unwrap_or_default();
                return Err(ClusterError::Name(format!(
                    "the contexts {other:?} and {context:?} would both be called {name:?}: give them names with --clusters"
                )));
            }
            settings.push(ClusterSetting {
                name,
                context,
                ..ClusterSetting::default()
            });
        }
        Ok(settings)
    }

    /// The kubeconfig files that a cluster's connection depends on.
    pub(super) fn kubeconfigs(&self, setting: &ClusterSetting) -> Vec<PathBuf> {
        if let Some(path) = setting.kubeconfig.as_ref().or(self.kubeconfig.as_ref()) {
            return vec![path.clone()];
        }
        let mut files = kubeconfig::of_environment();
        files.retain(|file| !self.is_own(file));
        files
    }

    /// Whether a file is the kubeconfig that the archive writes. It may be read together with
    /// others. It changes whenever following a cluster begins again, which must not cause another
    /// reconnection.
    fn is_own(&self, file: &Path) -> bool {
        let Some(own) = &self.own_kubeconfig else {
            return false;
        };
        let [own, file] = [own.as_path(), file].map(|path| path.canonicalize().ok());
        own.is_some() && own == file
    }

    /// Makes a client of a cluster. Whether the cluster answers shows when it is followed. Waits up
    /// to a minute for a credential program.
    pub(in crate::commands) async fn connect(
        &self,
        setting: &ClusterSetting,
    ) -> Result<Source, ClusterError> {
        let wrong = |why| ClusterError::Config {
            name: setting.name.clone(),
            why,
        };
        let kubeconfig = setting.kubeconfig.clone().or(self.kubeconfig.clone());
        let flags = ClusterFlags::of_context(kubeconfig, setting.context.clone());
        let config = flags.config().map_err(|error| wrong(error.to_string()))?;
        let passes = setting.pass_through.unwrap_or(self.pass_through);
        let pass_through = passes.then(|| source::pass_through(&config)).transpose();
        let pass_through =
            pass_through
                .map(Option::flatten)
                .map_err(|source| ClusterError::PassThrough {
                    name: setting.name.clone(),
                    source,
                })?;
        let is_home = self.home.as_ref() == Some(&setting.name);
        let is_asked = is_home || setting.cluster_access.unwrap_or(self.cluster_access);
        if passes && !is_asked {
            tracing::warn!(
                cluster = setting.name,
                "no request is passed to the cluster, as it is not asked about tokens: give \
                 --cluster-access, or clusterAccess for it in the file of --clusters, too"
            );
        }
        let context = self.context(setting).unwrap_or_default();
        let mut passed_user = None;
        if pass_through.is_some() && is_asked {
            passed_user = context.user.filter(|_| has_token(&config.auth_info));
            if passed_user.is_none() {
                tracing::info!(
                    cluster = setting.name,
                    "it is followed by a user without a token, and nothing else can be passed on, \
                     such as a client certificate: users with tokens can read other things than events"
                );
            }
        }
        let source = Source::new(&setting.name, config, pass_through, is_asked).await;
        let mut source = source.map_err(|error| wrong(with_sources(&error)))?;
        source.passed_user = passed_user;
        source.namespace = context.namespace.filter(|namespace| !namespace.is_empty());
        Ok(source)
    }

    /// The context in the kubeconfigs by which a cluster is followed. A user without a name is left
    /// out.
    fn context(&self, setting: &ClusterSetting) -> Option<Context> {
        let found = kubeconfig::merged(&self.kubeconfigs(setting));
        let found = found.ok().flatten()?;
        let mut context = kubeconfig::context(&found, setting.context.as_deref())?.clone();
        context.user = context.user.filter(|user| !user.is_empty());
        Some(context)
    }

    /// The rules of retention in use.
    pub(super) fn retention(&self) -> RwLockReadGuard<'_, Retention> {
        self.retention.read()
    }

    pub(super) fn set_retention(&self, retention: Retention) {
        *self.retention.write() = retention;
    }

    /// How long events of a cluster are kept.
    pub(super) fn policy(&self, setting: &ClusterSetting) -> RetentionPolicy {
        let retention = self.retention().clone();
        let event_ttl = setting.event_ttl.unwrap_or(self.event_ttl);
        let rules = retention.rules.of_cluster(&setting.name);
        let lives = Lives::new(&rules.times(), rules.match_everything(), event_ttl);
        let named = rules.clone();
        let keep_for = Arc::new(move |event: &_| rules.ttl(event).unwrap_or(event_ttl));
        let mut policy = RetentionPolicy::new(keep_for);
        policy.text = format!("{}s\n{}", event_ttl.as_secs(), retention.text);
        policy.rule_of = Arc::new(move |event| {
            let rule = named.rule(event);
            rule.map_or_else(|| EVENT_TTL.into(), |(_, name)| name)
        });
        policy.lives = Some(lives);
        policy
    }

    /// The options for following a cluster, one of `many`.
    pub(in crate::commands) fn options(
        &self,
        setting: &ClusterSetting,
        clusters: usize,
    ) -> ClusterOptions {
        let selection = Selection {
            namespace: None,
            field_selector: setting.field_selector.clone(),
            label_selector: setting.label_selector.clone(),
        };
        let namespaces = setting.namespaces.as_ref().unwrap_or(&self.namespaces);
        let mut options = ClusterOptions::new(&setting.name);
        options.selections = match namespaces.as_slice() {
            [] => vec![selection],
            some => some
                .iter()
                .map(|namespace| Selection {
                    namespace: Some(namespace.clone()),
                    ..selection.clone()
                })
                .collect(),
        };
        options.retention = self.policy(setting);
        options.quota = setting.quota.or(self.quota).map(|bytes| bytes as u64);
        options.shared_quota.clone_from(&self.quota_total);
        options.mirror_deletions = setting.mirror_deletions.unwrap_or_default();
        options.from_now = setting.from_now.unwrap_or_default();
        options.seal = self.seal;
        options.clocks = Arc::clone(&self.clocks);
        options.store = store(self.memory / clusters.max(1));
        options
    }
}

/// The options of a store that may use `memory` bytes.
fn store(memory: usize) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    // While it is flushed, the index takes this much again. Together with the caches that is the
    // whole memory.
    options.index_memory_bytes = (memory / 8).max(INDEX_BYTES_MIN);
    options.cache_bytes = (memory / 8 * 3) as u64;
    options.history_memory_bytes = memory / 8;
    options.list_snapshot_memory_bytes = memory / 8;
    options.sample_bytes = (memory / 8).clamp(SAMPLE_BYTES_MIN, options.sample_bytes);
    options
}

#[cfg(test)]
mod tests {
    use tidings_server::Reviewer;

    use super::*;
    use crate::commands::serve::cluster::Unverified;

    #[test]
    fn a_kubeconfig_begins_at_the_folder_of_the_file_and_mistakes_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clusters.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).map_err(|error| error.to_string())
        };
        let found = read("clusters:\n- name: prod\n  kubeconfig: prod.yaml").unwrap();
        assert_eq!(
            found.clusters[0].kubeconfig,
            Some(folder.path().join("prod.yaml"))
        );
        let error = read("clusters: {}").unwrap_err();
        for part in ["clusters.yaml: ", "line 1"] {
            assert!(error.contains(part), "{error}");
        }
    }

    /// The beginning of a file may be a valid file with fewer clusters, or with a smaller quota.
    #[test]
    fn a_file_that_is_read_again_counts_once_it_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clusters.yaml");
        let mut reread = Reread::default();
        let mut look = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let found = reread.clusters(&path);
            found.map(|found| found.map(|file| file.clusters.len()))
        };
        let whole = "clusters:\n- {name: a, quota: 20Gi}\n- name: b\n";
        assert!(matches!(look(whole), Ok(None)));
        assert!(matches!(look(whole), Ok(Some(2))));
        assert!(matches!(look("clusters:\n- {name: a}\n"), Ok(None)));
        assert!(matches!(look(whole), Ok(None)));
        assert!(matches!(look(whole), Ok(Some(2))));
        // An error is reported when the text is unchanged.
        assert!(matches!(look("clusters: {"), Ok(None)));
        assert!(look("clusters: {").is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(reread.clusters(&path).is_err());
    }

    /// A file that is emptied or damaged must not end events.
    #[test]
    fn only_whole_rules_that_differ_replace_the_rules_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retention.yaml");
        let long = "rules:\n- {type: Warning, ttl: 90d}\n";
        std::fs::write(&path, long).unwrap();
        let used = Retention::read(Some(&path)).unwrap();
        let mut reread = Reread::default();
        let mut look = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let _ = reread.retention(&path, &used);
            let found = reread.retention(&path, &used);
            found.map(|found| found.map(|found| found.rules.times().len()))
        };
        for same in [long, long] {
            assert!(matches!(look(same), Ok(None)));
        }
        for wrong in ["", "rules:\n", "rules:\n- {type: Warning, ttl: 9", "{}"] {
            assert!(look(wrong).is_err(), "{wrong:?}");
        }
        assert!(matches!(
            look("rules:\n- {type: Warning, ttl: 30d}\n"),
            Ok(Some(1))
        ));
        assert!(matches!(look("rules: []\n"), Ok(Some(0))));
        std::fs::remove_file(&path).unwrap();
        assert!(reread.retention(&path, &used).is_err());
    }

    /// Writes a kubeconfig with a token, and these settings of its cluster.
    fn kubeconfig_of(folder: &Path, cluster: &str) -> PathBuf {
        let path = folder.join("kubeconfig");
        let kubeconfig = format!(
            "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: a, user: a}}}}\n\
             clusters:\n- {{name: a, cluster: {cluster}}}\nusers:\n- {{name: a, user: {{token: t}}}}\n"
        );
        std::fs::write(&path, kubeconfig).unwrap();
        path
    }

    /// The other clusters are followed, and this one is, too, once it does not ask for proxied
    /// requests.
    #[tokio::test]
    async fn a_cluster_that_requests_cannot_be_passed_to_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = r#"{server: "https://10.0.0.1:6443", tls-server-name: not a name}"#;
        let defaults = Defaults {
            kubeconfig: Some(kubeconfig_of(folder.path(), cluster)),
            pass_through: true,
            ..Defaults::default()
        };
        let setting = ClusterSetting::named("prod".to_owned());
        let error = defaults.connect(&setting).await.err().unwrap();
        assert!(matches!(error, ClusterError::PassThrough { .. }));
        let error = error.to_string();
        for part in ["\"prod\"", "not a name", "passThrough: false"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[tokio::test]
    async fn a_cluster_that_is_not_verified_is_followed_and_sent_no_token() {
        let folder = tempfile::tempdir().unwrap();
        for (cluster, why) in [
            (
                r#"{server: "https://10.0.0.1:6443", insecure-skip-tls-verify: true}"#,
                Unverified::Certificate,
            ),
            (r#"{server: "http://127.0.0.1:8001"}"#, Unverified::Plain),
        ] {
            let defaults = Defaults {
                kubeconfig: Some(kubeconfig_of(folder.path(), cluster)),
                pass_through: true,
                cluster_access: true,
                ..Defaults::default()
            };
            let setting = ClusterSetting::named("prod".to_owned());
            let source = defaults.connect(&setting).await.ok().unwrap();
            assert_eq!(source.verified, Err(why));
            assert!(!source.reviewer().is_verified());
            assert!(source.pass_through.is_none() && source.passed_user.is_none());
        }
    }

    #[test]
    fn the_kubeconfig_that_the_archive_writes_is_found_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let own = data.join("kubeconfig");
        let defaults = Defaults {
            own_kubeconfig: Some(own.clone()),
            ..Defaults::default()
        };
        // Neither file exists yet.
        assert!(!defaults.is_own(&data.join("other")));
        for file in [&own, &data.join("other")] {
            std::fs::write(file, "").unwrap();
        }
        assert!(defaults.is_own(&own));
        assert!(defaults.is_own(&data.join("../data/kubeconfig")));
        assert!(!defaults.is_own(&data.join("other")));
        assert!(!Defaults::default().is_own(&own));
    }

    #[tokio::test]
    async fn the_user_of_the_kubeconfig_is_named_if_their_token_may_be_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let authority = rcgen::generate_simple_self_signed(["api.example".to_owned()]).unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.cert.pem()).unwrap();
        let kubeconfig = "
current-context: a
contexts:
- {name: a, context: {cluster: a, user: me, namespace: shop}}
- {name: b, context: {cluster: a, user: other}}
clusters:
- {name: a, cluster: {server: 'https://10.0.0.1:6443', certificate-authority: ca.pem}}
users:
- {name: me, user: {token: t}}
- {name: other, user: {username: u, password: p}}
";
        std::fs::write(&path, kubeconfig).unwrap();
        for (context, is_asked, expected) in [
            (None, true, Some("me")),
            (Some("a"), true, Some("me")),
            // No token can be sent on to this cluster.
            (Some("b"), true, None),
            // The cluster does not review tokens.
            (Some("a"), false, None),
        ] {
            let defaults = Defaults {
                kubeconfig: Some(path.clone()),
                pass_through: true,
                cluster_access: is_asked,
                ..Defaults::default()
            };
            let setting = ClusterSetting {
                context: context.map(str::to_owned),
                ..ClusterSetting::named("prod".to_owned())
            };
            let source = defaults.connect(&setting).await.ok().unwrap();
            assert_eq!(source.passed_user.as_deref(), expected, "{context:?}");
            let namespace = (context != Some("b")).then_some("shop");
            assert_eq!(source.namespace.as_deref(), namespace, "{context:?}");
            assert!(source.pass_through.is_some());
        }
    }
}
