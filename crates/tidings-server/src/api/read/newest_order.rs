//! The order of [`newest`](super::newest): that of [`Order`], the latest event first, page by page.
//!
//! A store returns records by the milliseconds of their times. Within a second these are not the
//! order of events, so the events of a second are sorted together, and a page that ends within a
//! second says which of its events were returned.
//!
//! Invariant: with the same events, the pages have each event once, whatever their limits. Of a
//! second with more than [`SECOND_MAX`] events, so many at a time are sorted together.

use bytes::Bytes;
use jiff::Timestamp;
use tidings_core::reading::{Order, believed_clock};
use tidings_store::{Place, Record, Revision, UnixMillis};

/// Maximum events of one second that are sorted together.
pub(crate) const SECOND_MAX: usize = 1000;
/// Maximum for [`Within::taken`]; so many keys are read again.
const TAKEN_MAX: usize = 2 * SECOND_MAX;

/// How many events more than wanted the store is asked for, one number after the other, until it is
/// known which events are in the last second of the page.
pub(crate) const MORE: [usize; 3] = [1, 64, SECOND_MAX];

/// The prefix of continue tokens of lists in this order; other tokens have no dot.
const TOKEN: &str = "newest.";

/// Where a page begins: the content of a continue token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The store's records after this place; `None` means all.
    pub(crate) after: Option<Place>,
    /// Which of the first second's events were returned, if some were.
    pub(crate) within: Option<Within>,
}

/// A position within events of a second that are sorted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Within {
    /// Number of these events that were returned.
    pub(crate) taken: usize,
    /// The place of the one that the store has last.
    end: Place,
    /// The one returned last: when it was seen, its revision and its key.
    last: (Seen, Revision, String),
}

impl Within {
    /// The revision of the event that was returned last.
    pub(crate) fn revision(&self) -> Revision {
        self.last.1
    }

    /// The end of the second. What was written into a later one after the last page is no part of
    /// the list.
    pub(crate) fn second_end(&self) -> UnixMillis {
        let second = self.end.last_seen.0.div_euclid(1000);
        UnixMillis(second.saturating_add(1).saturating_mul(1000))
    }
}

impl Beginning {
    /// The beginning after a place of the store.
    pub(crate) fn after(place: Place) -> Self {
        Self {
            after: Some(place),
            within: None,
        }
    }

    /// Reads a continue token; `None` if it is one of another order.
    pub(crate) fn read(token: &str) -> Option<Self> {
        let token = token.strip_prefix(TOKEN)?;
        let mut parts = token.splitn(8, '.');
        let after = (parts.next()?, parts.next()?);
        let after = match after {
            ("", "") => None,
            (last_seen, revision) => Some(place(last_seen, revision)?),
        };
        let Some(taken) = parts.next() else {
            // Tokens had only a place before events of a second were sorted together.
            return after.map(Self::after);
        };
        let taken = taken.parse().ok().filter(|taken| *taken <= TAKEN_MAX)?;
        let end = place(parts.next()?, parts.next()?)?;
        let time = |nanos: &str| match nanos {
            "" => Some(None),
            nanos => Timestamp::from_nanosecond(nanos.parse().ok()?)
                .ok()
                .map(Some),
        };
        // Tokens had no first time before clocks of names were judged by it.
        let seen = parts.next()?;
        let (last_seen, first_seen) = seen.split_once(':').unwrap_or((seen, ""));
        let last = (
            (time(first_seen)?, time(last_seen)?),
            parts.next()?.parse().ok()?,
            parts.next()?.to_owned(),
        );
        let within = Some(Within { taken, end, last });
        Some(Self { after, within })
    }

    /// The continue token.
    pub(crate) fn token(&self) -> String {
        let after = self.after.map_or_else(|| ".".to_owned(), numbers);
        let Some(Within { taken, end, last }) = &self.within else {
            return format!("{TOKEN}{after}");
        };
        let ((first_seen, last_seen), revision, key) = last;
        let last_seen = last_seen.map(|it| it.as_nanosecond().to_string());
        let first_seen = first_seen.map(|it| format!(":{}", it.as_nanosecond()));
        let seen = last_seen.unwrap_or_default() + &first_seen.unwrap_or_default();
        let end = numbers(*end);
        format!("{TOKEN}{after}.{taken}.{end}.{seen}.{revision}.{key}")
    }
}

fn place(last_seen: &str, revision: &str) -> Option<Place> {
    Some(Place {
        last_seen: UnixMillis(last_seen.parse().ok()?),
        revision: revision.parse().ok()?,
    })
}

fn numbers(place: Place) -> String {
    format!("{}.{}", place.last_seen.0, place.revision)
}

/// When an event was first and last seen.
pub(crate) type Seen = (Option<Timestamp>, Option<Timestamp>);

/// An event that the store found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) key: Bytes,
    pub(crate) place: Place,
    /// When it was seen. Without a record, only when it was last seen is known, to the millisecond.
    pub(crate) seen: Seen,
    /// The record, if the store's page has it.
    pub(crate) record: Option<Record>,
}

