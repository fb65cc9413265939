//! Ten encodings and wrappings, six forms, four kinds of damage: every undamaged event is read, and
//! every count adds up.

use std::io::Write;

use serde_json::json;

use super::bundles::{tar, zip};
use super::{Found, found, line, list, pretty, value, yaml};

/// Damages a text at the position of a message.
type Damage = fn(&str, usize) -> Vec<u8>;
/// Wraps the bytes of a text in an archive or encoding.
type Wrapping = fn(&[u8]) -> Vec<u8>;

const NAMES: [&str; 5] = ["e0", "e1", "e2", "e3", "e4"];
/// The name of the event that is damaged.
const DAMAGED: &str = "e2";

fn forms() -> [(&'static str, String); 6] {
    let lines = |make: &dyn Fn(&str) -> String| NAMES.map(|name| make(name) + "\n").concat();
    [
        ("list", pretty(&list(&NAMES))),
        ("compact list", list(&NAMES).to_string()),
        ("lines", lines(&|name| line(name))),
        (
            "watch",
            lines(&|name| json!({"type": "ADDED", "object": value(name)}).to_string()),
        ),
        (
            "router",
            lines(&|name| json!({"verb": "ADDED", "event": value(name)}).to_string()),
        ),
        ("yaml", yaml(&list(&NAMES))),
    ]
}

/// Kinds of damage to the message of one event.
fn damages() -> [(&'static str, Damage); 4] {
    fn at(text: &str, from: usize, to: usize, with: &[u8]) -> Vec<u8> {
        [&text.as_bytes()[..from], with, &text.as_bytes()[to..]].concat()
    }
    [
        ("bad byte", |text, message| {
            at(text, message, message + 1, b"\xff")
        }),
        ("lone surrogate", |text, message| {
            at(text, message, message, b"\\ud83d")
        }),
        ("cut line", |text, message| {
            let end = message + text[message..].find('\n').unwrap_or(text.len() - message);
            // In a list on one line, a cut removes the text between two events.
            let end = end.min(
                message
                    + text[message..]
                        .find("\"reason\"")
                        .unwrap_or(usize::MAX - message),
            );
            at(text, message, end, b"")
        }),
        ("end", |text, message| text.as_bytes()[..message].to_vec()),
    ]
}

fn wrappings() -> [(&'static str, Wrapping); 10] {
    fn around(before: &str, bytes: &[u8], behind: &str) -> Vec<u8> {
        [before.as_bytes(), bytes, behind.as_bytes()].concat()
    }
    /// The text in UTF-16. Invalid bytes become unpaired surrogates.
    fn utf16(bytes: &[u8], mark: bool, little: bool) -> Vec<u8> {
        let text = bytes.utf8_chunks().flat_map(|chunk| {
            let bad = (!chunk.invalid().is_empty()).then_some(0xd83d);
            chunk.valid().encode_utf16().chain(bad).collect::<Vec<_>>()
        });
        let units = mark.then_some(0xfeff).into_iter().chain(text);
        let bytes = units.map(|unit| {
            if little {
                unit.to_le_bytes()
            } else {
                unit.to_be_bytes()
            }
        });
        bytes.flatten().collect()
    }
    [
        ("as it is", |bytes| bytes.to_vec()),
        ("mark", |bytes| around("\u{feff}", bytes, "")),
        ("windows", |bytes| {
            bytes
                .iter()
                .flat_map(|it| {
                    if *it == b'\n' {
                        b"\r\n".to_vec()
                    } else {
                        vec![*it]
                    }
                })
                .collect()
        }),
        ("utf-16le", |bytes| utf16(bytes, true, true)),
        ("utf-16be", |bytes| utf16(bytes, true, false)),
        ("utf-16le without mark", |bytes| utf16(bytes, false, true)),
        ("fence", |bytes| {
            around(
                "# Events\n\n```\n$ kubectl get events\n",
                bytes,
                "\n```\n\nThat is all.\n",
            )
        }),
        ("stderr", |bytes| {
            around(
                "W0216 11:02:03.123456     410 x.go:287] \"y\" z\n",
                bytes,
                "\nerror: lost\n",
            )
        }),
        ("gzip", |bytes| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("memory");
            encoder.finish().expect("memory")
        }),
        ("zip in tar", |bytes| {
            tar(&[("a.zip", zip(&[("b", bytes.to_vec())]))])
        }),
    ]
}

#[test]
fn every_event_that_is_not_damaged_is_read() {
    let mut cases = 0;
    for (form, text) in forms() {
        let message = format!("name\":\"{DAMAGED}");
        let about = [
            message.clone(),
            message.replace(':', ": "),
            format!("name: \"{DAMAGED}"),
        ];
        let name = about
            .iter()
            .find_map(|it| text.find(it.as_str()))
            .expect("the event");
        // Keys are sorted, so the message comes before the name.
        let message = text[..name].rfind("quoted").expect("its message");
        for (damage, damaged) in damages() {
            for (wrapping, wrapped) in wrappings() {
                let bytes = wrapped(&damaged(&text, message));
                let case = format!("{form}, {damage}, {wrapping}");
                let (mut read, mut repaired, mut lost) = (Vec::new(), 0, 0);
                for found in found(&bytes) {
                    match found {
                        Found::Record(record) => match record.event {
                            Ok(event) => {
                                repaired += usize::from(!record.notes.is_empty());
                                read.push(event.name);
                            }
                            Err(_) => lost += 1,
                        },
                        other => panic!("{case}: {other:?}"),
                    }
                }
                let is_repaired = matches!(damage, "bad byte" | "lone surrogate");
                let mut expected: Vec<_> = NAMES.into();
                if damage == "end" {
                    expected.truncate(2);
                } else if !is_repaired {
                    expected.retain(|name| *name != DAMAGED);
                }
                assert_eq!(
                    read,
                    expected,
                    "{case}: {:?}",
                    String::from_utf8_lossy(&bytes)
                );
                assert_eq!(
                    (repaired, lost),
                    (usize::from(is_repaired), usize::from(!is_repaired)),
                    "{case}"
                );
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 10 * 6 * 4);
}
