//! Processor time and maximum memory of a process, from Linux's `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A process that is measured, by its number.
pub(crate) struct Process(u32);

/// The processor time that a process has used up to some moment.
pub(crate) struct Spent {
    /// The time of each current thread, by its number.
    threads: HashMap<String, Duration>,
    /// The time of all threads since the process began, ended threads included.
    all: Duration,
}

impl Process {
    pub(crate) fn new(id: u32) -> Self {
        Self(id)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    pub(crate) fn spent(&self) -> io::Result<Spent> {
        let mut threads = HashMap::new();
        for thread in fs::read_dir(self.path("task"))? {
            let thread = thread?;
            // The thread may have ended since its name was read.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let nanos = text
                .split_whitespace()
                .next()
                .and_then(|it| it.parse().ok());
            let name = thread.file_name().to_string_lossy().into_owned();
            threads.insert(name, Duration::from_nanos(nanos.unwrap_or_default()));
        }
        let stat = fs::read_to_string(self.path("stat"))?;
        // The name, which may have any characters, ends with the last parenthesis; user and system
        // time are the 14th and 15th field.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
        Ok(Spent {
            threads,
            all: TICK * ticks,
        })
    }

    /// Resident memory now, and its maximum since [`forget_peak`](Self::forget_peak), in bytes.
    pub(crate) fn memory(&self) -> io::Result<(u64, u64)> {
        let status = fs::read_to_string(self.path("status"))?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        };
        let bytes = |name| kilobytes(name).unwrap_or_default() * 1024;
        Ok((bytes("VmRSS:"), bytes("VmHWM:")))
    }

    /// Resets the maximum to the current memory.
    pub(crate) fn forget_peak(&self) -> io::Result<()> {
        fs::write(self.path("clear_refs"), "5")
    }
}

impl Spent {
    /// The processor time that was used since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let threads = self.threads.iter().map(|(thread, spent)| {
            spent.saturating_sub(earlier.threads.get(thread).copied().unwrap_or_default())
        });
        // The time of threads that have ended is only in the ticks, which may be two too few or too
        // many.
        let all = self.all.saturating_sub(earlier.all);
        threads.sum::<Duration>().max(all.saturating_sub(2 * TICK))
    }
}
