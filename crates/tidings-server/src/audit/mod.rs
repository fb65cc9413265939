//! The audit log: who created, changed or deleted which event, or acted on feeds, and with which
//! result.
//!
//! Each write is one JSON line of `audit.k8s.io/v1`.
//!
//! A thread writes the lines to files, from a queue that is bounded by bytes.
//!
//! - Served writes of known users are logged. If there is no room for a line's body, the line is
//!   written without it. If there is no room for the line, the answer waits for it, for a bounded
//!   time. Lines are dropped and counted if the disk is too slow for that, or if more than 4,096
//!   would wait.
//! - Requests of known users that were refused (forbidden, or because the server was busy) cost
//!   their clients almost nothing. Their lines have their own part of the queue and never wait. If
//!   it is full, they are dropped and counted.
//! - Requests without a known user can be sent by any client in any number. Their lines have their
//!   own files and their own part of the queue, and never wait. So they cannot displace lines of
//!   known users.

mod file;
mod object;
mod options;
mod queue;
mod record;
mod text;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::file::RotatedFile;
pub use self::options::{AuditLevel, AuditOptions};
use self::queue::{Full, Queue, Waiting, Whose};
pub(crate) use self::record::{AUDIT_ID, Entry, Notes};
use crate::clock::Clock;
use crate::metrics::Text;

/// Interval, in dropped lines, at which a loss is logged again after the first.
const TELL_EVERY: u64 = 1000;
/// Maximum entries in progress, more than there can be requests.
const ENTRIES_MAX: u32 = u32::MAX >> 3;

/// Counts of the audit log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditCounts {
    /// All lines. Lines in no other count are still queued.
    pub offered: u64,
    /// Lines that were written.
    pub written: u64,
    /// Lines of known users that found the queue full for too long.
    pub dropped: u64,
    /// Lines of known users whose requests were refused, and that found their part of the queue
    /// full.
    pub refused_dropped: u64,
    /// Lines of requests without a known user that were dropped. Their part of the queue was full,
    /// or the options exclude them.
    pub unauthenticated_dropped: u64,
    /// Lines that could not be written.
    pub failed: u64,
    /// Lines, among all of these, without the request's body, which was left out.
    pub truncated: u64,
}

#[derive(Debug, Default)]
struct Counters {
    offered: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    refused_dropped: AtomicU64,
    unauthenticated_dropped: AtomicU64,
    failed: AtomicU64,
    truncated: AtomicU64,
}

/// An open audit log.
#[derive(Debug)]
pub struct AuditLog {
    level: AuditLevel,
    event_bytes_max: usize,
    wait_max: Duration,
    queue: Queue,
    /// Permits for entries in progress, each of which holds one.
    entries: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

impl AuditCounts {
    pub(crate) fn write(&self, text: &mut Text) {
        text.single(
            "apiserver_audit_event_total",
            "counter",
            "Entries for the audit log.",
            self.offered,
        );
        let name = "apiserver_audit_error_total";
        text.metric(
            name,
            "counter",
            "Entries that are not in the audit log: dropped before a full queue, by whose they are, or not written to the file.",
        );
        text.sample(name, &[("plugin", "buffered")], self.dropped);
        text.sample(name, &[("plugin", "refused")], self.refused_dropped);
        text.sample(
            name,
            &[("plugin", "unauthenticated")],
            self.unauthenticated_dropped,
        );
        text.sample(name, &[("plugin", "log")], self.failed);
        text.single(
            "tidings_audit_truncated_total",
            "counter",
            "Entries for the audit log without the request's body, which was too long or could not be read.",
            self.truncated,
        );
    }
}

impl AuditLog {
    /// Opens the log, readable by its owner only, and starts the thread that writes to it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or the thread cannot be started.
    pub fn open(options: AuditOptions, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (level, event_bytes_max) = (options.level, options.event_bytes_max);
        let wait_max = options.wait_max;
        let (queue, waiting) = Queue::new(options.queue_bytes_max, wait_max);
        let counters = Arc::new(Counters::default());
        // Opened at its first line, because most servers never have one.
        let unknown = options
            .unauthenticated()
            .map(|options| RotatedFile::unopened(options, Arc::clone(&clock)));
        let files = Files {
            known: RotatedFile::open(options, clock)?,
            unknown,
        };
        if let Some(unknown) = &files.unknown {
            // Old files of the log itself, in the same folder, were removed when it was opened.
            unknown.tidy()?;
        }
        let counted = Arc::clone(&counters);
        let writer = std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || write(files, &waiting, &counted))?;
        Ok(Self {
            level,
            event_bytes_max,
            wait_max,
            queue,
            entries: Arc::new(Semaphore::new(ENTRIES_MAX as usize)),
            writer: Mutex::new(Some(writer)),
            counters,
        })
    }

