//! The names of events, and what identifies an event and its versions.
//!
//! A source may use an event's name again once that event is over. The youngest event of a name has
//! it; its predecessors have the beginning of their uid appended, as in the archive that sealed
//! them. A sealed version has one name or the other, depending on when it was sealed.

use tidings_archive::REVISION_BITS;

/// The order of an event's versions, and of events of one name. Epoch and resourceVersion come
/// first, as the archive's clock may have gone back between two versions; then when the version was
/// observed, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reader) struct Order {
    pub(in crate::reader) epoch: u64,
    pub(in crate::reader) version: u64,
    pub(in crate::reader) observed: i64,
}

/// Bits of a revision that hold the resourceVersion at the source.
const VERSION_BITS: u32 = 48;

impl Order {
    /// Returns the revision: the resourceVersion at the source, with the epoch in the bits above
    /// it. In epoch 0 it is just the resourceVersion. If the source is itself an archive, the bits
    /// that identify that archive are left out.
    pub(in crate::reader) fn revision(self) -> u64 {
        let epoch = self.epoch.min((1 << (63 - VERSION_BITS)) - 1);
        let version = if self.version >> VERSION_BITS == 0 {
            self.version
        } else {
            self.version & ((1 << REVISION_BITS) - 1)
        };
        (epoch << VERSION_BITS | version).max(1)
    }
}

/// Returns the beginning of a uid that is appended to a predecessor's name.
fn short(uid: &str) -> &str {
    let end = uid.char_indices().nth(8).map_or(uid.len(), |(at, _)| at);
    &uid[..end]
}

/// Returns the name that an event had at its source.
pub(in crate::reader) fn base<'a>(name: &'a str, uid: &str) -> &'a str {
    let without = |uid: &str| name.strip_suffix(uid)?.strip_suffix('.');
    if uid.is_empty() {
        return name;
    }
    without(uid).or_else(|| without(short(uid))).unwrap_or(name)
}

/// Returns the shown name of a predecessor.
pub(in crate::reader) fn elder(base: &str, uid: &str) -> String {
    format!("{base}.{}", short(uid))
}

/// Returns a predecessor's name with its full uid, for when another one has the short name.
pub(in crate::reader) fn elder_in_full(base: &str, uid: &str) -> String {
    format!("{base}.{uid}")
}

/// Splits a name that may be a predecessor's: the name at the source, and its uid or the beginning.
pub(in crate::reader) fn parts(name: &str) -> Option<(&str, &str)> {
    let (base, uid) = name.rsplit_once('.')?;
    (!base.is_empty() && !uid.is_empty()).then_some((base, uid))
}

/// Returns whether a predecessor with this uid may have a name that ends with `part`.
pub(in crate::reader) fn is_of(uid: &str, part: &str) -> bool {
    !uid.is_empty() && (part == uid || part == short(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_elder_events_name_has_its_uid_behind() {
        let uid = "6f1c2d3e-4a5b-6c7d-8e9f-000000000001";
        assert_eq!(elder("web.1", uid), "web.1.6f1c2d3e");
        for name in [
            "web.1".to_owned(),
            elder("web.1", uid),
            elder_in_full("web.1", uid),
        ] {
            assert_eq!(base(&name, uid), "web.1");
        }
        assert_eq!(base("web.1.6f1c2d3e", "other-id"), "web.1.6f1c2d3e");
        assert_eq!(base("6f1c2d3e", uid), "6f1c2d3e");
        assert_eq!(base("web", ""), "web");
        assert_eq!(parts("web.1.6f1c2d3e"), Some(("web.1", "6f1c2d3e")));
        assert!(is_of(uid, "6f1c2d3e") && is_of(uid, uid) && !is_of(uid, "6f1c2d3"));
    }

    #[test]
    fn a_revision_is_the_version_at_the_source() {
        let of = |epoch, version| {
            let observed = 0;
            Order {
                epoch,
                version,
                observed,
            }
            .revision()
        };
        assert_eq!(of(0, 4711), 4711);
        assert!(of(1, 1) > of(0, u64::MAX));
        let of_archive = 5_000_001_u64 << REVISION_BITS;
        assert_eq!(of(0, of_archive + 4711), 4711);
        assert!(i64::try_from(of(u64::MAX, u64::MAX)).is_ok());
        assert_eq!(of(0, 0), 1);
    }
}
