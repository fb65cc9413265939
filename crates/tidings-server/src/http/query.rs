//! The query of a request, read and checked as `k8s.io/apimachinery/pkg/apis/meta/internalversion`
//! does.

use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use k8s_pb::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use tidings_core::validate::{Cause, FieldError, FieldErrors, Quoted, go_quote, is_printable};

use crate::http::continuation::Continuation;
use crate::http::params::{self, Parameter};
use crate::http::status::Status;
use tidings_api::codec::Api;
use tidings_api::field_validation::FieldValidation;
use tidings_api::selector::{FieldSelector, LabelSelector, Selector};
use tidings_api::table::IncludeObject;

/// A query's pairs in order; an empty pair (kube-rs sends `?&limit=500`) is skipped.
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

    /// The number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
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

    /// A boolean as the API server's parameter conversion reads it: a parameter that is present is
    /// true unless its value is `0` or `false`.
    pub(crate) fn flag(&self, parameter: Parameter) -> bool {
        self.optional_flag(parameter).unwrap_or(false)
    }

    fn optional_flag(&self, parameter: Parameter) -> Option<bool> {
        let value = self.values(parameter).next()?;
        Some(!matches!(
            value.to_ascii_lowercase().as_str(),
            "0" | "false"
        ))
    }

    /// An integer; `None` without the parameter.
    ///
    /// # Errors
    /// 400 in the words of Go's `strconv.ParseInt`.
    fn number(&self, parameter: Parameter) -> Result<Option<i64>, Status> {
        let Some(value) = self.values(parameter).next() else {
            return Ok(None);
        };
        let refuse = |why| {
            let value = go_quote(value);
            Status::bad_request(format!("strconv.ParseInt: parsing {value}: {why}"))
        };
        match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(error) => Err(refuse(parse_int_error(&error))),
        }
    }

    /// How long the client waits (`?timeout=8s`), in Go's notation; zero or less means no limit.
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
            let why = if text.starts_with(|first: char| first.is_ascii_digit())
                && text.ends_with(|last: char| last.is_ascii_digit())
            {
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

    /// What the rows of a Table contain in addition to their cells.
    ///
    /// # Errors
    /// 400 for an unknown value.
    pub(crate) fn include_object(&self) -> Result<IncludeObject, Status> {
        IncludeObject::parse(self.get(params::INCLUDE_OBJECT)).map_err(Status::bad_request)
    }

    /// The options of a delete without a body.
    ///
    /// # Errors
    /// 400 for a value that cannot be read.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        Ok(DeleteOptions {
            grace_period_seconds: self.number(params::GRACE_PERIOD_SECONDS)?,
            orphan_dependents: self.optional_flag(params::ORPHAN_DEPENDENTS),
            propagation_policy: self
                .values(params::PROPAGATION_POLICY)
                .next()
                .map(str::to_owned),
            dry_run: self.values(params::DRY_RUN).map(str::to_owned).collect(),
            ..DeleteOptions::default()
        })
    }

    /// The options of a write, of this kind (`CreateOptions` and the like).
    ///
    /// # Errors
    /// 422 with all invalid options.
    pub(crate) fn write_options(&self, options_kind: &str) -> Result<WriteOptions, Status> {
        self.checked_options(options_kind, FieldErrors::default())
    }

    /// The options of a patch. An apply may be forced, and must name its field manager.
    ///
    /// # Errors
    /// As [`write_options`](Self::write_options).
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
            return Err(invalid_options(options_kind, &errors));
        }
        Ok(WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_manager: field_manager.to_owned(),
            field_validation,
            force: self.flag(params::FORCE),
        })
    }
}

/// See [`Query::write_options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// The client that makes the change; may be empty.
    pub(crate) field_manager: String,
    /// How unknown and duplicate fields are treated.
    pub(crate) field_validation: FieldValidation,
    /// An apply takes over fields that other managers own.
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

fn invalid_options(kind: &str, errors: &FieldErrors) -> Status {
    Status::invalid(kind, "meta.k8s.io", "", errors)
}

/// The parameters of list, watch and deletecollection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selector: Selector,
    pub(crate) watch: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: ResourceVersion,
    pub(crate) match_exact: Option<bool>,
    pub(crate) allow_bookmarks: bool,
    /// Whether a watch starts with what exists; `None` leaves it to the resource version.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

/// `resourceVersion`. For a watch, unset and `0` both mean the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResourceVersion {
    #[default]
    Unset,
    Zero,
    At(u64),
}

