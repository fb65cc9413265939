//! Events as log lines: client-go's `StartLogging` and `StartStructuredLogging`.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidings_core::validate::Quoted;
use tidings_core::{Event, EventType, Monotonic, Reference};
use tracing::Level;
use tracing::field::display;

use crate::clock::Clock;

/// An event as a line of client-go's `StartLogging`.
pub(crate) struct LogLine<'a>(pub(crate) &'a Event);

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.0;
        write!(
            f,
            "Event({}): type: '{}' reason: '{}' {}",
            GoSyntax(event.regarding()),
            event.event_type(),
            event.reason(),
            event.message()
        )
    }
}

/// A reference as Go's `%#v` writes an ObjectReference.
struct GoSyntax<'a>(&'a Reference);

impl fmt::Display for GoSyntax<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reference = self.0;
        let fields = [
            ("Kind", reference.kind()),
            ("Namespace", reference.namespace()),
            ("Name", reference.name()),
            ("UID", reference.uid()),
            ("APIVersion", reference.api_version()),
            ("ResourceVersion", reference.resource_version()),
            ("FieldPath", reference.field_path()),
        ];
        f.write_str("v1.ObjectReference{")?;
        for (index, (name, value)) in fields.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}:{}", Quoted(value))?;
        }
        f.write_char('}')
    }
}

/// An object as klog's `KRef` writes it: `namespace/name`, or `name` where there is no namespace.
pub(crate) struct KRef<'a>(pub(crate) &'a Reference);

impl fmt::Display for KRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.namespace() {
            "" => f.write_str(self.0.name()),
            namespace => write!(f, "{namespace}/{}", self.0.name()),
        }
    }
}

/// How long repeats of an event are logged as `DEBUG` only.
const QUIET: Duration = Duration::from_secs(600);
/// Maximum different events whose repeats are recognised. Beyond it, repeats may be logged as new.
const KNOWN_MAX: usize = 4_096;

/// The log of `start_structured_logging`: the level depends on the type, and repeats are quiet.
pub(crate) struct StructuredLog {
    clock: Clock,
    hasher: RandomState,
    /// Logged events, by a hash of the fields that repeats share.
    known: HashMap<u64, Known>,
}

/// An event that was logged.
struct Known {
    /// When the event was last logged at its type's level.
    logged: Monotonic,
    count: u64,
}

impl StructuredLog {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            hasher: RandomState::new(),
            known: HashMap::new(),
        }
    }

    /// Logs `event` at the level of its type, or as `DEBUG` if it is a repeat.
    pub(crate) fn write(&mut self, event: &Event) {
        let (count, is_quiet) = self.seen(event);
        let level = if is_quiet {
            Level::DEBUG
        } else if event.event_type() == EventType::Warning.as_str() {
            Level::WARN
        } else {
            Level::INFO
        };
        log_structured(level, event, Some(count).filter(|count| *count > 1));
    }

    /// Returns how often the event was seen, including this time, and whether it is a quiet repeat.
    fn seen(&mut self, event: &Event) -> (u64, bool) {
        let now = self.clock.monotonic();
        let is_fresh = |known: &Known| now < known.logged.saturating_add(QUIET);
        let hash = |reference: &Reference| {
            self.hasher.hash_one((
                [reference.kind(), reference.api_version(), reference.uid()],
                [reference.namespace(), reference.name()],
                reference.field_path(),
            ))
        };
        let source = event.source();
        let key = self.hasher.hash_one((
            (hash(event.regarding()), event.related().map(hash)),
            [source.source_component(), source.source_host()],
            [source.reporting_controller(), source.reporting_instance()],
            [event.event_type(), event.reason(), event.message()],
            event.action(),
        ));
        if !self.known.contains_key(&key) && self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, known| is_fresh(known));
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
        }
        let known = self.known.entry(key).or_insert(Known {
            logged: now,
            count: 0,
        });
        known.count += 1;
        let is_quiet = known.count > 1 && is_fresh(known);
        if !is_quiet {
            known.logged = now;
        }
        (known.count, is_quiet)
    }
}

/// Logs `event` through `tracing`, with the fields of client-go's `StartStructuredLogging`, and the
/// action and related object, which client-go omits.
fn log_structured(level: Level, event: &Event, count: Option<u64>) {
    let regarding = event.regarding();
    let action = Some(event.action()).filter(|action| !action.is_empty());
    let related = event.related().map(|related| display(KRef(related)));
    // tracing needs the level at compile time, hence one call for each level.
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: "tidings::events",
                $level,
                object = %KRef(regarding),
                fieldPath = regarding.field_path(),
                kind = regarding.kind(),
                apiVersion = regarding.api_version(),
                r#type = event.event_type(),
                reason = event.reason(),
                action,
                related,
                count,
                note = event.message(),
                "Event occurred"
            )
        };
    }
    match level {
        Level::WARN => line!(Level::WARN),
        Level::INFO => line!(Level::INFO),
        _ => line!(Level::DEBUG),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use tidings_core::ReferenceFields;

    use super::*;

    /// Only a bounded number of events is remembered; further ones are logged as new.
    #[test]
    fn the_memory_of_a_log_is_bounded() {
        let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let mut log = StructuredLog::new(clock);
        let mut seen = |number: usize| {
            let reason = Some(number.to_string());
            log.seen(&Event::from_wire(v1::Event {
                reason,
                ..v1::Event::default()
            }))
        };
        for number in 0..KNOWN_MAX {
            assert_eq!(seen(number), (1, false));
        }
        assert_eq!(seen(0), (2, true));
        hand.advance(QUIET / 2);
        assert_eq!(seen(KNOWN_MAX), (1, false), "all others are given up");
        assert_eq!(seen(0), (1, false));
        hand.advance(QUIET / 2);
        for number in 1..KNOWN_MAX - 1 {
            assert_eq!(seen(number), (1, false));
        }
        assert_eq!(seen(0), (2, true));
        hand.advance(QUIET / 2);
        assert_eq!(seen(KNOWN_MAX - 1), (1, false), "old ones make room");
        assert_eq!(seen(1), (2, true));
        assert_eq!(log.known.len(), KNOWN_MAX - 1);
    }

    #[test]
    fn text_is_quoted_as_go_does() {
        #[rustfmt::skip]
        let table = [
            ("", r#""""#),
            ("web-0", r#""web-0""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\0\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("é世\u{1f600}", "\"é世\u{1f600}\""),
            ("\u{85}\u{a0}\u{200b}\u{feff}", r#""\u0085\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ];
        for (text, expected) in table {
            let reference = Reference::new(ReferenceFields {
                name: text,
                ..ReferenceFields::default()
            });
            let logged = GoSyntax(&reference).to_string();
            let name = logged.split_once("Name:").unwrap().1;
            assert!(name.starts_with(&format!("{expected}, UID:")), "{logged}");
        }
    }
}
