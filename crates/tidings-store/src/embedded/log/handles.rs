//! The open files of the log, limited in number.
//!
//! All files that may grow are open. Of the others, a number set by an option is open: those read
//! most recently. A log of months has thousands of files.
//!
//! Invariants: a [`Handle`] always means the same file, whatever happens to the file's name. A
//! closed file is opened again by its name. Before the name is removed or reused, the file is
//! [kept](Handle::keep) open for good.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

/// A file that is open, or can be opened again.
#[derive(Default)]
struct Slot {
    state: RwLock<State>,
    /// Whether the file was used since it was last considered for closing.
    is_used: AtomicBool,
}

#[derive(Default)]
struct State {
    file: Option<Arc<File>>,
    hold: Hold,
}

/// Whether a file may be closed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Free,
    /// The file stays open until its handle is [released](Handle::release).
    Written,
    /// The file stays open until its handle is dropped.
    Kept,
}

/// The open files that may be closed, of all handles that share this value.
pub(in crate::embedded) struct Handles {
    max: usize,
    /// The open files, in the order in which they are considered for closing.
    open: Mutex<VecDeque<Weak<Slot>>>,
}

impl Handles {
    /// A set of which at most `max` files stay open.
    pub(in crate::embedded) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::default(),
        })
    }

    /// Adds a file that may be closed from now on, and closes others to stay within the limit.
    fn add(&self, slot: &Arc<Slot>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(slot));
        // Each file is skipped at most once.
        let mut turns = 2 * open.len();
        while open.len() > self.max && turns > 0 {
            turns -= 1;
            let Some(slot) = open.pop_front().as_ref().and_then(Weak::upgrade) else {
                continue;
            };
            if turns > open.len() && slot.is_used.swap(false, Ordering::Relaxed) {
                open.push_back(Arc::downgrade(&slot));
                continue;
            }
            let mut state = slot.state.write();
            if state.hold == Hold::Free {
                state.file = None;
            }
        }
    }
}

/// A file of the log; see the module documentation.
pub(super) struct Handle {
    slot: Arc<Slot>,
    handles: Arc<Handles>,
}

impl Handle {
    /// A file that is written to, and so stays open until it is [released](Self::release).
    pub(super) fn new(file: File, handles: &Arc<Handles>) -> Self {
        let state = State {
            file: Some(Arc::new(file)),
            hold: Hold::Written,
        };
        Self {
            slot: Arc::new(Slot {
                state: RwLock::new(state),
                ..Slot::default()
            }),
            handles: Arc::clone(handles),
        }
    }

    /// Returns the open file, opening it by its name if necessary.
    pub(super) fn get(&self, path: &Path) -> io::Result<Arc<File>> {
        if let Some(file) = &self.slot.state.read().file {
            // Readers share the flag, so it is written only when it changes.
            if !self.slot.is_used.load(Ordering::Relaxed) {
                self.slot.is_used.store(true, Ordering::Relaxed);
            }
            return Ok(Arc::clone(file));
        }
        let mut state = self.slot.state.write();
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        state.file = Some(Arc::clone(&file));
        let is_free = state.hold == Hold::Free;
        drop(state);
        if is_free {
            self.handles.add(&self.slot);
        }
        Ok(file)
    }

    /// Keeps the file open for good, because it may lose its name.
    pub(super) fn keep(&self, path: &Path) -> io::Result<()> {
        self.slot.state.write().hold = Hold::Kept;
        self.get(path).map(drop)
    }

    /// Allows closing the file, unless it is kept. Nothing may be written to it any more.
    pub(super) fn release(&self) {
        let mut state = self.slot.state.write();
        let is_released = state.hold == Hold::Written;
        if is_released {
            state.hold = Hold::Free;
        }
        drop(state);
        if is_released {
            self.handles.add(&self.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn is_open(handle: &Handle) -> bool {
        handle.slot.state.read().file.is_some()
    }

    fn first(handle: &Handle, path: &Path) -> u8 {
        let mut byte = [0];
        let file = handle.get(path).unwrap();
        file.read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    }

    #[test]
    fn those_that_are_used_stay_open_and_no_more_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let handles = Handles::new(3);
        let paths: Vec<_> = (0..8_u8)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, [number]).unwrap();
                path
            })
            .collect();
        let all: Vec<_> = paths
            .iter()
            .map(|path| {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(path)
                    .unwrap();
                Handle::new(file, &handles)
            })
            .collect();
        assert_eq!(all.iter().filter(|it| is_open(it)).count(), 8);
        for handle in &all[1..] {
            handle.release();
        }
        assert_eq!(all.iter().filter(|it| is_open(it)).count(), 4);
        for round in 0..20 {
            for at in [0, 3, 1 + round % 7] {
                assert_eq!(first(&all[at], &paths[at]), at as u8);
            }
            assert!(is_open(&all[0]) && is_open(&all[3]));
            assert!(all.iter().filter(|it| is_open(it)).count() <= 4);
        }
        assert!(handles.open.lock().len() <= 3);
    }

    #[test]
    fn what_is_kept_leads_to_its_file_when_another_has_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [1]).unwrap();
        let handles = Handles::new(0);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let handle = Handle::new(file.unwrap(), &handles);
        handle.release();
        assert!(!is_open(&handle));
        assert_eq!(first(&handle, &path), 1);
        assert!(!is_open(&handle), "none may be held open");
        handle.keep(&path).unwrap();
        handle.release();
        fs::write(folder.path().join("new"), [2]).unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(first(&handle, &path), 1);
    }
}
