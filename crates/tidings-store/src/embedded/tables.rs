//! The open engine: fjall's database and its keyspaces, the buckets that come and go, and which bucket a record goes to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use fjall::config::FilterPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable, Snapshot};

use super::keys::{self, NEVER, State};
use crate::{Fault, REVISION_OF_NEW, UnixMillis};

/// Buckets a store normally has at most. Beyond it, records go to the next bucket that outlives them.
const BUCKETS_MAX: usize = 24;

/// No bucket is narrower than this, about a minute.
const WIDTH_MIN: u64 = 1 << 16;

/// Flushed to a table at this size. Each costs memory several times over while it is written out.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// Journals are cut back at this size by flushing whatever still needs the oldest.
const JOURNALS_BYTES_MAX: u64 = 64 << 20;

/// Where the records with one range of expiry are.
#[derive(Clone)]
pub(crate) struct Bucket {
    pub(crate) data: Keyspace,
    pub(crate) index: Keyspace,
}

impl Bucket {
    /// Writes its memtables out, so that it holds neither memory nor journals while it is idle.
    pub(crate) fn flush(&self) -> Result<(), fjall::Error> {
        self.data.rotate_memtable()?;
        self.index.rotate_memtable()?;
        Ok(())
    }
}

pub(crate) type Buckets = BTreeMap<u64, Bucket>;

/// See the module documentation.
pub(crate) struct Tables {
    pub(crate) db: Database,
    pub(crate) meta: Keyspace,
    pub(crate) names: Keyspace,
    pub(crate) log: Keyspace,
    buckets: RwLock<Arc<Buckets>>,
}

impl Tables {
    pub(crate) fn open(folder: &Path, cache_bytes: u64) -> Result<Self, fjall::Error> {
        let db = Database::builder(folder)
            .cache_size(cache_bytes)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .worker_threads(2)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let meta = db.keyspace(keys::META, || options().max_memtable_size(1 << 20))?;
        let names = db.keyspace(keys::NAMES, options)?;
        let log = db.keyspace(keys::LOG, || options().max_memtable_size(2 << 20))?;
        let tables = Self {
            db,
            meta,
            names,
            log,
            buckets: RwLock::default(),
        };
        let names: Vec<u64> = tables
            .db
            .list_keyspace_names()
            .iter()
            .filter_map(|name| keys::bucket_of(name))
            .collect();
        for bucket in names {
            tables.bucket(bucket)?;
        }
        Ok(tables)
    }

    pub(crate) fn buckets(&self) -> Arc<Buckets> {
        Arc::clone(&self.buckets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bucket of this name, made if it is not there.
    pub(crate) fn bucket(&self, name: u64) -> Result<Bucket, fjall::Error> {
        if let Some(bucket) = self.buckets().get(&name) {
            return Ok(bucket.clone());
        }
        // Versions are found by a revision that is known to be there, and index entries by prefix: filters would be
        // dead weight.
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .filter_policy(FilterPolicy::disabled())
        };
        let bucket = Bucket {
            data: self.db.keyspace(&keys::data_keyspace(name), options)?,
            index: self.db.keyspace(&keys::index_keyspace(name), options)?,
        };
        self.change_buckets(|buckets| {
            buckets.insert(name, bucket.clone());
        });
        Ok(bucket)
    }

    /// Removes a bucket with all in it. Its space is free once the last reader is done.
    pub(crate) fn drop_bucket(&self, name: u64) -> Result<(), fjall::Error> {
        let Some(bucket) = self.buckets().get(&name).cloned() else {
            return Ok(());
        };
        self.change_buckets(|buckets| {
            buckets.remove(&name);
        });
        self.db.delete_keyspace(bucket.data)?;
        self.db.delete_keyspace(bucket.index)
    }

    fn change_buckets(&self, change: impl FnOnce(&mut Buckets)) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut buckets));
    }

    pub(crate) fn state(&self, snapshot: &Snapshot) -> Result<State, Fault> {
        match snapshot.get(&self.meta, keys::STATE).map_err(fault)? {
            Some(bytes) => State::decode(&bytes),
            None => Ok(State {
                revision: REVISION_OF_NEW,
                ..State::default()
            }),
        }
    }

    pub(crate) fn dictionaries(&self) -> Result<Vec<(u32, Vec<u8>)>, Fault> {
        let entries = self.meta.prefix(keys::DICTIONARY).map(|entry| {
            let (key, value) = entry.into_inner().map_err(fault)?;
            let id = key
                .last_chunk()
                .ok_or_else(|| keys::damaged("a dictionary's key"))?;
            Ok((u32::from_be_bytes(*id), value.to_vec()))
        });
        entries.collect()
    }
}

