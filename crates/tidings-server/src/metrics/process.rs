//! `process_*`: the kernel's figures about this process, where there is `/proc`.

use std::fs;

use super::series::Text;

/// Ticks per second in `/proc`, which Linux fixes for programs at a hundred.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the metrics that can be read; none on systems without `/proc`.
pub(crate) fn write(text: &mut Text) {
    if let Some((cpu, start)) = stat() {
        text.single(
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            cpu,
        );
        if let Some(boot) = number("/proc/stat", "btime") {
            text.single(
                "process_start_time_seconds",
                "gauge",
                "Start time of the process since unix epoch in seconds.",
                boot as f64 + start,
            );
        }
    }
    for (name, help, key) in [
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            "VmRSS:",
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            "VmSize:",
        ),
    ] {
        if let Some(kib) = number("/proc/self/status", key) {
            text.single(name, "gauge", help, kib * 1024);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        text.single(
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open.count(),
        );
    }
    if let Some(max) = number("/proc/self/limits", "Max open files") {
        text.single(
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            max,
        );
    }
}

/// The CPU time used, and the time from the machine's start to the process's, in seconds.
fn stat() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name is in parentheses and may contain anything. The third field follows it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |field: usize| -> Option<f64> {
        let ticks: f64 = fields.get(field - 3)?.parse().ok()?;
        Some(ticks / TICKS_PER_SECOND)
    };
    Some((seconds(14)? + seconds(15)?, seconds(22)?))
}

/// The first number in the line that begins with `start`.
fn number(file: &str, start: &str) -> Option<u64> {
    let content = fs::read_to_string(file).ok()?;
    let line = content.lines().find_map(|line| line.strip_prefix(start))?;
    line.split_whitespace().next()?.parse().ok()
}
