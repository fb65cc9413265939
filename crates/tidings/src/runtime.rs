//! Background tasks: on the caller's tokio runtime, or else on a separate thread; and functions
//! that may block, each on its own thread.

use std::io;

use tokio::runtime::{Builder, Handle};
use tracing::instrument::WithSubscriber;

/// Runs `future` in the background, with the caller's log subscriber.
///
/// # Errors
/// There is no runtime, and no thread or poller could be created.
pub(crate) fn spawn(
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let future = future.with_current_subscriber();
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

/// Runs `run`, which may block, on its own thread, with the caller's log subscriber. It may spawn
/// tasks on the caller's runtime, if there is one.
///
/// # Errors
/// No thread could be created.
pub(crate) fn spawn_thread(
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let runtime = Handle::try_current().ok();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _entered = runtime.as_ref().map(Handle::enter);
            tracing::dispatcher::with_default(&dispatch, run);
        })?;
    Ok(())
}
