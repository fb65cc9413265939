//! Where the spill lies and how large it gets, and why it cannot be used.

use std::path::PathBuf;

/// The least bound: a file must hold some events.
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
    /// A spill in `folder`, which is made if it is not there, and belongs to one sink of one
    /// process at a time. Up to 64 MiB, which is about 100,000 events.
    ///
    /// It takes up to 12 MiB of memory beside what [`Broadcaster`](crate::Broadcaster) says, and
    /// about 40 bytes for each event that lies on disk.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: 64 << 20,
            sync: false,
        }
    }

    /// How many bytes of events lie on disk at most; at least 1 MiB. What finds no room is counted
    /// and delivered from memory.
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

    /// Whether each append is synced to the disk, and the folder with it where a file is new.
    /// Default false: the death of the process loses nothing that was appended, that of the machine
    /// what its file system had not written by then: on Linux up to half a minute, by default.
    ///
    /// Marks of what is done are not synced in either case: what they stood for is delivered again.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }
}

/// Why events cannot be kept on disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpillError {
    /// The bound leaves no room for anything.
    #[error("spill.bytes_max is {given}: it must be 1048576 (1 MiB) or more")]
    BytesMax {
        /// What was given.
        given: u64,
    },
    /// Another sink keeps its events there.
    #[error("the spill folder {} is in use by another sink or process", folder.display())]
    InUse {
        /// Which folder.
        folder: PathBuf,
    },
    /// The folder or a file in it cannot be made, read or written.
    #[error("cannot use the spill folder {}: {message}", folder.display())]
    Io {
        /// Which folder.
        folder: PathBuf,
        /// What the machine said.
        message: String,
    },
}
