//! The columns that the reader uses, by their places among the leaves of the schema.
//!
//! The pairs of labels are two leaves.

use crate::file::columns;
pub(in crate::reader) use crate::row::seen;

/// By less than this, in milliseconds, the clocks of events' authors are assumed to be ahead of the
/// archive's.
const AHEAD_MILLIS: i64 = 3_600_000;

/// Returns the time by which a version is sorted among the latest events, in milliseconds since
/// 1970. It is the time at which the event was last seen, but at most a little after the
/// microsecond in which the version was observed. For authors choose the first: otherwise events of
/// far years would come first in every file, and every file would be searched for them.
pub(in crate::reader) fn ranked(seen: i64, observed: i64) -> i64 {
    seen.min(observed.div_euclid(1000).saturating_add(AHEAD_MILLIS))
}

/// The place of a column among the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reader) struct Leaf(pub(in crate::reader) usize);

pub(in crate::reader) const NAMESPACE: Leaf = Leaf(1);
pub(in crate::reader) const KIND: Leaf = Leaf(2);
pub(in crate::reader) const NAME: Leaf = Leaf(3);
pub(in crate::reader) const OBSERVED: Leaf = Leaf(columns::OBSERVED);
pub(in crate::reader) const UID: Leaf = Leaf(5);
pub(in crate::reader) const EVENT: Leaf = Leaf(6);
pub(in crate::reader) const EPOCH: Leaf = Leaf(columns::EPOCH);
pub(in crate::reader) const VERSION: Leaf = Leaf(columns::VERSION);
pub(in crate::reader) const OBJECT_UID: Leaf = Leaf(9);
pub(in crate::reader) const REASON: Leaf = Leaf(10);
pub(in crate::reader) const TYPE: Leaf = Leaf(11);
pub(in crate::reader) const SOURCE: Leaf = Leaf(12);
pub(in crate::reader) const REPORTING_CONTROLLER: Leaf = Leaf(14);
pub(in crate::reader) const MESSAGE: Leaf = Leaf(16);
pub(in crate::reader) const LAST_SEEN: Leaf = Leaf(19);
pub(in crate::reader) const OBJECT: Leaf = Leaf(columns::OBJECT);

/// All columns listed here.
pub(in crate::reader) const ALL: [Leaf; 16] = [
    NAMESPACE,
    KIND,
    NAME,
    OBSERVED,
    UID,
    EVENT,
    EPOCH,
    VERSION,
    OBJECT_UID,
    REASON,
    TYPE,
    SOURCE,
    REPORTING_CONTROLLER,
    MESSAGE,
    LAST_SEEN,
    OBJECT,
];

/// The columns that identify a version and tell which of two is newer.
pub(in crate::reader) const KEYS: [Leaf; 5] = [UID, EVENT, OBSERVED, EPOCH, VERSION];

#[cfg(test)]
mod tests {
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn leaves_are_where_the_schema_has_them() {
        let schema = SchemaDescriptor::new(columns::schema().unwrap());
        let names = ALL.map(|leaf| schema.column(leaf.0).name().to_owned());
        let expected = [
            "namespace",
            "kind",
            "name",
            "observed",
            "uid",
            "event",
            "epoch",
            "version",
            "object_uid",
            "reason",
            "type",
            "source",
            "reporting_controller",
            "message",
            "last_seen",
            "object",
        ];
        assert_eq!(names, expected);
    }
}
