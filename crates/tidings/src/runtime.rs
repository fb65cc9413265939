//! Background tasks: on the caller's tokio runtime, or else on a separate thread; and functions
//! that may block, each on its own thread.

use std::io;

use futures::future::Either;
use tokio::runtime::{Builder, Handle};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// The log subscriber of the caller that started a task. Without one, the task logs to the
/// subscriber that the program installs later.
pub(crate) struct LogScope(Option<Dispatch>);

impl LogScope {
    pub(crate) fn current() -> Self {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        Self(Some(dispatch).filter(|dispatch| !dispatch.is::<NoSubscriber>()))
    }

    /// Runs `run` with this subscriber. While any thread of the program has a subscriber of its
    /// own, tracing is slower in all of them, so `run` should not wait.
    pub(crate) fn enter<T>(&self, run: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(dispatch) => tracing::dispatcher::with_default(dispatch, run),
            None => run(),
        }
    }
}

/// Runs `future` in the background, with the caller's log subscriber.
///
/// # Errors
/// There is no runtime, and no thread or poller could be created.
pub(crate) fn spawn(
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let future = match LogScope::current().0 {
        Some(dispatch) => Either::Left(future.with_subscriber(dispatch)),
        None => Either::Right(future),
    };
    if let Ok(current) = Handle::try_current() {
        current.spawn(future);
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || runtime.block_on(future))?;
    Ok(())
}

/// Runs `run`, which may block, on its own thread, and gives it the caller's log subscriber. It may
/// spawn tasks on the caller's runtime, if there is one.
///
/// # Errors
/// No thread could be created.
pub(crate) fn spawn_thread(
    name: &'static str,
    run: impl FnOnce(LogScope) + Send + 'static,
) -> io::Result<()> {
    let scope = LogScope::current();
    let runtime = Handle::try_current().ok();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _entered = runtime.as_ref().map(Handle::enter);
            run(scope);
        })?;
    Ok(())
}
