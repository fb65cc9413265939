//! The tool `event`: all about one event.

use super::super::answers::{OfEvent, Repeats};
use super::super::arguments::Query;
use super::super::errors::CallError;
use super::super::page::{Answer, Line, Page};
use super::super::source::Source;
use super::super::text::{clean, id as id_of, line, line_of, moment, name, time};
use super::reading::{coverage, covering, get, only};

/// Maximum bytes of the message, of a sentence, and of the event's JSON.
const MESSAGE_MAX: usize = 4096;
const SENTENCE_MAX: usize = 600;
const RAW_MAX: usize = 16 << 10;
/// Maximum rows of what changed before, versions with another message, and fellow objects.
const BEFORE_MAX: usize = 10;
const VERSIONS_MAX: usize = 5;
const SAME_MAX: usize = 5;
/// Maximum numbers of a rate.
const RATES_MAX: usize = 12;

/// The cluster, namespace and name that an id consists of.
///
/// # Errors
/// The text is not an id.
fn of_id(id: &str) -> Result<[&str; 3], CallError> {
    let parts: Vec<&str> = id.trim().split('/').collect();
    match parts.as_slice() {
        [cluster, namespace, name] if !namespace.is_empty() && !name.is_empty() => {
            Ok([cluster, namespace, name])
        }
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(["", namespace, name]),
        _ => {
            let why = "is CLUSTER/NAMESPACE/NAME, as the lines of `search` end with it";
            Err(CallError::argument("id", why))
        }
    }
}

pub(super) async fn event(source: &dyn Source, id: &str, max: usize) -> Result<Answer, CallError> {
    let [cluster, namespace, name_of] = of_id(id)?;
    let mut place = Query::default();
    place.add("cluster", if cluster == "-" { "" } else { cluster });
    let coverage = coverage(source, &place).await?;
    let query = Query::default()
        .with("cluster", only(&coverage)?)
        .with("namespace", namespace)
        .with("name", name_of);
    let found: OfEvent = get(source, "event", &query).await?;
    let range = (found.began, None);
    let coverage = covering(source, &place, range, coverage).await?;
    let (item, now) = (&found.item, coverage.now);
    let mut lines = vec![
        clean(&found.sentence, SENTENCE_MAX),
        line_of(item, now, MESSAGE_MAX),
    ];
    if !item.host.is_empty() {
        lines.push(format!("reported from {}", name(&item.host)));
    }
    let rate = found.repeats.as_ref();
    let rate = rate.map(rate_of).or_else(|| rate_of_versions(&found));
    lines.extend(rate);
    let others = found.versions.iter().skip(1);
    let others = others.filter_map(|version| Some((version, version.message.as_ref()?)));
    for (version, message) in others.take(VERSIONS_MAX) {
        let at = time(version.last, now);
        let message = clean(message, 240);
        lines.push(format!("version of {at}, ×{}: {message}", version.count));
    }
    for before in found.before.iter().take(BEFORE_MAX) {
        let line = line(&before.item, now);
        lines.push(format!(
            "before it began, {}: {line}",
            clean(&before.why, 120)
        ));
    }
    if found.same.objects > 0 {
        let objects = found.same.items.iter().take(SAME_MAX);
        let objects: Vec<_> = objects.map(id_of).collect();
        let least = if found.same.more { "at least " } else { "" };
        lines.push(format!(
            "the same reason on {least}{} other objects, such as {}",
            found.same.objects,
            objects.join(", ")
        ));
    }
    let cut = |len: usize, max: usize| len.saturating_sub(max);
    let raw = found.raw.to_string();
    lines.push(clean(&raw, RAW_MAX));
    let page = Page {
        truncated: cut(item.message.len(), MESSAGE_MAX) + cut(raw.len(), RAW_MAX),
        cuts_any: true,
        coverage: coverage.line(range),
        notes: vec![format!(
            "The event, or similar ones before it, began {}. Rows of what changed before are the most important first.",
            time(found.began, now)
        )],
        lines: lines.into_iter().map(Line::from).collect(),
    };
    Ok(page.alone(max))
}

/// The occurrences over time, in a few numbers.
fn rate_of(repeats: &Repeats) -> String {
    let together = repeats.bins.len().div_ceil(RATES_MAX).max(1);
    let rates = repeats.bins.chunks(together);
    let rates: Vec<String> = rates
        .map(|bins| {
            bins.iter()
                .fold(0, |sum: u64, bin| sum.saturating_add(*bin))
                .to_string()
        })
        .collect();
    let (from, to) = (moment(repeats.from), moment(repeats.to));
    format!(
        "occurrences from {from} to {to} in equal steps: {}",
        rates.join(" ")
    )
}

/// How the count rose over the newest versions, if there are several.
fn rate_of_versions(found: &OfEvent) -> Option<String> {
    let (newest, oldest) = (found.versions.first()?, found.versions.last()?);
    let (from, to) = (moment(oldest.last), moment(newest.last));
    let more = if found.versions_more { "at least " } else { "" };
    let many = found.versions.len();
    (many > 1).then(|| {
        format!(
            "{more}{many} versions: ×{} at {from}, ×{} at {to}",
            oldest.count, newest.count
        )
    })
}
