//! Reads EventRateLimit's configuration file.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{CACHE_SIZE, EventLimit, EventRateLimitOptions, LimitType};
use crate::auth::settings::{self, SettingsError};

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

impl EventRateLimitOptions {
    /// Reads a `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`. It does so as
    /// kube-apiserver's plugin does, but refuses unknown fields.
    ///
    /// # Errors
    ///
    /// The mistake, and its line.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        limits(&settings::read(text)?)
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
        Ok(EventRateLimitOptions { limits })
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
}
