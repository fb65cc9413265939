//! Aggregation: similar events, which differ only in their message, are combined into one from the
//! tenth on. client-go's `EventAggregator`.
//!
//! A group accepts members up to one less than the number from which on events are combined. A full
//! group combines every event that is not a member. A repeated member continues to be counted
//! separately.

use std::time::Duration;

use crate::Monotonic;
use crate::cache::{Cache, CacheStats};
use crate::key::Key;

struct Group {
    /// The group's members, sorted by text.
    members: Vec<Member>,
    /// Total bytes of `members`.
    size: usize,
    full: bool,
    last: Monotonic,
}

struct Member {
    /// The text that identifies the member within its group.
    text: Box<str>,
    /// How often client-go would have dropped a random member of the group, perhaps this one, since
    /// this member was last added.
    drops: u32,
}

pub(super) struct Aggregator {
    groups: Cache<Group>,
    /// The number of members of a full group.
    room: usize,
    interval_nanos: i64,
    /// By client-go's rules only: the number of drops after which a member is gone.
    drops_max: Option<u32>,
}

impl Aggregator {
    pub(super) fn new(
        groups: (usize, usize),
        events: usize,
        interval: Duration,
        client_go: bool,
    ) -> Self {
        Self {
            groups: Cache::new(groups.0, groups.1),
            room: events.saturating_sub(1),
            interval_nanos: i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX),
            drops_max: client_go.then(|| drops_survived(events)),
        }
    }

    /// Records `text` in the group at `key`; returns whether the event is to be combined with
    /// others of the group.
    pub(super) fn note(&mut self, now: Monotonic, key: &Key, text: &str) -> bool {
        let Some(group) = self.groups.get(key) else {
            let mut group = Group {
                members: Vec::new(),
                size: 0,
                full: false,
                last: now,
            };
            let similar = group.note(text, self.room, self.drops_max);
            let size = group.size;
            self.groups.put(key.clone(), group, size);
            return similar;
        };
        if now.nanos_since(group.last) > self.interval_nanos {
            group.members.clear();
            group.full = false;
            group.size = 0;
        }
        group.last = now;
        let size_before = group.size;
        let similar = group.note(text, self.room, self.drops_max);
        let size = group.size;
        if size != size_before {
            self.groups.weigh(key, size);
        }
        similar
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.groups.stats()
    }
}

impl Group {
    fn note(&mut self, text: &str, room: usize, drops_max: Option<u32>) -> bool {
        self.full |= self.members.len() >= room;
        let place = self
            .members
            .binary_search_by(|member| (*member.text).cmp(text));
        match place {
            Ok(place) => {
                if let Some(member) = self.members.get_mut(place) {
                    member.drops = 0;
                }
                false
            }
            Err(place) if !self.full => {
                self.insert(place, text);
                false
            }
            Err(place) => {
                if let Some(drops_max) = drops_max {
                    // client-go adds the member nevertheless, and then drops a random one.
                    self.insert(place, text);
                    self.members.retain_mut(|member| {
                        member.drops += 1;
                        let stays = member.drops <= drops_max;
                        if !stays {
                            self.size -= member.size();
                        }
                        stays
                    });
                }
                true
            }
        }
    }

    fn insert(&mut self, place: usize, text: &str) {
        let member = Member {
            text: text.into(),
            drops: 0,
        };
        self.size += member.size();
        self.members.insert(place, member);
    }
}

impl Member {
    fn size(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// How often one of `members` is dropped at random before a given member is more likely gone than
/// not.
fn drops_survived(members: usize) -> u32 {
    let stays = 1. - 1. / members as f64;
    // A given member is gone with probability one half after ln 2 / -ln(stays) drops.
    let drops = (0.5_f64.ln() / stays.ln()).ceil() - 1.;
    drops.clamp(0., f64::from(i32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;

    use super::*;
    use crate::Event;
    use crate::key::{Keys, Projection};

    /// One drop after the computed number, a member is gone with probability above one half.
    #[test]
    fn a_member_stays_for_as_many_drops_as_half_of_them_do() {
        for (members, drops) in [(1, 0), (2, 0), (3, 1), (10, 6), (100, 68)] {
            assert_eq!(drops_survived(members), drops, "{members} members");
        }
    }

    #[test]
    fn a_group_weighs_what_its_members_do() {
        let key = Keys::new(1).key(&Event::from_wire(v1::Event::default()), Projection::SIMILAR);
        let second = Duration::from_secs(1);
        let start = Monotonic::ZERO;
        let later = start.saturating_add(2 * second);
        let member = |text: &str| size_of::<Member>() + text.len();
        // Columns: the text, its time, whether it is combined, and the members afterwards, by our
        // rules and then by client-go's, with groups that combine from the second event on.
        let rows = [
            ("a", start, false, member("a"), false, member("a")),
            ("bc", start, false, member("a") + member("bc"), true, 0),
            ("a", start, false, member("a") + member("bc"), true, 0),
            ("def", start, true, member("a") + member("bc"), true, 0),
            ("def", later, false, member("def"), false, member("def")),
            ("a", later, false, member("def") + member("a"), true, 0),
        ];
        let bounds = (10, usize::MAX);
        let mut ours = Aggregator::new(bounds, 3, second, false);
        let mut theirs = Aggregator::new(bounds, 2, second, true);
        let mut empty = None;
        for (text, now, combined, size, combined_there, size_there) in rows {
            assert_eq!(ours.note(now, &key, text), combined, "{text}");
            let bytes = ours.stats().bytes;
            let empty = *empty.get_or_insert(bytes - size);
            assert_eq!(bytes, empty + size, "{text}");
            assert_eq!(theirs.note(now, &key, text), combined_there, "{text}");
            assert_eq!(theirs.stats().bytes, empty + size_there, "{text}");
        }
    }
}
