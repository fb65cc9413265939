//! Work that makes files, on a thread of its own and of low priority: following and answering come
//! first, and files are made in the processor time they leave.

use std::thread;

use tokio::sync::oneshot;

/// The work panicked, or there can be no more threads; the log says which.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed;

/// Does some work that takes processor time, and no turns of the runtime.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failed> {
    let (done, result) = oneshot::channel();
    let begun = thread::Builder::new()
        .name("tidings-seal".to_owned())
        .spawn(move || {
            lower_priority();
            // The caller may no longer wait for it.
            let _ = done.send(work());
        });
    if let Err(error) = begun {
        tracing::warn!(%error, "no thread to make files with");
    }
    result.await.map_err(|_| Failed)
}

/// Of this thread only, which Linux alone can do.
#[cfg(target_os = "linux")]
fn lower_priority() {
    /// A tenth of the share of others, where there is not enough for all.
    const NICE: i32 = 10;
    // Where it is not allowed, it has the priority of the others.
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
