//! What a file may have. The writer keeps to these bounds, and a reader takes a file that exceeds
//! one for damaged before memory is used for it. `docs/archive-format.md` promises them.

/// Maximum bytes of an event. An archive keeps versions of at most 1.5 MiB.
pub(crate) const EVENT_BYTES_MAX: usize = 2 << 20;
/// Maximum rows of a row group of versions.
pub(crate) const GROUP_ROWS_MAX: usize = 8192;
/// Maximum rows of a row group of a rollup.
pub(crate) const ROLLUP_ROWS_MAX: usize = 16_384;
/// Bytes of events, or of the texts of a rollup, from which on a row group ends.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of a column of a row group before compression, and of its values together. All
/// texts of a row follow from the event's bytes, so this is a full row group with the event that
/// ends it, and what the format adds for each value.
pub(crate) const CHUNK_BYTES_MAX: usize = GROUP_BYTES_MAX + EVENT_BYTES_MAX + (2 << 20);
/// Maximum bytes of all columns of a row group, before or after compression: the events once as
/// they are, and once as columns.
pub(crate) const CHUNKS_BYTES_MAX: usize = 2 * CHUNK_BYTES_MAX;
/// Maximum pairs of labels in a row group: each takes at least six bytes of an event.
pub(crate) const LABELS_MAX: usize = CHUNK_BYTES_MAX / 6;
/// Maximum row groups of a file.
pub(crate) const GROUPS_MAX: usize = 1000;
/// Maximum bytes of the end of a file: the index of its pages, and what is known of its columns.
pub(crate) const END_BYTES_MAX: usize = 8 << 20;
/// Maximum elements of the schema; columns that a later version adds are among them.
pub(crate) const SCHEMA_MAX: usize = 128;
/// Maximum bytes of a bloom filter.
pub(crate) const FILTER_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a file or a rollup: 32 MiB with the row group that reaches them, filters, and
/// the end.
pub(crate) const FILE_BYTES_MAX: u64 = 128 << 20;
/// Maximum bytes of an answer about what waits to be sealed.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;
