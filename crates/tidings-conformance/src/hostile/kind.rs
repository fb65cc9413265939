//! A kind of hostile input, and the usual bounds of kinds.

use super::script::{Ask, JSON, Script, event};

/// A kind of hostile input, with its sizes and bounds.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The largest size.
    pub(super) largest: usize,
    /// The sizes that are sent, as parts of the largest.
    pub(super) parts: &'static [usize],
    /// Makes the script for a size, in a new namespace.
    pub(super) make: fn(usize, &str) -> Script,
    /// Maximum factor by which processor time grows when the size grows four-fold.
    pub(super) growth_max: f64,
    /// Maximum bytes of an answer without an error.
    pub(super) answer_max: u64,
    /// Whether each round needs a server of its own, since events of other rounds would be counted
    /// too.
    pub(super) alone: bool,
    /// Maximum resident memory. Only kinds of many requests at once have it: these are judged by
    /// this bound alone, and some of the requests may be told to come back later.
    pub(super) resident_max: Option<u64>,
    /// Whether the hostile requests are sent to an archive. The events that they need are first
    /// written to the server that the archive follows.
    pub(super) archive: bool,
}

const MIB: u64 = 1 << 20;

/// Maximum bytes of an answer without an error: one event of the maximum stored size, with every
/// byte escaped.
const ANSWER_MAX: u64 = 10 * MIB;

pub(super) const fn kind(
    name: &'static str,
    largest: usize,
    make: fn(usize, &str) -> Script,
) -> Kind {
    Kind {
        name,
        largest,
        parts: &[64, 16, 4, 1],
        make,
        growth_max: 6.0,
        answer_max: ANSWER_MAX,
        alone: false,
        resident_max: None,
        archive: false,
    }
}

/// Makes a kind whose events are larger than what the store caches anyway. A table answers each of
/// them twice.
pub(super) const fn large(
    name: &'static str,
    largest: usize,
    make: fn(usize, &str) -> Script,
) -> Kind {
    Kind {
        parts: &[2, 1],
        answer_max: 160 * MIB,
        ..kind(name, largest, make)
    }
}

/// Requests that create small events.
pub(super) fn few(namespace: &str, count: usize) -> impl Iterator<Item = Ask> {
    let namespace = namespace.to_owned();
    (0..count).map(move |number| {
        let body = event(&namespace, &format!("few.{number}"), "", "");
        Ask::create(&namespace, JSON, body)
    })
}
