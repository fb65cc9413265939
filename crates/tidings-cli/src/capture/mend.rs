//! Repairs the text of a damaged event. Invalid UTF-8, unpaired surrogates and forbidden characters
//! become U+FFFD, as in an API server.

use std::borrow::Cow;

/// The bytes as a JSON text in which all strings are valid.
pub(super) fn json(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut is_text = false;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => {
                is_text = !is_text;
                out.push('"');
            }
            '\\' if is_text => rest = escape(rest.as_str(), &mut out).chars(),
            '\t' if is_text => out.push_str("\\t"),
            '\0'..='\x1f' if is_text => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// Appends the repaired escape sequence at the beginning of `rest`; returns the text after it.
fn escape<'a>(rest: &'a str, out: &mut String) -> &'a str {
    if let Some(behind) = rest.strip_prefix(['"', '\\', '/', 'b', 'f', 'n', 'r', 't']) {
        out.push('\\');
        out.push_str(rest.get(..1).unwrap_or_default());
        return behind;
    }
    let Some(unit) = unit(rest) else {
        out.push('\u{fffd}');
        return rest.strip_prefix('u').unwrap_or(rest);
    };
    let behind = rest.get(5..).unwrap_or_default();
    match unit {
        0xd800..0xdc00 => {
            let low = behind.strip_prefix('\\').and_then(self::unit);
            if low.is_some_and(|low| (0xdc00..0xe000).contains(&low)) {
                out.push('\\');
                out.push_str(rest.get(..11).unwrap_or_default());
                return rest.get(11..).unwrap_or_default();
            }
            out.push('\u{fffd}');
        }
        0xdc00..0xe000 => out.push('\u{fffd}'),
        _ => {
            out.push('\\');
            out.push_str(rest.get(..5).unwrap_or_default());
        }
    }
    behind
}

/// The code unit of a `\u` escape.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// The bytes as a YAML text, without forbidden characters and unpaired surrogates.
pub(super) fn yaml(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_bad = |character: char| {
        let is_blank = matches!(character, '\n' | '\t' | '\r');
        (character.is_control() && !is_blank) || matches!(character, '\u{fffe}' | '\u{ffff}')
    };
    let text: Cow<'_, str> = if text.contains(is_bad) {
        text.replace(is_bad, "\u{fffd}").into()
    } else {
        text
    };
    let mut out = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        rest = if unit(behind).is_some_and(|unit| (0xd800..0xe000).contains(&unit)) {
            escape(behind, &mut out)
        } else {
            // Copies the backslash together with the character it escapes, perhaps a backslash.
            let length = behind.chars().next().map_or(0, char::len_utf8);
            out.push('\\');
            out.push_str(behind.get(..length).unwrap_or_default());
            behind.get(length..).unwrap_or_default()
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_damaged_changes() {
        for (damaged, mended) in [
            (
                &br#"{"a": "b\n\u00e9\\ud83d\ud83d\ude00"}"#[..],
                r#"{"a": "b\n\u00e9\\ud83d\ud83d\ude00"}"#,
            ),
            (br#"{"a": "\ud83d"}"#, "{\"a\": \"\u{fffd}\"}"),
            (
                br#"{"a": "\ud83dx\ude00\ud83d\ud83d\ude00"}"#,
                "{\"a\": \"\u{fffd}x\u{fffd}\u{fffd}\\ud83d\\ude00\"}",
            ),
            (
                b"{\"a\": \"\xff\xfe\t\x01\"}",
                "{\"a\": \"\u{fffd}\u{fffd}\\t\u{fffd}\"}",
            ),
            (br#"{"a": "\x \u12"}"#, "{\"a\": \"\u{fffd}x \u{fffd}12\"}"),
            (
                "{\"a\": \"\\\u{fffd}\\u\u{fffd}\"}".as_bytes(),
                "{\"a\": \"\u{fffd}\u{fffd}\u{fffd}\u{fffd}\"}",
            ),
        ] {
            assert_eq!(json(damaged), mended);
            assert!(
                serde_json::from_str::<serde_json::Value>(mended).is_ok(),
                "{mended}"
            );
        }
        for (damaged, mended) in [
            (
                &b"a: \"\\ud83d \\\\ud83d \\n\"\n"[..],
                "a: \"\u{fffd} \\\\ud83d \\n\"\n",
            ),
            (b"a: \x01\xff", "a: \u{fffd}\u{fffd}"),
        ] {
            assert_eq!(yaml(damaged), mended);
        }
    }
}
