//! Computes how much each namespace gives up when a cluster exceeds its quota, and which of its
//! events.
//!
//! The *level* is the size to which the largest namespaces are cut, so that together they give the
//! surplus. A namespace at or below the level gives nothing. So whatever others write, a namespace
//! that takes no more than the quota's target divided by the number of namespaces loses nothing.
//!
//! Within a namespace, events whose newest version was observed first go first. Only the archive's
//! clock decides that: the times in events count for nothing.
//!
//! Memory: up to [`NAMESPACES_MAX`] namespaces are counted exactly. If there are more, the smallest
//! may be left out of the count. These give nothing in this step.

use std::collections::HashMap;

use tidings_store::UnixMillis;

/// Maximum namespaces whose space is counted exactly.
pub(in crate::keep) const NAMESPACES_MAX: usize = 10_000;

/// Parts into which a period is divided to find the moment at which it is cut.
const BINS: i64 = 4096;

/// A cut is exact enough if at most one part of this number of the excess is chosen by the order of
/// names instead of time.
const EXACT: u64 = 64;

/// The space that a namespace uses, in bytes of values before compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::keep) struct Usage {
    /// Bytes of its events' records, with the versions in them.
    records: u64,
    /// Number of chunks that its events ever had, including expired ones.
    chunks: u64,
    /// Bytes of the chunks that exist.
    chunk_bytes: u64,
    /// When the first of its events' newest versions was observed.
    oldest: Option<i64>,
}

impl Usage {
    fn bytes(&self) -> u64 {
        self.records.saturating_add(self.chunk_bytes)
    }

    fn less(&mut self, bytes: u64) {
        let of_records = self.records.min(bytes);
        self.records -= of_records;
        self.chunk_bytes = self.chunk_bytes.saturating_sub(bytes - of_records);
    }

    /// Returns about how many bytes are released when an event is deleted.
    pub(in crate::keep) fn of_event(&self, record_len: u64, chunks: u64) -> u64 {
        let of_chunks = u128::from(self.chunk_bytes) * u128::from(chunks.min(self.chunks));
        let of_chunks = of_chunks / u128::from(self.chunks.max(1));
        record_len.saturating_add(u64::try_from(of_chunks).unwrap_or(u64::MAX))
    }
}

/// The space of all namespaces.
#[derive(Debug, Default)]
pub(in crate::keep) struct Usages {
    namespaces: HashMap<String, Usage>,
    max: usize,
}

/// How much a namespace has to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::keep) struct Excess {
    pub(in crate::keep) namespace: String,
    pub(in crate::keep) usage: Usage,
    /// The excess in bytes of values, more than zero.
    pub(in crate::keep) bytes: u64,
}

impl Usages {
    pub(in crate::keep) fn new(max: usize) -> Self {
        Self {
            namespaces: HashMap::new(),
            max: max.max(1),
        }
    }

    /// Counts an event: the length of its record, its chunks, and when its newest version was
    /// observed.
    pub(in crate::keep) fn add_event(
        &mut self,
        namespace: &str,
        len: u64,
        chunks: u64,
        observed_at: i64,
    ) {
        let usage = self.of(namespace);
        usage.records = usage.records.saturating_add(len);
        usage.chunks = usage.chunks.saturating_add(chunks);
        let oldest = usage.oldest.get_or_insert(observed_at);
        *oldest = observed_at.min(*oldest);
    }

    /// Counts a chunk of an event.
    pub(in crate::keep) fn add_chunk(&mut self, namespace: &str, len: u64) {
        let usage = self.of(namespace);
        usage.chunk_bytes = usage.chunk_bytes.saturating_add(len);
    }

    fn of(&mut self, namespace: &str) -> &mut Usage {
        if !self.namespaces.contains_key(namespace) {
            if self.namespaces.len() >= 2 * self.max {
                self.forget_the_least();
            }
            self.namespaces
                .insert(namespace.to_owned(), Usage::default());
        }
        // The entry was inserted above.
        self.namespaces.entry(namespace.to_owned()).or_default()
    }

    /// Reduces the count of each namespace by the same amount, so that the smallest have none. No
    /// namespace counts for more than it uses (the algorithm of Misra and Gries).
    fn forget_the_least(&mut self) {
        let mut sizes: Vec<u64> = self.namespaces.values().map(Usage::bytes).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes.get(self.max).copied().unwrap_or(0);
        self.namespaces.retain(|_, usage| {
            usage.less(least);
            usage.bytes() > 0
        });
        if self.namespaces.len() >= 2 * self.max {
            self.namespaces.clear();
        }
    }

