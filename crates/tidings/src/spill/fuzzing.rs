//! What the spill reads from disk, for the fuzz targets: built with `--cfg fuzzing` only.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::SpillOptions;
use super::log::Log;
use super::record::{self, Found};

/// Reads the bytes as records and marks. An event that can be read is read again from the record that is written of it.
pub fn decode(bytes: &[u8]) {
    let _ = record::find(bytes, 0);
    let _ = record::marks(bytes).count();
    let _ = record::read(bytes, |_| true);
    let length = bytes.len() as u32;
    let mut whole = length.to_le_bytes().to_vec();
    whole.extend(xxh3_64_with_seed(bytes, length.into()).to_le_bytes());
    whole.extend(bytes);
    if let Found::Record {
        sequence,
        event: Some(event),
        ..
    } = record::read(&whole, |_| true)
    {
        let mut written = Vec::new();
        assert!(record::write(&mut written, sequence, &event));
        let Found::Record {
            event: Some(again), ..
        } = record::read(&written, |_| true)
        else {
            unreachable!("what is written can be read");
        };
        let mut rewritten = Vec::new();
        record::write(&mut rewritten, sequence, &again);
        assert_eq!(written, rewritten);
    }
}

/// Opens a spill in an empty folder where an earlier process left two files of whole records with any places, marks, and an end of any bytes; and
/// reads them to the end.
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
            let body = [
                &place.to_le_bytes()[..],
                b"{\"metadata\":{},\"involvedObject\":{}}",
            ]
            .concat();
            let length = body.len() as u32;
            events.extend(length.to_le_bytes());
            events.extend(xxh3_64_with_seed(&body, length.into()).to_le_bytes());
            events.extend(body);
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
        // Everything is read in a few goes; what can never be read must not be tried for ever.
        for _ in 0..16 {
            let taken = log.read_next(8, 1 << 20);
            places.extend(taken.kept.iter().filter_map(|kept| kept.sequence));
            places.extend(taken.lost);
        }
        log.mark_done(&places);
    }
    Ok(())
}
