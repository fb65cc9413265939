//! A thread that trains a zstd dictionary on a sample of the store's values.
//!
//! When the [sample](crate::embedded::codec::Codec::sample) is full, a dictionary is trained on
//! most of it and measured on the rest against the current one. If it saves a twentieth, it is
//! stored, synced, and used from then on.
//!
//! Bounds: a store has at most [`DICTIONARIES_MAX`] dictionaries. A process runs one training at a
//! time, and none while it merges tables of an index, because a training takes some 13 MiB however
//! small its sample is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::embedded::codec::{Codec, dictionaries, packed_len};

/// One in `HELD_BACK` bodies of the sample is not trained on, but used to measure the result.
const HELD_BACK: usize = 8;

/// Maximum length of a dictionary in bytes, and its maximum share of the bytes it is trained on.
/// With a greater share it would learn the sample by heart. A smaller dictionary makes real events
/// longer, and compresses no faster.
const DICTIONARY_BYTES: usize = 112 << 10;
const DICTIONARY_SHARE: usize = 10;

/// Maximum dictionaries of a store.
const DICTIONARIES_MAX: u32 = 64;

/// Locked exclusively while any store trains a dictionary, and shared by other work that takes
/// memory.
static TRAINING: RwLock<()> = RwLock::new(());

/// Waits until no dictionary is being trained. None is trained while the returned guard is held.
pub(super) fn pause() -> RwLockReadGuard<'static, ()> {
    TRAINING.read()
}

/// The training thread. Dropping this waits for its end.
pub(in crate::embedded) struct Trainer {
    codec: Arc<Codec>,
    thread: Option<JoinHandle<()>>,
}

impl Trainer {
    pub(in crate::embedded) fn start(codec: &Arc<Codec>, store: &Path) -> std::io::Result<Self> {
        let (training, store): (_, PathBuf) = (Arc::clone(codec), store.to_owned());
        let span = tracing::Span::current();
        let thread = std::thread::Builder::new()
            .name("tidings-train".into())
            .spawn(move || {
                let _logged = span.enter();
                while let Some(sample) = training.sample.take() {
                    let _alone = TRAINING.write();
                    train(&training, &store, &sample);
                }
            })?;
        Ok(Self {
            codec: Arc::clone(codec),
            thread: Some(thread),
        })
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        self.codec.sample.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn train(codec: &Codec, store: &Path, sample: &[Vec<u8>]) {
    let (id, current) = codec.current();
    if id + 1 >= DICTIONARIES_MAX {
        return;
    }
    let (held_back, learned): (Vec<_>, Vec<_>) = sample
        .iter()
        .enumerate()
        .partition(|(number, _)| number % HELD_BACK == 0);
    let learned: Vec<&[u8]> = learned.into_iter().map(|(_, body)| &body[..]).collect();
    let held_back: Vec<&[u8]> = held_back.into_iter().map(|(_, body)| &body[..]).collect();
    // zstd fails to train on values without common parts.
    let len: usize = learned.iter().map(|body| body.len()).sum();
    let len = DICTIONARY_BYTES.min(len / DICTIONARY_SHARE);
    let Ok(dictionary) = zstd::dict::from_samples(&learned, len) else {
        return;
    };
    let (before, after) = (
        packed_len(&current, &held_back),
        packed_len(&dictionary, &held_back),
    );
    if after * 20 > before * 19 {
        tracing::debug!(before, after, "a new dictionary would not pay");
        return;
    }
    match dictionaries::add(store, id + 1, &dictionary) {
        Ok(()) => {
            codec.add(id + 1, dictionary);
            tracing::info!(
                dictionary = id + 1,
                before,
                after,
                bodies = held_back.len(),
                "values are compressed with a dictionary that was trained on them"
            );
        }
        Err(error) => {
            tracing::warn!(%error, "failed to store a new dictionary; the previous one stays in use");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: u64) -> Vec<u8> {
        let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "an event of a kind never thought of, number {noise:x}, from the far side {:x}",
            noise >> 20
        )
        .into()
    }

    #[test]
    fn a_dictionary_that_pays_is_kept_and_used() {
        let folder = tempfile::tempdir().unwrap();
        let codec = Arc::new(Codec::new([]));
        let old = codec.pack(body(0));
        let sample: Vec<_> = (0..2048).map(body).collect();
        train(&codec, folder.path(), &sample);
        assert_eq!(codec.current().0, 1);
        let new = codec.pack(body(5000));
        assert!(new.as_packed().bytes.len() * 2 < old.as_packed().bytes.len());
        // After a restart both dictionaries are still read.
        let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
        assert_eq!(codec.unpack(new.as_packed()).unwrap(), body(5000));
        assert_eq!(codec.unpack(old.as_packed()).unwrap(), body(0));
        // The same dictionary again would save nothing.
        train(&codec, folder.path(), &sample);
        assert_eq!(codec.current().0, 1);
    }

    #[test]
    fn a_damaged_dictionary_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        dictionaries::add(folder.path(), 3, b"words").unwrap();
        let path = folder.path().join("dictionaries/3");
        std::fs::write(&path, std::fs::read(&path).unwrap().split_last().unwrap().1).unwrap();
        let error = dictionaries::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("dictionaries/3"), "{error}");
    }
}
