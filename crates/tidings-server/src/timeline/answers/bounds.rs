//! Bounds of the answers' sizes.

/// Bytes of stored events at which a list of them ends. The event that reaches the bound is
/// included.
pub(super) const ITEMS_BYTES_MAX: usize = 1 << 20;
/// Maximum marks in a view.
pub(super) const MARKS_MAX: usize = 2000;
/// Maximum lanes in a view.
pub(super) const LANES_MAX: usize = 300;
