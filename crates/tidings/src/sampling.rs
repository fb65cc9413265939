//! Sampling of frequent log messages.

/// Whether a counter that increases from `before` by `more` passes a power of two, which is when
/// frequent messages are logged.
pub(crate) fn is_sampled(before: u64, more: u64) -> bool {
    before.checked_ilog2() != before.saturating_add(more).checked_ilog2()
}
