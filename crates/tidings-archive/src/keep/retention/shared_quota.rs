//! A quota of bytes that several clusters share.
//!
//! If all clusters together take more, those that take most are cut to one *level*, as namespaces
//! are within a cluster ([`level`]). So a cluster that takes no more than an equal part of the
//! quota loses nothing, whatever the others take. Clusters that are not followed lose nothing; what
//! they take counts up to half of the quota, so that something is left for the others.
//!
//! Invariant: no cluster has a limit before [`SharedQuota::enforce`]. What clusters take is
//! compared only once each of them has been measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::fair_share::level;

/// A quota for all clusters of a process together.
#[derive(Debug)]
pub struct SharedQuota {
    bytes: u64,
    /// The number of clusters that are expected to share it.
    expected: u64,
    clusters: Mutex<Clusters>,
}

#[derive(Debug, Default)]
struct Clusters {
    is_in_force: bool,
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

/// What a cluster takes.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    bytes: u64,
    is_followed: bool,
}

impl SharedQuota {
    /// Makes a quota of this many bytes for about this many clusters. It is not in force yet.
    pub fn new(bytes: u64, clusters: usize) -> Self {
        Self {
            bytes,
            expected: (clusters as u64).max(1),
            clusters: Mutex::default(),
        }
    }

    /// Returns the quota in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns an equal part of the quota, in bytes.
    pub(crate) fn equal_part(&self) -> u64 {
        self.bytes / self.expected
    }

    /// Puts the quota in force, for good: each cluster has been opened, or could not be. Before
    /// that, nothing is deleted for it, since what the others take is not known.
    pub fn enforce(&self) {
        self.clusters().is_in_force = true;
    }

    fn clusters(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock()
    }

    /// Adds a cluster that takes this many bytes. It counts until the returned value is dropped.
    pub(crate) fn join(self: &Arc<Self>, bytes: u64, is_followed: bool) -> Share {
        let mut clusters = self.clusters();
        let number = clusters.next;
        clusters.next += 1;
        clusters.taken.insert(number, Taken { bytes, is_followed });
        drop(clusters);
        Share {
            quota: Arc::clone(self),
            number,
        }
    }
}

/// The part of a cluster in a shared quota.
#[derive(Debug)]
pub(crate) struct Share {
    quota: Arc<SharedQuota>,
    number: u64,
}

impl Share {
    /// Notes what the cluster takes, and returns how much it may take now: what the others leave,
    /// at least an equal part, or the level if all together take too much. `None` if the quota is
    /// not in force yet.
    pub(crate) fn of(&self, bytes: u64) -> Option<u64> {
        let mut clusters = self.quota.clusters();
        if let Some(taken) = clusters.taken.get_mut(&self.number) {
            taken.bytes = bytes;
        }
        if !clusters.is_in_force {
            return None;
        }
        let all = || clusters.taken.values();
        let fixed = all().filter(|taken| !taken.is_followed);
        let fixed: u64 = fixed.map(|taken| taken.bytes).fold(0, u64::saturating_add);
        let quota = self.quota.bytes - fixed.min(self.quota.bytes / 2);
        let followed = all().filter(|taken| taken.is_followed);
        let sizes: Vec<u64> = followed.map(|taken| taken.bytes).collect();
        let sum = sizes.iter().copied().fold(0, u64::saturating_add);
        let left = quota.saturating_sub(sum.saturating_sub(bytes));
        let equal_part = quota / (sizes.len() as u64).max(1);
        Some(match sum.saturating_sub(quota) {
            0 => left.max(equal_part),
            // A cluster below the level may grow to an equal part, and loses nothing.
            surplus => bytes.max(equal_part).min(level(sizes, surplus)),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.quota.clusters().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_clusters_that_take_most_are_cut_and_the_others_grow_into_what_is_left() {
        let quota = Arc::new(SharedQuota::new(900, 2));
        let large = quota.join(0, true);
        // What the others take is not known yet.
        assert_eq!(large.of(70_000), None);
        quota.enforce();
        let of = |share: &Share, bytes| share.of(bytes).unwrap();
        assert_eq!(of(&large, 700), 900);
        let small = quota.join(0, true);
        assert_eq!((of(&small, 100), of(&large, 700)), (450, 800));
        // The large one gives what the small one takes more, down to equal parts.
        assert_eq!((of(&small, 300), of(&large, 700)), (450, 600));
        assert_eq!((of(&small, 600), of(&large, 700)), (450, 450));
        // A retired cluster counts up to half of the quota.
        let retired = quota.join(100, false);
        assert_eq!(of(&large, 700), 400);
        let other = quota.join(5_000, false);
        assert_eq!(of(&large, 700), 225);
        drop((retired, other, small));
        assert_eq!(of(&large, 700), 900);
    }

    proptest! {
        /// Whatever others take, a cluster keeps an equal part, and together they keep the quota.
        #[test]
        fn each_cluster_has_an_equal_part(
            sizes in proptest::collection::vec(0..1_000_000_u64, 1..30),
            bytes in 1..10_000_000_u64,
        ) {
            let quota = Arc::new(SharedQuota::new(bytes, sizes.len()));
            quota.enforce();
            let shares: Vec<_> = sizes.iter().map(|size| quota.join(*size, true)).collect();
            let number = sizes.len() as u64;
            let mut sum = 0;
            for (share, size) in shares.iter().zip(&sizes) {
                let may = share.of(*size).unwrap();
                prop_assert!(may >= bytes / number, "{may} of {bytes} for {number}");
                sum += may.min(*size);
            }
            prop_assert!(sum <= bytes + number, "{sum} of {bytes}");
        }
    }
}
