//! Names of events: valid for the API server, and unique within a process, whatever the clock does.
//!
//! client-go names an event `<object>.<nanoseconds in hexadecimal>`
//! (`tools/record/util.GenerateEventName`). So two events about one object at one reading of the
//! clock share a name, and the second is lost. Here a stamp is the clock's reading or, if that is
//! not later than the last stamp, the last stamp plus one.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use crate::Reference;

/// Makes the stamps in event names. Stamps increase, so none is used twice. All code in a process
/// that makes events shares one value.
#[derive(Debug)]
pub struct NameStamps {
    last: AtomicU64,
    seed: u64,
}

impl NameStamps {
    /// Stamps whose fallback names (see [`EventName`]) are made from `seed`. The seed should differ
    /// between processes.
    pub const fn new(seed: u64) -> Self {
        Self {
            last: AtomicU64::new(0),
            seed,
        }
    }

    /// The seed given to [`NameStamps::new`].
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next stamp: nanoseconds since the Unix epoch at `at`. If the clock stands still or
    /// stepped back, it is the last stamp plus one.
    pub fn next(&self, at: Timestamp) -> u64 {
        let nanoseconds = u64::try_from(at.as_nanosecond()).unwrap_or(0);
        // Relaxed is enough: only the uniqueness of the number matters, and nothing else is
        // published with it.
        let previous = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(if nanoseconds > last {
                    nanoseconds
                } else {
                    last.saturating_add(1)
                })
            });
        match previous {
            Ok(last) | Err(last) if nanoseconds > last => nanoseconds,
            Ok(last) | Err(last) => last.saturating_add(1),
        }
    }

    /// A name for an event about `regarding` that is made at `at`.
    pub fn name(&self, regarding: &Reference, at: Timestamp) -> EventName {
        let stamp = self.next(at);
        if regarding.is_nameable() {
            EventName::Stamped(stamp)
        } else {
            EventName::Uuid(uuid(self.seed, stamp).to_be_bytes())
        }
    }
}

/// An event's name, kept in parts until the text is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventName {
    /// The name `<object name>.<stamp in hexadecimal>`.
    Stamped(u64),
    /// A UUID, for an object whose name cannot be part of a valid event name. Such a name has upper
    /// case or `:`, is too long, or is empty.
    Uuid([u8; 16]),
    /// A name given by the caller.
    Given(Box<str>),
}

impl EventName {
    /// The text of the name, for an event about `regarding`.
    pub fn text<'a>(&'a self, regarding: &Reference) -> Cow<'a, str> {
        match self {
            Self::Stamped(stamp) => Cow::Owned(stamped(regarding.name(), *stamp)),
            Self::Uuid(bytes) => Cow::Owned(uuid_text(u128::from_be_bytes(*bytes))),
            Self::Given(name) => Cow::Borrowed(name),
        }
    }

    pub(crate) fn heap_size(&self) -> usize {
        match self {
            Self::Given(name) => name.len(),
            Self::Stamped(_) | Self::Uuid(_) => 0,
        }
    }
}

/// `<object name>.<stamp in hexadecimal>`, whether or not that is a valid name.
fn stamped(object_name: &str, stamp: u64) -> String {
    let mut name = String::with_capacity(object_name.len() + 17);
    name.push_str(object_name);
    // Writing to a string cannot fail.
    let _ = write!(name, ".{stamp:x}");
    name
}

/// The name that client-go gives to a combined event at `at`, whether or not it is valid. Before
/// 1970 the number has a sign; outside 1678 to 2262 it wraps.
pub(crate) fn client_go_combined_name(object_name: &str, at: Timestamp) -> EventName {
    let nanoseconds = at.as_nanosecond() as i64;
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let magnitude = nanoseconds.unsigned_abs();
    EventName::Given(format!("{object_name}.{sign}{magnitude:x}").into())
}

/// A UUID that differs for every stamp of one seed, because all of the stamp's bits are in it. Its
/// version is 8: custom.
fn uuid(seed: u64, stamp: u64) -> u128 {
    // There are 122 free bits: 58 of the seed, and 64 of the stamp, which a bijection spreads so
    // that neighbours look nothing alike.
    let spread = spread(stamp ^ seed);
    let high = (seed & !0xf000) | 0x8000;
    let low = (spread >> 2) | 0x8000_0000_0000_0000;
    // The variant displaces two bits of `spread`. They take the place of the seed's lowest two.
    let high = (high & !0x3) | (spread & 0x3);
    (u128::from(high) << 64) | u128::from(low)
}

