//! The parameters of a timeline request: a time range, and filters of events.

use std::str::FromStr;

use tidings_api::codec::stored::Brief;

use crate::http::params::{self, Parameter};
use crate::http::query::Query;
use crate::http::status::Status;

/// Maximum values of one filter.
const VALUES_MAX: usize = 50;
/// Maximum texts to search for.
const TEXTS_MAX: usize = 4;
/// Maximum length of a filter's value, in bytes.
const VALUE_LEN_MAX: usize = 512;
/// The default range: the last hour, in milliseconds.
const HOUR: i64 = 3_600_000;
/// The times that Kubernetes can write: the years 0 to 9999, in milliseconds since 1970.
const TIMES: (i64, i64) = (-62_167_219_200_000, END);
/// The end of these times.
pub(crate) const END: i64 = 253_402_300_800_000;

/// Filters of events. An event matches if it has one of the values of each nonempty filter, and
/// contains all of the texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub(crate) clusters: Vec<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) kinds: Vec<String>,
    pub(crate) objects: Vec<String>,
    pub(crate) reasons: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) sources: Vec<String>,
    /// Texts to search for, in lower case.
    pub(crate) texts: Vec<String>,
}

impl Filters {
    /// # Errors
    /// 400 for too many or too long values.
    pub(crate) fn of(query: &Query) -> Result<Self, Status> {
        let values = |parameter: Parameter, max: usize| {
            let values = query.values(parameter).filter(|value| !value.is_empty());
            let values = values.map(str::to_owned);
            let values: Vec<String> = values.take(max + 1).collect();
            let name = parameter.name;
            if values.len() > max {
                let why = format!("{name} is given more than {max} times");
                return Err(Status::bad_request(why));
            }
            if values.iter().any(|value| value.len() > VALUE_LEN_MAX) {
                let why = format!("a value of {name} is longer than {VALUE_LEN_MAX} bytes");
                return Err(Status::bad_request(why));
            }
            Ok(values)
        };
        let texts = values(params::TEXT, TEXTS_MAX)?;
        Ok(Self {
            clusters: values(params::CLUSTER, VALUES_MAX)?,
            namespaces: values(params::NAMESPACE, VALUES_MAX)?,
            kinds: values(params::KIND, VALUES_MAX)?,
            objects: values(params::OBJECT, VALUES_MAX)?,
            reasons: values(params::REASON, VALUES_MAX)?,
            types: values(params::TYPE, VALUES_MAX)?,
            sources: values(params::SOURCE, VALUES_MAX)?,
            texts: texts.iter().map(|text| text.to_lowercase()).collect(),
        })
    }

    /// Whether events are selected by anything but cluster, namespace and reason.
    pub(crate) fn look_into_events(&self) -> bool {
        let lists = [&self.kinds, &self.objects, &self.types, &self.sources];
        lists.into_iter().any(|list| !list.is_empty()) || !self.texts.is_empty()
    }

    /// Whether an event matches, except for its cluster and namespace.
    pub(crate) fn selects(&self, event: &Brief<'_>) -> bool {
        let is = |wanted: &[String], found: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted == found)
        };
        is(&self.kinds, event.kind)
            && is(&self.objects, event.object)
            && is(&self.reasons, event.reason)
            && is(&self.types, event.event_type)
            && is(&self.sources, event.component)
            && (self.texts.is_empty() || {
                let message = event.message.to_lowercase();
                self.texts.iter().all(|text| message.contains(text))
            })
    }
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
/// 400 if it is missing.
pub(crate) fn required(query: &Query, parameter: Parameter) -> Result<&str, Status> {
    query
        .get(parameter)
        .filter(|value| value.len() <= VALUE_LEN_MAX)
        .ok_or_else(|| Status::bad_request(format!("{} is required", parameter.name)))
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
    fn filters_are_bounded() {
        let filters = |query: String| {
            let found = Filters::of(&Query::parse(Some(&query)));
            found.map_err(|status| status.message().to_owned())
        };
        let found = filters("namespace=a&namespace=b&text=OOM&text=&type=Warning".into());
        let found = found.unwrap();
        assert_eq!(found.namespaces, ["a", "b"]);
        assert_eq!(found.texts, ["oom"]);
        assert!(found.look_into_events());
        let found = filters("reason=a&cluster=b".into()).unwrap();
        assert!(!found.look_into_events());
        for (query, why) in [
            ("reason=x&".repeat(51), "reason is given more than 50 times"),
            ("text=x&".repeat(5), "text is given more than 4 times"),
            (
                format!("source={}", "x".repeat(513)),
                "a value of source is longer than 512 bytes",
            ),
        ] {
            assert_eq!(filters(query).unwrap_err(), why);
        }
    }
}
