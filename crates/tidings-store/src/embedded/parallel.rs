//! The same work on many items by a few threads: a store of months has hundreds of files to open,
//! and most of the time is waiting.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum threads, including the caller's.
const THREADS: usize = 8;

/// Does the work on each item; the results are in the order of the items.
pub(crate) fn each<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(things.len()));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { return };
            let result = work(thing);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..THREADS.min(things.len()) {
            // With fewer threads it takes longer.
            let _ = thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
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
        }
    }
}
