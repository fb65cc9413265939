//! The file of clusters that an archive follows (`tidings archive --clusters`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tidings_archive::Setting;
use tidings_core::validate::check_dns1123_label;

use crate::{times, values};

/// Maximum length of a cluster's name.
pub const NAME_LEN_MAX: usize = 63;

/// Minimum quota, in bytes. A number whose unit was forgotten is less, and would delete nearly all
/// events.
pub const QUOTA_MIN: usize = 1 << 20;

/// A cluster to follow. Unset fields have the command line's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSetting {
    /// The cluster's name in paths, in the kubeconfig and in metrics.
    pub name: String,
    /// The cluster's kubeconfig. A relative path starts at the folder of the file.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; without it the current one.
    pub context: Option<String>,
    /// The followed namespaces; empty means all.
    pub namespaces: Option<Vec<String>>,
    /// Follows only events that match this field selector.
    pub field_selector: Option<String>,
    /// Follows only events that match this label selector.
    pub label_selector: Option<String>,
    /// Retention of an event after it was last observed, at least one second.
    #[serde(rename = "eventTTL", default, deserialize_with = "event_ttl")]
    pub event_ttl: Option<Duration>,
    /// Maximum bytes of the cluster's events on disk.
    #[serde(default, deserialize_with = "quota")]
    pub quota: Option<usize>,
    /// Whether reads of other kinds than events are proxied to the cluster.
    pub pass_through: Option<bool>,
    /// Whether the cluster authenticates and authorizes its own users.
    pub cluster_access: Option<bool>,
    /// Whether events that end at the source are deleted here.
    pub mirror_deletions: Option<bool>,
    /// Whether to skip the events that the cluster has when it is first followed.
    pub from_now: Option<bool>,
    /// Whether the cluster is followed; without a value it is. One that is not, such as one that
    /// was retired, is served as it was kept.
    pub follow: Option<bool>,
}

/// A file of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// The clusters. Their names differ.
    pub clusters: Vec<ClusterSetting>,
    /// Maximum bytes of all clusters' events together on disk.
    #[serde(default, deserialize_with = "quota")]
    pub quota: Option<usize>,
}

fn event_ttl<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    let time = text
        .map(|text| times::duration_of_seconds(&text))
        .transpose();
    time.map_err(|why| D::Error::custom(format_args!("eventTTL: {why}")))
}

fn quota<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    let bytes = text.map(|text| parse_quota(&text)).transpose();
    bytes.map_err(|why| D::Error::custom(format_args!("quota: {why}")))
}

/// Parses the quota of a cluster.
///
/// # Errors
/// Says what is accepted.
pub fn parse_quota(text: &str) -> Result<usize, String> {
    let enough = values::bytes(text).ok().filter(|bytes| *bytes >= QUOTA_MIN);
    enough.ok_or_else(|| "expected at least 1Mi, such as 512Mi, 10Gi or 50000000000".into())
}

impl ClusterSetting {
    /// Makes a cluster with the values of the command line.
    pub fn named(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }
}

impl Setting for ClusterSetting {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_followed(&self) -> bool {
        self.follow != Some(false)
    }
}

/// Parses a file of clusters in YAML or JSON, whose names must differ.
///
/// # Errors
/// The error, with its place in the file.
pub fn parse(text: &str) -> Result<ClusterFile, String> {
    let file: ClusterFile =
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
    let mut names = BTreeSet::new();
    for ClusterSetting { name, .. } in &file.clusters {
        check_name(name)?;
        if !names.insert(name) {
            return Err(format!("there are two clusters {name:?}"));
        }
    }
    Ok(file)
}

/// Checks a cluster's name, which is part of paths and URLs: a DNS label.
///
/// # Errors
/// Says what is accepted.
pub fn check_name(name: &str) -> Result<(), String> {
    if check_dns1123_label(name).is_empty() {
        return Ok(());
    }
    Err(format!(
        "{name:?} cannot be a cluster's name: lower-case letters, digits and '-' can, at most {NAME_LEN_MAX}"
    ))
}

/// The valid cluster name closest to a context's name; empty if no character of it can be in one.
pub fn name_of_context(context: &str) -> String {
    let mut name = String::new();
    for character in context.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    // The end is kept, which distinguishes names such as arn:aws:eks:…:cluster/prod.
    let start = name.len().saturating_sub(NAME_LEN_MAX);
    name.get(start..)
        .unwrap_or_default()
        .trim_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        assert!(check_name("a-1").is_ok());
        for name in ["", "-a", "A", "a/b", "..", &"a".repeat(NAME_LEN_MAX + 1)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

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
    }

    #[test]
    fn a_quota_is_more_than_a_number_whose_unit_was_forgotten() {
        for (text, expected) in [
            ("1Mi", Some(1 << 20)),
            ("10Gi", Some(10 << 30)),
            ("2Ti", Some(2 << 40)),
            ("1048575", None),
            ("40", None),
            ("0", None),
            ("40GiB", None),
        ] {
            assert_eq!(parse_quota(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_file_is_read_and_its_mistakes_are_named() {
        let found = parse(
            "clusters:\n- name: prod\n  kubeconfig: prod.yaml\n  eventTTL: 30d\n  quota: 2Gi\n- {name: test, quota: null}\nquota: 3Gi",
        );
        let prod = ClusterSetting {
            name: "prod".into(),
            kubeconfig: Some("prod.yaml".into()),
            event_ttl: Some(Duration::from_secs(30 * 86_400)),
            quota: Some(2 << 30),
            ..ClusterSetting::default()
        };
        let test = ClusterSetting {
            name: "test".into(),
            ..ClusterSetting::default()
        };
        let file = ClusterFile {
            clusters: vec![prod, test],
            quota: Some(3 << 30),
        };
        assert_eq!(found, Ok(file));
        for (text, why) in [
            ("clusters:\n- name: prod\n- name: prod", "two clusters"),
            ("clusters:\n- name: Prod", "cannot be a cluster's name"),
            ("clusters:\n- name: prod\n  ttl: 1d", "ttl"),
            ("clusters:\n- name: prod\n  eventTTL: long", "eventTTL"),
            ("clusters:\n- name: prod\n  quota: much", "quota"),
            // The unit of the quota was forgotten.
            (
                "clusters:\n- name: prod\n  quota: 40",
                "quota: expected at least 1Mi",
            ),
            ("clusters: []\nquota: 40", "quota: expected at least 1Mi"),
            ("clusters: {}", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