impl Found {
    fn second(&self) -> i64 {
        self.place.last_seen.0.div_euclid(1000)
    }

    fn order(&self) -> Order<'_> {
        order(self.seen, self.place.revision, &self.key)
    }
}

fn order(seen: Seen, revision: Revision, key: &[u8]) -> Order<'_> {
    let key = str::from_utf8(key).unwrap_or_default();
    let key = key.split_once('/').unwrap_or(("", key));
    Order::new(seen, Some(revision), key)
}

/// Events that a store found, by the seconds in which they are sorted.
#[derive(Debug)]
pub(crate) struct Seconds {
    groups: Vec<Vec<Found>>,
    len: usize,
    from: Beginning,
}

impl Seconds {
    /// Groups events that a store found, in its order, from a beginning on.
    pub(crate) fn of(found: Vec<Found>, from: &Beginning) -> Self {
        let mut from = from.clone();
        // If none of the first events is left, nothing was returned of the others.
        let is_left = |within: &Within| found.first().is_some_and(|it| it.place >= within.end);
        from.within = from.within.filter(is_left);
        let first_end = from.within.as_ref().map(|within| within.end);
        let len = found.len();
        let mut groups: Vec<Vec<Found>> = Vec::new();
        for event in found {
            let is_first = groups.len() == 1;
            let group = groups.last_mut().filter(|group| {
                let is_full = match first_end.filter(|_| is_first) {
                    Some(end) => event.place < end,
                    None => group.len() >= SECOND_MAX,
                };
                let second = group.last().map(Found::second);
                second == Some(event.second()) && !is_full
            });
            match group {
                Some(group) => group.push(event),
                None => groups.push(vec![event]),
            }
        }
        Self { groups, len, from }
    }

    /// Whether the events with which the first `wanted` are sorted are all here. If not, the store
    /// has to be asked for more.
    pub(crate) fn are_whole(&self, wanted: usize) -> bool {
        let last = self.groups.last().map_or(0, Vec::len);
        self.len - last >= wanted || last >= SECOND_MAX
    }

    /// Of the events with which the first `wanted` are sorted: those whose place in their second
    /// depends on a time that is not known exactly. A clock in the name decides if it is near the
    /// time that is known.
    pub(crate) fn inexact(&mut self, wanted: usize) -> impl Iterator<Item = &mut Found> {
        let mut before = 0;
        let groups = self.groups.iter_mut().take_while(move |group| {
            let is_wanted = before < wanted;
            before += group.len();
            is_wanted
        });
        let groups = groups.filter(|group| group.len() > 1);
        groups.flatten().filter(|event| {
            let name = String::from_utf8_lossy(&event.key);
            event.record.is_none() && believed_clock(&name, event.seen).is_none()
        })
    }

