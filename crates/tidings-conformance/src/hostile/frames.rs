//! HTTP/2 frames as bytes. They are valid, but no client library would send them so.

/// The beginning of a connection: the preface and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The compressed headers of `GET /livez`.
const LIVEZ: &[u8] = b"\x82\x87\x04\x06/livez\x01\x09localhost";
/// The compressed headers of `POST /livez`.
const POST: &[u8] = b"\x83\x87\x04\x06/livez\x01\x09localhost";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], bytes: &mut Vec<u8>) {
    let length = (payload.len() as u32).to_be_bytes();
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// The identifier of a connection's stream with this number: a client's identifiers are odd.
fn stream(number: usize) -> u32 {
    number as u32 * 2 + 1
}

fn conversation(frames: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    frames(&mut bytes);
    bytes
}

/// Requests that are all sent before any answer is read.
pub(super) fn streams(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        for number in 0..count {
            let flags = END_STREAM | END_HEADERS;
            frame(HEADERS, flags, stream(number), LIVEZ, bytes);
        }
    })
}

/// Requests, each of which is reset at once.
pub(super) fn resets(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        for number in 0..count {
            let flags = END_STREAM | END_HEADERS;
            frame(HEADERS, flags, stream(number), LIVEZ, bytes);
            frame(RESET, 0, stream(number), &8_u32.to_be_bytes(), bytes);
        }
    })
}

/// A request whose headers go on over many frames, and never end.
pub(super) fn continuations(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        frame(HEADERS, END_STREAM, 1, LIVEZ, bytes);
        for _ in 0..count {
            frame(CONTINUATION, 0, 1, b"\0\x01a\x01b", bytes);
        }
    })
}

/// One long header that is put into the table, and requests that repeat it with one byte each.
pub(super) fn repeated_header(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        // A header with incremental indexing: its name has one letter, its value 3,000. The length
        // is written as 127 and the rest, in seven bits a byte.
        let mut payload = LIVEZ.to_vec();
        payload.extend_from_slice(b"\x40\x01a\x7f\xb9\x16");
        payload.extend_from_slice(&[b'v'; 3_000]);
        frame(HEADERS, END_STREAM | END_HEADERS, 1, &payload, bytes);
        let again = [LIVEZ, &[0xbe; 4_000]].concat();
        for number in 0..count {
            let flags = END_STREAM | END_HEADERS;
            frame(HEADERS, flags, stream(number + 1), &again, bytes);
        }
    })
}

/// Settings frames, each of which the server must acknowledge.
pub(super) fn settings(count: usize) -> Vec<u8> {
    conversation(|bytes| (0..count).for_each(|_| frame(SETTINGS, 0, 0, &[], bytes)))
}

/// Pings, each of which the server must answer.
pub(super) fn pings(count: usize) -> Vec<u8> {
    conversation(|bytes| (0..count).for_each(|_| frame(PING, 0, 0, &[0; 8], bytes)))
}

/// A request whose body comes in empty frames.
pub(super) fn empty_data(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        frame(HEADERS, END_HEADERS, 1, POST, bytes);
        (0..count).for_each(|_| frame(DATA, 0, 1, &[], bytes));
    })
}

/// Updates that let the server send its answer byte by byte.
pub(super) fn window_updates(count: usize) -> Vec<u8> {
    conversation(|bytes| {
        (0..count).for_each(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes(), bytes));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_kind_flags_and_stream() {
        let mut bytes = Vec::new();
        frame(HEADERS, END_HEADERS, stream(1), b"ab", &mut bytes);
        assert_eq!(bytes, b"\0\0\x02\x01\x04\0\0\0\x03ab");
    }
}
