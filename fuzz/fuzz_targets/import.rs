//! Any bytes, read as `tidings import` reads a file: no panic, no end but the end of the input, and
//! whatever comes out as an event reads back as the same event.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidings_cli::import::{Event, Record, SERVER_OWNED_METADATA, read};

fn records(input: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    read(input, &mut |record| {
        records.push(record);
        ControlFlow::Continue(())
    })
    .expect("memory can be read");
    records
}

fn check(event: Event) {
    assert!(!event.namespace.is_empty() && event.namespace.len() <= 63);
    let metadata = event.body.get("metadata").and_then(Value::as_object);
    for field in SERVER_OWNED_METADATA {
        assert!(metadata.is_none_or(|metadata| !metadata.contains_key(field)), "{field} is left");
    }
    // By itself it would be a list.
    if event.body.contains_key("items") {
        return;
    }
    let text = serde_json::to_vec(&event.body).expect("an event has a JSON text");
    let mut again = records(&text);
    assert_eq!(again.len(), 1);
    assert_eq!(again.pop().and_then(|record| record.event.ok()), Some(event));
}

fuzz_target!(|input: &[u8]| {
    for record in records(input) {
        if let Ok(event) = record.event {
            check(event);
        }
    }
});
