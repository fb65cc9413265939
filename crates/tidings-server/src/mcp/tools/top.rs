//! The tools `top` and `compare`: what happened most, and what is different between two ranges.

use std::collections::HashMap;

use super::super::answers::{Row, Top};
use super::super::arguments::{Arguments, HOUR, Query};
use super::super::errors::CallError;
use super::super::page::{Answer, Line, Page};
use super::super::source::Source;
use super::super::text::{moment, name, time};
use super::reading::{coverage, covering, get};

/// A range whose end is now if it is missing.
type Range = (i64, Option<i64>);

pub(super) async fn top(
    source: &dyn Source,
    arguments: &Arguments,
    max: usize,
) -> Result<Answer, CallError> {
    let by = arguments.word("by", &["reason", "object", "namespace", "controller"])?;
    let selection = arguments.selection()?;
    let place = arguments.place()?;
    let coverage = coverage(source, &place).await?;
    let now = arguments.began(coverage.now)?;
    let range = arguments.range(("since", "until"), now, HOUR)?;
    let range = first_page_range(arguments, range, now)?;
    let coverage = covering(source, &place, range, coverage).await?;
    let by = if by == "controller" { "source" } else { by };
    let found = table(source, &selection, range, by).await?;
    let page = Page {
        coverage: coverage.line(range),
        notes: vec![summary(&found, range)],
        lines: found
            .rows
            .iter()
            .map(|row| Line::about(key(row), line(row, now)))
            .collect(),
        ..Page::default()
    };
    page.starting_at(arguments.cursor()?, now, arguments.limit()?, max)
}

/// The range of the list's first page. On a later page, a range without an end ends at the time of
/// the cursor, when the first page was read.
fn first_page_range(
    arguments: &Arguments,
    (from, to): Range,
    now: i64,
) -> Result<Range, CallError> {
    let is_later = arguments.cursor()?.is_some();
    // The end is exclusive, and the first page has the events of its last millisecond.
    let end = is_later.then(|| now.saturating_add(1));
    Ok((from, to.or(end)))
}

/// The table of a range.
async fn table(
    source: &dyn Source,
    selection: &Query,
    range: Range,
    by: &str,
) -> Result<Top, CallError> {
    let query = selection.clone().within(range).with("by", by);
    get(source, "top", &query.with("parts", "1")).await
}

/// What a table is about.
fn summary(found: &Top, (from, to): Range) -> String {
    let to = to.map_or_else(|| "now".to_owned(), moment);
    let more = match found.more {
        0 => String::new(),
        more => format!(" {more} rows with fewer are left out."),
    };
    let read = if found.complete && found.later_complete {
        ""
    } else {
        " Not all events were read: the numbers are of those that were seen last."
    };
    format!(
        "From {} to {to}: {} occurrences in {} events; the unit is {}.{read}{more}",
        moment(from),
        found.occurrences,
        found.events,
        match found.counted.as_str() {
            "events" => "events, each counted once in the hour in which it was last seen",
            "versions" => "versions of events",
            _ => "occurrences",
        },
    )
}

/// A row of a table.
fn line(row: &Row, now: i64) -> String {
    let objects = row.objects.map(|objects| format!(", {objects} objects"));
    let warnings = match row.warnings {
        0 => String::new(),
        warnings => format!(", {warnings} of warnings"),
    };
    let about = if row.estimated { "about " } else { "" };
    let hour = if row.by_hour { "in the hour of " } else { "" };
    let seen = |what: &str, at: i64| format!(", {what} {hour}{}", time(at, now));
    let first = row.first.map(|first| seen("first", first));
    let last = row.last.map(|last| seen("last", last));
    format!(
        "{}: {about}{}{warnings}{}{}{}{}",
        key(row),
        row.occurrences,
        objects.unwrap_or_default(),
        first.unwrap_or_default(),
        last.unwrap_or_default(),
        if row.going { ", still going" } else { "" },
    )
}

/// What a row is about.
fn key(row: &Row) -> String {
    let parts = [&row.cluster, &row.namespace, &row.kind, &row.name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(|part| name(part)).collect();
    let key = if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join("/")
    };
    // Several objects of this name are in the table.
    match row.uid.as_str() {
        "" => key,
        uid => format!("{key} (uid {})", name(uid)),
    }
}

