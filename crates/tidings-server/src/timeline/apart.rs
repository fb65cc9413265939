//! Runs long calculations on a few threads of their own. A view takes about ten milliseconds,
//! during which a worker thread of the runtime could answer nothing else.
//!
//! A request that finds no thread free keeps its place in flight and waits, at most for the
//! request's time. Work on these threads only calculates and never waits, because it does not
//! notice when its request has ended.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::http::status::Status;

/// Processors for each thread; there is at least one thread.
const DIVISOR: usize = 2;

/// Permits for the threads.
pub(super) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new((processors / DIVISOR).max(1))))
    }
}

impl Places {
    /// Runs work on one of the threads.
    ///
    /// # Errors
    /// The errors of the work; 504 if the server stops.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let place = place.map_err(|_| Status::timeout())?;
        let done = spawn_blocking(move || {
            let _place = place;
            work()
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(Status::timeout()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread_and_waits_for_a_place() {
        let places = Places(Arc::new(Semaphore::new(1)));
        let there = places.apart(|| Ok(thread::current().id())).await;
        assert_ne!(there.unwrap(), thread::current().id());
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let mut first = Box::pin(places.apart(move || {
            _ = wait.recv();
            Ok(1)
        }));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(places.apart(|| Ok(2)));
        assert!((&mut second).now_or_never().is_none());
        release.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
    }
}