impl ResourceVersion {
    /// Reads the parameter.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None => Ok(Self::Unset),
            Some("0") => Ok(Self::Zero),
            Some(text) => match text.parse() {
                Ok(0) => Ok(Self::Zero),
                Ok(revision) => Ok(Self::At(revision)),
                Err(error) => {
                    let value = go_quote(text);
                    let why = parse_int_error(&error);
                    Err(Status::bad_request(format!(
                        "invalid resource version: resourceVersion: Invalid value: {value}: strconv.ParseUint: parsing {value}: {why}"
                    )))
                }
            },
        }
    }
}

/// Go's words for text that is not a number.
fn parse_int_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

impl ListOptions {
    /// Reads and checks the parameters; `watch` makes it a watch (the deprecated `/watch/` paths).
    ///
    /// # Errors
    /// 400 for a value that cannot be read, 422 for an invalid combination.
    pub(crate) fn parse(api: Api, query: &Query, watch: bool) -> Result<Self, Status> {
        // In the order of upstream's errors: numbers, labels, the syntax of fields, combinations,
        // and last whether the fields exist.
        let timeout = query.number(params::TIMEOUT_SECONDS)?;
        let limit = query.number(params::LIMIT)?;
        let labels = query.get(params::LABEL_SELECTOR).map(LabelSelector::parse);
        let labels = labels.transpose().map_err(Status::bad_request)?;
        let fields = query.get(params::FIELD_SELECTOR).map(FieldSelector::terms);
        let fields = fields.transpose().map_err(Status::bad_request)?;
        let watch = watch || query.flag(params::WATCH);
        let mut options = Self {
            selector: Selector {
                fields: FieldSelector::default(),
                labels: labels.unwrap_or_default(),
            },
            watch,
            limit: limit
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            continue_token: query.get(params::CONTINUE).map(str::to_owned),
            resource_version: ResourceVersion::Unset,
            match_exact: None,
            allow_bookmarks: query.flag(params::ALLOW_WATCH_BOOKMARKS),
            send_initial_events: query.optional_flag(params::SEND_INITIAL_EVENTS),
            timeout: timeout
                .and_then(|s| u64::try_from(s).ok())
                .map(Duration::from_secs),
        };
        let errors = options.combination_errors(query);
        if !errors.is_empty() {
            return Err(Status::invalid("ListOptions", "meta.k8s.io", "", &errors));
        }
        options.selector.fields =
            FieldSelector::of(api, fields.unwrap_or_default()).map_err(Status::bad_request)?;
        let resource_version = query.get(params::RESOURCE_VERSION);
        if let Some(token) = &options.continue_token
            && !watch
            && resource_version.is_some_and(|version| version != "0")
        {
            Continuation::decode(token)?;
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(Self {
            resource_version: ResourceVersion::parse(resource_version)?,
            match_exact: query
                .get(params::RESOURCE_VERSION_MATCH)
                .map(|value| value == "Exact"),
            ..options
        })
    }

    fn combination_errors(&self, query: &Query) -> FieldErrors {
        let forbidden = |field: &str, detail: &str| FieldError::forbidden(field, detail);
        let with_continue = "resourceVersionMatch is forbidden when continue is provided";
        let mut errors = FieldErrors::default();
        let version_match = query.get(params::RESOURCE_VERSION_MATCH);
        let resource_version = query.get(params::RESOURCE_VERSION);
        let unsupported = |value: &str, supported: &[&str]| {
            not_supported("resourceVersionMatch", Quoted(value), supported)
        };
        // A watch by a deprecated path, without this parameter, is checked as a list.
        if !query.flag(params::WATCH) {
            if let Some(value) = version_match {
                if resource_version.is_none() {
                    errors.push(|| {
                        forbidden(
                            "resourceVersionMatch",
                            "resourceVersionMatch is forbidden unless resourceVersion is provided",
                        )
                    });
                }
                if self.continue_token.is_some() {
                    errors.push(|| forbidden("resourceVersionMatch", with_continue));
                }
                if !matches!(value, "Exact" | "NotOlderThan") {
                    errors.push(|| unsupported(value, &["Exact", "NotOlderThan", ""]));
                }
                if value == "Exact" && resource_version == Some("0") {
                    errors.push(|| {
                        forbidden(
                            "resourceVersionMatch",
                            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                        )
                    });
                }
            }
            if self.send_initial_events.is_some() {
                errors.push(|| {
                    forbidden(
                        "sendInitialEvents",
                        "sendInitialEvents is forbidden for list",
                    )
                });
            }
            return errors;
        }
        // A watch from the beginning is treated as one with sendInitialEvents and NotOlderThan.
        let legacy = self.send_initial_events.is_none()
            && version_match.is_none()
            && matches!(resource_version, None | Some("0"));
        let version_match = version_match.or(legacy.then_some("NotOlderThan"));
        let asks = self.send_initial_events.is_some() || legacy;
        if asks && version_match != Some("NotOlderThan") {
            errors.push(|| {
                forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )
            });
        }
        if let Some(value) = version_match {
            if !asks {
                errors.push(|| forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if value != "NotOlderThan" {
                errors.push(|| unsupported(value, &["NotOlderThan"]));
            }
            if self.continue_token.is_some() {
                errors.push(|| forbidden("resourceVersionMatch", with_continue));
            }
        }
        errors
    }
}

/// Reads a duration in Go's notation, such as `1h30m`, `8s`, `1.5s` or `500ms`
/// (`time.ParseDuration`); negative ones are not accepted.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = leading_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), leading_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let unit: u128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        // The digits after these are worth less than a nanosecond, even of an hour.
        let fraction = fraction.get(..fraction.len().min(FRACTION_DIGITS_MAX))?;
        let number = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<u64>().ok().map(u128::from),
        };
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        nanos += number(whole)? * unit + number(fraction)? * unit / scale;
        if nanos > i64::MAX as u128 {
            return None;
        }
        rest = after;
    }
    let nanos = u64::try_from(nanos).ok()?;
    (!text.is_empty()).then_some(Duration::from_nanos(nanos))
}

