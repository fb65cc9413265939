//! YAML: documents between lines of `---`. A broken document costs that document only.

use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::de::DeserializeSeed;

use super::document::Document;
use super::record::{Record, YAML_DOCUMENT_BYTES_MAX};
use super::source::Source;
use super::unreadable::{Unreadable, shortened};

pub(super) fn read<R: Read>(
    mut source: Source<R>,
    take: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    let mut first_line = source.meter().line();
    let mut is_too_large = false;
    loop {
        let room = YAML_DOCUMENT_BYTES_MAX - text.len();
        let line = source.line(room.max(1))?;
        let begins_next = line.as_ref().is_none_or(|line| is_separator(&line.bytes));
        if begins_next {
            let flow = if is_too_large {
                let reason = Unreadable::TooLarge {
                    limit: YAML_DOCUMENT_BYTES_MAX,
                };
                Document::new(first_line, None, take).broken(first_line, reason)
            } else {
                read_document(&text, first_line, take)
            };
            if flow.is_break() {
                return Ok(());
            }
            text.clear();
            is_too_large = false;
        }
        let Some(line) = line else {
            return Ok(());
        };
        if begins_next {
            first_line = line.number;
        }
        is_too_large |= !line.is_whole || line.bytes.len() > room;
        if is_too_large {
            text.clear();
            if !line.is_whole {
                source.skip_line()?;
            }
        } else {
            text.extend_from_slice(&line.bytes);
        }
    }
}

/// `---` at the beginning of a line separates documents wherever it stands: nothing inside a
/// document may look so.
fn is_separator(line: &[u8]) -> bool {
    line.strip_prefix(b"---")
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

fn read_document(
    text: &[u8],
    first_line: u64,
    take: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut document = Document::new(first_line, None, take);
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let reason = format!(
                "not UTF-8 after {} bytes of the document",
                error.valid_up_to()
            );
            return document.broken(first_line, Unreadable::Syntax(reason));
        }
    };
    if text.lines().all(is_empty) {
        return ControlFlow::Continue(());
    }
    let result =
        serde_saphyr::with_deserializer_from_str_with_options(text, options(), |deserializer| {
            document.deserialize(deserializer)
        });
    let Err(error) = result else {
        return ControlFlow::Continue(());
    };
    if document.is_stopped() {
        return ControlFlow::Break(());
    }
    let line = error
        .location()
        .map_or(first_line, |at| first_line + at.line().saturating_sub(1));
    // Anything that is neither JSON nor YAML ends up here.
    let why = if is_table(text) {
        "a table, as printed for people; -o json and -o yaml print events".to_owned()
    } else {
        shortened(&first_sentence(&error))
    };
    let reason = format!("neither JSON nor YAML events: {why}");
    document.broken(line, Unreadable::Syntax(reason))
}

fn is_empty(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with(['#', '%']) || matches!(line.trim_end(), "---" | "...")
}

/// What kubectl and tidings print of events without -o.
fn is_table(text: &str) -> bool {
    let heading = text.lines().find(|line| !line.trim().is_empty());
    heading.is_some_and(|heading| {
        let heading = heading.strip_prefix("NAMESPACE").unwrap_or(heading);
        heading.trim_start().starts_with("LAST SEEN ")
    })
}

fn first_sentence(error: &serde_saphyr::Error) -> String {
    error
        .without_snippet()
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The library's limits on aliases and depth stand; those on size give way to our own, and nothing
/// is read as another value than kubectl would write it for.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: YAML_DOCUMENT_BYTES_MAX,
        },
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}
