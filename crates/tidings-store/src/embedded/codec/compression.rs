//! Compression of record bodies with shared dictionaries.
//!
//! A single event is too short to compress well alone. With a dictionary of common parts of events
//! it shrinks to a sixth. Dictionary 0 is built in (`examples/train_dictionary.rs` makes it). Every
//! body names its dictionary, and dictionaries are kept as long as the store, so old bodies stay
//! readable.
//!
//! The stores of a process share the built-in dictionary and its contexts. Where there are many
//! stores, most have no other dictionary.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};
use zstd::bulk::{Compressor, Decompressor};

use super::sample::Sample;
use super::varint::damaged;
use super::version::Packed;
use crate::embedded::options::EmbeddedOptions;
use crate::{Fault, INDEX_LEN_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};

/// The built-in dictionary; part of the format.
const BUILT_IN: &[u8] = include_bytes!("dictionary.zstd");

/// The built-in dictionary, shared by all stores of the process.
static SHARED: LazyLock<Arc<Dictionary>> =
    LazyLock::new(|| Arc::new(Dictionary::new(BUILT_IN.to_vec())));

/// Compression level: the last one with a single table for repetitions. The next level takes a
/// third to three times longer, and saves at most a thirtieth.
const LEVEL: i32 = 2;

/// Maximum length of a body. A longer one on disk is damage.
const BODY_LEN_MAX: usize = VALUE_LEN_MAX + KEY_LEN_MAX + INDEX_LEN_MAX + 64;

/// Maximum idle contexts kept for each dictionary and direction. One takes some hundred KiB.
const POOL_LEN_MAX: usize = 8;

/// A body as stored: compressed if that makes it shorter.
#[derive(Debug)]
pub(in crate::embedded) struct PackedBody {
    dictionary: Option<u32>,
    len: usize,
    bytes: Vec<u8>,
}

impl PackedBody {
    /// Bytes that the body takes in the log.
    pub(in crate::embedded) fn stored_len(&self) -> usize {
        self.bytes.len()
    }

    pub(in crate::embedded) fn as_packed(&self) -> Packed<'_> {
        Packed {
            dictionary: self.dictionary,
            len: self.len,
            bytes: &self.bytes,
        }
    }
}

/// Compresses and decompresses bodies; see the module documentation.
pub(in crate::embedded) struct Codec {
    dictionaries: RwLock<Dictionaries>,
    /// The sample of bodies from which further dictionaries are trained.
    pub(in crate::embedded) sample: Sample,
}

struct Dictionaries {
    /// Id of the dictionary for new bodies.
    current: u32,
    all: HashMap<u32, Arc<Dictionary>>,
}

struct Dictionary {
    bytes: Vec<u8>,
    compressors: Pool<Compressor<'static>>,
    decompressors: Pool<Decompressor<'static>>,
}

