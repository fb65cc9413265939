//! Runs the making of files on a thread of its own, with low priority.
//!
//! Following a cluster and answering requests come first: files are made in the processor time that
//! those leave.

use std::thread;

use tokio::sync::oneshot;

/// Says that the work panicked, or that no thread could be started for it; the log says which.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed;

/// Runs work that needs processor time on its own thread, off the threads of the async runtime.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failed> {
    let (done, result) = oneshot::channel();
    let begun = thread::Builder::new()
        .name("tidings-seal".to_owned())
        .spawn(move || {
            lower_priority();
            // The caller may no longer wait for the result.
            let _ = done.send(work());
        });
    if let Err(error) = begun {
        tracing::warn!(%error, "no thread could be started to make files");
    }
    result.await.map_err(|_| Failed)
}

/// Lowers the priority of the calling thread alone, which only Linux can do.
#[cfg(target_os = "linux")]
fn lower_priority() {
    /// With this nice value the thread gets a tenth of another's share when processor time is
    /// short.
    const NICE: i32 = 10;
    // Where the system does not allow it, the thread keeps the usual priority.
    let _ = rustix::process::nice(NICE);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

#[cfg(test)]
mod tests {
    use super::{Failed, run};

    #[tokio::test]
    async fn what_panics_has_failed() {
        assert_eq!(run(|| 7).await, Ok(7));
        let panics = || -> u32 { panic!("on purpose") };
        assert_eq!(run(panics).await, Err(Failed));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_the_work_has_a_low_priority() {
        let own = || rustix::process::getpriority_process(None);
        let before = own().unwrap();
        let within = run(own).await.unwrap().unwrap();
        assert_eq!(within, (before + 10).min(19));
        assert_eq!(own(), Ok(before));
    }
}
