//! Which clusters are followed, and how: from the command line, or from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::config::Kubeconfig;
use serde::Deserialize;
use tidings_archive::{ClusterOptions, Selection};
use tidings_server::{RetentionRules, parse_days};
use tidings_store::embedded::EmbeddedOptions;

use super::kubeconfigs;
use super::source::Source;
use crate::commands::cluster::{ClusterFlags, with_sources};
use crate::commands::serve::values;

/// Least memory of one cluster's index, in bytes.
const INDEX_BYTES_MIN: usize = 256 << 10;
/// Longest name of a cluster.
const NAME_LEN_MAX: usize = 63;

/// Why a cluster is not followed.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ClusterError {
    #[error("cluster {name:?}: {why}")]
    Config { name: String, why: String },
    #[error("cluster {name:?}: {source}")]
    Store {
        name: String,
        source: tidings_archive::ClusterError,
    },
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("{0}")]
    Name(String),
}

/// What holds for a cluster of which nothing else is said.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
#[derive(Default)]
pub(in crate::commands) struct Defaults {
    pub(in crate::commands) kubeconfig: Option<PathBuf>,
    pub(in crate::commands) namespaces: Vec<String>,
    pub(in crate::commands) field_selector: Option<String>,
    pub(in crate::commands) label_selector: Option<String>,
    pub(in crate::commands) event_ttl: Duration,
    pub(in crate::commands) retention: Retention,
    pub(in crate::commands) quota: Option<usize>,
    pub(in crate::commands) mirror_deletions: bool,
    pub(in crate::commands) pass_through: bool,
    pub(in crate::commands) cluster_access: bool,
    /// Of all clusters together.
    pub(in crate::commands) memory: usize,
    /// Nothing is followed.
    pub(in crate::commands) no_follow: bool,
    /// What was observed waits to be sealed.
    pub(in crate::commands) seal: bool,
}

/// A cluster to follow, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::commands) struct ClusterSetting {
    pub(in crate::commands) name: String,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    namespaces: Option<Vec<String>>,
    field_selector: Option<String>,
    label_selector: Option<String>,
    #[serde(rename = "eventTTL")]
    event_ttl: Option<String>,
    quota: Option<String>,
    pass_through: Option<bool>,
    cluster_access: Option<bool>,
    mirror_deletions: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    clusters: Vec<ClusterSetting>,
}

/// A number of days, or a duration as Go writes it, of a second at least.
pub(in crate::commands) fn days(text: &str) -> Result<Duration, String> {
    parse_days(text)
        .filter(|time| *time >= Duration::from_secs(1))
        .ok_or_else(|| "expected a duration of at least 1s, such as 90d, 36h or 1d12h".into())
}

/// Rules, and the text they were read from.
#[derive(Default)]
pub(in crate::commands) struct Retention {
    rules: RetentionRules,
    text: String,
}

impl Retention {
    /// The rules of a file.
    pub(in crate::commands) fn read(path: Option<&Path>) -> Result<Self, ClusterError> {
        match path {
            None => Ok(Self::default()),
            Some(path) => read_retention(path),
        }
    }
}

