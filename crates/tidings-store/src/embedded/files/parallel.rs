//! Does the same work on many items with a few threads.
//!
//! A store of months has hundreds of files to open and dozens of trees to read. Most of the time is
//! waiting for the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

/// Maximum threads that open files, including the caller's.
const THREADS: usize = 8;

/// Maximum helper threads of one read.
const HELPERS_OF_ONE: usize = 15;

/// Maximum helper threads of all concurrent reads of a store.
const HELPERS_MAX: usize = 60;

/// Does the work on each item. The results are in the order of the items.
pub(in crate::embedded) fn each<T: Sync, R: Send>(
    things: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    with_helpers(THREADS - 1, things, work)
}

/// The helper threads that the reads of a store share.
pub(in crate::embedded) struct Helpers {
    free: AtomicUsize,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            free: AtomicUsize::new(HELPERS_MAX),
        }
    }
}

impl Helpers {
    /// Like [`each`], with the caller's thread and the helpers that are free.
    pub(in crate::embedded) fn each<T: Sync, R: Send>(
        &self,
        things: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        let taken = self.take(HELPERS_OF_ONE.min(things.len().saturating_sub(1)));
        with_helpers(taken.count, things, work)
    }

    fn take(&self, wanted: usize) -> Taken<'_> {
        let rest = |free: usize| Some(free.saturating_sub(wanted));
        let free = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        Taken {
            helpers: self,
            count: free.unwrap_or_default().min(wanted),
        }
    }
}

/// Helpers in use by one read, returned when dropped.
struct Taken<'a> {
    helpers: &'a Helpers,
    count: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.helpers.free.fetch_add(self.count, Ordering::Relaxed);
    }
}

fn with_helpers<T: Sync, R: Send>(
    helpers: usize,
    things: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(things.len()));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { return };
            let result = work(thing);
            let mut done = done.lock();
            done.push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers.min(things.len().saturating_sub(1)) {
            // If a thread cannot be started, the work only takes longer.
            let _ = thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 2, 1000_u64] {
            let things: Vec<u64> = (0..count).collect();
            let doubled: Vec<u64> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(each(&things, |thing| thing * 2), doubled);
            assert_eq!(Helpers::default().each(&things, |thing| thing * 2), doubled);
        }
    }

    #[test]
    fn helpers_are_shared_and_come_back() {
        let helpers = Helpers::default();
        let free = || helpers.free.load(Ordering::Relaxed);
        let things = [0; 1000];
        let seen = helpers.each(&things, |_| free());
        assert!(
            seen.iter()
                .all(|free| *free == HELPERS_MAX - HELPERS_OF_ONE)
        );
        assert_eq!(free(), HELPERS_MAX);
        let all: Vec<_> = (0..10)
            .map(|_| helpers.take(HELPERS_OF_ONE).count)
            .collect();
        assert_eq!(
            all, [HELPERS_OF_ONE; 10],
            "each was given back before the next"
        );
        let held: Vec<_> = (0..10).map(|_| helpers.take(HELPERS_OF_ONE)).collect();
        let taken: usize = held.iter().map(|taken| taken.count).sum();
        assert_eq!((taken, free()), (HELPERS_MAX, 0));
        assert_eq!(
            helpers.each(&things, |thing| thing + 1),
            [1; 1000],
            "by the caller alone"
        );
        drop(held);
        assert_eq!(free(), HELPERS_MAX);
    }
}
