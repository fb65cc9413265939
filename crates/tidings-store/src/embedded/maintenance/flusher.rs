//! Two threads that maintain the index beside the committer.
//!
//! One flushes memtables and writes checkpoints. The other merges tables, and releases space in the
//! log when there is nothing to merge.
//!
//! Invariants: at most one memtable is frozen at a time, so the index has at most about two
//! memtables in memory. Before there would be more, the committer waits, or refuses writes if
//! flushing fails. Failed work is repeated.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::AbstractTree;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::rewrite::{self, Failure, Pass, Place};
use super::trainer;
use crate::Fault;
use crate::embedded::engine::{Aside, Engine};
use crate::embedded::index::{TABLES_MAX, fault};

/// Delay before failed work is repeated. It doubles each time up to the maximum.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    /// The frozen memtable that is not flushed yet.
    memtable: Option<(Arc<Engine>, Aside)>,
    /// The last error of flushing the frozen memtable.
    failed: Option<Fault>,
    /// Work for the merging thread: the store whose trees to examine, and whether to compact all
    /// names.
    merge: Option<(Arc<Engine>, bool)>,
    /// The pass that releases space in the log, and its position.
    rewrite: Option<(Arc<Engine>, Pass, Place)>,
    closed: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("a thread that maintains the index has ended; the store must be opened again")]
struct Ended;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The two threads; see the module documentation.
pub(in crate::embedded) struct Flusher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Flusher {
    pub(in crate::embedded) fn start() -> std::io::Result<Self> {
        let mut flusher = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for (name, run) in [
            ("tidings-index", Shared::flush as fn(&Shared)),
            ("tidings-merge", Shared::tidy),
        ] {
            let shared = Arc::clone(&flusher.shared);
            let span = tracing::Span::current();
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    let _logged = span.enter();
                    let ending = Ending(&shared);
                    run(&shared);
                    drop(ending);
                });
            flusher.threads.push(thread?);
        }
        Ok(flusher)
    }

    /// Freezes the current memtable for flushing and starts a new one. Does nothing while an
    /// earlier memtable is still being flushed. Call it between two commits.
    pub(in crate::embedded) fn set_aside(&self, engine: &Arc<Engine>) {
        let mut state = self.shared.state.lock();
        if state.memtable.is_none() {
            state.memtable = Some((Arc::clone(engine), engine.set_aside()));
            self.shared.changed.notify_all();
        }
    }

    /// Waits briefly for the frozen memtable to be flushed. Returns whether there is room for
    /// another one, or the error of flushing.
    pub(in crate::embedded) fn wait(&self) -> Result<bool, Fault> {
        let mut state = self.shared.state.lock();
        self.shared.wait(&mut state, RETRY, |state| {
            state.memtable.is_some() && state.failed.is_none()
        });
        match (&state.memtable, &state.failed) {
            (Some(_), Some(fault)) => Err(fault.clone()),
            (Some(_), None) if state.closed => Err(Fault::Storage(Arc::new(Ended))),
            (memtable, _) => Ok(memtable.is_none()),
        }
    }

    /// Starts a compaction of all names, to remove swept ones.
    pub(in crate::embedded) fn clean_names(&self, engine: &Arc<Engine>) {
        self.shared.state.lock().merge = Some((Arc::clone(engine), true));
        self.shared.changed.notify_all();
    }

    /// Starts a pass that releases space in the log.
    pub(in crate::embedded) fn rewrite(&self, engine: &Arc<Engine>, pass: Pass) {
        let begin = Place::default();
        self.shared.state.lock().rewrite = Some((Arc::clone(engine), pass, begin));
        self.shared.changed.notify_all();
    }
}

/// The next task of the merging thread.
enum Task {
    Merge(Arc<Engine>, bool),
    Rewrite(Arc<Engine>, Pass, Place),
}

