//! Events that differ in nothing but their message: from the tenth on they are combined into one. client-go's `EventAggregator`.
//!
//! Invariant: a group never holds more members than one less than are combined, so a new member either joins or is combined.
//! A member that is repeated goes on being counted by itself.

use crate::Monotonic;
use crate::cache::{Cache, CacheStats};
use crate::key::Key;

struct Group {
    /// What tells its members apart, sorted.
    members: Vec<Box<str>>,
    last: Monotonic,
}

pub(super) struct Aggregator {
    groups: Cache<Group>,
    events: usize,
    interval_nanos: i64,
}

impl Aggregator {
    pub(super) fn new(
        groups: (usize, usize),
        events: usize,
        interval: std::time::Duration,
    ) -> Self {
        Self {
            groups: Cache::new(groups.0, groups.1),
            events,
            interval_nanos: i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    /// Notes `member` in the group at `key`; whether it is to be combined with others of the group.
    ///
    /// client-go adds the member to a full group and then drops one at random; here the one that makes the group full is the one dropped.
    pub(super) fn is_similar(&mut self, now: Monotonic, key: &Key, member: &str) -> bool {
        let room = self.events.saturating_sub(1);
        if let Some(group) = self.groups.get(key)
            && now.nanos_since(group.last) <= self.interval_nanos
        {
            group.last = now;
            return match group
                .members
                .binary_search_by(|known| (**known).cmp(member))
            {
                Ok(_) => false,
                Err(_) if group.members.len() >= room => true,
                Err(place) => {
                    group.members.insert(place, member.into());
                    self.groups.grew(key, member_size(member));
                    false
                }
            };
        }
        let (members, extra) = if room == 0 {
            (Vec::new(), 0)
        } else {
            (vec![member.into()], member_size(member))
        };
        self.groups
            .put(key.clone(), Group { members, last: now }, extra);
        room == 0
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.groups.stats()
    }
}

fn member_size(member: &str) -> usize {
    size_of::<Box<str>>() + member.len()
}
