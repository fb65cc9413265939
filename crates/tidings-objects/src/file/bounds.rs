//! Bounds of a file's parts, which `docs/archive-format.md` promises.
//!
//! The writer keeps to them. A reader takes a file that exceeds one for damaged before it uses
//! memory for it.

/// Maximum bytes of an event. An archive keeps versions of at most 1.5 MiB.
pub(crate) const EVENT_BYTES_MAX: usize = 2 << 20;
/// Maximum rows of a row group of versions.
pub(crate) const GROUP_ROWS_MAX: usize = 8192;
/// Maximum rows of a row group of a rollup.
pub(crate) const ROLLUP_ROWS_MAX: usize = 16_384;
/// Maximum rows of a rollup: a file ends where its rollup has as many.
pub(crate) const ROLLUP_ALL_ROWS_MAX: usize = 262_144;
/// Maximum bytes of the different reasons and types of a rollup: a file ends where its rollup has
/// as many.
pub(crate) const ROLLUP_TEXTS_MAX: usize = 1 << 20;
/// Maximum bytes of a text of a rollup, which is cut off there.
pub(crate) const ROLLUP_TEXT_MAX: usize = 512;
/// Bytes of events, or of a rollup's texts, at which a row group ends.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of one column of a row group before compression, and of its decoded values. All
/// texts of a row come from the event's bytes. So this is a full row group, plus the event that
/// ends it, plus what Parquet adds to each value.
pub(crate) const CHUNK_BYTES_MAX: usize = GROUP_BYTES_MAX + EVENT_BYTES_MAX + (2 << 20);
/// Maximum bytes of all columns of a row group, before or after compression. Each event is there
/// twice: once as its bytes and once as columns.
pub(crate) const CHUNKS_BYTES_MAX: usize = 2 * CHUNK_BYTES_MAX;
/// Maximum pairs of labels in a row group: each takes at least six bytes of an event.
pub(crate) const LABELS_MAX: usize = CHUNK_BYTES_MAX / 6;
/// Maximum row groups of a file.
pub(crate) const GROUPS_MAX: usize = 1000;
/// Maximum bytes of the end of a file: its metadata and the index of its pages.
pub(crate) const END_BYTES_MAX: usize = 8 << 20;
/// Maximum elements of the schema, among them columns that later versions add.
pub(crate) const SCHEMA_MAX: usize = 128;
/// Maximum bytes of a bloom filter.
pub(crate) const FILTER_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a file or a rollup. That leaves room for 32 MiB, the row group that reaches
/// them, bloom filters and the end.
pub(crate) const FILE_BYTES_MAX: u64 = 128 << 20;
/// Maximum bytes of an answer with pending versions.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;
