//! The limit on open files, which bounds connections.

/// Files that the store, the listener and the log may need besides connections.
const OTHER_FILES: u64 = 1000;

/// Maximum open connections, if the limit on open files allows as many.
const CONNECTIONS_MAX: u32 = 10_000;

/// Raises the limit on open files as far as the system allows, and returns how many connections
/// fit.
#[cfg(unix)]
pub(crate) fn connections() -> usize {
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
pub(crate) fn connections() -> usize {
    usize::try_from(CONNECTIONS_MAX).unwrap_or(usize::MAX)
}
