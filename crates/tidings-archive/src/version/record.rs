//! The bytes of a record: an event, followed by the data of its versions.
//!
//! | part | form |
//! |---|---|
//! | the newest version | the stored event, as the API server stores one |
//! | `metadata.uid` | varint length, and its bytes |
//! | its number at the source, the source's epoch | 2 varints |
//! | when it was observed, in milliseconds | varint |
//! | number and time of its end at the source; 0 and 0 while it lives there | 2 varints |
//! | when it still existed, if it ended while nothing was followed; else 0 | varint |
//! | when the last list after a gap was requested that it was found in; else 0 | varint |
//! | versions observed in all, chunks | 2 varints |
//! | older versions, the newest first | entries |
//! | length of everything after the event | u32, little-endian |
//! | form | one byte: 2 |
//!
//! An entry begins with a varint: twice the length of its bytes, plus one if they are the version
//! itself and not a [delta](super::delta) from the next newer one. Then follow the differences of
//! its number and time (zigzag varints), and the bytes. All versions of a record have the same
//! epoch.

use std::sync::Arc;

use bytes::Bytes;
use tidings_core::wire::{put_varint, varint};
use tidings_history::Version;
use tidings_store::UnixMillis;

use super::delta::{delta, restore, take_len};

/// Bytes of older versions at which a record becomes a chunk. Each new version writes them again,
/// and each chunk costs a complete version.
const PAST_MAX: usize = 1024;
/// The form (format version) of the bytes.
const FORM: u8 = 2;
/// Number of bytes of the length and the form at the end.
const END_LEN: usize = 5;

/// The end of an event at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) number: u64,
    pub(crate) observed_at: i64,
    /// If the event ended while nothing was followed: when it was last known to exist.
    pub(crate) not_before: Option<i64>,
}

/// A record of an event: its newest version, with older ones as deltas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The newest version. Its uid and epoch are those of all versions of the record.
    pub(crate) newest: Version,
    pub(crate) gone: Option<Gone>,
    /// When the last list after a gap that had the event was requested.
    pub(crate) listed_at: i64,
    /// Number of observed versions, including those in chunks.
    pub(crate) versions: u64,
    /// Number of chunks that were made.
    pub(crate) chunks: u64,
    past: Bytes,
}

/// The bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored versions of an event cannot be read")]
pub(crate) struct Damaged;

/// Returns the event of a record's newest version.
pub(crate) fn event(value: &Bytes) -> Result<Bytes, Damaged> {
    let end = event_len(value).ok_or(Damaged)?;
    Ok(value.slice(..end))
}

fn event_len(value: &[u8]) -> Option<usize> {
    let (rest, form) = value.split_last_chunk::<1>()?;
    let (rest, len) = rest.split_last_chunk::<4>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    rest.len().checked_sub(len).filter(|_| form == &[FORM])
}