    /// Returns what each namespace has to give up, so that together they give the surplus: those
    /// that use most are cut to one level. The largest comes first.
    pub(in crate::keep) fn excesses(self, surplus: u64) -> Vec<Excess> {
        let sizes = self.namespaces.values().map(Usage::bytes).collect();
        let level = level(sizes, surplus);
        let excesses = self
            .namespaces
            .into_iter()
            .map(|(namespace, usage)| Excess {
                bytes: usage.bytes().saturating_sub(level),
                namespace,
                usage,
            });
        let mut excesses: Vec<_> = excesses.filter(|excess| excess.bytes > 0).collect();
        excesses.sort_unstable_by(|a, b| (b.bytes, &a.namespace).cmp(&(a.bytes, &b.namespace)));
        excesses
    }
}

/// Returns the size to which the largest sizes have to be cut to give a surplus.
pub(super) fn level(mut sizes: Vec<u64>, surplus: u64) -> u64 {
    if surplus == 0 {
        return u64::MAX;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut largest = 0;
    for (number, size) in (1..).zip(&sizes) {
        largest += u128::from(*size);
        let next = sizes.get(number).copied().unwrap_or(0);
        let number = number as u128;
        // If they are cut to the next size, that is enough.
        if largest - number * u128::from(next) >= u128::from(surplus) {
            let left = largest - u128::from(surplus);
            return u64::try_from(left.div_ceil(number)).unwrap_or(u64::MAX);
        }
    }
    0
}

/// The time at which a namespace is cut. Of the events observed from `from` on and before `to`,
/// only some are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keep) struct Cut {
    /// Everything observed before this time is deleted, in milliseconds since 1970.
    pub(in crate::keep) from: i64,
    /// Nothing observed at this time or later is deleted.
    pub(in crate::keep) to: i64,
    /// Number of bytes that are deleted from between the two times.
    pub(in crate::keep) bytes: u64,
    /// Whether another pass would give a narrower cut.
    pub(in crate::keep) is_coarse: bool,
}

impl Cut {
    /// Returns the cut before the first pass: the whole time of the namespace.
    pub(in crate::keep) fn of(excess: &Excess, now: UnixMillis) -> Self {
        let to = now.0.saturating_add(1);
        Self {
            from: excess.usage.oldest.unwrap_or(0).min(now.0),
            to,
            bytes: excess.bytes,
            is_coarse: true,
        }
    }
}

/// Bytes by the time at which they were observed, within a [`Cut`].
pub(in crate::keep) struct Moments {
    cut: Cut,
    width: i64,
    bins: Vec<u64>,
}

impl Moments {
    pub(in crate::keep) fn new(cut: Cut) -> Self {
        let whole = cut.to.saturating_sub(cut.from).max(1);
        let width = whole.saturating_add(BINS - 1) / BINS;
        Self {
            cut,
            width: width.max(1),
            bins: (0..BINS).map(|_| 0).collect(),
        }
    }

    pub(in crate::keep) fn add(&mut self, observed_at: i64, bytes: u64) {
        // What was observed before is deleted in any case.
        if observed_at < self.cut.from || observed_at >= self.cut.to {
            return;
        }
        let bin = observed_at.saturating_sub(self.cut.from) / self.width;
        let bin = usize::try_from(bin).unwrap_or(usize::MAX);
        if let Some(found) = self.bins.get_mut(bin) {
            *found = found.saturating_add(bytes);
        }
    }

