//! The keys of a cluster's store.
//!
//! Events are under `namespace/name`, as the API server has them. What else is kept is under keys
//! that begin with a zero byte, which no namespace does: before all events.

use bytes::Bytes;
use tidings_store::{HOUR_MILLIS, KEY_LEN_MAX, UnixMillis};

/// Every key of the archive's own is before this one, and every key of an event behind it.
pub(crate) const BEFORE_EVENTS: &[u8] = b"\0\xff";

/// No event is found by an earlier time: what the archive keeps of its own has none.
pub(crate) const EARLIEST: UnixMillis = UnixMillis(HOUR_MILLIS);

/// Longest namespace, name and uid together of an event that is kept: whatever keys are made of
/// them, there is room for it.
pub(crate) const NAMES_LEN_MAX: usize = KEY_LEN_MAX - 64;

/// Longest uid that is put into keys; Kubernetes' own have 36 bytes.
const UID_LEN_MAX: usize = 128;

/// Whether a key is of the archive's own.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

/// Where an event is kept.
pub(crate) fn event(namespace: &str, name: &str) -> Bytes {
    format!("{namespace}/{name}").into()
}

/// Where an elder event is kept once its name is used again.
pub(crate) fn elder_name(name: &str, uid: &str) -> String {
    let short: String = uid.chars().take(8).collect();
    format!("{name}.{short}")
}

/// Where it is kept if that is taken, too.
pub(crate) fn elder_name_in_full(name: &str, uid: &str) -> String {
    format!("{name}.{uid}")
}

/// What identifies an event in the archive's own keys.
pub(crate) fn id(uid: &str, key: &[u8]) -> Bytes {
    if uid.is_empty() || uid.len() > UID_LEN_MAX {
        Bytes::copy_from_slice(key)
    } else {
        Bytes::copy_from_slice(uid.as_bytes())
    }
}

/// How far a namespace, or with an empty one the cluster, was followed.
pub(crate) fn position(namespace: &str) -> Bytes {
    format!("\0position/{namespace}").into()
}

/// Which store this is.
pub(crate) const IDENTITY: &[u8] = b"\0identity";

/// The rules by which records got their ends.
pub(crate) const RETENTION: &[u8] = b"\0retention";

/// Of which export the events are.
pub(crate) const IMPORTED: &[u8] = b"\0imported";

/// What was taken to keep the quota.
pub(crate) const TRIMMED: &[u8] = b"\0trimmed";

/// Of all positions.
pub(crate) const POSITIONS: &[u8] = b"\0position/";

/// A gap of a namespace, in the order of their beginnings.
pub(crate) fn gap(from_millis: i64, namespace: &str) -> Bytes {
    format!("\0gap/{:016x}/{namespace}", from_millis.max(0)).into()
}

/// Which ends are yet to be looked for, of a namespace, or with an empty one of the cluster.
pub(crate) fn unswept(namespace: &str) -> Bytes {
    format!("\0unswept/{namespace}").into()
}

/// Of all of these.
pub(crate) const UNSWEPT: &[u8] = b"\0unswept/";

/// Up to which entry the journal of versions was sealed; there if there is a journal.
pub(crate) const SEALED: &[u8] = b"\0sealed";

/// Of all entries of the journal of versions that are not sealed.
pub(crate) const UNSEALED: &[u8] = b"\0unsealed/";

/// An entry of it.
pub(crate) fn unsealed(number: u64) -> Bytes {
    [UNSEALED, format!("{number:016x}").as_bytes()]
        .concat()
        .into()
}

/// The number of an entry, by its key.
pub(crate) fn unsealed_number(key: &[u8]) -> u64 {
    let digits = key.strip_prefix(UNSEALED).unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// Of all gaps.
pub(crate) const GAPS: &[u8] = b"\0gap/";

/// Of all chunks of older versions.
pub(crate) const CHUNKS: &[u8] = b"\0version/";

/// How many bytes of a chunk's key tell its number.
pub(crate) const CHUNK_NUMBER_LEN: usize = 16;

/// A chunk of older versions.
pub(crate) fn chunk(id: &[u8], number: u64) -> Bytes {
    let mut key = chunks(id).to_vec();
    key.extend_from_slice(format!("{number:016x}").as_bytes());
    key.into()
}

/// Of all chunks of an event.
pub(crate) fn chunks(id: &[u8]) -> Bytes {
    [b"\0version/", id, b"/"].concat().into()
}

/// That an event was deleted here, and is not to be fetched again.
pub(crate) fn forgotten(id: &[u8]) -> Bytes {
    [b"\0forgotten/", id].concat().into()
}