    /// The first `limit` events that were not returned before, the latest first, and where the next
    /// page begins. `stopped` is the place up to which the store has looked, if it has more.
    pub(crate) fn page(
        self,
        limit: usize,
        stopped: Option<Place>,
    ) -> (Vec<Found>, Option<Beginning>) {
        let mut events = Vec::with_capacity(self.len.min(limit));
        let mut from = self.from;
        for mut group in self.groups {
            let end = group.last().map(|event| event.place);
            group.sort_by(|one, other| other.order().cmp(&one.order()));
            let len = group.len();
            if let Some(Within { last, .. }) = &from.within {
                let last = order(last.0, last.1, last.2.as_bytes());
                group.retain(|event| event.order() < last);
            }
            let room = limit - events.len();
            if room == 0 && !group.is_empty() {
                return (events, Some(from));
            }
            if group.len() > room {
                let taken = (len - group.len() + room).min(TAKEN_MAX);
                group.truncate(room);
                events.append(&mut group);
                from.within = events.last().zip(end).map(|(last, end)| Within {
                    taken,
                    end,
                    last: (
                        last.seen,
                        last.place.revision,
                        String::from_utf8_lossy(&last.key).into_owned(),
                    ),
                });
                return (events, Some(from));
            }
            events.append(&mut group);
            from = Beginning {
                after: end,
                within: None,
            };
        }
        (events, stopped.map(Beginning::after))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    /// 2023-11-14T22:13:20Z
    const START: i64 = 1_700_000_000;
    const NANOS: i64 = 1_000_000_000;
    const DAY: i64 = 86_400;

    /// An event of one of three seconds. Its name has a clock of this second, of an earlier one or
    /// of days before, or none. Its time is a whole second, or has microseconds. It may have begun
    /// days before.
    fn events() -> impl Strategy<Value = Vec<Found>> {
        let clock = prop_oneof![
            Just(None),
            (0..9i64).prop_map(|micros| Some(micros * 1000)),
            (0..9i64).prop_map(|earlier| Some(-earlier * NANOS)),
            (0..9i64).prop_map(|earlier| Some((-3 * DAY - earlier) * NANOS)),
        ];
        let first = prop_oneof![Just(None), Just(Some(0)), Just(Some(3 * DAY))];
        let nanos = prop_oneof![Just(0), (0..3000i32).prop_map(|micros| micros * 1000)];
        let event = (0..3i64, clock, nanos, first);
        prop::collection::vec(event, 0..40)
            .prop_shuffle()
            .prop_map(|events| {
                let events = events.into_iter().zip(1..);
                let events = events.map(|((second, clock, nanos, first), revision)| {
                    let second = START + second;
                    let suffix = match clock {
                        Some(nanos) => format!("{:016x}", second * NANOS + nanos),
                        None => "created".to_owned(),
                    };
                    let at = Timestamp::new(second, nanos).unwrap();
                    Found {
                        key: format!("shop/web-{}.{suffix}", revision % 7).into(),
                        place: Place {
                            last_seen: UnixMillis(at.as_millisecond()),
                            revision,
                        },
                        seen: (
                            first.map(|before| Timestamp::from_second(second - before).unwrap()),
                            Some(at),
                        ),
                        record: None,
                    }
                });
                events.collect()
            })
    }

    /// All pages after a beginning, of these limits in turn. Each beginning is read from its token.
    fn pages(all: &[Found], limits: &[usize], from: Beginning) -> Vec<Revision> {
        let mut stored = all.to_vec();
        stored.sort_by_key(|event| Reverse(event.place));
        let mut told = Vec::new();
        let mut next = Some(from);
        for limit in limits.iter().cycle() {
            let Some(from) = next else { break };
            let token = from.token();
            let from = match from.after {
                None if from.within.is_none() => from,
                _ => Beginning::read(&token).unwrap(),
            };
            let wanted = limit + from.within.as_ref().map_or(0, |within| within.taken);
            let is_behind = |event: &&Found| from.after.is_none_or(|after| event.place < after);
            let behind: Vec<Found> = stored.iter().filter(is_behind).cloned().collect();
            let (page, beginning) = MORE
                .into_iter()
                .find_map(|more| {
                    let found = behind.get(..wanted + more).unwrap_or(&behind);
                    let place = found.last().map(|event| event.place);
                    let stopped = place.filter(|_| found.len() < behind.len());
                    let seconds = Seconds::of(found.to_vec(), &from);
                    let is_whole = stopped.is_none() || seconds.are_whole(wanted);
                    is_whole.then(|| seconds.page(*limit, stopped))
                })
                .unwrap();
            assert!(page.len() <= *limit && (page.len() == *limit || beginning.is_none()));
            told.extend(page.iter().map(|event| event.place.revision));
            next = beginning;
        }
        told
    }

    fn sorted<'a>(events: impl Iterator<Item = &'a Found>) -> Vec<Revision> {
        let mut events: Vec<_> = events.collect();
        events.sort_by_key(|event| Reverse(event.order()));
        events.iter().map(|event| event.place.revision).collect()
    }

    proptest! {
        /// However the pages are cut, and after a place that a token of before names.
        #[test]
        fn pages_are_the_order_of_events_backwards(
            all in events(),
            limits in prop::collection::vec(1..9usize, 1..4),
            after in any::<prop::sample::Index>(),
        ) {
            let told = pages(&all, &limits, Beginning::default());
            prop_assert_eq!(told, sorted(all.iter()));
            if !all.is_empty() {
                let after = after.get(&all).place;
                let token = format!("newest.{}.{}", after.last_seen.0, after.revision);
                let told = pages(&all, &limits, Beginning::read(&token).unwrap());
                let is_behind = |event: &&Found| event.place < after;
                prop_assert_eq!(told, sorted(all.iter().filter(is_behind)));
            }
        }
    }

    /// Each event is there once, and whole parts are in order.
    #[test]
    fn a_second_with_very_many_events_is_sorted_in_parts() {
        let found = |number: u64| Found {
            // The earlier clock has the later revision.
            key: format!("shop/web.{:016x}", START as u64 * NANOS as u64 - number).into(),
            place: Place {
                last_seen: UnixMillis(START * 1000),
                revision: number,
            },
            seen: (None, Timestamp::from_second(START).ok()),
            record: None,
        };
        let all: Vec<Found> = (1..=2500).map(found).collect();
        let parts = [1501..=2500, 501..=1500, 1..=500];
        let expected: Vec<Revision> = parts.into_iter().flatten().collect();
        for limits in [vec![500], vec![7, 300]] {
            let told = pages(&all, &limits, Beginning::default());
            assert_eq!(told, expected, "{limits:?}");
        }
    }

    #[test]
    fn tokens_that_cannot_be_read() {
        for token in [
            "newest",
            "newest.",
            "newest..",
            "newest.1",
            "newest.1.x",
            "newest.1.2.3",
            "newest.1.2.3.4.5.6.7",
            "newest.1.2.2001.4.5.6.7.shop/web",
            "newest.1.2.3.4.5.99999999999999999999999999999999999999999.7.shop/web",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
        ] {
            assert_eq!(Beginning::read(token), None, "{token}");
        }
        for token in [
            "newest.1.2.3.4.5.-6.7.shop/web.a.b",
            "newest.1.2.3.4.5.-6:-9.7.shop/web.a.b",
            "newest...3.4.5..7.shop/web",
        ] {
            assert_eq!(Beginning::read(token).unwrap().token(), token);
        }
    }
}
