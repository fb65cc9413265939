//! Options of a spill: its folder, its size and its durability; and the errors of a folder that
//! cannot be used.

use std::path::PathBuf;

/// Minimum bound: a file must hold some events.
const BYTES_MAX_LEAST: u64 = 1 << 20;

/// Where a sink keeps events until their outcome is known: see
/// [`SinkOptions::spill`](crate::SinkOptions::spill).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct SpillOptions {
    pub(crate) folder: PathBuf,
    pub(crate) bytes_max: u64,
    pub(crate) sync: bool,
}

impl SpillOptions {
    /// Makes a spill in `folder`, which is created if necessary, and belongs to one sink of one
    /// process at a time. Up to 64 MiB, which is about 100,000 events.
    ///
    /// It takes up to 12 MiB of memory beside what [`Broadcaster`](crate::Broadcaster) states, and
    /// about 40 bytes for each event on disk.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: 64 << 20,
            sync: false,
        }
    }

    /// Maximum bytes of events on disk, at least 1 MiB. Events that find no room are counted and
    /// delivered from memory.
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), SpillError> {
        if self.bytes_max < BYTES_MAX_LEAST {
            return Err(SpillError::BytesMax {
                given: self.bytes_max,
            });
        }
        Ok(())
    }

    /// Whether each append is synced to the disk, and with it the folder of a new file. Default
    /// false: if the process dies, no appended event is lost. If the machine dies, events are lost
    /// that its file system had not written yet, by default up to half a minute on Linux.
    ///
    /// Marks of done events are not synced in either case: if they are lost, their events are
    /// delivered again.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }
}

/// Why events cannot be kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpillError {
    /// The bound is too small.
    #[error("spill.bytes_max is {given}: it must be 1048576 (1 MiB) or more")]
    BytesMax {
        /// The given bound.
        given: u64,
    },
    /// Another sink uses the folder.
    #[error("the spill folder {} is in use by another sink or process", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder or a file in it cannot be created, read or written.
    #[error("cannot use the spill folder {}: {message}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The operating system's error.
        message: String,
    },
}
