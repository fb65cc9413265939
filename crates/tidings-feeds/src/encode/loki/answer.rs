//! What Loki's answers mean.
//!
//! Loki has its reasons in words only, and quotes labels in them.

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::encode::{Answer, Outcome, Verdict, judge_failure, words};
use crate::record::Record;

/// Loki answers 400 if it rejects any entry, and takes the others.
///
/// Its distributor states the oldest time that it accepts: older records are rejected, and the
/// others are sent again, which is harmless. Its ingester names at most ten entries of one stream,
/// so any other 400 rejects the request as a whole, which is then sent in halves.
pub(super) fn judge(answer: &Answer<'_>, records: &[Record]) -> Verdict {
    let oldest = match answer.status.as_u16() {
        204 => return Verdict::Delivered,
        // Some receivers of Loki's form answer so.
        200 if answer.body.is_empty() => return Verdict::Delivered,
        400 => oldest_accepted(answer, records),
        _ => None,
    };
    let Some(oldest) = oldest.filter(|at| records.iter().any(|record| record.at() < *at)) else {
        return judge_failure(answer);
    };
    let outcome = |record: &Record| {
        if record.at() < oldest {
            Outcome::Rejected(words(answer))
        } else {
            Outcome::Retry(words(answer))
        }
    };
    Verdict::Items(records.iter().map(outcome).collect())
}

/// Returns the oldest time that the distributor accepts, in local time, from its text:
/// `entry for stream '{…}' has timestamp too old: T, oldest acceptable timestamp is: T`.
///
/// A time after the answer was made is not believed, nor one after all records were observed if the
/// answer has no `Date`.
fn oldest_accepted(answer: &Answer<'_>, records: &[Record]) -> Option<Timestamp> {
    let text = unquoted(std::str::from_utf8(answer.body).ok()?);
    let (_, rest) = text.rsplit_once("has timestamp too old: ")?;
    let (_, rest) = rest.split_once("oldest acceptable timestamp is: ")?;
    let is_of_time = |c: char| c.is_ascii_digit() || "T:+Z.-".contains(c);
    let end = rest.find(|c| !is_of_time(c)).unwrap_or(rest.len());
    let oldest: Timestamp = rest[..end].parse().ok()?;
    let date = answer.header("date");
    let answered = date.and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let newest = || records.iter().map(Record::observed).max();
    (oldest <= answered.or_else(newest)?).then_some(oldest)
}

/// Removes the values of labels: what is in double quotes, with Go's escapes.
fn unquoted(text: &str) -> String {
    let (mut outside, mut is_quoted) = (String::new(), false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => drop(characters.next()),
            _ if is_quoted => {}
            other => outside.push(other),
        }
    }
    outside
}
