//! A cache of encoded watch events, shared by all watchers.
//!
//! Every change is sent to every watcher, and encoding it is most of the work. The encoding depends
//! only on the requested form, not on the watcher. So each encoding is made once and kept for the
//! others, as long as the watchers are no further apart than the cache is large. A watcher waits
//! for another only if both need the same encoding.

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::http::negotiate::{Media, Shape};
use tidings_api::codec::Api;
use tidings_api::table::IncludeObject;

/// Maximum encodings kept.
const ENTRIES_MAX: u64 = 4096;
/// Maximum bytes of all encodings together.
const BYTES_MAX: u64 = 8 << 20;
/// Parts of the cache, each with a lock that is held for a lookup or an insertion. An encoding
/// longer than half a part is shared with the watchers that wait for it, but not kept: it would
/// evict too many others.
const PARTS: usize = 8;

/// Everything that an encoding depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct EncodingKey {
    /// The number of the cluster, in an archive of several clusters.
    pub(crate) cluster: u64,
    /// The revision of the change.
    pub(crate) revision: u64,
    /// The key of the changed record; several may change in one revision.
    pub(crate) key: Bytes,
    /// `ADDED`, `MODIFIED` or `DELETED`, as this watcher's selector sees the change.
    pub(crate) kind: &'static str,
    pub(crate) api: Api,
    pub(crate) media: Media,
    pub(crate) shape: Shape,
    pub(crate) row: Option<RowKey>,
}

/// What the encoding of a Table's row depends on, in addition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RowKey {
    /// The second of the answer, by which ages change.
    pub(crate) second: i64,
    pub(crate) include_object: IncludeObject,
    pub(crate) columns: bool,
}

/// The cache of encodings.
pub(crate) struct EncodedEvents(Cache<EncodingKey, Bytes, Weight>);

/// The weight of an encoding: its bytes, but at least `BYTES_MAX / ENTRIES_MAX`, so that the limit
/// of all bytes is a limit of the number, too.
#[derive(Clone)]
struct Weight;

impl Weighter<EncodingKey, Bytes> for Weight {
    fn weight(&self, _key: &EncodingKey, encoding: &Bytes) -> u64 {
        (encoding.len() as u64).max(BYTES_MAX / ENTRIES_MAX)
    }
}

impl Default for EncodedEvents {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(ENTRIES_MAX as usize)
            .weight_capacity(BYTES_MAX)
            .shards(PARTS)
            // All watchers need a change at about the same time and then never again, so frequency
            // of use is no reason to keep an entry.
            .hot_allocation(0.5)
            .ghost_allocation(0.0)
            .build()
            .expect("both capacities are given");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(Cache::with_options(options, Weight, hasher, lifecycle))
    }
}

impl EncodedEvents {
    /// Returns the encoding, made by `encode` if it is not cached. A caller that needs the same
    /// encoding at the same time waits for it.
    ///
    /// # Errors
    /// The error of `encode`; the next caller that needs the encoding tries again.
    pub(crate) fn get_or_encode<E>(
        &self,
        key: &EncodingKey,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.0.get_or_insert_with(key, encode)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// How long a thread waits for another before the test has failed.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

    fn key(revision: u64, kind: &'static str) -> EncodingKey {
        EncodingKey {
            cluster: 0,
            revision,
            key: "shop/web".into(),
            kind,
            api: Api::Core,
            media: Media::Json,
            shape: Shape::Whole,
            row: None,
        }
    }

    #[test]
    fn each_is_encoded_once_and_what_is_kept_is_bounded() {
        let encoded = EncodedEvents::default();
        let get = |revision: u64, kind: &'static str, len: u64| {
            let mut made = false;
            let encode = || {
                made = true;
                Ok::<_, ()>(Bytes::from(vec![0; len as usize]))
            };
            let bytes = encoded.get_or_encode(&key(revision, kind), encode);
            assert_eq!(bytes.map(|bytes| bytes.len() as u64), Ok(len));
            made
        };
        assert!(get(1, "ADDED", 10) && !get(1, "ADDED", 10));
        assert!(get(1, "DELETED", 10), "another answer");
        assert!(
            get(2, "ADDED", BYTES_MAX) && get(2, "ADDED", BYTES_MAX),
            "too long to keep"
        );
        for len in [1, 4096] {
            for revision in 10..10 + 2 * ENTRIES_MAX {
                assert!(get(revision + len * 100_000, "ADDED", len));
                // Watchers need each encoding at nearly the same time.
                assert!(!get(revision + len * 100_000, "ADDED", len));
            }
            let bytes: u64 = encoded.0.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            assert!(bytes <= BYTES_MAX && encoded.0.len() as u64 <= ENTRIES_MAX);
        }
    }

    #[test]
    fn the_latest_are_kept_though_those_before_were_needed_often() {
        let encoded = EncodedEvents::default();
        let get = |revision: u64| {
            let mut made = false;
            let encode = || {
                made = true;
                Ok::<_, ()>(Bytes::from_static(b"x"))
            };
            encoded
                .get_or_encode(&key(revision, "ADDED"), encode)
                .unwrap();
            made
        };
        for revision in 0..2 * ENTRIES_MAX {
            assert!(get(revision));
            assert!(!get(revision));
        }
        // A watcher that is a few hundred changes behind still finds its encodings.
        let latest = 2 * ENTRIES_MAX..2 * ENTRIES_MAX + 500;
        assert_eq!(
            latest.clone().filter(|revision| get(*revision)).count(),
            500
        );
        assert_eq!(latest.filter(|revision| get(*revision)).count(), 0);
    }

    #[test]
    fn different_ones_are_encoded_at_once_and_the_same_one_by_one_thread() {
        let encoded = EncodedEvents::default();
        let made = AtomicUsize::new(0);
        let (first, second) = (mpsc::channel(), mpsc::channel());
        // Each encoding is made while the other one is.
        let meet = |revision, tell: mpsc::Sender<()>, hear: mpsc::Receiver<()>| {
            let encode = || {
                tell.send(()).unwrap();
                hear.recv_timeout(ANSWER_TIMEOUT).map(|()| Bytes::new())
            };
            encoded.get_or_encode(&key(revision, "ADDED"), encode)
        };
        let met = thread::scope(|scope| {
            let other = scope.spawn(|| meet(1, first.0, second.1));
            [meet(2, second.0, first.1), other.join().unwrap()]
        });
        assert_eq!(met, [Ok(Bytes::new()), Ok(Bytes::new())]);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let encode = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        Ok::<_, ()>(Bytes::from_static(b"x"))
                    };
                    let bytes = encoded.get_or_encode(&key(3, "ADDED"), encode);
                    assert_eq!(bytes.as_deref(), Ok(b"x".as_slice()));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        // After an error, the next caller tries again.
        assert_eq!(encoded.get_or_encode(&key(4, "ADDED"), || Err(())), Err(()));
        let again = encoded.get_or_encode(&key(4, "ADDED"), || Ok::<_, ()>(Bytes::new()));
        assert_eq!(again, Ok(Bytes::new()));
    }
}
