//! Two threads that keep the index in order beside the committer: one writes out what it has in memory and notes how far
//! that reaches, one merges its tables.
//!
//! Invariants: at most one part is set aside at a time, so the index holds at most about two parts in memory; the
//! committer waits, or refuses writes if writing out fails, before there would be more. What failed is tried again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::AbstractTree;

use super::checkpoint::Checkpoint;
use super::index::fault;
use super::tables::Tables;
use crate::Fault;

/// Tables side by side in one tree above which nothing is written out before they are merged.
const TABLES_MAX: usize = 32;

/// How long after a failure it is tried again: twice as long each time, up to a limit.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    /// What was set aside and is not yet written out.
    part: Option<(Arc<Tables>, Checkpoint)>,
    /// Why writing it out failed last.
    failed: Option<Fault>,
    /// Whose tables are to be looked at, and whether the names are to be gone through whole.
    merge: Option<(Arc<Tables>, bool)>,
    closed: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("a thread that keeps the index has ended; the store must be opened anew")]
struct Ended;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// See the module documentation.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut keeper = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for (name, run) in [
            ("tidings-index", Shared::write_out as fn(&Shared)),
            ("tidings-merge", Shared::merge),
        ] {
            let shared = Arc::clone(&keeper.shared);
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    let ending = Ending(&shared);
                    run(&shared);
                    drop(ending);
                });
            keeper.threads.push(thread?);
        }
        Ok(keeper)
    }

    /// Sets the index's memory aside to be written out, unless some of it still is; to be called between two commits.
    pub(crate) fn set_aside(&self, tables: &Arc<Tables>) {
        let mut state = self.shared.state();
        if state.part.is_none() {
            state.part = Some((Arc::clone(tables), tables.set_aside()));
            self.shared.changed.notify_all();
        }
    }

    /// Waits a little for what was set aside to be written out; whether there is room for more, or why not.
    pub(crate) fn wait(&self) -> Result<bool, Fault> {
        let state = self.shared.state();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, RETRY, |state| {
                state.part.is_some() && state.failed.is_none() && !state.closed
            });
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&state.part, &state.failed) {
            (Some(_), Some(fault)) => Err(fault.clone()),
            (Some(_), None) if state.closed => Err(Fault::Storage(Arc::new(Ended))),
            (part, _) => Ok(part.is_none()),
        }
    }

    /// Has the names gone through, to be rid of those that were swept.
    pub(crate) fn clean_names(&self, tables: &Arc<Tables>) {
        self.shared.state().merge = Some((Arc::clone(tables), true));
        self.shared.changed.notify_all();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do, `None` when it is over.
    fn next<T>(&self, find: impl Fn(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(found) = find(&mut state) {
                return Some(found);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write_out(&self) {
        let mut wait = RETRY;
        while let Some((tables, checkpoint)) = self.next(|state| state.part.clone()) {
            let written = tables.write_out(&checkpoint);
            if written.is_ok() {
                // Whatever comes of it: what was set aside is written out.
                complain(&tables, merge_crowded(&tables, TABLES_MAX));
            }
            let mut state = self.state();
            match written {
                Ok(()) => {
                    wait = RETRY;
                    state.failed = None;
                    state.part = None;
                    let clean = state.merge.take().is_some_and(|(_, clean)| clean);
                    state.merge = Some((tables, clean));
                }
                Err(error) => {
                    tables.index.distrust(&error);
                    let error = fault(error);
                    if state.failed.is_none() {
                        tracing::error!(%error, "failed to write out the index; it is tried again");
                    }
                    state.failed = Some(error);
                }
            }
            self.changed.notify_all();
            if state.failed.is_some() {
                let waited = self
                    .changed
                    .wait_timeout_while(state, wait, |state| !state.closed);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                wait = RETRY_MAX.min(wait * 2);
            }
        }
    }

    fn merge(&self) {
        while let Some((tables, clean)) = self.next(|state| state.merge.take()) {
            let merged = merge_crowded(&tables, 0).and_then(|()| {
                if clean {
                    let (index, names) = (&tables.index, &tables.index.names);
                    names.major_compact(64 << 20, index.watermark())?;
                    names.trim(index.watermark())
                } else {
                    Ok(())
                }
            });
            complain(&tables, merged);
        }
    }
}

fn complain(tables: &Tables, merged: Result<(), lsm_tree::Error>) {
    if let Err(error) = merged {
        tracing::error!(%error, "failed to merge tables of the index; it is tried again later");
        tables.index.distrust(&error);
    }
}

/// Ends both threads when one does, be it by a panic, so that nobody waits for what will not be done.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_all();
    }
}

/// Merges tables of trees that have more than so many side by side, and more than they should.
fn merge_crowded(tables: &Tables, more_than: usize) -> Result<(), lsm_tree::Error> {
    let buckets = tables.buckets();
    let trees = buckets
        .values()
        .map(|bucket| &bucket.index)
        .chain([&tables.index.names]);
    for tree in trees {
        // Each turn merges some; a tree whose tables are in another thread's hands makes none.
        let mut before = usize::MAX;
        while tree.is_crowded() && tree.l0_run_count() > more_than && tree.l0_run_count() < before {
            before = tree.l0_run_count();
            tree.merge(tables.index.watermark())?;
            tree.trim(tables.index.watermark())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{codec::Codec, dictionaries, index::Sizes};

    #[test]
    fn nobody_waits_for_a_thread_that_panicked() {
        let folder = tempfile::tempdir().unwrap();
        let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
        let sizes = Sizes {
            cache_bytes: 1 << 20,
            part_bytes: 1 << 20,
        };
        let tables = Arc::new(Tables::open(folder.path(), sizes, &codec).unwrap());
        let keeper = Keeper {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        keeper.set_aside(&tables);
        assert!(!keeper.wait().unwrap());
        let shared = Arc::clone(&keeper.shared);
        let thread = std::thread::spawn(move || {
            let _ending = Ending(&shared);
            panic!("as a bug would");
        });
        assert!(thread.join().is_err());
        assert!(keeper.wait().is_err());
    }
}
