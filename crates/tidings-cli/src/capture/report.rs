//! The report of an import: counts of all outcomes, and messages about events that were not created
//! or were changed.
//!
//! Invariant: every event is in exactly one of the counts, so they add up to the number of events
//! read.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::note::Note;
use super::unreadable::Unreadable;
use crate::text::message;

/// Maximum events that are named for one cause; the others are only counted.
pub const NAMED_MAX: usize = 10;
/// Maximum events that are named in one note.
const NOTED_MAX: usize = 3;

/// Maximum separate causes; further ones share one line.
const CAUSES_MAX: usize = 100;

/// The outcome of one event, or of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The server created it.
    Created,
    /// The server replaced an older version of it.
    Updated,
    /// The server has this version of the event already, or a newer one.
    AlreadyThere,
    /// The server refused it.
    Refused {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the Status, such as `Invalid`.
        reason: String,
        /// The `message` of the Status.
        message: String,
        /// The fields named in the causes of the Status.
        fields: Vec<String>,
    },
    /// The event could not be read.
    Unreadable(Unreadable),
    /// Not an event: an input that could not be read to its end.
    Failed(String),
    /// Not an event: an input without events, and a description of it.
    Nothing(String),
    /// The event was not sent or not answered, because the server was out of reach or the import
    /// was interrupted.
    NotSent,
}

impl Outcome {
    /// The text that outcomes of one cause share. Contains nothing that differs between two events.
    fn cause(&self) -> String {
        match self {
            Self::Refused {
                code,
                reason,
                fields,
                ..
            } => {
                let mut fields = fields.clone();
                fields.sort();
                fields.dedup();
                [format!("{code} {reason}"), fields.join(" ")]
                    .join(" ")
                    .trim_end()
                    .to_owned()
            }
            Self::Unreadable(Unreadable::Syntax(_)) => "damaged event".to_owned(),
            Self::Unreadable(_) => "malformed event".to_owned(),
            Self::Failed(_) => "input that could not be read to its end".to_owned(),
            Self::Nothing(_) => "input without events".to_owned(),
            Self::Created | Self::Updated | Self::AlreadyThere | Self::NotSent => String::new(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => formatter.write_str("created"),
            Self::Updated => formatter.write_str("updated"),
            Self::AlreadyThere => formatter.write_str("already there"),
            Self::Refused {
                code,
                reason,
                message,
                ..
            } => write!(formatter, "refused: {code} {reason}: {message}"),
            Self::Unreadable(reason) => write!(formatter, "unreadable: {reason}"),
            Self::Failed(error) => write!(formatter, "unreadable from here on: {error}"),
            Self::Nothing(what) => write!(formatter, "has no events in it: it is {what}"),
            Self::NotSent => formatter.write_str("not sent or not answered"),
        }
    }
}

/// The counts, and the first few events of each cause.
#[derive(Debug, Default)]
pub struct Report {
    /// Events read, whatever their outcome.
    pub read: u64,
    /// Events created.
    pub created: u64,
    /// Events of which the server had an older version.
    pub updated: u64,
    /// Events that the server had already, in this version or a newer one.
    pub already_there: u64,
    /// Events that the server refused.
    pub refused: u64,
    /// The refused events that the user may not create.
    pub forbidden: u64,
    /// Events that could not be read.
    pub unreadable: u64,
    /// Events that were not sent or not answered.
    pub not_sent: u64,
    /// Inputs, or members of them, that could not be read to their end or have no events.
    pub incomplete: u64,
    causes: BTreeMap<String, Cause>,
    notes: BTreeMap<Note, Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    count: u64,
    named: Vec<String>,
}

#[derive(Debug, Default)]
struct Cause {
    named: Vec<String>,
    more: u64,
}

impl Report {
    /// Counts the changes that were made to an event.
    pub fn note(&mut self, place: impl fmt::Display, notes: &[Note]) {
        for note in notes {
            let noted = self.notes.entry(*note).or_default();
            noted.count += 1;
            if noted.named.len() < NOTED_MAX {
                noted
                    .named
                    .push(place.to_string().replace(char::is_control, " "));
            }
        }
    }

    /// Counts the outcome of one event or input. `place` is its place and name.
    pub fn add(&mut self, place: impl fmt::Display, outcome: &Outcome) {
        let is_event = !matches!(outcome, Outcome::Failed(_) | Outcome::Nothing(_));
        self.read += u64::from(is_event);
        let count = match outcome {
            Outcome::Created => &mut self.created,
            Outcome::Updated => &mut self.updated,
            Outcome::AlreadyThere => &mut self.already_there,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Unreadable(_) => &mut self.unreadable,
            Outcome::Failed(_) | Outcome::Nothing(_) => &mut self.incomplete,
            Outcome::NotSent => &mut self.not_sent,
        };
        *count += 1;
        if matches!(outcome, Outcome::Refused { code: 403, .. }) {
            self.forbidden += 1;
        }
        if matches!(
            outcome,
            Outcome::Created | Outcome::Updated | Outcome::AlreadyThere | Outcome::NotSent
        ) {
            return;
        }
        let mut name = outcome.cause();
        if self.causes.len() >= CAUSES_MAX && !self.causes.contains_key(&name) {
            "other causes".clone_into(&mut name);
        }
        let cause = self.causes.entry(name).or_default();
        if cause.named.len() < NAMED_MAX {
            cause.named.push(line(place, outcome));
        } else {
            cause.more += 1;
        }
    }

