//! Reads and checks the options of list, watch and deletecollection.
//!
//! It follows `k8s.io/apimachinery/pkg/apis/meta/internalversion`.

use std::time::Duration;

use tidings_api::codec::Api;
use tidings_api::selector::{FieldSelector, LabelSelector, Selector};
use tidings_core::validate::{FieldError, FieldErrors, Quoted, go_quote};

use crate::http::continuation::Continuation;
use crate::http::params;
use crate::http::query::{Query, not_supported, parse_int_error};
use crate::http::status::Status;

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
    /// Whether a watch starts with the existing events; `None` leaves it to the resource version.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

/// The parameter `resourceVersion`. For a watch, unset and `0` both mean the beginning.
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

impl ListOptions {
    /// Reads and checks the parameters. `watch` makes it a watch (the deprecated `/watch/` paths).
    ///
    /// # Errors
    ///
    /// 400 for a value that cannot be read, 422 for an invalid combination.
    pub(crate) fn parse(api: Api, query: &Query, watch: bool) -> Result<Self, Status> {
        // The order is that of upstream's errors: numbers, labels, the syntax of fields,
        // combinations, and last whether the fields exist.
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
        let forbidden = |detail: &str| FieldError::forbidden("resourceVersionMatch", detail);
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
                    let why =
                        "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    errors.push(|| forbidden(why));
                }
                if self.continue_token.is_some() {
                    errors.push(|| forbidden(with_continue));
                }
                if !matches!(value, "Exact" | "NotOlderThan") {
                    errors.push(|| unsupported(value, &["Exact", "NotOlderThan", ""]));
                }
                if value == "Exact" && resource_version == Some("0") {
                    let why =
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.push(|| forbidden(why));
                }
            }
            if self.send_initial_events.is_some() {
                let why = "sendInitialEvents is forbidden for list";
                errors.push(|| FieldError::forbidden("sendInitialEvents", why));
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
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(|| forbidden(why));
        }
        if let Some(value) = version_match {
            if !asks {
                errors.push(|| forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if value != "NotOlderThan" {
                errors.push(|| unsupported(value, &["NotOlderThan"]));
            }
            if self.continue_token.is_some() {
                errors.push(|| forbidden(with_continue));
            }
        }
        errors
    }
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
        #[rustfmt::skip]
        let table = [
            ("fieldSelector=spec.x=1", 400),
            ("labelSelector=a+in", 400),
            ("resourceVersion=x", 400),
            ("continue=t&resourceVersion=5", 400),
            ("limit=x", 400),
            ("resourceVersionMatch=Exact", 422),
            ("resourceVersionMatch=Exact&resourceVersion=0", 422),
            ("resourceVersionMatch=Newest&resourceVersion=1", 422),
            ("resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=t", 422),
            ("sendInitialEvents=true", 422),
            ("watch=true&sendInitialEvents=true", 422),
            ("watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", 422),
            ("watch=true&resourceVersionMatch=NotOlderThan", 422),
        ];
        for (query, code) in table {
            let refused = options(query).unwrap_err();
            assert_eq!(refused.code().as_u16(), code, "{query}");
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

    /// kube-apiserver answers so for a path with `/watch/` in it and no `watch` in the query.
    #[test]
    fn deprecated_paths_follow_the_rules_of_lists() {
        #[rustfmt::skip]
        let table = [
            ("", true),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan", true),
            ("resourceVersionMatch=NotOlderThan", false),
            ("sendInitialEvents=true&resourceVersion=5&resourceVersionMatch=NotOlderThan", false),
            (
                "watch=1&sendInitialEvents=true&resourceVersion=5&resourceVersionMatch=NotOlderThan",
                true,
            ),
        ];
        for (query, is_accepted) in table {
            let options = ListOptions::parse(Api::Core, &Query::parse(Some(query)), true);
            assert_eq!(options.is_ok(), is_accepted, "{query}");
            assert!(options.is_ok_and(|options| options.watch) == is_accepted);
        }
    }
}
