//! Entry points for the fuzz targets of the spill's readers. Built with `--cfg fuzzing` only.

use std::fs;
use std::io;
use std::path::Path;

use tidings_core::Event;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::SpillOptions;
use super::log::Log;
use super::record::{self, Found};

/// Reads the bytes as records and marks. A stored event is unchanged when it is stored again; the
/// first time removes what no API server keeps, such as fractions of seconds.
pub fn decode(bytes: &[u8]) {
    let _ = record::find(bytes, 0);
    let _ = record::marks(bytes).count();
    let _ = record::read(bytes, |_| true);
    if let Some(event) = event_of(bytes) {
        let once = kept(&event);
        assert_eq!(kept(&once).to_wire(), once.to_wire());
    }
}

/// An event after it was stored and read once.
fn kept(event: &Event) -> Box<Event> {
    let json = serde_json::to_vec(&event.to_wire()).expect("an event has a JSON text");
    event_of(&[&[0; 8], &json[..]].concat()).expect("what is kept can be read")
}

/// The event in a record with this body.
fn event_of(body: &[u8]) -> Option<Box<Event>> {
    match record::read(&record_of(body), |_| true) {
        Found::Record { event, .. } => event,
        Found::More(_) | Found::Torn => None,
    }
}

/// A record: a body after its length and checksum.
fn record_of(body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32;
    let checksum = xxh3_64_with_seed(body, length.into());
    [&length.to_le_bytes()[..], &checksum.to_le_bytes(), body].concat()
}

/// Opens a spill in an empty folder where an earlier process left two files of intact records with
/// any sequence numbers, marks, and an end of any bytes. Then reads all events.
///
/// # Errors
/// If a file cannot be written.
pub fn recover(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut input = bytes;
    let mut number = || {
        let (bytes, rest) = input.split_first_chunk::<8>()?;
        input = rest;
        Some(u64::from_le_bytes(*bytes))
    };
    for name in [number().unwrap_or(1), number().unwrap_or(2)] {
        let (mut events, mut done) = (Vec::new(), Vec::new());
        for _ in 0..number().unwrap_or_default() % 4 {
            let Some(place) = number() else { break };
            let event = b"{\"metadata\":{},\"involvedObject\":{}}";
            events.extend(record_of(&[&place.to_le_bytes()[..], event].concat()));
            done.extend(number().into_iter().flat_map(record::mark));
        }
        fs::write(folder.join(format!("{name:016x}.events")), events)?;
        fs::write(folder.join(format!("{name:016x}.done")), done)?;
    }
    if let Some(file) = number() {
        fs::write(folder.join(format!("{file:016x}.events")), input)?;
    }
    if let Ok(mut log) = Log::open(&SpillOptions::new(folder).sync(false)) {
        let mut places = Vec::new();
        // A few reads are enough for all events; unreadable ones must not be read for ever.
        for _ in 0..16 {
            let taken = log.read_next(8, 1 << 20);
            places.extend(taken.kept.iter().filter_map(|kept| kept.sequence));
            places.extend(taken.lost);
        }
        log.mark_done(&places);
    }
    Ok(())
}
