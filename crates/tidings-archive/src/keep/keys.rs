//! The keys of a cluster's store.
//!
//! Events are under `namespace/name`, as in an API server. The archive's own records are under keys
//! that begin with a zero byte, as no namespace does, so they precede all events.

use std::borrow::Cow;

use bytes::Bytes;
use tidings_store::{Fault, HOUR_MILLIS, KEY_LEN_MAX, UnixMillis};

/// A key between the archive's own keys and those of events: its own are less, those of events
/// greater.
pub(crate) const BEFORE_EVENTS: &[u8] = b"\0\xff";

/// Times of events are later than this one, so that they differ from the archive's own records,
/// which have no time.
pub(crate) const EARLIEST: UnixMillis = UnixMillis(HOUR_MILLIS);

/// Maximum bytes of the namespace, name and uid of a kept event together, so that every key that is
/// made from them fits.
pub(crate) const NAMES_LEN_MAX: usize = KEY_LEN_MAX - 64;

/// Maximum bytes of a gap's namespace. Kubernetes allows 63.
pub(crate) const NAMESPACE_LEN_MAX: usize = 253;

/// Maximum bytes of a uid in keys. Kubernetes' own have 36.
const UID_LEN_MAX: usize = 128;

/// Whether a key is one of the archive's own.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

/// Whether a text can be a namespace or a name. Both are segments of paths and parts of keys
/// (`IsValidPathSegmentName`).
pub(crate) fn is_step(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%', '\0'])
}

/// Whether a text can be a uid, which is a part of keys. It is empty if the event has none.
pub(crate) fn is_uid(text: &str) -> bool {
    !text.contains(['/', '\0'])
}

/// The key of an event.
pub(crate) fn event(namespace: &str, name: &str) -> Bytes {
    format!("{namespace}/{name}").into()
}

/// The namespace in an event's key.
pub(crate) fn namespace(key: &[u8]) -> Cow<'_, str> {
    let len = key.iter().position(|byte| *byte == b'/');
    String::from_utf8_lossy(&key[..len.unwrap_or(key.len())])
}

/// The name that an older event gets when a newer one uses its name again.
fn elder_name(name: &str, uid: &str) -> String {
    let short: String = uid.chars().take(8).collect();
    format!("{name}.{short}")
}

/// The names that such an older event may get, in the order in which they are tried. Another event
/// may already have one of them.
pub(crate) fn elder_names(name: &str, uid: &str) -> impl Iterator<Item = String> {
    let full = format!("{name}.{uid}");
    let numbered = (2..ELDER_NAMES_MAX).map({
        let full = full.clone();
        move |number| format!("{full}.{number}")
    });
    [elder_name(name, uid), full].into_iter().chain(numbered)
}

/// Maximum number of these names.
const ELDER_NAMES_MAX: usize = 10;

/// The key that an older event with this uid had before it was renamed; `None` if this key is not
/// such a name.
pub(crate) fn before_elder(key: &[u8], uid: &str) -> Option<Bytes> {
    let key = std::str::from_utf8(key).ok()?;
    if uid.is_empty() {
        return None;
    }
    // The longer endings are tried first, because the short one may be the end of a longer one.
    let mut endings = elder_names("", uid).collect::<Vec<_>>();
    endings.rotate_left(1);
    let mut endings = endings.iter();
    let before = endings.find_map(|ending| key.strip_suffix(ending.as_str()))?;
    let (_, name) = before.split_once('/')?;
    (!name.is_empty()).then(|| Bytes::copy_from_slice(before.as_bytes()))
}

/// The bytes that identify an event in the archive's own keys.
pub(crate) fn id(uid: &str, key: &[u8]) -> Bytes {
    if uid.is_empty() || uid.len() > UID_LEN_MAX {
        Bytes::copy_from_slice(key)
    } else {
        Bytes::copy_from_slice(uid.as_bytes())
    }
}

/// The key of the position of a namespace, or of the whole cluster if the namespace is empty.
pub(crate) fn position(namespace: &str) -> Bytes {
    format!("\0position/{namespace}").into()
}

/// The key of the store's identity.
pub(crate) const IDENTITY: &[u8] = b"\0identity";

/// The key of the retention rules that gave the records their expiry.
pub(crate) const RETENTION: &[u8] = b"\0retention";

/// The key of the time since when these rules have held for everything that is kept.
pub(crate) const RETAINED: &[u8] = b"\0retained";

/// The key of the time for which expiry was delayed, because the clock was ahead of the clusters.
pub(crate) const DELAYED: &[u8] = b"\0delayed";

/// The key of the number of events that expired at once when the rules were changed.
pub(crate) const ENDED_BY_RULES: &[u8] = b"\0ended-by-rules";

/// The key of the export that was imported.
pub(crate) const IMPORTED: &[u8] = b"\0imported";

/// The key of the number of events that were deleted to keep the quota.
pub(crate) const TRIMMED: &[u8] = b"\0trimmed";

