//! The audit log: who wrote, changed or deleted which event, and what came of it, a JSON line of `audit.k8s.io/v1` each.
//!
//! No request waits for it: lines go through a queue bounded by bytes to a thread that writes them to a file. What finds
//! the queue full, or cannot be written, is dropped and counted.

mod file;
mod record;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use self::file::RotatedFile;
pub(crate) use self::record::{BodySlot, Entry, ObjectName};
use crate::clock::Clock;

/// So many lines wait at once, whatever their size.
const QUEUE_LEN: usize = 10_000;
/// Dropped lines are told in the log at the first, and then at each so many.
const TELL_EVERY: u64 = 1000;

/// How much is said of each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// Who did what to which event, when, and what came of it.
    #[default]
    Metadata,
    /// The request's body besides.
    Request,
}

/// Where the audit log is written, and how much of it is kept. The names are those of kube-apiserver's flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditOptions {
    /// The file (`--audit-log-path`); `-` is standard output.
    pub path: PathBuf,
    /// How much is said of each write. Default: `Metadata`.
    pub level: AuditLevel,
    /// A file that grew to so many bytes is put aside (`--audit-log-maxsize`, there in MiB). Default: 100 MiB; 0 never does it.
    pub bytes_max: u64,
    /// So many files that were put aside are kept (`--audit-log-maxbackup`). Default: 10; 0 keeps all of them.
    pub backups_max: usize,
    /// Files that were put aside longer ago than this are removed, when the log is opened and whenever one is put aside
    /// (`--audit-log-maxage`, there in days). Default: none is, for its age.
    pub age_max: Option<Duration>,
    /// So many bytes of lines wait to be written; what comes then is dropped and counted. Default: 16 MiB.
    pub queue_bytes_max: usize,
}

impl AuditOptions {
    /// The defaults, with this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            level: AuditLevel::default(),
            bytes_max: 100 << 20,
            backups_max: 10,
            age_max: None,
            queue_bytes_max: 16 << 20,
        }
    }
}

/// What became of the audit log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditCounts {
    /// Lines in all; those in no other count wait to be written.
    pub offered: u64,
    /// Lines that were written.
    pub written: u64,
    /// Lines that found the queue full.
    pub dropped: u64,
    /// Lines that could not be written.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    waiting_bytes: AtomicUsize,
    offered: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// An open audit log.
#[derive(Debug)]
pub struct AuditLog {
    level: AuditLevel,
    queue_bytes_max: usize,
    /// `None` once it is closed.
    queue: Mutex<Option<SyncSender<Vec<u8>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

impl AuditLog {
    /// Opens the file, readable by its owner only, and starts the thread that writes to it.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread be started.
    pub fn open(options: AuditOptions, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (level, queue_bytes_max) = (options.level, options.queue_bytes_max);
        let counters = Arc::new(Counters::default());
        let file = RotatedFile::open(options, clock)?;
        let (sender, receiver) = sync_channel(QUEUE_LEN);
        let counted = Arc::clone(&counters);
        let writer = std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || write(file, &receiver, &counted))?;
        Ok(Self {
            level,
            queue_bytes_max,
            queue: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(writer)),
            counters,
        })
    }

    /// What became of its lines until now.
    pub fn counts(&self) -> AuditCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditCounts {
            offered: count(&self.counters.offered),
            written: count(&self.counters.written),
            dropped: count(&self.counters.dropped),
            failed: count(&self.counters.failed),
        }
    }

    /// Hands a line over, or drops and counts it. It never waits for the disk.
    fn push(&self, line: Vec<u8>) {
        let len = line.len();
        self.counters.offered.fetch_add(1, Ordering::Relaxed);
        let waiting = &self.counters.waiting_bytes;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let room = waiting.load(Ordering::Acquire).saturating_add(len) <= self.queue_bytes_max;
        let Some(queue) = queue.as_ref().filter(|_| room) else {
            return self.drop_one();
        };
        waiting.fetch_add(len, Ordering::AcqRel);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(line) {
            waiting.fetch_sub(len, Ordering::AcqRel);
            self.drop_one();
        }
    }

    fn drop_one(&self) {
        let dropped = self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        if dropped.is_multiple_of(TELL_EVERY) {
            tracing::error!(
                dropped = dropped + 1,
                "the audit log cannot keep up, lines are dropped"
            );
        }
    }

    /// Takes no more lines and returns when all that were taken are written. It waits for the disk.
    pub fn close(&self) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the audit log ended abnormally");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

fn write(mut file: RotatedFile, lines: &Receiver<Vec<u8>>, counters: &Counters) {
    while let Ok(line) = lines.recv() {
        counters
            .waiting_bytes
            .fetch_sub(line.len(), Ordering::AcqRel);
        match file.write(&line) {
            Ok(()) => {
                counters.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let failed = counters.failed.fetch_add(1, Ordering::Relaxed);
                if failed.is_multiple_of(TELL_EVERY) {
                    tracing::error!(%error, failed = failed + 1, "the audit log cannot be written");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn lines_are_written_or_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut options = AuditOptions::new(&path);
        options.queue_bytes_max = 10;
        let log = AuditLog::open(options, Arc::new(SystemClock)).unwrap();
        log.push(b"short\n".to_vec());
        log.push(b"too long for the queue\n".to_vec());
        log.close();
        log.push(b"late\n".to_vec());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short\n");
        assert_eq!(
            log.counts(),
            AuditCounts {
                offered: 3,
                written: 1,
                dropped: 2,
                failed: 0
            }
        );
    }
}
