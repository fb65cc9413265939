//! How much there is in a picture at most.

/// Maximum of marks.
pub(super) const MARKS_MAX: usize = 2000;
/// Maximum of lanes.
pub(super) const LANES_MAX: usize = 300;