/// The bucket for a record: the end of a range of expiries about an eighth as wide as the record's life is long, so that
/// equal lives keep eight or so buckets open, and mixed ones not many more.
///
/// `swept` is the last bucket whose ends may already be written down: a clock that was set back must not put records where
/// nobody will look again.
pub(crate) fn bucket_for<'a>(
    now: UnixMillis,
    expires_at: Option<UnixMillis>,
    swept: u64,
    mut existing: impl DoubleEndedIterator<Item = &'a u64> + Clone,
) -> u64 {
    let Some(UnixMillis(expires_at)) = expires_at else {
        return NEVER;
    };
    let expires_at = expires_at
        .max(0)
        .cast_unsigned()
        .max(swept.saturating_add(1));
    let life = expires_at.saturating_sub(now.0.max(0).cast_unsigned());
    let crowded = existing.clone().count() >= BUCKETS_MAX;
    if crowded && let Some(fitting) = existing.find(|end| **end >= expires_at && **end != NEVER) {
        return *fitting;
    }
    // One that outlives all others when there are too many is made twice as long, so that few of those are needed.
    let width = if crowded {
        life.saturating_mul(2)
    } else {
        life / 8
    };
    let width = width.clamp(WIDTH_MIN, 1 << 60).next_power_of_two();
    expires_at
        .checked_next_multiple_of(width)
        .map_or(NEVER - 1, |end| end.min(NEVER - 1))
}

pub(crate) fn fault(error: fjall::Error) -> Fault {
    let io = match &error {
        fjall::Error::Io(io) | fjall::Error::Storage(fjall::LsmError::Io(io)) => Some(io.kind()),
        _ => None,
    };
    match &error {
        _ if matches!(
            io,
            Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        ) =>
        {
            Fault::NoSpace
        }
        fjall::Error::JournalRecovery(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::Unrecoverable
        | fjall::Error::Decompress(_) => Fault::Corrupt(error.to_string()),
        fjall::Error::Storage(inner) if io.is_none() => Fault::Corrupt(inner.to_string()),
        _ => Fault::Storage(Arc::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn one_life_keeps_few_buckets() {
        let mut buckets = std::collections::BTreeSet::new();
        for minute in 0..600i64 {
            let now = 1_700_000_000_000 + minute * 60_000;
            buckets.retain(|end| *end > now.cast_unsigned());
            let expires_at = Some(UnixMillis(now + HOUR));
            buckets.insert(bucket_for(UnixMillis(now), expires_at, 0, buckets.iter()));
            assert!(buckets.len() <= 9, "{buckets:?}");
        }
    }

    proptest! {
        #[test]
        fn buckets_outlive_their_records_and_stay_few(
            lives in proptest::collection::vec(1..1i64 << 45, 1..200),
            swept in prop_oneof![Just(0u64), 1..1u64 << 46],
        ) {
            let now = UnixMillis(1_700_000_000_000);
            let mut buckets = std::collections::BTreeSet::new();
            for life in lives {
                let expires_at = now.0 + life;
                let bucket = bucket_for(now, Some(UnixMillis(expires_at)), swept, buckets.iter());
                prop_assert!(bucket >= expires_at.cast_unsigned());
                prop_assert!(bucket > swept && bucket < NEVER);
                buckets.insert(bucket);
            }
            prop_assert!(buckets.len() <= BUCKETS_MAX + 46, "{}", buckets.len());
        }
    }
}