/// The key of that number for one namespace.
pub(crate) fn trimmed_of(namespace: &str) -> Bytes {
    format!("\0trimmed/{namespace}").into()
}

/// The prefix of notes about deleted events whose older versions were not all deleted. The rest of
/// a key is the prefix of their chunks.
pub(crate) const LEFT: &[u8] = b"\0left/";

/// The key of such a note.
pub(crate) fn left(chunks: &[u8]) -> Bytes {
    let id = chunks.strip_prefix(CHUNKS).unwrap_or(chunks);
    [LEFT, id].concat().into()
}

/// The prefix of all positions.
pub(crate) const POSITIONS: &[u8] = b"\0position/";

/// The key of a gap of a namespace. The order of these keys is that of the gaps' beginnings.
pub(crate) fn gap(from_millis: i64, namespace: &str) -> Bytes {
    format!("\0gap/{:016x}/{namespace}", from_millis.max(0)).into()
}

/// The key of the work that is left to find ended events, for a namespace, or for the whole cluster
/// if the namespace is empty.
pub(crate) fn unswept(namespace: &str) -> Bytes {
    format!("\0unswept/{namespace}").into()
}

/// The prefix of these keys.
pub(crate) const UNSWEPT: &[u8] = b"\0unswept/";

/// The key of the number before which the journal's entries were given to be sealed. The next entry
/// has at least this number. It exists if there is a journal.
pub(crate) const SEALED: &[u8] = b"\0sealed";

/// The key of the sealer's cursor in the feed. It is written right behind the mark.
pub(crate) const FEED: &[u8] = b"\0feed";

/// The key of the notes about the manifests that the store last wrote to an archive on object
/// storage.
pub(crate) fn commits(archive: &str) -> Bytes {
    format!("\0commits/{archive}").into()
}

/// The prefix of these keys.
pub(crate) const COMMITS: &[u8] = b"\0commits/";

/// The key of what was sealed before the store began, if the store continues an archive on object
/// storage.
pub(crate) const CONTINUED: &[u8] = b"\0continued";

/// The prefix of the entries of the journal.
pub(crate) const UNSEALED: &[u8] = b"\0unsealed/";

/// The key of the journal's entry with this number.
pub(crate) fn unsealed(number: u64) -> Bytes {
    [UNSEALED, format!("{number:016x}").as_bytes()]
        .concat()
        .into()
}

/// The number of an entry, from its key.
pub(crate) fn unsealed_number(key: &[u8]) -> Result<u64, Fault> {
    let digits = key.strip_prefix(UNSEALED).unwrap_or_default();
    let number = std::str::from_utf8(digits).map(|digits| u64::from_str_radix(digits, 16));
    let Ok(Ok(number)) = number else {
        let key = key.escape_ascii();
        return Err(Fault::Corrupt(format!("\"{key}\" names no entry")));
    };
    Ok(number)
}

/// The key after which the entries from a number on are.
pub(crate) fn before(number: u64) -> Option<Bytes> {
    number.checked_sub(1).map(unsealed)
}

/// The prefix of the named cursors of the feed.
pub(crate) const CURSORS: &[u8] = b"\0cursor/";

/// The key of a named cursor.
pub(crate) fn cursor(name: &str) -> Bytes {
    format!("\0cursor/{name}").into()
}

/// The prefix of gaps that were noted after an entry of the feed.
pub(crate) const FEED_GAPS: &[u8] = b"\0feed-gaps/";

/// The key of the gaps that have an entry's number. The entry is empty.
pub(crate) fn feed_gaps(number: u64) -> Bytes {
    format!("\0feed-gaps/{number:016x}").into()
}

/// The prefix of notes about events that were deleted here, and may still be in sealed files.
pub(crate) const UNERASED: &[u8] = b"\0unerased/";

/// The key of such a note.
pub(crate) fn unerased(id: &[u8]) -> Bytes {
    [UNERASED, id].concat().into()
}

/// The prefix of the keys of gaps.
pub(crate) const GAPS: &[u8] = b"\0gap/";

/// The prefix of the keys of chunks of older versions.
pub(crate) const CHUNKS: &[u8] = b"\0version/";

/// Number of bytes of the number in a chunk's key.
pub(crate) const CHUNK_NUMBER_LEN: usize = 16;

/// The key of a chunk of older versions.
pub(crate) fn chunk(id: &[u8], number: u64) -> Bytes {
    let mut key = chunks(id).to_vec();
    key.extend_from_slice(format!("{number:016x}").as_bytes());
    key.into()
}

/// The prefix of the keys of an event's chunks.
pub(crate) fn chunks(id: &[u8]) -> Bytes {
    [b"\0version/", id, b"/"].concat().into()
}

/// The prefix of marks of deleted events.
pub(crate) const FORGOTTEN: &[u8] = b"\0forgotten/";

/// The key of the mark of an event that was deleted here and must not be stored again. The mark's
/// value is the event's key.
pub(crate) fn forgotten(id: &[u8]) -> Bytes {
    [FORGOTTEN, id].concat().into()
}