impl Record {
    /// Makes the record of an event that is observed for the first time.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            newest: version,
            gone: None,
            listed_at: 0,
            versions: 1,
            chunks: 0,
            past: Bytes::new(),
        }
    }

    /// Returns the record with another version, and the chunk that this record becomes, if it does.
    pub(crate) fn followed_by(self, version: Version) -> (Self, Option<Self>) {
        let mut past = Vec::new();
        let newest = &self.newest;
        if version.epoch == newest.epoch {
            let by_delta = delta(&version.event, &newest.event);
            let whole = by_delta.len() >= newest.event.len();
            let bytes: &[u8] = if whole { &newest.event } else { &by_delta };
            put_varint((bytes.len() as u64) << 1 | u64::from(whole), &mut past);
            let number = version.number.wrapping_sub(newest.number);
            put_varint(zigzag(number.cast_signed()), &mut past);
            let time = version.observed_at.0.wrapping_sub(newest.observed_at.0);
            put_varint(zigzag(time), &mut past);
            past.extend_from_slice(bytes);
            past.extend_from_slice(&self.past);
        }
        let chunk = past.is_empty() || past.len() > PAST_MAX;
        let followed = Self {
            newest: version,
            gone: None,
            listed_at: self.listed_at,
            versions: self.versions.saturating_add(1),
            chunks: self.chunks.saturating_add(u64::from(chunk)),
            past: if chunk { Bytes::new() } else { past.into() },
        };
        (followed, chunk.then_some(self))
    }

    /// Returns the record under another name, and the chunk with its older versions, if there are
    /// any: they are deltas from the newest version with its former name.
    pub(crate) fn renamed(self, event: Bytes) -> Result<(Self, Option<Self>), Damaged> {
        let mut past: &[u8] = &self.past;
        let older = (!past.is_empty())
            .then(|| older(&self.newest, &mut past).ok_or(Damaged))
            .transpose()?;
        let chunk = older.map(|newest| Self {
            newest,
            gone: None,
            past: self.past.slice(self.past.len() - past.len()..),
            ..self.clone()
        });
        let renamed = Self {
            newest: Version {
                event,
                ..self.newest
            },
            chunks: self.chunks.saturating_add(u64::from(chunk.is_some())),
            past: Bytes::new(),
            ..self
        };
        Ok((renamed, chunk))
    }

    pub(crate) fn encode(&self) -> Bytes {
        let Version { uid, event, .. } = &self.newest;
        let mut out = Vec::with_capacity(event.len() + uid.len() + self.past.len() + 48);
        out.extend_from_slice(event);
        put_varint(uid.len() as u64, &mut out);
        out.extend_from_slice(uid.as_bytes());
        let gone = self.gone.unwrap_or(Gone {
            number: 0,
            observed_at: 0,
            not_before: None,
        });
        for number in [
            self.newest.number,
            self.newest.epoch,
            self.newest.observed_at.0.cast_unsigned(),
            gone.number,
            gone.observed_at.cast_unsigned(),
            gone.not_before.unwrap_or(0).cast_unsigned(),
            self.listed_at.cast_unsigned(),
            self.versions,
            self.chunks,
        ] {
            put_varint(number, &mut out);
        }
        out.extend_from_slice(&self.past);
        // Every store refuses a record of 4 GiB.
        let len = u32::try_from(out.len() - event.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&len.to_le_bytes());
        out.push(FORM);
        out.into()
    }

    pub(crate) fn decode(value: &Bytes) -> Result<Self, Damaged> {
        let end = event_len(value).ok_or(Damaged)?;
        let mut rest = &value[end..value.len() - END_LEN];
        let behind = value.len() - END_LEN;
        let uid = take_len(&mut rest).ok_or(Damaged)?;
        let (uid, numbers) = rest.split_at_checked(uid).ok_or(Damaged)?;
        let uid: Arc<str> = std::str::from_utf8(uid).map_err(|_| Damaged)?.into();
        rest = numbers;
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = varint(&mut rest).ok_or(Damaged)?;
        }
        let [
            number,
            epoch,
            observed_at,
            gone,
            gone_at,
            not_before,
            listed_at,
            versions,
            chunks,
        ] = numbers;
        let past = behind - rest.len()..behind;
        Ok(Self {
            newest: Version {
                uid,
                epoch,
                number,
                observed_at: UnixMillis(observed_at.cast_signed()),
                event: value.slice(..end),
            },
            gone: (gone_at != 0).then_some(Gone {
                number: gone,
                observed_at: gone_at.cast_signed(),
                not_before: (not_before != 0).then_some(not_before.cast_signed()),
            }),
            listed_at: listed_at.cast_signed(),
            versions,
            chunks,
            past: value.slice(past),
        })
    }

    /// Returns the number of [`versions`](Self::versions) in the record. The last of them may be an
    /// error.
    pub(crate) fn count(&self) -> u64 {
        let mut past: &[u8] = &self.past;
        let mut count = 1;
        while !past.is_empty() {
            count += 1;
            if take_entry(&mut past).is_none() {
                break;
            }
        }
        count
    }

    /// Yields the versions in the record, the newest first. After an error there are no more.
    pub(crate) fn versions(&self) -> impl Iterator<Item = Result<Version, Damaged>> {
        let mut next = Some(Ok(self.newest.clone()));
        let mut past: &[u8] = &self.past;
        std::iter::from_fn(move || {
            let version = next.take()?;
            if let Ok(newer) = &version
                && !past.is_empty()
            {
                next = Some(older(newer, &mut past).ok_or(Damaged));
            }
            Some(version)
        })
    }
}

/// The stored form of an older version.
struct Entry<'a> {
    /// The differences of its number and time from those of the next newer version.
    number: u64,
    time: i64,
    /// Whether the bytes are the version itself.
    is_whole: bool,
    bytes: &'a [u8],
}

/// Takes an entry from the beginning of the bytes.
fn take_entry<'a>(past: &mut &'a [u8]) -> Option<Entry<'a>> {
    let len = take_len(past)?;
    let number = unzigzag(varint(past)?).cast_unsigned();
    let time = unzigzag(varint(past)?);
    let (bytes, rest) = past.split_at_checked(len >> 1)?;
    *past = rest;
    Some(Entry {
        number,
        time,
        is_whole: len & 1 == 1,
        bytes,
    })
}