impl Codec {
    /// A codec with the built-in dictionary and the given ones. New bodies use the dictionary with
    /// the greatest id.
    pub(in crate::embedded) fn new(stored: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Self {
        let mut all = HashMap::from([(0, Arc::clone(&SHARED))]);
        all.extend(
            stored
                .into_iter()
                .map(|(id, bytes)| (id, Arc::new(Dictionary::new(bytes)))),
        );
        let current = all.keys().copied().max().unwrap_or(0);
        Self {
            dictionaries: RwLock::new(Dictionaries { current, all }),
            sample: Sample::new(EmbeddedOptions::default().sample_bytes),
        }
    }

    /// Replaces the sample by one of this many bytes.
    pub(in crate::embedded) fn sampling(self, bytes: usize) -> Self {
        Self {
            sample: Sample::new(bytes),
            ..self
        }
    }

    /// Adds a dictionary, and uses it for new bodies from now on.
    pub(in crate::embedded) fn add(&self, id: u32, bytes: Vec<u8>) {
        let mut dictionaries = self.dictionaries.write();
        // Nothing is written with the previous dictionary any more, so its contexts are released.
        // If it is the built-in one, other stores make new contexts.
        if let Some(before) = dictionaries.all.get(&dictionaries.current) {
            before.compressors.clear();
        }
        dictionaries
            .all
            .insert(id, Arc::new(Dictionary::new(bytes)));
        dictionaries.current = id;
    }

    /// The dictionary for new bodies.
    pub(in crate::embedded) fn current(&self) -> (u32, Vec<u8>) {
        self.dictionary(None)
            .map_or((0, Vec::new()), |(id, dictionary)| {
                (id, dictionary.bytes.clone())
            })
    }

    fn dictionary(&self, id: Option<u32>) -> Option<(u32, Arc<Dictionary>)> {
        let dictionaries = self.dictionaries.read();
        let id = id.unwrap_or(dictionaries.current);
        Some((id, Arc::clone(dictionaries.all.get(&id)?)))
    }

    pub(in crate::embedded) fn pack(&self, body: Vec<u8>) -> PackedBody {
        let len = body.len();
        self.sample.offer(&body);
        if let Some((id, dictionary)) = self.dictionary(None)
            && let Ok(bytes) = dictionary.compress(&body)
            && bytes.len() < len
        {
            return PackedBody {
                dictionary: Some(id),
                len,
                bytes,
            };
        }
        PackedBody {
            dictionary: None,
            len,
            bytes: body,
        }
    }

    pub(in crate::embedded) fn unpack(&self, packed: Packed<'_>) -> Result<Vec<u8>, Fault> {
        let Some(id) = packed.dictionary else {
            return Ok(packed.bytes.to_vec());
        };
        if packed.len > BODY_LEN_MAX {
            return Err(damaged("a record's length"));
        }
        let (_, dictionary) = self
            .dictionary(Some(id))
            .ok_or_else(|| Fault::Corrupt(format!("compression dictionary {id} is missing")))?;
        let body = dictionary
            .decompressors
            .with(
                || Decompressor::with_dictionary(&dictionary.bytes),
                |context| context.decompress(packed.bytes, packed.len),
            )
            .map_err(|error| Fault::Corrupt(format!("a record cannot be decompressed: {error}")))?;
        if body.len() == packed.len {
            Ok(body)
        } else {
            Err(damaged("a record"))
        }
    }
}

/// Total length of some bodies when compressed with a dictionary.
pub(in crate::embedded) fn packed_len(dictionary: &[u8], bodies: &[&[u8]]) -> usize {
    let dictionary = Dictionary::new(dictionary.to_vec());
    let len = |body: &&[u8]| {
        let packed = dictionary.compress(body);
        // A body that does not shrink is stored uncompressed.
        packed.map_or(body.len(), |packed| packed.len().min(body.len()))
    };
    bodies.iter().map(len).sum()
}

impl Dictionary {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            compressors: Pool::default(),
            decompressors: Pool::default(),
        }
    }

    fn compress(&self, body: &[u8]) -> io::Result<Vec<u8>> {
        let make = || {
            let mut context = Compressor::with_dictionary(LEVEL, &self.bytes)?;
            // The record has both already.
            context.include_contentsize(false)?;
            context.include_dictid(false)?;
            Ok(context)
        };
        // A body that does not shrink is stored uncompressed, so the body's length is enough room.
        let mut bytes = Vec::with_capacity(body.len());
        self.compressors
            .with(make, |context| context.compress_to_buffer(body, &mut bytes))?;
        Ok(bytes)
    }
}

/// Idle compression contexts, kept for reuse.
struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> Pool<T> {
    fn clear(&self) {
        *self.0.lock() = Vec::new();
    }

    fn with<R>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
        run: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let idle = self.0.lock().pop();
        let mut context = match idle {
            Some(context) => context,
            None => make()?,
        };
        let result = run(&mut context);
        let mut idle = self.0.lock();
        if idle.len() < POOL_LEN_MAX {
            idle.push(context);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bodies_round_trip(body: Vec<u8>) {
            let codec = Codec::new([]);
            let packed = codec.pack(body.clone());
            prop_assert_eq!(codec.unpack(packed.as_packed())?, body);
        }

        #[test]
        fn damage_is_an_error_or_stays_within_the_length(bytes: Vec<u8>, len in 0..10_000usize) {
            let codec = Codec::new([]);
            if let Ok(body) = codec.unpack(Packed { dictionary: Some(0), len, bytes: &bytes }) {
                prop_assert_eq!(body.len(), len);
            }
        }
    }

    /// Many stores of a process share one context, which takes some hundred KiB. An archive has a
    /// store for each cluster.
    #[test]
    fn stores_share_the_built_in_dictionary() {
        let built_in = || Codec::new([(7, b"words".to_vec())]).dictionary(Some(0));
        let (one, other) = (built_in().unwrap(), built_in().unwrap());
        assert!(Arc::ptr_eq(&one.1, &other.1));
    }

    #[test]
    fn a_missing_dictionary_is_named() {
        let error = Codec::new([])
            .unpack(Packed {
                dictionary: Some(7),
                len: 1,
                bytes: b"x",
            })
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "stored data is damaged: compression dictionary 7 is missing"
        );
    }
}
