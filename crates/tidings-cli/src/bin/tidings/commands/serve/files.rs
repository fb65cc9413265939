//! The limits on open files and on memory, which bound connections.

/// Files that the store, the listener and the log may need besides connections.
const OTHER_FILES: u64 = 1000;

/// Maximum open connections, if the limits allow as many.
const CONNECTIONS_MAX: u32 = 10_000;

/// Bytes that a connection may hold before its client has shown credentials.
const CONNECTION_BYTES: u64 = 68 << 10;
/// Divisor of the memory limit that gives the bytes of all such connections together.
const MEMORY_DIVISOR: u64 = 5;
/// Where the memory limit of a container is: of control groups of version 2, and of version 1.
const MEMORY_LIMITS: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// How many connections fit: within the limit on open files, which is raised as far as the system
/// allows, and within the memory limit of the container, if there is one.
pub(crate) fn connections() -> usize {
    let files = of_files();
    let limits = MEMORY_LIMITS
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    let memory = limits.and_then(|text| of_memory(&text));
    let Some(memory) = memory.filter(|memory| *memory < files) else {
        return files;
    };
    tracing::info!(
        connections = memory,
        "fewer connections than usual: the memory of the container is limited"
    );
    memory
}

/// How many connections fit into a memory limit in bytes; `None` without a limit.
fn of_memory(limit: &str) -> Option<usize> {
    let limit: u64 = limit.trim().parse().ok()?;
    let connections = limit / MEMORY_DIVISOR / CONNECTION_BYTES;
    usize::try_from(connections.max(1)).ok()
}

#[cfg(unix)]
fn of_files() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
        }
    }
    let left = limit.current.map_or(u64::from(CONNECTIONS_MAX), |files| {
        // A small limit is split in half with the other files.
        files.saturating_sub(OTHER_FILES).max(files / 2).max(1)
    });
    let connections = left.min(u64::from(CONNECTIONS_MAX));
    if connections < u64::from(CONNECTIONS_MAX) {
        tracing::warn!(
            connections,
            wanted = CONNECTIONS_MAX,
            "fewer connections than usual: the number of open files is limited (ulimit -n)"
        );
    }
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Returns the maximum; this system has no such limit.
#[cfg(not(unix))]
fn of_files() -> usize {
    usize::try_from(CONNECTIONS_MAX).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections without credentials leave the container room for answers, which need 384 MiB.
    #[test]
    fn connections_fit_into_the_memory_limit() {
        for (limit, expected) in [
            ("536870912\n", Some(1542)),
            ("4294967296\n", Some(12_336)),
            ("1", Some(1)),
            ("max\n", None),
            ("", None),
        ] {
            assert_eq!(of_memory(limit), expected, "{limit:?}");
        }
        let all = 1542 * CONNECTION_BYTES;
        assert!((384 << 20) + all < 512 << 20);
    }
}