fn read_retention(path: &Path) -> Result<Retention, ClusterError> {
    let wrong = |why| ClusterError::File {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let rules = RetentionRules::parse(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(Retention { rules, text })
}

/// The clusters of a file.
pub(in crate::commands) fn read(path: &Path) -> Result<Vec<ClusterSetting>, ClusterError> {
    let wrong = |why| ClusterError::File {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let File { mut clusters } = serde_saphyr::from_str(&text)
        .map_err(|error| wrong(error.without_snippet().to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut names = std::collections::BTreeSet::new();
    for cluster in &mut clusters {
        check_name(&cluster.name).map_err(|error| wrong(error.to_string()))?;
        if !names.insert(cluster.name.clone()) {
            return Err(wrong(format!("there are two clusters {:?}", cluster.name)));
        }
        if let Some(text) = &cluster.event_ttl {
            let why = |why| wrong(format!("cluster {:?}: eventTTL: {why}", cluster.name));
            days(text).map_err(why)?;
        }
        if let Some(text) = &cluster.quota {
            let why = |why| wrong(format!("cluster {:?}: quota: {why}", cluster.name));
            values::bytes(text).map_err(why)?;
        }
        // Beside the file.
        cluster.kubeconfig = cluster.kubeconfig.take().map(|path| folder.join(path));
    }
    Ok(clusters)
}

/// The clusters of which something is kept.
pub(super) fn kept(data_dir: &Path) -> Result<Vec<ClusterSetting>, ClusterError> {
    let path = data_dir.join("clusters");
    let wrong = |why: String| ClusterError::File {
        path: path.clone(),
        why,
    };
    let entries = std::fs::read_dir(&path).map_err(|error| wrong(error.to_string()))?;
    let mut settings = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| wrong(error.to_string()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if check_name(&name).is_ok() && entry.path().is_dir() {
            settings.push(ClusterSetting::named(name));
        }
    }
    settings.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(settings)
}

/// Where what is kept of a cluster lies.
pub(in crate::commands) fn folder(data_dir: &Path, name: &str) -> Result<PathBuf, ClusterError> {
    check_name(name)?;
    Ok(data_dir.join("clusters").join(name))
}

/// A name is part of paths and of addresses.
fn check_name(name: &str) -> Result<(), ClusterError> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = name.len() <= NAME_LEN_MAX
        && name.bytes().all(|byte| is_inner(byte) || byte == b'-')
        && name.bytes().next().is_some_and(is_inner)
        && name.bytes().next_back().is_some_and(is_inner);
    if is_label {
        return Ok(());
    }
    Err(ClusterError::Name(format!(
        "{name:?} cannot be a cluster's name: lower-case letters, digits and '-' can, at most {NAME_LEN_MAX}"
    )))
}

/// What comes nearest to a context's name.
fn name_of_context(context: &str) -> String {
    let mut name = String::new();
    for character in context.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    // Of names such as arn:aws:eks:…:cluster/prod the end tells them apart.
    let start = name.len().saturating_sub(NAME_LEN_MAX);
    name.get(start..)
        .unwrap_or_default()
        .trim_matches('-')
        .to_owned()
}

impl Defaults {
    /// The clusters of some contexts, or of the current one.
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
            let read = match &self.kubeconfig {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            contexts.push(read.ok().and_then(|kubeconfig| kubeconfig.current_context));
        }
        let mut settings = Vec::<ClusterSetting>::new();
        for context in contexts {
            let name = match (name, &context) {
                (Some(name), _) => name.to_owned(),
                (None, Some(context)) => name_of_context(context),
                (None, None) => "in-cluster".into(),
            };
            check_name(&name)?;
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
}

impl ClusterSetting {
    /// With nothing else said.
    pub(super) fn named(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// The kubeconfigs that lead to the cluster, if any do.
    pub(super) fn kubeconfigs(&self, defaults: &Defaults) -> Vec<PathBuf> {
        match self.kubeconfig.as_ref().or(defaults.kubeconfig.as_ref()) {
            Some(path) => vec![path.clone()],
            None => kubeconfigs::of_environment(),
        }
    }

    /// The way to the cluster. Whether it is there is found out by following it.
    pub(in crate::commands) async fn connect(
        &self,
        defaults: &Defaults,
    ) -> Result<Source, ClusterError> {
        let wrong = |why| ClusterError::Config {
            name: self.name.clone(),
            why,
        };
        let kubeconfig = self.kubeconfig.clone().or(defaults.kubeconfig.clone());
        let flags = ClusterFlags::of_context(kubeconfig, self.context.clone());
        let config = flags
            .config()
            .await
            .map_err(|error| wrong(error.to_string()))?;
        let passes = self.pass_through.unwrap_or(defaults.pass_through);
        if passes && config.accept_invalid_certs {
            let why = "requests are passed only to a cluster whose certificate is checked";
            return Err(wrong(why.into()));
        }
        let is_asked = self.cluster_access.unwrap_or(defaults.cluster_access);
        Source::new(config, passes, is_asked).map_err(|error| wrong(with_sources(&error)))
    }

    /// How the cluster is followed beside others, of this number together.
    pub(in crate::commands) fn options(
        &self,
        defaults: &Defaults,
        clusters: usize,
    ) -> Result<ClusterOptions, ClusterError> {
        let mut options = ClusterOptions::new(&self.name);
        let selection = Selection {
            namespace: None,
            field_selector: self
                .field_selector
                .clone()
                .or(defaults.field_selector.clone()),
            label_selector: self
                .label_selector
                .clone()
                .or(defaults.label_selector.clone()),
        };
        let namespaces = self.namespaces.as_ref().unwrap_or(&defaults.namespaces);
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
        let event_ttl = match &self.event_ttl {
            Some(text) => days(text).map_err(ClusterError::Name)?,
            None => defaults.event_ttl,
        };
        options.rules = format!("{}s\n{}", event_ttl.as_secs(), defaults.retention.text);
        let quota = match &self.quota {
            Some(text) => Some(values::bytes(text).map_err(ClusterError::Name)?),
            None => defaults.quota,
        };
        options.quota = quota.map(|bytes| bytes as u64);
        let rules = defaults.retention.rules.of_cluster(&self.name);
        options.keep_for = Arc::new(move |event| rules.ttl(event).unwrap_or(event_ttl));
        options.mirror_deletions = self.mirror_deletions.unwrap_or(defaults.mirror_deletions);
        options.seal = defaults.seal;
        options.store = store(defaults.memory / clusters.max(1));
        Ok(options)
    }
}

/// How a store is run that has so much memory.
fn store(memory: usize) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    // There is as much again while it is flushed.
    options.index_memory_bytes = (memory / 8).max(INDEX_BYTES_MIN);
    options.cache_bytes = (memory / 2) as u64;
    options.history_memory_bytes = memory / 8;
    options.list_snapshot_memory_bytes = memory / 8;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_contexts() {
        for (context, name) in [
            ("prod", "prod"),
            ("kind-Prod_2", "kind-prod-2"),
            (
                "arn:aws:eks:eu-west-1:12:cluster/prod",
                "arn-aws-eks-eu-west-1-12-cluster-prod",
            ),
            ("@@", ""),
        ] {
            assert_eq!(name_of_context(context), name);
        }
        assert!(name_of_context(&"a@".repeat(200)).len() <= NAME_LEN_MAX);
        assert!(check_name("a-1").is_ok());
        for name in ["", "-a", "A", "a/b", "..", &"a".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_of_clusters_is_read_and_its_mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clusters.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).map_err(|error| error.to_string())
        };
        let found = read("clusters:\n- name: prod\n  kubeconfig: prod.yaml\n  eventTTL: 30d\n");
        let found = found.unwrap();
        assert_eq!(found[0].kubeconfig, Some(folder.path().join("prod.yaml")));
        for (text, why) in [
            ("clusters:\n- name: prod\n- name: prod", "two clusters"),
            ("clusters:\n- name: Prod", "cannot be a cluster's name"),
            ("clusters:\n- name: prod\n  ttl: 1d", "ttl"),
            ("clusters:\n- name: prod\n  eventTTL: long", "eventTTL"),
            ("clusters:\n- name: prod\n  quota: much", "quota"),
            ("clusters: {}", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