/// A bijection on 64 bits (the finalizer of splitmix64).
const fn spread(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn uuid_text(value: u128) -> String {
    let hex = format!("{value:032x}");
    let mut text = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ReferenceFields;
    use crate::validate::is_dns1123_subdomain;

    fn named(name: &str) -> Reference {
        Reference::new(ReferenceFields {
            name,
            ..Default::default()
        })
    }

    fn name_at(object_name: &str, nanoseconds: i128) -> String {
        let at = Timestamp::from_nanosecond(nanoseconds).unwrap();
        let regarding = named(object_name);
        NameStamps::new(7)
            .name(&regarding, at)
            .text(&regarding)
            .into_owned()
    }

    /// client-go `tools/record/util` TestGenerateEventName.
    #[test]
    fn valid_names_are_made_of_the_object_and_the_time() {
        assert_eq!(
            name_at("test-pod", 105_999_103_295_324_396),
            "test-pod.178959f726d80ec"
        );
        let too_long = "a".repeat(NAMEABLE + 1);
        for invalid in [
            &too_long,
            "Upper",
            "2001:db8::123",
            "under_score",
            "-start",
            "",
            "end-",
            "a..b",
        ] {
            let name = name_at(invalid, 105_999_103_295_324_396);
            assert!(is_dns1123_subdomain(&name), "{name}");
            assert_eq!(name.len(), 36, "{name}");
        }
        assert!(
            name_at(&"a".repeat(NAMEABLE), 1_700_000_000_000_000_000)
                .ends_with(".17979cfe362a0000")
        );
    }

    const NAMEABLE: usize = 236;

    /// Names as Go's `fmt.Sprintf("%v.%x", name, now.UnixNano())` makes them.
    #[test]
    fn combined_events_are_named_as_client_go_names_them() {
        let rows = [
            (105_999_103_295_324_396, "p.178959f726d80ec"),
            (0, "p.0"),
            (-1, "p.-1"),
            (-255, "p.-ff"),
            // After 2262 the number wraps.
            (i128::from(i64::MAX) + 1, "p.-8000000000000000"),
        ];
        for (nanoseconds, expected) in rows {
            let at = Timestamp::from_nanosecond(nanoseconds).unwrap();
            assert_eq!(client_go_combined_name("p", at).text(&named("")), expected);
        }
    }

    /// A UUID has all bits of the stamp, and all of the seed except the displaced ones.
    #[test]
    fn fallback_names_differ_in_every_bit_of_stamp_and_seed() {
        let text = |seed, stamp| uuid_text(uuid(seed, stamp));
        let mut seen = std::collections::HashSet::from([text(7, 7)]);
        assert!((0..64).all(|bit| seen.insert(text(7, 7 ^ (1 << bit)))));
        let displaced = |bit: &u32| matches!(bit, 0 | 1 | 12..=15);
        let kept = (0..64).filter(|bit| !displaced(bit));
        // The spread part is the same, so only the seed makes them differ.
        for bit in kept {
            assert!(
                seen.insert(text(7 ^ (1 << bit), 7 ^ (1 << bit))),
                "bit {bit}"
            );
        }
        // The version replaces the seed's bits in its place.
        seen.insert(text(0xf007, 7));
        for name in &seen {
            let digits: Vec<_> = name.split('-').map(str::len).collect();
            assert_eq!(digits, [8, 4, 4, 4, 12]);
            assert_eq!(name.get(14..15), Some("8"), "its version, of {name}");
            let variant = name.get(19..20).unwrap_or_default();
            assert!(["8", "9", "a", "b"].contains(&variant), "{name}");
        }
        assert_eq!(NameStamps::new(7).seed(), 7);
    }

    #[test]
    fn a_name_given_from_outside_takes_memory() {
        let sizes = [
            EventName::Given("given".into()),
            EventName::Stamped(7),
            EventName::Uuid([1; 16]),
        ]
        .map(|name| name.heap_size());
        assert_eq!(sizes, [5, 0, 0]);
    }

    proptest! {
        #[test]
        fn names_are_valid_and_differ_however_the_clock_moves(
            object_name in "\\PC{0,260}|[a-z0-9.-]{1,250}",
            readings in prop::collection::vec(-5_i64..5_000_000_000_000_000_000, 1..200),
        ) {
            let regarding = named(&object_name);
            let stamps = NameStamps::new(1);
            let mut seen = std::collections::HashSet::new();
            for reading in readings {
                for _ in 0..2 {
                    let at = Timestamp::from_nanosecond(i128::from(reading)).unwrap();
                    let name = stamps.name(&regarding, at).text(&regarding).into_owned();
                    prop_assert!(is_dns1123_subdomain(&name), "{}", name);
                    prop_assert!(seen.insert(name));
                }
            }
        }
    }
}
