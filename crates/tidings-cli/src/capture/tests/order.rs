//! The events of captures are told in the order in which they happened.
//!
//! `seconds.jsonl` has events of real clusters that were last seen in the same second as another
//! one of their object, with the fields that decide. They are from three repositories under
//! Apache-2.0: weaveworks-experiments/kspan, replicatedhq/troubleshoot and
//! p0lyn0mial/multi-operator-manager.
//!
//! `TIDINGS_CAPTURES` names a folder with more captures (`.jsonl`).

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use tidings_core::reading::name_clock;

use super::{Found, found};
use crate::event::{self, Event};

const FOLDER: &str = "TIDINGS_CAPTURES";

/// The events of a capture in the order in which they are told, those without a clock left out.
fn told(capture: &[u8]) -> Vec<Event> {
    let records = found(capture).into_iter().map(|found| match found {
        Found::Record(record) => record.event.expect("an event"),
        other => panic!("{other:?}"),
    });
    let mut events: Vec<Event> = records
        .map(|read| Event::new(Value::Object(read.body)))
        .filter(|event| name_clock(event.name()).is_some())
        .collect();
    event::sort(&mut events);
    events
}

/// The number of pairs of an object's events within a second, and those that are told backwards.
fn pairs(events: &[Event]) -> (usize, Vec<String>) {
    let mut seconds: HashMap<_, Vec<&Event>> = HashMap::new();
    for event in events {
        let second = event.last_seen().map(jiff::Timestamp::as_second);
        let object = (event.object(), event.namespace());
        seconds.entry((object, second)).or_default().push(event);
    }
    let (mut count, mut reversed) = (0, Vec::new());
    for events in seconds.values() {
        for (at, one) in events.iter().enumerate() {
            for other in events.iter().skip(at + 1) {
                count += 1;
                if name_clock(one.name()) > name_clock(other.name()) {
                    reversed.push(format!("{} before {}", one.key(), other.key()));
                }
            }
        }
    }
    (count, reversed)
}

#[test]
fn the_events_of_a_second_are_in_the_order_of_their_clocks() {
    let own = include_bytes!("seconds.jsonl");
    let backwards: Vec<&[u8]> = own.split(|byte| *byte == b'\n').rev().collect();
    for capture in [own.to_vec(), backwards.join(&b'\n')] {
        let (count, reversed) = pairs(&told(&capture));
        assert!(count > 90, "{count}");
        assert_eq!(reversed, [""; 0]);
    }
}

#[test]
fn the_events_of_other_captures_are_in_this_order() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut count = 0;
    for file in Path::new(&folder).read_dir().expect("a folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            let (found, reversed) = pairs(&told(&std::fs::read(&path).expect("a file")));
            assert_eq!(reversed, [""; 0], "{}", path.display());
            count += found;
        }
    }
    assert!(count > 0, "no two events of a second in {FOLDER}");
}