/// Digits after the point that are read.
const FRACTION_DIGITS_MAX: usize = 15;

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<ListOptions, Status> {
        ListOptions::parse(Api::Core, &Query::parse(Some(query)), false)
    }

    #[test]
    fn an_empty_first_pair_is_skipped() {
        assert_eq!(options("&limit=500").unwrap().limit, Some(500));
    }

    #[test]
    fn combinations_that_are_refused() {
        for (query, code) in [
            ("fieldSelector=spec.x=1", 400),
            ("labelSelector=a+in", 400),
            ("resourceVersion=x", 400),
            ("continue=t&resourceVersion=5", 400),
            ("limit=x", 400),
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersionMatch=Exact&resourceVersion=0", 422),
            ("resourceVersionMatch=Newest&resourceVersion=1", 422),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=t",
                422,
            ),
            ("sendInitialEvents=true", 422),
            ("watch=true&sendInitialEvents=true", 422),
            (
                "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
                422,
            ),
            ("watch=true&resourceVersionMatch=NotOlderThan", 422),
        ] {
            assert_eq!(
                options(query).map(|_| ()).unwrap_err().code().as_u16(),
                code,
                "{query}"
            );
        }
    }

    #[test]
    fn combinations_that_are_accepted() {
        for query in [
            "",
            "resourceVersion=0",
            "resourceVersion=7&resourceVersionMatch=Exact&limit=1",
            "continue=t&resourceVersion=0",
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            "watch=1&limit=5&timeoutSeconds=290",
            "limit=0",
            "limit=-1",
        ] {
            assert!(options(query).is_ok(), "{query}");
        }
    }

    /// What kube-apiserver says of a watch by a path with `/watch/` in it, and no `watch` in the
    /// query.
    #[test]
    fn by_the_deprecated_paths_the_rules_are_those_of_lists() {
        for (query, is_accepted) in [
            ("", true),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan", true),
            ("resourceVersionMatch=NotOlderThan", false),
            (
                "sendInitialEvents=true&resourceVersion=5&resourceVersionMatch=NotOlderThan",
                false,
            ),
            (
                "watch=1&sendInitialEvents=true&resourceVersion=5&resourceVersionMatch=NotOlderThan",
                true,
            ),
        ] {
            let options = ListOptions::parse(Api::Core, &Query::parse(Some(query)), true);
            assert_eq!(options.is_ok(), is_accepted, "{query}");
            assert!(options.is_ok_and(|options| options.watch) == is_accepted);
        }
    }

    #[test]
    fn go_durations() {
        for (text, millis) in [
            ("8s", 8000),
            ("1h30m", 5_400_000),
            ("1m0s", 60_000),
            ("500ms", 500),
            ("0", 0),
            ("1h0m0s", 3_600_000),
            ("1.5s", 1500),
            (".5s", 500),
            ("1.s", 1000),
            ("0.1h2.5s", 362_500),
            ("0.0010000000000000000000000000001s", 1),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "8",
            "s",
            ".s",
            ".",
            "1..5s",
            "-1s",
            "1.5",
            "1d",
            "2562048h",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_client_in_no_hurry_gives_no_time() {
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
