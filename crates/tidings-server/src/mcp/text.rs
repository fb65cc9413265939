//! Lines of text about events. Programs in a cluster chose most of the words: a line never contains
//! a line break, or characters that hide or reorder text.

use jiff::Timestamp;
use tidings_api::table::human_duration;
use tidings_core::floor_char_boundary;

use super::answers::Item;

/// Maximum bytes of a message in a list.
const MESSAGE_MAX: usize = 240;
/// Maximum bytes of a name in a line. Kubernetes has no longer ones.
const NAME_MAX: usize = 253;

/// Text as one line without control and format characters, at most `max` bytes; an ellipsis says
/// that it was cut.
pub(super) fn clean(text: &str, max: usize) -> String {
    cut(text, max).0
}

/// The message of an event as [`clean`] shows it, at most `max` bytes of it. If it is longer, the
/// number of bytes that are left out follows: `… (+812 bytes)`.
fn message(text: &str, max: usize) -> String {
    match cut(text, max) {
        (line, 0) => line,
        (line, left) => format!("{line} (+{left} bytes)"),
    }
}

/// Whether the message of an event is cut in a list.
pub(super) fn is_cut(item: &Item) -> bool {
    item.message.len() > MESSAGE_MAX && cut(&item.message, MESSAGE_MAX).1 > 0
}

/// A note about the number of messages that are cut in a list, if there are any.
pub(super) fn note_of_cut(many: usize) -> Option<String> {
    let messages = if many == 1 {
        "message is"
    } else {
        "messages are"
    };
    (many > 0).then(|| {
        format!(
            "{many} {messages} cut at {MESSAGE_MAX} bytes, where \"(+N bytes)\" says how much is \
             left out: `event` shows the whole message of an id."
        )
    })
}

/// Text as one line of at most `max` bytes, and how many bytes of it are left out.
fn cut(text: &str, max: usize) -> (String, usize) {
    let is_blank = |character: char| character == ' ' || character.is_whitespace();
    let plain = text.chars().filter(|character| !is_hidden(*character));
    let plain = plain.map(|it| if it.is_control() { ' ' } else { it });
    let mut plain = plain.skip_while(|it| is_blank(*it));
    let mut line = String::new();
    while let Some(character) = plain.next() {
        if line.len() + character.len_utf8() > max {
            if is_blank(character) && plain.all(is_blank) {
                break;
            }
            let end = floor_char_boundary(&line, max.saturating_sub('…'.len_utf8()));
            let left = line.len() - end + character.len_utf8();
            let left = left + plain.map(char::len_utf8).sum::<usize>();
            line.truncate(end);
            line.push('…');
            return (line, left);
        }
        line.push(character);
    }
    line.truncate(line.trim_end().len());
    (line, 0)
}

/// Whether a character is not seen, or changes the order of others: the format characters and the
/// others that Unicode says to ignore, such as variation selectors.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A name as one short line.
pub(super) fn name(text: &str) -> String {
    clean(text, NAME_MAX)
}

/// A time, absolute and relative: `2026-03-04T12:00:00Z (3m ago)`.
pub(super) fn time(millis: i64, now: i64) -> String {
    let distance = i128::from(now) - i128::from(millis);
    let relative = match distance {
        0.. => format!("{} ago", human_duration(distance)),
        _ => format!("in {}", human_duration(-distance)),
    };
    format!("{} ({relative})", moment(millis))
}

/// A time in seconds of UTC.
pub(super) fn moment(millis: i64) -> String {
    let seconds = millis.div_euclid(1000);
    Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |it| it.to_string())
}

/// The name by which tools address an event: `CLUSTER/NAMESPACE/NAME`, with `-` for the cluster of
/// a server that stores its own events.
pub(super) fn id(item: &Item) -> String {
    let cluster = match item.cluster.as_str() {
        "" => "-",
        cluster => cluster,
    };
    format!(
        "{}/{}/{}",
        name(cluster),
        name(&item.namespace),
        name(&item.name)
    )
}

/// An event in one line.
pub(super) fn line(item: &Item, now: i64) -> String {
    line_of(item, now, MESSAGE_MAX)
}

/// An event in one line, with at most `max` bytes of its message.
pub(super) fn line_of(item: &Item, now: i64, max: usize) -> String {
    let subject = format!(
        "{} {}/{}",
        name(&item.namespace),
        name(&item.object.kind),
        name(&item.object.name)
    );
    with_subject(item, &subject, now, max)
}

/// An event in one line, without the object that it is about.
pub(super) fn line_of_known(item: &Item, now: i64) -> String {
    with_subject(item, "", now, MESSAGE_MAX)
}

fn with_subject(item: &Item, subject: &str, now: i64, max: usize) -> String {
    let count = match item.count {
        0 | 1 => String::new(),
        count => format!(" ×{count} since {}", moment(item.first)),
    };
    let by = match item.source.as_str() {
        "" => String::new(),
        source => format!(" [{}]", name(source)),
    };
    let before = if subject.is_empty() { "" } else { " " };
    format!(
        "{}{count} {} {}{before}{subject}: {}{by} id={}",
        time(item.last, now),
        name(&item.event_type),
        name(&item.reason),
        message(&item.message, max),
        id(item),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_nothing_that_hides_or_breaks_it() {
        for (text, max, expected) in [
            ("two\nlines\r\n", 99, "two lines"),
            ("\u{1b}[31mred\u{7}", 99, "[31mred"),
            ("left\u{202e}thgir", 99, "leftthgir"),
            ("hidden\u{e0041}\u{200b}", 99, "hidden"),
            (
                "ok\u{fe01}\u{e0101}\u{61c}\u{180e}\u{34f}\u{3164}\u{fffa}!",
                99,
                "ok!",
            ),
            ("exactly \n", 7, "exactly"),
            ("exactly", 7, "exactly"),
            ("too long", 7, "too …"),
            ("größer", 6, "gr…"),
            ("", 3, ""),
        ] {
            assert_eq!(clean(text, max), expected, "{text:?}");
        }
        // What is not seen does not displace what is.
        let begin = "\u{200b}".repeat(5000);
        assert_eq!(clean(&(begin + "seen"), 240), "seen");
        assert!(clean(&"é\n".repeat(5000), 240).len() <= 240);
    }

    #[test]
    fn a_message_says_how_much_of_it_is_cut() {
        for (text, max, expected) in [
            ("exactly", 7, "exactly"),
            ("exactly \n", 7, "exactly"),
            ("too long", 7, "too … (+4 bytes)"),
            ("größer", 6, "gr… (+6 bytes)"),
        ] {
            assert_eq!(message(text, max), expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_absolute_and_relative() {
        let now = 1_772_625_600_000;
        for (millis, expected) in [
            (now - 185_000, "2026-03-04T11:56:55Z (3m5s ago)"),
            (now, "2026-03-04T12:00:00Z (0s ago)"),
            (now + 60_000, "2026-03-04T12:01:00Z (in 60s)"),
            (i64::MIN, "-9223372036854776 s (292471264y ago)"),
        ] {
            assert_eq!(time(millis, now), expected);
        }
    }
}
