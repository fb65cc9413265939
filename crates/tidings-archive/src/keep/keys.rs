//! The keys of a cluster's store.
//!
//! Events are under `namespace/name`, as in an API server. The archive's own records are under keys
//! that begin with a zero byte, as no namespace does, so they precede all events.

use std::borrow::Cow;

use bytes::Bytes;
use tidings_store::{HOUR_MILLIS, KEY_LEN_MAX, UnixMillis};

/// The archive's own keys are less than this one, and keys of events greater.
pub(crate) const BEFORE_EVENTS: &[u8] = b"\0\xff";

/// Events have a later time than this; the archive's own records have none.
pub(crate) const EARLIEST: UnixMillis = UnixMillis(HOUR_MILLIS);

/// Maximum bytes of namespace, name and uid together of an event that is kept: every key that is
/// made from them fits.
pub(crate) const NAMES_LEN_MAX: usize = KEY_LEN_MAX - 64;

/// Longest namespace of a gap; Kubernetes' own have 63 bytes.
pub(crate) const NAMESPACE_LEN_MAX: usize = 253;

/// Longest uid in keys; Kubernetes' own have 36 bytes.
const UID_LEN_MAX: usize = 128;

/// Whether a key is one of the archive's own.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

/// Whether a text can be a namespace or a name, which are segments of paths and parts of keys
/// (`IsValidPathSegmentName`).
pub(crate) fn is_step(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%', '\0'])
}

/// Whether a text can be a uid, which is a part of keys; empty if the event has none.
pub(crate) fn is_uid(text: &str) -> bool {
    !text.contains(['/', '\0'])
}

/// The key of an event.
pub(crate) fn event(namespace: &str, name: &str) -> Bytes {
    format!("{namespace}/{name}").into()
}

/// The namespace of an event, by its key.
pub(crate) fn namespace(key: &[u8]) -> Cow<'_, str> {
    let len = key.iter().position(|byte| *byte == b'/');
    String::from_utf8_lossy(&key[..len.unwrap_or(key.len())])
}

/// The name of an older event whose name was used again.
fn elder_name(name: &str, uid: &str) -> String {
    let short: String = uid.chars().take(8).collect();
    format!("{name}.{short}")
}

/// The names that an older event may have whose name was used again, in the order in which they are
/// tried: any of them may be the name of another event.
pub(crate) fn elder_names(name: &str, uid: &str) -> impl Iterator<Item = String> {
    let full = format!("{name}.{uid}");
    let numbered = (2..ELDER_NAMES_MAX).map({
        let full = full.clone();
        move |number| format!("{full}.{number}")
    });
    [elder_name(name, uid), full].into_iter().chain(numbered)
}

/// Number of these names.
const ELDER_NAMES_MAX: usize = 10;

/// The key that an event had before this one, if this is the key of an elder one with this uid.
pub(crate) fn before_elder(key: &[u8], uid: &str) -> Option<Bytes> {
    let key = std::str::from_utf8(key).ok()?;
    if uid.is_empty() {
        return None;
    }
    // The longer ones first: the short one may be their end.
    let mut endings = elder_names("", uid).collect::<Vec<_>>();
    endings.rotate_left(1);
    let mut endings = endings.iter();
    let before = endings.find_map(|ending| key.strip_suffix(ending.as_str()))?;
    let (_, name) = before.split_once('/')?;
    (!name.is_empty()).then(|| Bytes::copy_from_slice(before.as_bytes()))
}

/// What identifies an event in the archive's own keys.
pub(crate) fn id(uid: &str, key: &[u8]) -> Bytes {
    if uid.is_empty() || uid.len() > UID_LEN_MAX {
        Bytes::copy_from_slice(key)
    } else {
        Bytes::copy_from_slice(uid.as_bytes())
    }
}

/// The position of a namespace, or of the cluster if the namespace is empty.
pub(crate) fn position(namespace: &str) -> Bytes {
    format!("\0position/{namespace}").into()
}

