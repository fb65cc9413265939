//! The query of a request, and the write options in it, read as kube-apiserver does.

use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_pb::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use tidings_core::validate::{Cause, FieldError, FieldErrors, Quoted, go_quote, is_printable};
use tidings_store::UnixMillis;

use crate::http::duration::parse_go_duration;
use crate::http::params::{self, Parameter};
use crate::http::status::Status;
use tidings_api::field_validation::FieldValidation;
use tidings_api::table::IncludeObject;

/// A query's pairs in order. An empty pair (kube-rs sends `?&limit=500`) is skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        // A pair with a semicolon or an invalid escape is skipped, as in Go.
        let is_escape = |digits: &str| {
            let mut digits = digits.bytes();
            let mut is_digit = || digits.next().is_some_and(|digit| digit.is_ascii_hexdigit());
            is_digit() && is_digit()
        };
        let pairs = query.unwrap_or_default().split('&');
        let pairs =
            pairs.filter(|pair| !pair.contains(';') && pair.split('%').skip(1).all(is_escape));
        Self(
            pairs
                .flat_map(|pair| form_urlencoded::parse(pair.as_bytes()))
                .filter(|(name, _)| !name.is_empty())
                .map(|(k, v)| (k.into_owned(), v.into_owned()))
                .collect(),
        )
    }

    /// The first value of a parameter; `None` if it is absent or empty.
    pub(crate) fn get(&self, parameter: Parameter) -> Option<&str> {
        self.values(parameter)
            .next()
            .filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub(crate) fn values(&self, parameter: Parameter) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == parameter.name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, parameter: Parameter) -> bool {
        self.values(parameter).next().is_some()
    }

    /// Whether the query has a parameter of a name, which may be one that no request takes.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Whether the request is a dry run, so that nothing is stored.
    pub(crate) fn asks_for_dry_run(&self) -> bool {
        self.values(params::DRY_RUN).any(|value| value == "All")
    }

    /// Reads a boolean as kube-apiserver does. A parameter that is present is true unless its value
    /// is `0` or `false`.
    pub(crate) fn flag(&self, parameter: Parameter) -> bool {
        self.optional_flag(parameter).unwrap_or(false)
    }

    pub(super) fn optional_flag(&self, parameter: Parameter) -> Option<bool> {
        let value = self.values(parameter).next()?.to_ascii_lowercase();
        Some(!matches!(value.as_str(), "0" | "false"))
    }

    /// Reads an integer; `None` without the parameter.
    ///
    /// # Errors
    ///
    /// 400 in the words of Go's `strconv.ParseInt`.
    pub(super) fn number(&self, parameter: Parameter) -> Result<Option<i64>, Status> {
        let Some(value) = self.values(parameter).next() else {
            return Ok(None);
        };
        value.parse::<i64>().map(Some).map_err(|error| {
            let (value, why) = (go_quote(value), parse_int_error(&error));
            Status::bad_request(format!("strconv.ParseInt: parsing {value}: {why}"))
        })
    }

    /// Reads a moment; `None` without the parameter.
    ///
    /// # Errors
    ///
    /// 400 if it cannot be read.
    pub(crate) fn moment(&self, parameter: Parameter) -> Result<Option<UnixMillis>, Status> {
        let read = |text: &str| {
            let moment: Timestamp = text.parse().map_err(|_| {
                let name = parameter.name;
                Status::bad_request(format!(
                    "{name} {text:?} is not a time such as 2026-03-04T05:06:07Z"
                ))
            })?;
            Ok(UnixMillis(moment.as_millisecond()))
        };
        self.get(parameter).map(read).transpose()
    }

    /// The time for which the client waits (`?timeout=8s`), in Go's notation. Zero or less means no
    /// limit.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Status> {
        let Some(text) = self.get(params::TIMEOUT) else {
            return Ok(None);
        };
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let time = parse_go_duration(unsigned).map(|time| {
            if text.starts_with('-') {
                Duration::ZERO
            } else {
                time
            }
        });
        time.map(Some).ok_or_else(|| {
            let is_digit = |character: char| character.is_ascii_digit();
            let why = if text.starts_with(is_digit) && text.ends_with(is_digit) {
                "missing unit in"
            } else {
                "invalid"
            };
            let text = go_quote(text);
            Status::bad_request(format!(
                "invalid timeout specified in the request URL - time: {why} duration {text}"
            ))
        })
    }

    /// The object in the rows of a Table, besides their cells.
    ///
    /// # Errors
    ///
    /// 400 for an unknown value.
    pub(crate) fn include_object(&self) -> Result<IncludeObject, Status> {
        IncludeObject::parse(self.get(params::INCLUDE_OBJECT)).map_err(Status::bad_request)
    }

    /// The options of a delete without a body.
    ///
    /// # Errors
    ///
    /// 400 for a value that cannot be read.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let texts = |parameter| self.values(parameter).map(str::to_owned);
        Ok(DeleteOptions {
            grace_period_seconds: self.number(params::GRACE_PERIOD_SECONDS)?,
            orphan_dependents: self.optional_flag(params::ORPHAN_DEPENDENTS),
            propagation_policy: texts(params::PROPAGATION_POLICY).next(),
            dry_run: texts(params::DRY_RUN).collect(),
            ..DeleteOptions::default()
        })
    }

    /// The options of a write, of a kind such as `CreateOptions`.
    ///
    /// # Errors
    ///
    /// 422 with all invalid options.
    pub(crate) fn write_options(&self, options_kind: &str) -> Result<WriteOptions, Status> {
        self.checked_options(options_kind, FieldErrors::default())
    }

    /// The options of a patch. An apply may be forced, and must name its field manager.
    ///
    /// # Errors
    ///
    /// The errors of [`write_options`](Self::write_options).
    pub(crate) fn patch_options(&self, is_apply: bool) -> Result<WriteOptions, Status> {
        let mut errors = FieldErrors::default();
        if is_apply && self.get(params::FIELD_MANAGER).is_none() {
            errors.push(|| FieldError::required("fieldManager", "is required for apply patch"));
        }
        if !is_apply && self.optional_flag(params::FORCE).is_some() {
            let detail = "may not be specified for non-apply patch";
            errors.push(|| FieldError::forbidden("force", detail));
        }
        self.checked_options("PatchOptions", errors)
    }

    fn checked_options(
        &self,
        options_kind: &str,
        mut errors: FieldErrors,
    ) -> Result<WriteOptions, Status> {
        let field_manager = self.get(params::FIELD_MANAGER).unwrap_or_default();
        check_field_manager(field_manager, &mut errors);
        let dry_run: Vec<&str> = self.values(params::DRY_RUN).collect();
        errors.extend(dry_run_error(&dry_run));
        let field_validation = match self.get(params::FIELD_VALIDATION) {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(|| not_supported("fieldValidation", Quoted(other), &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid(options_kind, "meta.k8s.io", "", &errors));
        }
        Ok(WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_manager: field_manager.to_owned(),
            field_validation,
            force: self.flag(params::FORCE),
        })
    }
}

