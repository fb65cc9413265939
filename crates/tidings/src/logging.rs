//! Events as log lines: client-go's `StartLogging` and `StartStructuredLogging`.

use std::fmt::{self, Write};

use tidings_core::validate::Quoted;
use tidings_core::{Event, Reference};
use tracing::field::display;

/// An event as client-go's `StartLogging` writes it.
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

/// Logs `event` through `tracing`, with the fields of client-go's `StartStructuredLogging`, and
/// what it leaves out: action and related object.
pub(crate) fn log_structured(level: tracing::Level, event: &Event) {
    let regarding = event.regarding();
    let action = Some(event.action()).filter(|action| !action.is_empty());
    let related = event.related().map(|related| display(KRef(related)));
    // tracing needs the level at compile time, hence one line for each.
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                $level,
                object = %KRef(regarding),
                fieldPath = regarding.field_path(),
                kind = regarding.kind(),
                apiVersion = regarding.api_version(),
                r#type = event.event_type(),
                reason = event.reason(),
                action,
                related,
                note = event.message(),
                "Event occurred"
            )
        };
    }
    match level {
        tracing::Level::ERROR => line!(tracing::Level::ERROR),
        tracing::Level::WARN => line!(tracing::Level::WARN),
        tracing::Level::INFO => line!(tracing::Level::INFO),
        tracing::Level::DEBUG => line!(tracing::Level::DEBUG),
        tracing::Level::TRACE => line!(tracing::Level::TRACE),
    }
}

#[cfg(test)]
mod tests {
    use tidings_core::ReferenceFields;

    use super::*;

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