/// Takes the next older version from the beginning of the entries.
fn older(newer: &Version, past: &mut &[u8]) -> Option<Version> {
    let entry = take_entry(past)?;
    let bytes = if entry.is_whole {
        entry.bytes.to_vec()
    } else {
        restore(&newer.event, entry.bytes)?
    };
    Some(Version {
        uid: Arc::clone(&newer.uid),
        epoch: newer.epoch,
        number: newer.number.wrapping_sub(entry.number),
        observed_at: UnixMillis(newer.observed_at.0.wrapping_sub(entry.time)),
        event: bytes.into(),
    })
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::{Event, ObjectReference};
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
    use proptest::prelude::*;
    use tidings_api::codec::encode_stored;

    use super::*;

    fn version(number: u64, event: Bytes) -> Version {
        Version {
            uid: "uid".into(),
            epoch: 0,
            number,
            observed_at: UnixMillis(1_700_000_000_000 + number.cast_signed() * 61_003),
            event,
        }
    }

    fn with_count(count: i32) -> Version {
        version(u64::try_from(count).unwrap(), backing_off(count))
    }

    /// An event like a kubelet's, in the fields that a patch of the count changes.
    fn backing_off(count: i32) -> Bytes {
        let time = Time {
            seconds: Some(1_700_000_000 + i64::from(count) * 61),
            nanos: None,
        };
        let mut event = Event {
            metadata: Some(ObjectMeta {
                name: Some("web-5d4f8c7b9-x7k2p.17a3f0c1d2e3f405".into()),
                namespace: Some("shop".into()),
                uid: Some("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0".into()),
                managed_fields: vec![ManagedFieldsEntry {
                    manager: Some("kubelet".into()),
                    operation: Some("Update".into()),
                    time: Some(time),
                    ..ManagedFieldsEntry::default()
                }],
                ..ObjectMeta::default()
            }),
            involved_object: Some(ObjectReference {
                kind: Some("Pod".into()),
                name: Some("web-5d4f8c7b9-x7k2p".into()),
                ..ObjectReference::default()
            }),
            reason: Some("BackOff".into()),
            message: Some("Back-off restarting failed container app in pod web".into()),
            count: Some(count),
            last_timestamp: Some(time),
            r#type: Some("Warning".into()),
            ..Event::default()
        };
        encode_stored(&mut event)
    }

    #[test]
    fn a_version_that_changes_count_and_time_costs_at_most_forty_bytes() {
        let mut record = Record::new(with_count(1));
        let mut stored = 0;
        let count: i32 = 70_000;
        for number in 2..=count {
            let (followed, chunk) = record.followed_by(with_count(number));
            stored += chunk.map_or(0, |chunk| chunk.encode().len());
            record = followed;
        }
        stored += record.encode().len();
        assert_eq!(record.versions, 70_000);
        let each = stored / usize::try_from(count).unwrap();
        assert!(each <= 40, "{each} bytes for each version");
    }

    #[test]
    fn all_versions_are_in_the_record_and_its_chunks() {
        let mut record = Record::new(with_count(1));
        let mut chunks = Vec::new();
        for number in 2..=500 {
            // From time to time the whole event changes.
            let event = if number % 50 == 0 {
                Bytes::from(vec![number as u8; 300])
            } else {
                backing_off(number)
            };
            let at = u64::try_from(number).unwrap();
            let (followed, chunk) = record.followed_by(version(at, event));
            chunks.extend(chunk);
            record = Record::decode(&followed.encode()).unwrap();
            assert_eq!(record, followed);
            assert_eq!(event_len(&record.encode()), Some(record.newest.event.len()));
        }
        assert_eq!(record.chunks, chunks.len() as u64);
        assert!(chunks.len() > 5, "{}", chunks.len());
        let counted = chunks.iter().chain([&record]).map(Record::count);
        assert_eq!(counted.sum::<u64>(), 500);
        let all = std::iter::once(&record).chain(chunks.iter().rev());
        let mut number: u64 = 500;
        for found in all.flat_map(Record::versions) {
            let found = found.unwrap();
            assert_eq!(found, version(number, found.event.clone()));
            if !number.is_multiple_of(50) {
                assert_eq!(found, with_count(i32::try_from(number).unwrap()));
            }
            number -= 1;
        }
        assert_eq!(number, 0);
    }

    #[test]
    fn a_record_that_is_renamed_keeps_its_older_versions_in_a_chunk() {
        let mut record = Record::new(with_count(1));
        let (renamed, chunk) = record.clone().renamed(Bytes::from_static(b"new")).unwrap();
        assert_eq!((renamed.chunks, chunk), (0, None));
        for number in 2..5 {
            record = record.followed_by(with_count(number)).0;
        }
        let (renamed, chunk) = record.renamed(Bytes::from_static(b"new")).unwrap();
        let newest: Vec<_> = renamed.versions().map(Result::unwrap).collect();
        assert_eq!(newest, [version(4, Bytes::from_static(b"new"))]);
        let older: Vec<_> = chunk.unwrap().versions().map(Result::unwrap).collect();
        assert_eq!(older, [3, 2, 1].map(with_count));
        assert_eq!((renamed.versions, renamed.chunks), (4, 1));
    }

    #[test]
    fn a_record_of_another_epoch_is_a_chunk() {
        let record = Record::new(version(9, backing_off(1)));
        let later = Version {
            epoch: 1,
            ..version(3, backing_off(2))
        };
        let (followed, chunk) = record.clone().followed_by(later);
        assert_eq!(chunk, Some(record));
        assert_eq!((followed.versions, followed.chunks), (2, 1));
        assert_eq!(followed.versions().count(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes: Vec<u8>, len in 0u32..40) {
            let mut bytes = bytes;
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.push(FORM);
            if let Ok(record) = Record::decode(&bytes.into()) {
                prop_assert!(record.versions().count() <= 41);
            }
        }
    }
}