    /// Returns the cut within the bin that has the last byte to delete.
    pub(in crate::keep) fn cut(&self) -> Cut {
        let mut left = self.cut.bytes;
        for (number, bytes) in (0..).zip(&self.bins) {
            if *bytes < left {
                left -= bytes;
                continue;
            }
            let from = self.cut.from.saturating_add(number * self.width);
            return Cut {
                from,
                to: from.saturating_add(self.width).min(self.cut.to),
                bytes: left,
                is_coarse: self.width > 1 && *bytes > self.cut.bytes / EXACT,
            };
        }
        // Everything is deleted.
        Cut {
            from: self.cut.to,
            bytes: 0,
            is_coarse: false,
            ..self.cut
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usages(max: usize, sizes: &[(&str, u64)]) -> Usages {
        let mut usages = Usages::new(max);
        for (namespace, bytes) in sizes {
            usages.add_event(namespace, *bytes, 0, 0);
        }
        usages
    }

    fn given(usages: Usages, surplus: u64) -> Vec<(String, u64)> {
        let excesses = usages.excesses(surplus).into_iter();
        excesses
            .map(|excess| (excess.namespace, excess.bytes))
            .collect()
    }

    #[test]
    fn who_takes_most_gives_most_and_who_takes_little_nothing() {
        let sizes = [("storm", 1000), ("shop", 300), ("bank", 100)];
        for (surplus, expected) in [
            (0, &[][..]),
            (100, &[("storm", 100)]),
            (700, &[("storm", 700)]),
            // Both are cut to 200.
            (900, &[("storm", 800), ("shop", 100)]),
            // All are cut to 50.
            (1250, &[("storm", 950), ("shop", 250), ("bank", 50)]),
            (5000, &[("storm", 1000), ("shop", 300), ("bank", 100)]),
        ] {
            let expected: Vec<(String, u64)> = expected
                .iter()
                .map(|(name, bytes)| ((*name).to_owned(), *bytes))
                .collect();
            assert_eq!(given(usages(10, &sizes), surplus), expected, "{surplus}");
        }
    }

    #[test]
    fn of_too_many_namespaces_the_least_give_nothing() {
        let mut usages = usages(2, &[("storm", 1000)]);
        for number in 0..1000 {
            usages.add_event(&format!("tiny-{number}"), 1, 0, 0);
            assert!(usages.namespaces.len() <= 4);
        }
        let given = given(usages, 300);
        assert_eq!(given, [("storm".to_owned(), 300)]);
    }

    #[test]
    fn chunks_are_shared_out_among_the_events_that_have_some() {
        let mut usages = Usages::new(10);
        usages.add_event("shop", 100, 0, 7);
        usages.add_event("shop", 50, 3, 5);
        usages.add_event("shop", 50, 1, 6);
        usages.add_chunk("shop", 2000);
        let [excess] = &usages.excesses(u64::MAX)[..] else {
            panic!("one namespace");
        };
        assert_eq!((excess.bytes, excess.usage.oldest), (2200, Some(5)));
        let found =
            [(100, 0), (50, 3), (50, 1)].map(|(len, chunks)| excess.usage.of_event(len, chunks));
        assert_eq!(found, [100, 1550, 550]);
    }

    proptest! {
        /// Whatever others use, a namespace below its fair share loses nothing.
        #[test]
        fn below_the_fair_share_nothing_is_given(
            sizes in proptest::collection::vec(0..1_000_000_u64, 1..50),
            percent in 0..100_u64,
        ) {
            let total: u64 = sizes.iter().sum();
            let surplus = total * percent / 100;
            let names: Vec<_> = (0..sizes.len()).map(|number| number.to_string()).collect();
            let named: Vec<_> = names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
            let given = given(usages(100, &named), surplus);
            let sum: u64 = given.iter().map(|(_, bytes)| bytes).sum();
            let number = sizes.len() as u64;
            prop_assert!((surplus.saturating_sub(number)..=surplus).contains(&sum));
            let fair = (total - surplus) / number;
            for (name, bytes) in given {
                let size = sizes[name.parse::<usize>().unwrap()];
                prop_assert!(size - bytes >= fair, "{size} - {bytes} of {fair}");
            }
        }

        /// The events that were observed first are deleted, with an error of at most a 64th.
        #[test]
        fn a_cut_leaves_the_newest(
            observed in proptest::collection::vec((0..10_000_000_000_i64, 1..1000_u64), 1..200),
            percent in 1..=100_u64,
        ) {
            let now = UnixMillis(9_000_000_000);
            let observed: Vec<_> = observed.iter().map(|(at, bytes)| (*at.min(&now.0), *bytes)).collect();
            let total: u64 = observed.iter().map(|(_, bytes)| bytes).sum();
            let mut usages = Usages::new(10);
            for (at, bytes) in &observed {
                usages.add_event("shop", *bytes, 0, *at);
            }
            let excess = usages.excesses((total * percent / 100).max(1)).remove(0);
            let mut cut = Cut::of(&excess, now);
            let mut looks = 0;
            while cut.is_coarse {
                let mut moments = Moments::new(cut);
                for (at, bytes) in &observed {
                    moments.add(*at, *bytes);
                }
                cut = moments.cut();
                looks += 1;
            }
            prop_assert!(looks <= 3, "{looks}");
            let before = |moment| observed.iter().filter(|(at, _)| *at < moment).map(|(_, bytes)| bytes).sum::<u64>();
            prop_assert_eq!(before(cut.from) + cut.bytes, excess.bytes);
            prop_assert!(before(cut.to) >= excess.bytes);
        }
    }
}
