//! JSON: one document after the other, on a line each or over many.
//!
//! A line that is JSON by itself is one document; that is JSON Lines, and a broken line costs that
//! line only. Any other line begins a document of many lines (or a list too long to hold), which is
//! parsed as it is read. After a broken one reading continues at the next line that begins with
//! `{`, as documents do and what is inside them, printed with indentation, does not.

use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::de::DeserializeSeed;

use super::document::Document;
use super::record::{Position, RECORD_BYTES_MAX, Record};
use super::source::{Line, Source};
use super::unreadable::{Unreadable, shortened};

pub(super) fn read<R: Read>(
    mut source: Source<R>,
    take: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> io::Result<()> {
    while let Some(line) = source.line(RECORD_BYTES_MAX)? {
        if line.bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut records = Vec::new();
        let flow = match line.is_whole.then(|| parse_line(&line, &mut records)) {
            Some(Ok(true)) => records.into_iter().try_for_each(&mut *take),
            Some(Err(error)) if is_by_itself(&line, source.peek()?) => {
                let position = Position {
                    line: line.number,
                    item: None,
                };
                records.push(Record {
                    position,
                    event: Err(Unreadable::Syntax(describe(&error))),
                });
                records.into_iter().try_for_each(&mut *take)
            }
            _ => {
                source.put_back(line);
                read_document(&mut source, take)?
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

/// Whether the line is one document. A line that turns out to be the beginning of more must not
/// have handed over anything, so its records wait.
fn parse_line(line: &Line, records: &mut Vec<Record>) -> serde_json::Result<bool> {
    let mut parser = serde_json::Deserializer::from_slice(line.bytes.trim_ascii_end());
    let mut take = |record| {
        records.push(record);
        ControlFlow::Continue(())
    };
    Document::new(line.number, None, &mut take).deserialize(&mut parser)?;
    Ok(parser.end().is_ok())
}

/// Whether a line that is not JSON is a broken document of one line, rather than the beginning of
/// one of many: the next line begins a document, and this one does not end where documents are
/// broken into lines.
fn is_by_itself(line: &Line, next: Option<u8>) -> bool {
    let last = line
        .bytes
        .iter()
        .rev()
        .find(|byte| !byte.is_ascii_whitespace());
    matches!(next, None | Some(b'{')) && !matches!(last, Some(b'[' | b'{' | b',' | b':'))
}

fn read_document<R: Read>(
    source: &mut Source<R>,
    take: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let meter = source.meter();
    let first_line = meter.line();
    meter.begin_record();
    let mut document = Document::new(first_line, Some(&meter), take);
    let result = document.deserialize(&mut serde_json::Deserializer::from_reader(&mut *source));
    let Err(error) = result else {
        return Ok(ControlFlow::Continue(()));
    };
    if document.is_stopped() {
        return Ok(ControlFlow::Break(()));
    }
    if let Some(failure) = source.take_failure() {
        return Err(failure);
    }
    let reason = if meter.take_exceeded() {
        format!("longer than {RECORD_BYTES_MAX} bytes")
    } else {
        describe(&error)
    };
    let line = meter.line();
    skip_broken(source)?;
    let rest = match source.peek()? {
        Some(_) => format!("continued at line {}", meter.line()),
        None => "nothing after it was read".to_owned(),
    };
    Ok(document.broken(line, Unreadable::Syntax(format!("{reason}; {rest}"))))
}

fn skip_broken<R: Read>(source: &mut Source<R>) -> io::Result<()> {
    loop {
        source.skip_line()?;
        if matches!(source.peek()?, None | Some(b'{')) {
            return Ok(());
        }
    }
}

/// The parser's own words, without the place: it counts from the beginning of the document.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text);
    format!(
        "not JSON: {}, at column {}",
        shortened(text),
        error.column()
    )
}
