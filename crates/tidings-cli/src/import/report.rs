//! The outcome of every record: the counts, and what to say about those that are not in the cluster
//! now.
//!
//! Invariant: every record read is in exactly one of the counts, so the summary's numbers add up to
//! the first.

use std::collections::BTreeMap;
use std::fmt;

use super::unreadable::Unreadable;

/// Maximum records named for one cause; the rest is counted.
pub const NAMED_MAX: usize = 10;

/// Maximum separate causes; further ones share one line.
const CAUSES_MAX: usize = 100;

/// The outcome of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The server created it.
    Created,
    /// The server had an event of this namespace and name.
    AlreadyThere,
    /// The server answered that it will not have it.
    Refused {
        /// The HTTP status.
        code: u16,
        /// The Status' reason, such as `Invalid`.
        reason: String,
        /// The Status' message.
        message: String,
        /// The fields the Status' causes name.
        fields: Vec<String>,
    },
    /// It was no event.
    Unreadable(Unreadable),
    /// Its input could not be read further.
    InputFailed(String),
    /// The server could no longer be reached, or the import was interrupted, before it was sent or
    /// answered.
    NotSent,
}

impl Outcome {
    /// What it has in common with others of the same cause. Never anything that differs between two
    /// events.
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
            Self::Unreadable(Unreadable::Syntax(_)) => "not JSON or YAML of events".to_owned(),
            Self::Unreadable(Unreadable::OtherKind { .. } | Unreadable::NoKind) => {
                "no event".to_owned()
            }
            Self::Unreadable(Unreadable::OfAnArchive { .. }) => {
                "of an export with versions".to_owned()
            }
            Self::Unreadable(_) => "malformed event".to_owned(),
            Self::InputFailed(_) => "input failed".to_owned(),
            Self::Created | Self::AlreadyThere | Self::NotSent => String::new(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => formatter.write_str("created"),
            Self::AlreadyThere => formatter.write_str("already there"),
            Self::Refused {
                code,
                reason,
                message,
                ..
            } => write!(formatter, "refused: {code} {reason}: {message}"),
            Self::Unreadable(reason) => write!(formatter, "unreadable: {reason}"),
            Self::InputFailed(error) => write!(formatter, "unreadable from here on: {error}"),
            Self::NotSent => formatter.write_str("not sent or not answered"),
        }
    }
}

/// The counts, and the first few records of each cause.
#[derive(Debug, Default)]
pub struct Report {
    /// Records read, whatever their outcome.
    pub read: u64,
    /// Events created.
    pub created: u64,
    /// Events the server had already.
    pub already_there: u64,
    /// Events the server would not have.
    pub refused: u64,
    /// Of these, events that the user may not create.
    pub forbidden: u64,
    /// Records that were no events, and inputs that could not be read to their end.
    pub unreadable: u64,
    /// Events the server was not asked about, or did not answer about.
    pub not_sent: u64,
    causes: BTreeMap<String, Cause>,
}

#[derive(Debug, Default)]
struct Cause {
    named: Vec<String>,
    more: u64,
}

impl Report {
    /// Counts one record. `place` is where it was and what it was called.
    pub fn add(&mut self, place: impl fmt::Display, outcome: &Outcome) {
        self.read += 1;
        let count = match outcome {
            Outcome::Created => &mut self.created,
            Outcome::AlreadyThere => &mut self.already_there,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Unreadable(_) | Outcome::InputFailed(_) => &mut self.unreadable,
            Outcome::NotSent => &mut self.not_sent,
        };
        *count += 1;
        if matches!(outcome, Outcome::Refused { code: 403, .. }) {
            self.forbidden += 1;
        }
        if matches!(
            outcome,
            Outcome::Created | Outcome::AlreadyThere | Outcome::NotSent
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

    /// The lines about what was refused or unreadable, those of one cause together.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.causes.iter().flat_map(|(name, cause)| {
            let more = (cause.more > 0).then(|| format!("… and {} more: {name}", cause.more));
            cause.named.iter().cloned().chain(more)
        })
    }
}

/// One line about one record, whatever is in it.
pub fn line(place: impl fmt::Display, outcome: &Outcome) -> String {
    // A message is text from elsewhere: no line break, and nothing a terminal would act on.
    format!("{place} {outcome}").replace(char::is_control, " ")
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} read: {} created, {} already there, {} refused, {} unreadable",
            self.read, self.created, self.already_there, self.refused, self.unreadable
        )?;
        if self.not_sent > 0 {
            write!(formatter, ", {} not sent or not answered", self.not_sent)
        } else {
            Ok(())
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
        report.add("a:26", &Outcome::Unreadable(Unreadable::NoKind));
        report.add("a:27", &Outcome::Created);
        report.add("a:28", &Outcome::AlreadyThere);
        report.add("a:29", &Outcome::NotSent);
        let lines: Vec<String> = report.lines().collect();
        assert_eq!(lines.len(), 13, "{lines:#?}");
        assert_eq!(
            lines[0],
            "a:25 refused: 422 Invalid: Event \"x\" is  [31minvalid"
        );
        assert_eq!(lines[11], "… and 15 more: 422 Invalid reason");
        assert_eq!(
            lines[12],
            "a:26 unreadable: no kind, and neither involvedObject nor regarding: not an event"
        );
        assert_eq!(
            report.to_string(),
            "30 read: 1 created, 1 already there, 26 refused, 1 unreadable, 1 not sent or not answered"
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
