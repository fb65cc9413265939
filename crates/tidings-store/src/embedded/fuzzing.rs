//! The store's readers of files, for the fuzz targets; built only with `--cfg fuzzing`.
//!
//! Checksums keep random bytes from most decoders. So the fuzz input is the bytes behind correct
//! checksums.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use super::codec::varint::{Reader, put_varint};
use super::codec::version::{self, Ends, Version};
use super::codec::{Codec, State, Swept};
use super::files::FORMAT;
use super::index::keys::Pointer;
use super::log::frame::{self, Frame, Header, Kind};

/// Bodies with a greater stated length are not unpacked, because the memory is allocated first.
const BODY_LEN_MAX: usize = 1 << 16;

/// Decodes the bytes as each kind of record on disk. Each decoded record is encoded and decoded
/// again.
pub fn decode(bytes: &[u8]) {
    static CODEC: LazyLock<Codec> = LazyLock::new(|| Codec::new([]));
    let _ = frame::read_frame(bytes, 0);
    let _ = frame::peek_frame(bytes);
    let _ = frame::entries_at(bytes);
    let _ = frame::peek_entry(bytes);
    let _ = frame::read_entry(bytes, 0);
    if let Ok(ends) = Ends::decode(bytes) {
        assert_eq!(Ends::decode(&ends.encode()).ok(), Some(ends));
    }
    if let Ok(state) = State::decode(bytes) {
        assert_eq!(State::decode(&state.encode()).ok(), Some(state));
    }
    if let Ok(pointer) = Pointer::decode(bytes) {
        assert_eq!(Pointer::decode(&pointer.encode()).ok(), Some(pointer));
    }
    if let Ok((key, _, value)) = version::decode_body(bytes) {
        assert_eq!(version::split_body(bytes).ok(), Some((key, value)));
    }
    if let Ok(version) = Version::decode(bytes, 7, 8) {
        let written = version.encode(7, 8);
        assert_eq!(Version::decode(&written, 7, 8).ok(), Some(version));
        if version.body.len <= BODY_LEN_MAX
            && let Ok(body) = CODEC.unpack(version.body)
        {
            let _ = version::decode_body(&body);
        }
    }
}

/// Makes a store in an empty folder from fuzz input. Log, index of the log, checkpoint and
/// dictionaries are well-formed, with any content.
///
/// # Errors
///
/// A file could not be written.
pub fn write_folder(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut input = Input(Reader::new(bytes, "the input"));
    fs::write(folder.join("FORMAT"), format!("tidings-store {}\n", FORMAT))?;
    let log = folder.join("log");
    fs::create_dir(&log)?;
    // A few of each are enough: errors show with few.
    for _ in 0..=input.below(3) {
        let bucket = input.bucket();
        let name = format!("{bucket:016x}-{:016x}", input.number());
        let mut file = Vec::new();
        for _ in 0..input.below(4) {
            file.extend(input.frame(bucket));
        }
        let torn = usize::try_from(input.below(16)).unwrap_or_default();
        file.truncate(file.len().saturating_sub(torn));
        fs::write(log.join(format!("{name}.log")), file)?;
        if input.below(4) == 0 {
            let mut idx = Vec::new();
            for _ in 0..input.below(12) {
                put_varint(&mut idx, input.number());
            }
            idx.extend(xxh3_64(&idx).to_le_bytes());
            fs::write(log.join(format!("{name}.idx")), idx)?;
        }
    }
    if input.below(3) == 0 {
        let numbers: Vec<String> = (0..input.below(12))
            .map(|_| input.number().to_string())
            .collect();
        let numbers = numbers.join(" ");
        let checksum = xxh3_64(numbers.as_bytes());
        fs::write(
            folder.join("CHECKPOINT"),
            format!("{numbers} {checksum:016x}\n"),
        )?;
    }
    if input.below(4) == 0 {
        let dictionary = input.0.left();
        let file = [&xxh3_64(dictionary).to_le_bytes()[..], dictionary].concat();
        fs::create_dir(folder.join("dictionaries"))?;
        fs::write(folder.join("dictionaries/1"), file)?;
    }
    Ok(())
}

/// Numbers from the input; zeros once it is used up.
struct Input<'a>(Reader<'a>);

impl Input<'_> {
    fn number(&mut self) -> u64 {
        self.0.varint().unwrap_or_default()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A bucket: the one that never ends, one of an hour in the near future, or any.
    fn bucket(&mut self) -> u64 {
        match self.below(3) {
            0 => version::NEVER,
            1 => self.below(1 << 20) * 3_600_000,
            _ => self.number(),
        }
    }

    fn frame(&mut self, bucket: u64) -> Vec<u8> {
        let header = Header {
            number: self.number(),
            first: self.number(),
            count: self.number(),
            parts: self.number(),
            state: State {
                revision: self.number(),
                compacted: self.number(),
                swept: Swept::up_to(self.number(), self.number()),
                records: self.number(),
                value_bytes: self.number(),
            },
        };
        let mut frame = Frame::default();
        for _ in 0..self.below(5) {
            let kind = match self.below(3) {
                0 => Kind::Version,
                1 => Kind::Ends,
                _ => Kind::Replaced,
            };
            let revision = self.number();
            let content: Vec<u8> = (0..self.below(64)).map(|_| self.below(256) as u8).collect();
            frame.push(bucket, kind, revision, &content);
        }
        frame.build(bucket, &header).bytes
    }
}
