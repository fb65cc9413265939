//! The parameters of a timeline request: a time range, and a filter of events.

use std::str::FromStr;

use tidings_api::codec::stored::Brief;
use tidings_core::filter::{Fields, Filter, InvalidFilter, Key, Pattern, Term};

use crate::http::params::{self, Parameter};
use crate::http::query::Query;
use crate::http::status::Status;

/// Maximum length of a parameter's value, in bytes.
const VALUE_LEN_MAX: usize = 512;
/// Parameters whose values are terms of the filter, too: they say where something is.
const PLACES: [(Parameter, Key); 3] = [
    (params::CLUSTER, Key::Cluster),
    (params::NAMESPACE, Key::Namespace),
    (params::KIND, Key::Kind),
];
/// Former parameters, which are keys of the filter now.
const REPLACED: [&str; 5] = ["object", "reason", "source", "text", "type"];
/// The default range: the last hour, in milliseconds.
const HOUR: i64 = 3_600_000;
/// The times that Kubernetes can write: the years 0 to 9999, in milliseconds since 1970.
const TIMES: (i64, i64) = (-62_167_219_200_000, END);
/// The end of these times.
pub(crate) const END: i64 = 253_402_300_800_000;

/// The filter of a request.
///
/// # Errors
/// 400 for an invalid one.
pub(crate) fn filter(query: &Query) -> Result<Filter, Status> {
    if let Some(name) = REPLACED.into_iter().find(|name| query.has_name(name)) {
        let why = format!("{name} is a key of filter: filter={name}:VALUE");
        return Err(Status::bad_request(why));
    }
    terms(query).map_err(|why| Status::bad_request(why.to_string()))
}

fn terms(query: &Query) -> Result<Filter, InvalidFilter> {
    let mut filter = Filter::default();
    for text in query.values(params::FILTER) {
        filter.extend(text.parse()?)?;
    }
    for (parameter, key) in PLACES {
        for value in query.values(parameter).filter(|value| !value.is_empty()) {
            filter.add(Term::new(key, false, Pattern::of(value))?)?;
        }
    }
    Ok(filter)
}

/// Whether an event matches a filter, of which clusters are no part any more.
pub(crate) fn selects(filter: &Filter, event: &Brief<'_>) -> bool {
    filter.selects(&Fields {
        namespace: event.namespace,
        kind: event.kind,
        object: event.object,
        reason: event.reason,
        event_type: event.event_type,
        source: event.component,
        host: event.host,
        message: event.message,
        ..Fields::default()
    })
}

/// The requested range, by default the hour before `now`. Its start is inclusive and its end
/// exclusive.
///
/// # Errors
/// 400 for an invalid time, or a range that ends before it begins.
pub(crate) fn range(query: &Query, now: i64) -> Result<(i64, i64), Status> {
    let moment = |parameter| parsed::<i64>(query, parameter, "number of milliseconds");
    let to = moment(params::TO)?.unwrap_or(now.saturating_add(1));
    let to = to.clamp(TIMES.0 + 1, TIMES.1);
    let from = moment(params::FROM)?.unwrap_or(to.saturating_sub(HOUR));
    let from = from.clamp(TIMES.0, TIMES.1);
    if from >= to {
        return Err(Status::bad_request("from is not before to"));
    }
    Ok((from, to))
}

/// Whether the range has no end, and so reaches until now. Events dated later by a clock that is
/// ahead then count as seen now, as in `tidings top`.
pub(crate) fn is_until_now(query: &Query) -> bool {
    query.get(params::TO).is_none_or(str::is_empty)
}

/// The range, extended to the end of all times if it reaches until now.
///
/// # Errors
/// The errors of [`range`].
pub(crate) fn range_with_ahead(query: &Query, now: i64) -> Result<(i64, i64), Status> {
    let (from, to) = range(query, now)?;
    Ok((from, if is_until_now(query) { END } else { to }))
}

