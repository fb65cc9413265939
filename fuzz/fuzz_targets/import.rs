//! Any bytes, read as `tidings import` reads a file: no panic, no end before that of the input, the
//! same events however the input is divided, and each event reads back as the same event.

#![no_main]

use std::io::{self, Read};
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidings_cli::capture::{Event, Found, OTHER_CLUSTERS_METADATA, SERVER_OWNED_METADATA, read};

/// Returns the input a few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(7);
        self.0.read(&mut buffer[..length])
    }
}

fn events(input: impl Read) -> Vec<Event> {
    let mut events = Vec::new();
    read(input, &|_| {}, &mut |found| {
        if let Found::Record(record) = found {
            events.extend(record.event);
        }
        ControlFlow::Continue(())
    });
    events
}

fn check(event: Event) {
    assert!(!event.namespace.is_empty() && event.namespace.len() <= 63);
    let metadata = event.body.get("metadata").and_then(Value::as_object);
    for field in SERVER_OWNED_METADATA.into_iter().chain(OTHER_CLUSTERS_METADATA) {
        assert!(metadata.is_none_or(|metadata| !metadata.contains_key(field)), "{field} is left");
    }
    let text = serde_json::to_vec(&event.body).expect("an event has a JSON text");
    // If text is missing between two events, one may be found within the other. It must also be
    // found alone.
    assert_eq!(events(text.as_slice()).pop(), Some(event));
}

fuzz_target!(|input: &[u8]| {
    let found = events(input);
    assert_eq!(events(Pieces(input)), found);
    found.into_iter().for_each(check);
});
