//! Properties that hold for any input.

use std::io::{self, Read};
use std::ops::ControlFlow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Found, OTHER_CLUSTERS_METADATA, SERVER_OWNED_METADATA, read};
use super::{event, found, line, list, pretty, summary, value, words, yaml};

/// A reader that returns only a few bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

fn in_pieces(input: &[u8], length: usize) -> Vec<String> {
    let mut all = Vec::new();
    read(Pieces(input, length), &|_| {}, &mut |found| {
        all.push(words(found));
        ControlFlow::Continue(())
    });
    all
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9yYnNoOeExX_.:+~#&*!|>%@`'\"-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Texts made of pieces of captures, whole and broken.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(line("a").into_bytes()),
        Just(pretty(&value("b")).into_bytes()),
        Just(yaml(&list(&["c", "d"])).into_bytes()),
        Just(list(&["e"]).to_string().into_bytes()),
        Just(b"\n".to_vec()),
        Just(b"```\n---\n".to_vec()),
        Just(b"2026-01-01T00:00:00.1Z stdout P ".to_vec()),
        Just(b"2026-01-01T00:00:00.1Z stderr F ".to_vec()),
        Just(b"{\"log\":\"{\\\"kind\\\":\",\"stream\":\"stdout\"}\n".to_vec()),
        Just(b"[pod/a/b] ".to_vec()),
        Just(b"a\0\n\0".to_vec()),
        Just(b"E0216 11:02:03.1 x.go:1] \"y\" {\n".to_vec()),
        r#"(\{|\}|\[|\]|,|:|\n|"|\\|"items"|"kind"|"Event"|"metadata"|kind: Event|- |  |"involvedObject"|1|null| )*"#
            .prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    (
        proptest::collection::vec(piece, 0..6),
        any::<prop::sample::Index>(),
        0_usize..30,
    )
        .prop_map(|(pieces, at, length)| {
            let mut bytes = pieces.concat();
            let from = at.index(bytes.len().max(1)).min(bytes.len());
            bytes.drain(from..(from + length).min(bytes.len()));
            bytes
        })
}

proptest! {
    #[test]
    fn an_event_is_the_same_in_every_layout(fields in proptest::collection::btree_map("[a-z]{1,6}", json_value(), 0..5), copies in 1_usize..4) {
        let mut fields: serde_json::Map<String, Value> = fields.into_iter().collect();
        for field in ["items", "kind", "series", "event", "reason", "note", "type", "object"] {
            fields.remove(field);
        }
        fields.insert("metadata".to_owned(), json!({"name": "a"}));
        fields.insert("involvedObject".to_owned(), json!({"namespace": "n"}));
        fields.insert("lastTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Event".into());
        let one = Value::Object(fields);
        let all = json!({"apiVersion": "v1", "kind": "List", "items": vec![one.clone(); copies]});
        for (value, expected) in [(&one, 1), (&all, copies)] {
            for text in [value.to_string(), pretty(value), format!("---\n{value}\n")] {
                let read = found(text.as_bytes());
                prop_assert_eq!(read.len(), expected, "from {}", text);
                for found in read {
                    let Found::Record(record) = found else { panic!("{found:?}") };
                    prop_assert!(record.notes.is_empty());
                    prop_assert_eq!(Value::Object(record.event.expect("an event").body), one.clone(), "from {}", text);
                }
            }
        }
    }

    #[test]
    fn pieces_do_not_matter(input in text(), length in 1_usize..100) {
        prop_assert_eq!(in_pieces(&input, length), summary(&input));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        found(&bytes);
    }

    #[test]
    fn what_is_read_can_be_sent_and_read_again(input in text()) {
        for found in found(&input) {
            let Found::Record(record) = found else { continue };
            let Ok(read) = record.event else { continue };
            prop_assert!(!read.namespace.is_empty() && !read.name.is_empty());
            let metadata = read.body.get("metadata").and_then(Value::as_object);
            for field in SERVER_OWNED_METADATA.into_iter().chain(OTHER_CLUSTERS_METADATA) {
                prop_assert!(metadata.is_none_or(|metadata| !metadata.contains_key(field)));
            }
            let body = Value::Object(read.body);
            prop_assert_eq!(event(body.to_string().as_bytes()), body);
        }
    }
}

struct Failing;
impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn reading_stops_when_told_and_says_what_the_input_answered() {
    for text in [
        format!("{}\n{}", line("a"), line("b")),
        list(&["a", "b"]).to_string(),
        yaml(&list(&["a", "b"])),
    ] {
        let mut count = 0;
        read(text.as_bytes(), &|_| {}, &mut |_| {
            count += 1;
            ControlFlow::Break(())
        });
        assert_eq!(count, 1, "from {text}");
    }

    for (beginning, events) in [
        ("", 0),
        ("{", 0),
        ("a: ", 0),
        ("[\n{},\n", 0),
        (&*line("a").repeat(10), 10),
    ] {
        let mut all = Vec::new();
        read(beginning.as_bytes().chain(Failing), &|_| {}, &mut |found| {
            all.push(words(found));
            ControlFlow::Continue(())
        });
        assert!(
            all.pop()
                .is_some_and(|last| last.ends_with("!! the disk is gone")),
            "after {beginning:?}"
        );
        assert!(all.len() <= events, "{all:?}");
    }
}

/// With a pipe that stays open, an event is passed on as soon as its line is complete.
#[test]
fn an_event_is_handed_over_when_its_line_is_there() {
    struct Silent;
    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("it waits for what may never come")
        }
    }
    let lines = format!("{}\n", line("a")).repeat(3);
    let mut count = 0;
    read(lines.as_bytes().chain(Silent), &|_| {}, &mut |_| {
        count += 1;
        if count == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(count, 3);
}