impl Task {
    fn of(state: &mut State) -> Option<Self> {
        if let Some((engine, clean)) = state.merge.take() {
            return Some(Self::Merge(engine, clean));
        }
        let (engine, pass, from) = state.rewrite.take()?;
        Some(Self::Rewrite(engine, pass, from))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Shared {
    /// Waits up to `at_most` while a condition holds and the threads are not stopped.
    fn wait(
        &self,
        state: &mut MutexGuard<'_, State>,
        at_most: Duration,
        is_waiting: impl Fn(&State) -> bool,
    ) {
        let is_waiting = |state: &mut State| !state.closed && is_waiting(state);
        self.changed.wait_while_for(state, is_waiting, at_most);
    }

    /// Waits for work; `None` when the threads are stopped.
    fn next<T>(&self, find: impl Fn(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(found) = find(&mut state) {
                return Some(found);
            }
            self.changed.wait(&mut state);
        }
    }

    fn flush(&self) {
        let mut wait = RETRY;
        while let Some((engine, aside)) = self.next(|state| state.memtable.clone()) {
            let written = engine.flush(&aside);
            if written.is_ok() {
                // An error of the merge does not matter here: the memtable is flushed.
                complain(&engine, merge_crowded(&engine, TABLES_MAX));
            }
            let mut state = self.state.lock();
            match written {
                Ok(()) => {
                    wait = RETRY;
                    state.failed = None;
                    state.memtable = None;
                    let clean = state.merge.take().is_some_and(|(_, clean)| clean);
                    state.merge = Some((engine, clean));
                }
                Err(error) => {
                    engine.index.distrust(&error);
                    let error = fault(error);
                    if state.failed.is_none() {
                        tracing::error!(%error, "failed to flush the index; this is tried again");
                    }
                    state.failed = Some(error);
                }
            }
            self.changed.notify_all();
            if state.failed.is_some() {
                self.wait(&mut state, wait, |_| true);
                wait = RETRY_MAX.min(wait * 2);
            }
        }
    }

    fn tidy(&self) {
        while let Some(task) = self.next(Task::of) {
            match task {
                Task::Merge(engine, clean) => {
                    let _tidying = engine.index.tidying();
                    merge(&engine, clean);
                }
                Task::Rewrite(engine, pass, from) => {
                    let tidying = engine.index.tidying();
                    let next = self.rewrite(&engine, &pass, from);
                    drop(tidying);
                    if let Some(next) = next {
                        self.state.lock().rewrite = Some((engine, pass, next));
                    }
                }
            }
        }
    }

    /// Examines one segment of the log. Returns the position to continue from.
    fn rewrite(&self, engine: &Engine, pass: &Pass, from: Place) -> Option<Place> {
        let pause = |worked| {
            // Pausing for as long as it worked leaves half of the time to others that wait for the
            // disk.
            let mut state = self.state.lock();
            self.wait(&mut state, worked, |_| true);
            !state.closed
        };
        match rewrite::step(engine, pass, from, &pause) {
            Ok(Some(next)) => return Some(next),
            Ok(None) if from.is_incomplete => engine.upkeep.failed(&engine.published().state),
            Ok(None) => {
                let len = engine.len_behind(pass.spared);
                engine.upkeep.finished(len, engine.log.segment_len);
            }
            Err(Failure::Nothing(error)) => {
                tracing::error!(%error, "failed to release space of replaced and deleted records; this is tried again later");
                engine.upkeep.failed(&engine.published().state);
            }
            Err(Failure::Unknown(error)) => {
                tracing::error!(
                    %error,
                    "failed to put a shorter file in the place of one of the log; space of replaced and deleted records \
                     is not given back before the store is opened again"
                );
                engine.upkeep.give_up();
            }
        }
        None
    }
}

fn merge(engine: &Engine, clean: bool) {
    let merged = merge_crowded(engine, 0).and_then(|()| {
        if clean {
            engine.index.names.merge_all(engine.index.watermark())
        } else {
            Ok(())
        }
    });
    complain(engine, merged);
}

fn complain(engine: &Engine, merged: Result<(), lsm_tree::Error>) {
    if let Err(error) = merged {
        tracing::error!(%error, "failed to merge tables of the index; this is tried again later");
        engine.index.distrust(&error);
    }
}

/// Guard that ends both threads when one of them ends, even by a panic, so that no caller waits for
/// ever.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// Merges tables of crowded trees that have more than `more_than` runs.
fn merge_crowded(engine: &Engine, more_than: usize) -> Result<(), lsm_tree::Error> {
    let buckets = engine.buckets();
    let trees = buckets
        .values()
        .map(|bucket| &bucket.index)
        .chain([&engine.index.names]);
    for tree in trees {
        // Each turn merges some tables. A tree whose tables another thread merges is skipped.
        let mut before = usize::MAX;
        while tree.is_crowded() && tree.l0_run_count() > more_than && tree.l0_run_count() < before {
            before = tree.l0_run_count();
            // A merge that writers wait for must not wait for the training of a dictionary.
            let _pause = (more_than == 0).then(trainer::pause);
            tree.merge(engine.index.watermark())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::embedded::codec::{Codec, dictionaries};
    use crate::embedded::files::INDEX;
    use crate::embedded::index::{Index, Sizes};

    fn open(folder: &Path) -> Arc<Engine> {
        let codec = Codec::new(dictionaries::load(folder).unwrap());
        let sizes = Sizes {
            files: 2,
            cache: 1 << 20,
            memtable: 1 << 20,
            segment: 64 << 10,
        };
        Arc::new(Engine::open(folder, sizes, &codec).unwrap())
    }

    #[test]
    fn damage_that_a_merge_finds_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        let is_recorded = || Index::is_distrusted(&folder.path().join(INDEX));
        complain(&engine, Ok(()));
        assert!(!is_recorded());
        complain(&engine, Err(lsm_tree::Error::Unrecoverable));
        assert!(is_recorded());
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panicked() {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        let flusher = Flusher {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        flusher.set_aside(&engine);
        assert!(!flusher.wait().unwrap());
        let shared = Arc::clone(&flusher.shared);
        let thread = std::thread::spawn(move || {
            let _ending = Ending(&shared);
            panic!("as a bug would");
        });
        assert!(thread.join().is_err());
        assert!(flusher.wait().is_err());
    }
}