/// The identity of the store.
pub(crate) const IDENTITY: &[u8] = b"\0identity";

/// The rules that gave records their expiry.
pub(crate) const RETENTION: &[u8] = b"\0retention";

/// Since when these rules hold for everything that is kept.
pub(crate) const RETAINED: &[u8] = b"\0retained";

/// For how long expiry was delayed, as clusters say that the clock is ahead.
pub(crate) const DELAYED: &[u8] = b"\0delayed";

/// Events that ended at once when rules were changed.
pub(crate) const ENDED_BY_RULES: &[u8] = b"\0ended-by-rules";

/// The export that was imported.
pub(crate) const IMPORTED: &[u8] = b"\0imported";

/// Events deleted to keep the quota.
pub(crate) const TRIMMED: &[u8] = b"\0trimmed";

/// Those of a namespace.
pub(crate) fn trimmed_of(namespace: &str) -> Bytes {
    format!("\0trimmed/{namespace}").into()
}

/// Deleted events of which older versions are left, by the prefix of their chunks.
pub(crate) const LEFT: &[u8] = b"\0left/";

/// One of these.
pub(crate) fn left(chunks: &[u8]) -> Bytes {
    let id = chunks.strip_prefix(CHUNKS).unwrap_or(chunks);
    [LEFT, id].concat().into()
}

/// The prefix of all positions.
pub(crate) const POSITIONS: &[u8] = b"\0position/";

/// A gap of a namespace; the order is that of their beginnings.
pub(crate) fn gap(from_millis: i64, namespace: &str) -> Bytes {
    format!("\0gap/{:016x}/{namespace}", from_millis.max(0)).into()
}

/// Ends that remain to be found, of a namespace, or of the cluster if the namespace is empty.
pub(crate) fn unswept(namespace: &str) -> Bytes {
    format!("\0unswept/{namespace}").into()
}

/// The prefix of all of these.
pub(crate) const UNSWEPT: &[u8] = b"\0unswept/";

/// Up to which entry the journal of versions was given to be sealed, and so the least number of the
/// next one; there if there is a journal.
pub(crate) const SEALED: &[u8] = b"\0sealed";

/// The manifests that the store wrote last to an archive on object storage.
pub(crate) fn commits(archive: &str) -> Bytes {
    format!("\0commits/{archive}").into()
}

/// The prefix of these.
pub(crate) const COMMITS: &[u8] = b"\0commits/";

/// What was sealed before the store began, if it continues an archive on object storage.
pub(crate) const CONTINUED: &[u8] = b"\0continued";

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

/// The prefix of all events that were deleted here, and may still be in files that were sealed.
pub(crate) const UNERASED: &[u8] = b"\0unerased/";

/// One of these.
pub(crate) fn unerased(id: &[u8]) -> Bytes {
    [UNERASED, id].concat().into()
}

/// The prefix of all gaps.
pub(crate) const GAPS: &[u8] = b"\0gap/";

/// The prefix of all chunks of older versions.
pub(crate) const CHUNKS: &[u8] = b"\0version/";

/// Bytes of the number in a chunk's key.
pub(crate) const CHUNK_NUMBER_LEN: usize = 16;

/// A chunk of older versions.
pub(crate) fn chunk(id: &[u8], number: u64) -> Bytes {
    let mut key = chunks(id).to_vec();
    key.extend_from_slice(format!("{number:016x}").as_bytes());
    key.into()
}

/// The prefix of all chunks of an event.
pub(crate) fn chunks(id: &[u8]) -> Bytes {
    [b"\0version/", id, b"/"].concat().into()
}

/// The prefix of all marks of deleted events.
pub(crate) const FORGOTTEN: &[u8] = b"\0forgotten/";

/// The mark of an event that was deleted here and must not be fetched again. Its value is the
/// event's key.
pub(crate) fn forgotten(id: &[u8]) -> Bytes {
    [FORGOTTEN, id].concat().into()
}
