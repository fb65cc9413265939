//! Bounds of answers.

/// Bytes of events at which a list of them ends, after the one that reaches them.
pub(super) const ITEMS_BYTES_MAX: usize = 1 << 20;
/// Maximum of marks.
pub(super) const MARKS_MAX: usize = 2000;
/// Maximum of lanes.
pub(super) const LANES_MAX: usize = 300;