    /// Lines about refused and unreadable events, grouped by cause.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.causes.iter().flat_map(|(name, cause)| {
            let more = (cause.more > 0).then(|| format!("… and {} more: {name}", cause.more));
            cause.named.iter().cloned().chain(more)
        })
    }

    /// Lines about the changes made to events.
    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.notes.iter().map(|(note, noted)| {
            let events = if noted.count == 1 { "event" } else { "events" };
            let more = if noted.count > noted.named.len() as u64 {
                ", …"
            } else {
                ""
            };
            format!(
                "{} {events} {note}: {}{more}",
                noted.count,
                noted.named.join(", ")
            )
        })
    }

    /// The counts of captures whose events are shown: each event counts once, whatever versions of
    /// it were read.
    pub fn shown(&self) -> String {
        let versions = self.updated + self.already_there;
        let mut text = format!("{} read: {} shown, ", self.read, self.created);
        if versions > 0 {
            let _ = write!(text, "{versions} further versions of these, ");
        }
        let _ = write!(
            text,
            "{} refused, {} unreadable",
            self.refused, self.unreadable
        );
        text
    }

    /// Whether every event that was read is in the cluster.
    pub fn is_complete(&self) -> bool {
        self.refused + self.unreadable + self.not_sent + self.incomplete == 0
    }
}

/// One line about the outcome of one event, with unprintable characters escaped.
pub fn line(place: impl fmt::Display, outcome: &Outcome) -> String {
    // The text comes from the capture or the server, so it is escaped.
    message(&format!("{place} {outcome}"))
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} read: {} created, ", self.read, self.created)?;
        if self.updated > 0 {
            write!(formatter, "{} updated, ", self.updated)?;
        }
        write!(
            formatter,
            "{} already there, {} refused, {} unreadable",
            self.already_there, self.refused, self.unreadable
        )?;
        if self.not_sent > 0 {
            write!(formatter, ", {} not sent or not answered", self.not_sent)?;
        }
        match self.notes.get(&Note::Repaired) {
            Some(noted) => write!(formatter, "; {} of these repaired", noted.count),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, field: &str) -> Outcome {
        Outcome::Refused {
            code: 422,
            reason: "Invalid".to_owned(),
            message: format!("Event \"{name}\" is\n\u{1b}[31minvalid"),
            fields: vec![field.to_owned(), field.to_owned()],
        }
    }

    #[test]
    fn many_refusals_of_one_cause_are_named_ten_times_and_then_counted() {
        let mut report = Report::default();
        for number in 0..25 {
            report.add(
                format_args!("a:{number}"),
                &refused(&number.to_string(), "reason"),
            );
        }
        report.add("a:25", &refused("x", "metadata.name"));
        report.add("a:26", &Outcome::Unreadable(Unreadable::Metadata));
        report.add("a:27", &Outcome::Created);
        report.add("a:28", &Outcome::AlreadyThere);
        assert!(!report.to_string().contains("updated"), "{report}");
        report.add("a:28", &Outcome::Updated);
        report.add("a:29", &Outcome::NotSent);
        report.add("b", &Outcome::Nothing("an empty file".to_owned()));
        for number in 0..5 {
            report.note(format_args!("a:{number}"), &[Note::Owners]);
        }
        report.note("a:9", &[Note::Repaired]);
        let notes: Vec<String> = report.notes().collect();
        assert!(
            notes[0].starts_with("1 event repaired") && notes[0].ends_with(": a:9"),
            "{notes:?}"
        );
        assert!(
            notes[1].starts_with("5 events ") && notes[1].ends_with(": a:0, a:1, a:2, …"),
            "{notes:?}"
        );
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(lines.len(), 14, "{lines:#?}");
        assert_eq!(
            lines[0],
            "a:25 refused: 422 Invalid: Event \"x\" is \\u{1b}[31minvalid"
        );
        assert_eq!(lines[11], "… and 15 more: 422 Invalid reason");
        assert_eq!(lines[13], "a:26 unreadable: metadata is not an object");
        assert_eq!(
            report.to_string(),
            "31 read: 1 created, 1 updated, 1 already there, 26 refused, 1 unreadable, 1 not sent or not answered; 1 of these repaired"
        );
        assert_eq!(
            report.shown(),
            "31 read: 1 shown, 2 further versions of these, 26 refused, 1 unreadable"
        );
    }

    #[test]
    fn causes_without_end_take_memory_with_an_end() {
        let mut report = Report::default();
        for number in 0..1000 {
            report.add(number, &refused("x", &format!("metadata.labels[{number}]")));
        }
        assert_eq!(report.refused, 1000);
        assert_eq!(report.causes.len(), CAUSES_MAX + 1);
        assert_eq!(
            report.lines().last().as_deref(),
            Some("… and 890 more: other causes")
        );
    }
}