    /// Counts of the log's lines so far.
    pub fn counts(&self) -> AuditCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditCounts {
            offered: count(&self.counters.offered),
            written: count(&self.counters.written),
            dropped: count(&self.counters.dropped),
            refused_dropped: count(&self.counters.refused_dropped),
            unauthenticated_dropped: count(&self.counters.unauthenticated_dropped),
            failed: count(&self.counters.failed),
            truncated: count(&self.counters.truncated),
        }
    }

    /// Registers an entry in progress until the returned permit is dropped. `None` once the log is
    /// closing.
    fn open_entry(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.entries).try_acquire_owned().ok()
    }

    /// Queues a line with a body, if there is room.
    fn offer_with_body(&self, line: Vec<u8>, whose: Whose) -> Result<(), Full> {
        self.queue.offer_with_body(line, whose)?;
        self.counters.offered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Queues a line without a body, or drops and counts it.
    async fn push(&self, line: Vec<u8>, whose: Whose) {
        self.counters.offered.fetch_add(1, Ordering::Relaxed);
        if self.queue.push(line, whose).await.is_err() {
            self.counters.drop_one(whose);
        }
    }

    fn count_truncated(&self) {
        self.counters.truncated.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for entries in progress, as long as an answer would, and then closes the log.
    pub(crate) async fn finish(self: Arc<Self>) {
        let all = self.entries.acquire_many(ENTRIES_MAX);
        // While all permits are held, no entry can begin.
        let all = tokio::time::timeout(self.wait_max, all).await;
        if all.is_err() {
            tracing::error!("some writes did not end in time and are not in the audit log");
        }
        let log = Arc::clone(&self);
        let closed = tokio::task::spawn_blocking(move || log.close());
        if let Err(error) = closed.await {
            tracing::error!(%error, "the audit log was not closed");
        }
    }

    /// Refuses further lines, and blocks until all accepted ones are written.
    pub fn close(&self) {
        self.queue.close();
        let writer = self.writer.lock().take();
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

impl Counters {
    fn drop_one(&self, whose: Whose) {
        let (counter, what) = match whose {
            Whose::Known => (
                &self.dropped,
                "the audit log cannot keep up, lines are dropped",
            ),
            Whose::Refused => (
                &self.refused_dropped,
                "requests that were refused are not all in the audit log",
            ),
            Whose::Unknown => (
                &self.unauthenticated_dropped,
                "requests without a known user are not all in the audit log",
            ),
        };
        let dropped = counter.fetch_add(1, Ordering::Relaxed);
        if dropped.is_multiple_of(TELL_EVERY) {
            tracing::error!(dropped = dropped + 1, "{what}");
        }
    }
}

struct Files {
    known: RotatedFile,
    /// The file for requests without a known user; `None` if these are only counted.
    unknown: Option<RotatedFile>,
}

fn write(mut files: Files, waiting: &Waiting, counters: &Counters) {
    while let Some(line) = waiting.next() {
        let file = match line.whose {
            Whose::Known | Whose::Refused => Some(&mut files.known),
            Whose::Unknown => files.unknown.as_mut(),
        };
        match file.map(|file| file.write(&line.text)) {
            Some(Ok(())) => {
                counters.written.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                let dropped = &counters.unauthenticated_dropped;
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            Some(Err(error)) => {
                let failed = counters.failed.fetch_add(1, Ordering::Relaxed);
                if failed.is_multiple_of(TELL_EVERY) {
                    tracing::error!(%error, failed = failed + 1, "the audit log cannot be written");
                }
            }
        }
        waiting.got_ahead();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn lines_are_written_or_counted() {
        for unauthenticated_bytes_max in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            let mut options = AuditOptions::new(folder.path().join("audit.log"));
            options.unauthenticated_bytes_max = unauthenticated_bytes_max;
            let log = AuditLog::open(options, Arc::new(SystemClock)).unwrap();
            log.push(b"ann\n".to_vec(), Whose::Known).await;
            log.push(b"unknown\n".to_vec(), Whose::Unknown).await;
            log.close();
            log.push(b"late\n".to_vec(), Whose::Known).await;
            let text = |name| std::fs::read_to_string(folder.path().join(name));
            assert_eq!(text("audit.log").unwrap(), "ann\n");
            let other = text("audit-unauthenticated.log");
            let expected = (unauthenticated_bytes_max > 0).then_some("unknown\n");
            assert_eq!(other.ok().as_deref(), expected);
            assert_eq!(
                log.counts(),
                AuditCounts {
                    offered: 3,
                    written: 1 + unauthenticated_bytes_max,
                    dropped: 1,
                    unauthenticated_dropped: 1 - unauthenticated_bytes_max,
                    ..AuditCounts::default()
                }
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_ends_behind_the_entries_that_are_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = AuditLog::open(AuditOptions::new(&path), Arc::new(SystemClock)).unwrap();
        let log = Arc::new(log);
        let entry = log.open_entry();
        let mut finish = pin!(Arc::clone(&log).finish());
        let soon = tokio::time::timeout(Duration::from_secs(4), finish.as_mut()).await;
        assert!(soon.is_err(), "it does not wait for the entry");
        log.push(b"line\n".to_vec(), Whose::Known).await;
        drop(entry);
        finish.await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line\n");
        assert_eq!(log.counts().written, 1);
    }
}