/// The options of a write; see [`Query::write_options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Whether the write is a dry run, so that nothing is stored.
    pub(crate) dry_run: bool,
    /// The client that makes the change; may be empty.
    pub(crate) field_manager: String,
    /// How unknown and duplicate fields are treated.
    pub(crate) field_validation: FieldValidation,
    /// Whether an apply takes over fields that other managers own.
    pub(crate) force: bool,
}

/// Maximum bytes of a field manager's name.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

fn check_field_manager(manager: &str, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        let detail = format_args!("may not be more than {FIELD_MANAGER_BYTES_MAX} bytes");
        errors.push(|| FieldError::new("fieldManager", Cause::TooLong, "", detail));
    }
    for (at, character) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let number = u32::from(character);
        let detail = format_args!("invalid character U+{number:04X} (at position {at})");
        errors.push(|| FieldError::invalid("fieldManager", manager, detail));
    }
}

pub(crate) fn not_supported(field: &str, value: impl Display, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(|value| go_quote(value)).collect();
    let detail = format_args!("supported values: {}", supported.join(", "));
    FieldError::new(field, Cause::NotSupported, value, detail)
}

pub(crate) fn dry_run_error(values: &[&str]) -> Option<FieldError> {
    let supported = values.iter().all(|value| *value == "All");
    (!supported).then(|| not_supported("dryRun", serde_json::Value::from(values), &["All"]))
}

/// Go's words for text that is not a number.
pub(super) fn parse_int_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_may_have_a_sign() {
        for (text, millis) in [
            ("2.5s", 2500),
            ("-1s", 0),
            ("+1s", 1000),
            ("0", 0),
            ("-0", 0),
        ] {
            let query = Query(vec![("timeout".to_owned(), text.to_owned())]);
            let expected = Some(Duration::from_millis(millis));
            assert_eq!(query.timeout().unwrap(), expected, "{text}");
        }
    }
}
