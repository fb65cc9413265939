//! What a repeat changes in the stored event: a strategic merge patch with absolute values, so that a later one makes an earlier one needless.
//!
//! client-go makes it by comparing the event with a copy of it whose count is 0, whose message is empty and whose last timestamp is the Unix
//! epoch (`eventLogger.eventObserve`); what follows from that for odd events is in [`client_go`].

use crate::Occurrence;
use crate::wire_json::{Precision, object, set};

/// The patch that client-go sends: count, last timestamp and message, each only where it differs from 0, the epoch and nothing.
pub(crate) fn client_go(occurrence: &Occurrence) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + occurrence.message().len());
    object(&mut out, |o| {
        o.number("count", occurrence.count().into());
        let last = occurrence.last_timestamp();
        // Compared as written, in whole seconds.
        let at_epoch = last.is_some_and(|last| last.as_nanosecond().div_euclid(1_000_000_000) == 0);
        if !at_epoch {
            o.time("lastTimestamp", last, Precision::Seconds);
        }
        o.optional("message", Some(occurrence.message()));
        // Comparing sorts the one side's finalizers and not the other's, and so finds a new order in any that were not sorted.
        let finalizers = occurrence.event().finalizers();
        if !finalizers.is_sorted() {
            o.object("metadata", |o| {
                o.strings("$setElementOrder/finalizers", finalizers);
            });
        }
    });
    out
}

/// The same, but a time that is not set changes nothing, and annotations and labels that differ from the stored ones come along.
pub(crate) fn mended(occurrence: &Occurrence) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + occurrence.message().len());
    object(&mut out, |o| {
        o.number("count", occurrence.count().into());
        if let Some(last) = occurrence.last_timestamp().and_then(set) {
            o.time("lastTimestamp", Some(last), Precision::Seconds);
        }
        o.optional("message", Some(occurrence.message()));
        if let Some((annotations, labels)) = occurrence.changed_metadata() {
            o.object("metadata", |o| {
                o.map("annotations", annotations);
                o.map("labels", labels);
            });
        }
    });
    out
}
