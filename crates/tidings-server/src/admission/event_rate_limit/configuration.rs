//! Reads EventRateLimit's configuration file, and the AdmissionConfiguration that may name it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{CACHE_SIZE, EventLimit, EventRateLimitOptions, LimitType};
use crate::auth::settings::{self, SettingsError};

const PLUGIN: &str = "EventRateLimit";

/// The reason why the rate limits cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The file is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An AdmissionConfiguration names a file that cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file that an AdmissionConfiguration names is invalid.
    #[error("{}: {source}", path.display())]
    Named {
        /// Path of the file.
        path: PathBuf,
        /// The mistake in the file.
        source: SettingsError,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    #[serde(default)]
    limits: Vec<Spanned<Limit>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limit {
    r#type: Option<Spanned<String>>,
    #[serde(default)]
    qps: i32,
    #[serde(default)]
    burst: i32,
    #[serde(default)]
    cache_size: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AdmissionConfiguration {
    api_version: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    #[serde(default)]
    plugins: Vec<Spanned<Plugin>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<serde_json::Value>,
}

impl EventRateLimitOptions {
    /// Reads a `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`. It does so as
    /// kube-apiserver's plugin does, but refuses unknown fields.
    ///
    /// # Errors
    ///
    /// The mistake, and its line.
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        Ok(limits(&settings::read(text)?)?)
    }

    /// Reads the plugin `EventRateLimit` from an `AdmissionConfiguration`. Its version is
    /// `apiserver.config.k8s.io/v1`. The plugin's configuration is embedded, or in a file named
    /// relative to `folder`. Without the plugin nothing is limited; other plugins are ignored.
    ///
    /// # Errors
    ///
    /// The mistake, and where it is.
    pub fn parse_admission(text: &str, folder: &Path) -> Result<Self, ConfigurationError> {
        let file: AdmissionConfiguration = settings::read(text)?;
        settings::check_kind(
            file.api_version.as_ref(),
            file.kind.as_ref(),
            (
                &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"],
                "AdmissionConfiguration",
            ),
        )?;
        let mut found = None;
        for plugin in file.plugins {
            if plugin.value.name != PLUGIN {
                tracing::warn!(
                    plugin = plugin.value.name,
                    "an admission plugin this server does not have"
                );
            } else if found.is_some() {
                let message = format!("{PLUGIN} is configured twice");
                return Err(SettingsError::at(&plugin, message).into());
            } else {
                found = Some(plugin);
            }
        }
        let Some(plugin) = found else {
            return Ok(Self::default());
        };
        match (&plugin.value.configuration, plugin.value.path.as_str()) {
            (Some(value), _) => {
                let configuration = serde_json::from_value(value.clone())
                    .map_err(|error| SettingsError::at(&plugin, error.to_string()))?;
                // Lines within the embedded value are unknown.
                let at_plugin = |error: SettingsError| SettingsError::at(&plugin, error.message);
                Ok(limits(&configuration).map_err(at_plugin)?)
            }
            (None, "") => {
                let message = format!("{PLUGIN} needs a path or a configuration");
                Err(SettingsError::at(&plugin, message).into())
            }
            (None, path) => {
                let path = folder.join(path);
                let text =
                    std::fs::read_to_string(&path).map_err(|source| ConfigurationError::File {
                        path: path.clone(),
                        source,
                    })?;
                settings::read(&text)
                    .and_then(|configuration| limits(&configuration))
                    .map_err(|source| ConfigurationError::Named { path, source })
            }
        }
    }
}

/// Reads the limits, checked as upstream's `ValidateConfiguration` does. The error has all
/// mistakes.
fn limits(configuration: &Configuration) -> Result<EventRateLimitOptions, SettingsError> {
    settings::check_kind(
        configuration.api_version.as_ref(),
        configuration.kind.as_ref(),
        (
            &["eventratelimit.admission.k8s.io/v1alpha1"],
            "Configuration",
        ),
    )?;
    let mut wrong: Vec<String> = Vec::new();
    let mut first = None;
    if configuration.limits.is_empty() {
        wrong.push("limits: Invalid value: []: must not be empty".into());
    }
    let mut limits = Vec::new();
    for (index, limit) in configuration.limits.iter().enumerate() {
        let known = wrong.len();
        let Limit {
            r#type,
            qps,
            burst,
            cache_size,
        } = &limit.value;
        let given = r#type
            .as_ref()
            .map(|given| given.value.as_str())
            .unwrap_or_default();
        let limit_type = LimitType::ALL
            .into_iter()
            .find(|limit_type| limit_type.name() == given);
        if limit_type.is_none() {
            let names: Vec<_> = LimitType::ALL
                .iter()
                .map(|limit_type| format!("{:?}", limit_type.name()))
                .collect();
            wrong.push(format!(
                "limits[{index}].type: Unsupported value: {given:?}: supported values: {}",
                names.join(", ")
            ));
        }
        for (field, value) in [("burst", *burst), ("qps", *qps)] {
            if value <= 0 {
                wrong.push(format!(
                    "limits[{index}].{field}: Invalid value: {value}: must be positive"
                ));
            }
        }
        if *cache_size < 0 && limit_type != Some(LimitType::Server) {
            wrong.push(format!(
                "limits[{index}].cacheSize: Invalid value: {cache_size}: must not be negative"
            ));
        }
        if wrong.len() > known {
            first.get_or_insert(limit.referenced.line());
        }
        let positive = |value: i32| u32::try_from(value).unwrap_or_default();
        if let Some(limit_type) = limit_type {
            limits.push(EventLimit {
                limit_type,
                qps: positive(*qps),
                burst: positive(*burst),
                cache_size: match positive(*cache_size) {
                    _ if limit_type == LimitType::Server => 1,
                    0 => CACHE_SIZE,
                    size => size,
                },
            });
        }
    }
    if wrong.is_empty() {
        Ok(EventRateLimitOptions {
            limits,
            ..EventRateLimitOptions::default()
        })
    } else {
        Err(SettingsError {
            line: first.unwrap_or(1),
            message: wrong.join("; "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(limits: &str) -> Result<EventRateLimitOptions, String> {
        let text = format!(
            "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: {limits}"
        );
        EventRateLimitOptions::parse(&text).map_err(|error| error.to_string())
    }

    /// These are the rows of upstream's TestValidateConfiguration.
    #[test]
    fn valid_limits() {
        #[rustfmt::skip]
        let table = [
            ("[{type: Server, burst: 5, qps: 1}]", 1),
            ("[{type: Server, burst: 5, qps: 1, cacheSize: -1}]", 1),
            ("[{type: Namespace, burst: 10, qps: 2, cacheSize: 100}]", 100),
            ("[{type: User, burst: 10, qps: 2}]", 4096),
            ("[{type: SourceAndObject, burst: 5, qps: 1, cacheSize: 1000}]", 1000),
        ];
        for (text, cache_size) in table {
            let options = with(text).unwrap();
            assert_eq!(options.limits[0].cache_size, cache_size, "{text}");
        }
        let several = with("[{type: Server, burst: 5, qps: 1}, {type: User, burst: 10, qps: 2}]");
        assert_eq!(several.unwrap().limits.len(), 2);
    }

    #[test]
    fn invalid_limits_are_all_said() {
        for (text, said) in [
            ("[]", &["limits: Invalid value: []: must not be empty"][..]),
            (
                "[{burst: 25, qps: 10}]",
                &[
                    "line 3: limits[0].type: Unsupported value: \"\": supported values: \"Server\", \"Namespace\"",
                ],
            ),
            (
                "\n- {type: User, burst: 1, qps: 1}\n- {type: who, burst: -1}",
                &[
                    "line 5: ",
                    "limits[1].type: Unsupported value: \"who\"",
                    "limits[1].burst: Invalid value: -1: must be positive",
                    "limits[1].qps: Invalid value: 0: must be positive",
                ],
            ),
            (
                "[{type: User, burst: 1, qps: 1, cacheSize: -1}]",
                &["limits[0].cacheSize: Invalid value: -1: must not be negative"],
            ),
            (
                "[{type: User, bursts: 1}]",
                &["line 3: ", "unknown field `bursts`"],
            ),
            ("[{type: User, burst: 1.5, qps: 1}]", &["line 3: "]),
        ] {
            let error = with(text).unwrap_err();
            for said in said {
                assert!(error.contains(said), "{text}: {error}");
            }
        }
        let other = "apiVersion: v1\nkind: Configuration\nlimits: []";
        let error = EventRateLimitOptions::parse(other).unwrap_err().to_string();
        assert!(error.contains("line 1: apiVersion is \"v1\""), "{error}");
        assert!(EventRateLimitOptions::parse("limits: []").is_err());
    }

    #[test]
    fn an_admission_configuration_says_it_in_place_or_names_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let limits = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Server, qps: 5, burst: 7}
";
        std::fs::write(folder.path().join("limits.yaml"), limits).unwrap();
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n";
        let parse = |plugin: &str| {
            EventRateLimitOptions::parse_admission(&format!("{head}{plugin}"), folder.path())
                .map_err(|error| error.to_string())
        };
        let named = parse("- name: EventRateLimit\n  path: limits.yaml\n").unwrap();
        assert_eq!(named.limits[0].burst, 7);
        let inner = limits.replace('\n', "\n    ");
        let placed = parse(&format!(
            "- name: EventRateLimit\n  configuration:\n    {inner}"
        ));
        assert_eq!(placed.unwrap(), named);
        assert_eq!(parse("").unwrap(), EventRateLimitOptions::default());
        #[rustfmt::skip]
        let table = [
            ("- name: EventRateLimit\n", "line 5: EventRateLimit needs a path"),
            ("- name: EventRateLimit\n  path: none.yaml\n", "none.yaml: "),
            ("- name: EventRateLimit\n  configuration: {kind: X}\n", "line 5: "),
        ];
        for (plugin, said) in table {
            let error = parse(plugin).unwrap_err();
            assert!(error.contains(said), "{plugin}: {error}");
        }
    }
}
