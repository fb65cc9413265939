//! Which of many like messages are logged.

/// Whether a counter that goes from `before` up by `more` passes a power of two: what is logged of
/// something that may happen very often.
pub(crate) fn is_sampled(before: u64, more: u64) -> bool {
    before.checked_ilog2() != before.saturating_add(more).checked_ilog2()
}