pub(super) async fn compare(
    source: &dyn Source,
    arguments: &Arguments,
    max: usize,
) -> Result<Answer, CallError> {
    let selection = arguments.selection()?;
    let place = arguments.place()?;
    let coverage = coverage(source, &place).await?;
    let now = arguments.began(coverage.now)?;
    let range = arguments.range(("since", "until"), now, HOUR)?;
    // A range of more than a day is compared with the one before it, which has no event of it.
    let end = range.1.unwrap_or(now);
    let before = end.saturating_sub(range.0).max(24 * HOUR);
    let until = arguments.moment("againstUntil", now)?;
    let until = until.unwrap_or_else(|| end.saturating_sub(before));
    let since = arguments.moment("againstSince", now)?;
    let since = since.unwrap_or_else(|| range.0.saturating_sub(before));
    let scale = length(range, now) / length((since, Some(until)), now);
    let range = first_page_range(arguments, range, now)?;
    if since >= until {
        return Err(CallError::argument(
            "againstSince",
            "is not before againstUntil",
        ));
    }
    let against = (since, Some(until));
    let later = table(source, &selection, range, "reason").await?;
    let earlier = table(source, &selection, against, "reason").await?;
    let mut notes = vec![
        summary(&later, range),
        format!("Compared with: {}", summary(&earlier, against)),
    ];
    if later.counted != earlier.counted {
        notes.push(
            "Rates cannot be compared, because the units differ: only what is new or gone is \
             listed. Shorter ranges have the same unit."
                .to_owned(),
        );
    }
    let whole = (range.0.min(since), range.1.map(|to| to.max(until)));
    let coverage = covering(source, &place, whole, coverage).await?;
    let page = Page {
        coverage: coverage.line(whole),
        notes,
        lines: differences(&later, &earlier, scale, now),
        ..Page::default()
    };
    page.starting_at(arguments.cursor()?, now, arguments.limit()?, max)
}

fn length((from, to): Range, now: i64) -> f64 {
    to.unwrap_or(now).saturating_sub(from).max(1) as f64
}

/// A line for each reason whose rate differs: new ones first, then by how much it differs.
/// Rates in different units are not compared. `scale` is by how much the later range is longer.
fn differences(later: &Top, earlier: &Top, scale: f64, now: i64) -> Vec<Line> {
    /// A reason happens more or less often if its rate is so many times higher or lower.
    const FACTOR: f64 = 1.5;
    let of = |top: &Top| -> HashMap<String, u64> {
        let rows = top.rows.iter();
        rows.map(|row| (row.name.clone(), row.occurrences))
            .collect()
    };
    let (was, is) = (of(earlier), of(later));
    let is_same_unit = later.counted == earlier.counted;
    let is_whole = |top: &Top| top.complete && top.later_complete && top.more == 0;
    // What was not read is not known to be new or gone.
    let may = |top: &Top| if is_whole(top) { "" } else { "perhaps " };
    let mut found: Vec<(f64, u64, Line)> = Vec::new();
    // What a line is about is its reason, and not how it differs.
    let about = |row: &Row, differs: String| {
        let text = format!("{differs}: {}", line(row, now));
        Line::about(key(row), text)
    };
    for row in &later.rows {
        let Some(before) = was.get(&row.name) else {
            let line = about(row, format!("{}new", may(earlier)));
            found.push((f64::INFINITY, row.occurrences, line));
            continue;
        };
        if !is_same_unit {
            continue;
        }
        let factor = row.occurrences as f64 / (*before as f64 * scale).max(f64::MIN_POSITIVE);
        if factor >= FACTOR || factor <= 1.0 / FACTOR {
            let line = about(row, format!("×{factor:.1} (was {before})"));
            found.push((factor.max(1.0 / factor), row.occurrences, line));
        }
    }
    for row in earlier
        .rows
        .iter()
        .filter(|row| !is.contains_key(&row.name))
    {
        let line = about(row, format!("{}gone", may(later)));
        found.push((0.0, row.occurrences, line));
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0).then(other.1.cmp(&one.1)));
    if found.is_empty() {
        let same = if is_same_unit {
            "no reason happens half as often again, or less; none is new or gone"
        } else {
            "no reason is new or gone"
        };
        return vec![same.to_owned().into()];
    }
    found.into_iter().map(|(_, _, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn top(counted: &str, rows: &[(&str, u64)]) -> Top {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, occurrences)| {
                json!({"name": name, "cluster": "", "occurrences": occurrences, "warnings": 0,
                       "objects": null, "first": null, "last": null, "going": false,
                       "estimated": false})
            })
            .collect();
        let top = json!({"counted": counted, "complete": true, "laterComplete": true,
                         "occurrences": 0, "events": 0, "rows": rows, "more": 0});
        serde_json::from_value(top).unwrap()
    }

    #[test]
    fn rows_say_which_object_and_which_hour() {
        let mut rows = top("events", &[("db-0", 2), ("db-1", 1)]).rows;
        rows[0].uid = "u-1".to_owned();
        rows[0].last = Some(0);
        rows[1].by_hour = true;
        rows[1].last = Some(3_600_000);
        for (row, expected) in rows.iter().zip([
            "db-0 (uid u-1): 2, last 1970-01-01T00:00:00Z (60m ago)",
            "db-1: 1, last in the hour of 1970-01-01T01:00:00Z (0s ago)",
        ]) {
            assert_eq!(line(row, 3_600_000), expected);
        }
    }

    #[test]
    fn only_equal_units_are_divided() {
        let earlier = top("events", &[("BackOff", 10), ("Gone", 1)]);
        for (counted, expected) in [
            (
                "events",
                ["×500.0 (was 10): BackOff: 5000", "gone: Gone: 1"].as_slice(),
            ),
            ("occurrences", &["gone: Gone: 1"]),
        ] {
            let later = top(counted, &[("BackOff", 5000)]);
            let found = differences(&later, &earlier, 1.0, 0);
            let found: Vec<_> = found.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(found, expected, "{counted}");
        }
    }
}
