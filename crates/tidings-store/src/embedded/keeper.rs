//! Two threads that keep the index in order beside the committer: one writes out what it has in memory and notes how far
//! that reaches, one merges its tables, and gives back space in the log when there is nothing to merge.
//!
//! Invariants: at most one part is set aside at a time, so the index holds at most about two parts in memory; the
//! committer waits, or refuses writes if writing out fails, before there would be more. What failed is tried again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::AbstractTree;

use super::checkpoint::Checkpoint;
use super::index::fault;
use super::keys::NEVER;
use super::rewrite::{self, Failure};
use super::tables::Tables;
use crate::{Fault, Revision};

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
    /// Whose log is gone through for space, and from where.
    rewrite: Option<(Arc<Tables>, Revision)>,
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
            ("tidings-merge", Shared::tidy),
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

    /// Has the log of what never expires gone through for space.
    pub(crate) fn rewrite(&self, tables: &Arc<Tables>) {
        self.shared.state().rewrite = Some((Arc::clone(tables), 0));
        self.shared.changed.notify_all();
    }
}

/// What the second thread does next.
enum Task {
    Merge(Arc<Tables>, bool),
    Rewrite(Arc<Tables>, Revision),
}

impl Task {
    fn of(state: &mut State) -> Option<Self> {
        if let Some((tables, clean)) = state.merge.take() {
            return Some(Self::Merge(tables, clean));
        }
        let (tables, from) = state.rewrite.take()?;
        Some(Self::Rewrite(tables, from))
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

    fn tidy(&self) {
        while let Some(task) = self.next(Task::of) {
            match task {
                Task::Merge(tables, clean) => merge(&tables, clean),
                Task::Rewrite(tables, from) => {
                    if let Some(next) = self.rewrite(&tables, from) {
                        self.state().rewrite = Some((tables, next));
                    }
                }
            }
        }
    }

    /// Goes through one segment; where to go on.
    fn rewrite(&self, tables: &Tables, from: Revision) -> Option<Revision> {
        let pause = |worked| {
            // The other half of the time is for those who wait for the disk.
            let state = self.state();
            let waited = self
                .changed
                .wait_timeout_while(state, worked, |state| !state.closed);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            !state.closed
        };
        match rewrite::step(tables, from, &pause) {
            Ok(Some(next)) => return Some(next),
            Ok(None) => {
                let buckets = tables.buckets();
                let len = buckets.get(&NEVER).map_or(0, |bucket| bucket.log.len());
                tables.upkeep.finished(len, tables.log.segment_len);
            }
            Err(Failure::Nothing(error)) => {
                tracing::error!(%error, "failed to give back space of replaced and deleted records; it is tried again later");
                tables.upkeep.failed(tables.published().state.revision);
            }
            Err(Failure::Unknown(error)) => {
                tracing::error!(
                    %error,
                    "failed to put a shorter file in the place of one of the log; space of replaced and deleted records \
                     is not given back before the store is opened again"
                );
                tables.upkeep.give_up();
            }
        }
        None
    }
}

fn merge(tables: &Tables, clean: bool) {
    let merged = merge_crowded(tables, 0).and_then(|()| {
        if clean {
            let (index, names) = (&tables.index, &tables.index.names);
            names.major_compact(64 << 20, index.watermark())?;
            names.trim(index.watermark())
        } else {
            Ok(())
        }
    });
    complain(tables, merged);
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
            cache: 1 << 20,
            part: 1 << 20,
            segment: 64 << 10,
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
