//! The tool `search`: events of a selection, the last seen first.

use super::super::answers::Events;
use super::super::arguments::{Arguments, HOUR};
use super::super::errors::CallError;
use super::super::page::{Answer, Page};
use super::super::source::Source;
use super::super::text::{is_cut, line, moment, note_of_cut};
use super::reading::{coverage, covering, get};

/// Maximum reads for one page that is cut.
const READS_MAX: usize = 4;

pub(super) async fn search(
    source: &dyn Source,
    arguments: &Arguments,
    max: usize,
) -> Result<Answer, CallError> {
    let limit = arguments.limit()?;
    let selection = arguments.selection()?;
    let place = arguments.place()?;
    let coverage = coverage(source, &place).await?;
    let now = arguments.began(coverage.now)?;
    let cursor = arguments.cursor()?;
    let range = arguments.range(("since", "until"), now, 24 * HOUR)?;
    let coverage = covering(source, &place, range, coverage).await?;
    let query = selection
        .within(range)
        .with("continue", cursor.map_or("", |cursor| cursor.place));
    let read = async |limit: usize| -> Result<Events, CallError> {
        let query = query.clone().with("limit", &limit.to_string());
        get(source, "events", &query).await
    };
    let mut found = read(limit).await?;
    let page = |found: &Events| {
        let mut notes = Vec::new();
        let end = range.1.map_or_else(|| "now".to_owned(), moment);
        if found.items.is_empty() {
            let since = moment(range.0);
            notes.push(if found.complete {
                format!(
                    "No event matches from {since} to {end}. An earlier `since` or fewer conditions find more."
                )
            } else {
                format!(
                    "None so far: only the latest events from {since} to {end} were searched. \
                     Read on with the cursor, or give an earlier `until`."
                )
            });
        } else if !found.complete {
            notes.push(
                "Not all events of this time were searched: narrow `since` and `until`, or read on."
                    .to_owned(),
            );
        }
        notes.extend(cursor.map(|_| {
            format!(
                "This page continues a list of {}: what was seen since then, or seen again, is \
                 not in it.",
                moment(now)
            )
        }));
        let cut = found.items.iter().filter(|item| is_cut(item)).count();
        notes.extend(note_of_cut(cut));
        Page {
            coverage: coverage.line(range),
            notes,
            lines: found
                .items
                .iter()
                .map(|item| line(item, now).into())
                .collect(),
            ..Page::default()
        }
    };
    let mut more = 0;
    // The cursor for the rest is that of a shorter page. Its lines may be longer, if events are
    // created meanwhile.
    for _ in 0..READS_MAX {
        let fitting = page(&found).fitting(max);
        if fitting >= found.items.len() {
            break;
        }
        more = found.items.len() - fitting;
        found = read(fitting).await?;
    }
    let next = found.r#continue.as_ref();
    let next = next.map(|place| format!("{now}~{place}"));
    let more = if next.is_some() { more.max(1) } else { more };
    Ok(page(&found).fitted(max, more, next))
}
