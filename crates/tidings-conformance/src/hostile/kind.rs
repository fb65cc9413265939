//! A kind of hostile input, and its usual bounds.

use super::script::{Ask, JSON, Script, event};

/// See the module documentation.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The largest size.
    pub(super) largest: usize,
    /// The sizes, as parts of the largest.
    pub(super) parts: &'static [usize],
    /// Makes the script of a size, in a namespace.
    pub(super) make: fn(usize, &str) -> Script,
    /// Maximum growth of processor time when the size grows four-fold.
    pub(super) growth_max: f64,
    /// Maximum bytes of an answer without an error.
    pub(super) answer_max: u64,
    /// Whether each round has its own server, since events of other rounds would count.
    pub(super) alone: bool,
    /// Maximum resident memory, for kinds that are judged by it alone: requests at once, of which
    /// some may be told to come back.
    pub(super) resident_max: Option<u64>,
    /// Whether it is sent to an archive; the preparation goes to the server that it follows.
    pub(super) archive: bool,
}

const MIB: u64 = 1 << 20;

/// Maximum bytes of an answer without an error: an event of the maximum stored size, whose every
/// byte may be escaped.
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

/// A kind with large events, more than the store has in memory anyway; in a table each is answered
/// twice.
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

/// Small events.
pub(super) fn few(namespace: &str, count: usize) -> impl Iterator<Item = Ask> {
    let namespace = namespace.to_owned();
    (0..count).map(move |number| {
        let body = event(&namespace, &format!("few.{number}"), "", "");
        Ask::create(&namespace, JSON, body)
    })
}