/// A number that is not negative, if it is given.
///
/// # Errors
/// 400 for another text.
pub(crate) fn number(query: &Query, parameter: Parameter) -> Result<Option<usize>, Status> {
    parsed(query, parameter, "number")
}

fn parsed<T: FromStr>(
    query: &Query,
    parameter: Parameter,
    what: &str,
) -> Result<Option<T>, Status> {
    let name = parameter.name;
    let parse = |text: &str| {
        let refused = |_| Status::bad_request(format!("{name} {text:?} is no {what}"));
        text.parse::<T>().map_err(refused)
    };
    query.get(parameter).map(parse).transpose()
}

/// A required text.
///
/// # Errors
/// 400 if it is missing or too long.
pub(crate) fn required(query: &Query, parameter: Parameter) -> Result<&str, Status> {
    let name = parameter.name;
    let value = query
        .get(parameter)
        .ok_or_else(|| Status::bad_request(format!("{name} is required")))?;
    if value.len() > VALUE_LEN_MAX {
        let why = format!("{name} is longer than {VALUE_LEN_MAX} bytes");
        return Err(Status::bad_request(why));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let now = 1_000_000_000_000;
        let hour = Ok((now + 1 - HOUR, now + 1));
        for (query, expected) in [
            ("", hour),
            ("from=&to=", hour),
            ("to=5000000", Ok((5_000_000 - HOUR, 5_000_000))),
            ("from=5&to=6", Ok((5, 6))),
            (
                "from=-9223372036854775808&to=9223372036854775807",
                Ok(TIMES),
            ),
            ("to=-9223372036854775808", Ok((TIMES.0, TIMES.0 + 1))),
            ("to=9223372036854775807", Ok((TIMES.1 - HOUR, TIMES.1))),
            ("from=9223372036854775807", Err("from is not before to")),
            ("from=6&to=6", Err("from is not before to")),
            ("from=x", Err("from \"x\" is no number of milliseconds")),
            ("to=1e3", Err("to \"1e3\" is no number of milliseconds")),
        ] {
            let found = range(&Query::parse(Some(query)), now);
            let found = found.map_err(|status| status.message().to_owned());
            assert_eq!(found, expected.map_err(str::to_owned), "{query}");
        }
    }

    #[test]
    fn a_range_without_an_end_has_what_is_ahead_of_the_clock() {
        let now = 1_000_000_000_000;
        for (query, end) in [("", TIMES.1), ("from=5&to=", TIMES.1), ("from=5&to=6", 6)] {
            let found = range_with_ahead(&Query::parse(Some(query)), now).unwrap();
            assert_eq!(found.1, end, "{query}");
        }
    }

    #[test]
    fn a_filter_has_the_terms_of_all_parameters() {
        let filter = |query: &str| {
            let found = filter(&Query::parse(Some(query)));
            let found = found.map(|filter| filter.to_string());
            found.map_err(|status| status.message().to_owned())
        };
        for (query, expected) in [
            ("", Ok("")),
            ("filter=&cluster=", Ok("")),
            (
                "namespace=a&namespace=b&filter=OOM+type:warning&filter=-reason:Pull*",
                Ok("OOM type:Warning -reason:Pull* namespace:a namespace:b"),
            ),
            // What is no pattern in a parameter is none in the filter.
            ("cluster=a*b", Ok("cluster:\"a*b\"")),
            (
                "reason=BackOff",
                Err("reason is a key of filter: filter=reason:VALUE"),
            ),
            (
                "filter=reason:",
                Err("reason: in a filter has no value; an empty value is written as reason:\"\""),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(filter(query), expected, "{query}");
        }
        let many = "namespace=x&".repeat(2) + &"filter=a&filter=b ".repeat(50);
        assert!(filter(&many).is_ok());
        let many: Vec<_> = (0..65).map(|at| format!("kind=k{at}")).collect();
        let many = many.join("&");
        assert_eq!(
            filter(&many).unwrap_err(),
            "the filter has more than 64 terms"
        );
    }
}
