//! Files that are used by one call at a time.
//!
//! Invariant: a call that began ends before another one begins, also if the task that awaited it
//! has ended. A blocking call cannot be aborted.

use std::io;
use std::sync::Arc;

use tokio::sync::Mutex;

/// What only blocking calls use, one after another.
#[derive(Debug)]
pub(crate) struct Exclusive<T>(Arc<Mutex<T>>);

impl<T: Send + 'static> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Runs a blocking call on a thread for such calls.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut T) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let mut held = Arc::clone(&self.0).lock_owned().await;
        let called = tokio::task::spawn_blocking(move || call(&mut held)).await;
        called.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Waits until the calls that began have ended.
    pub(crate) async fn settle(&self) {
        drop(self.0.lock().await);
    }

    /// Whether the calls that began have ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.try_lock().is_ok()
    }

    /// Delays all calls until the result is dropped.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> impl Sized + use<T> {
        Arc::clone(&self.0).lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_ends_although_nobody_awaits_it() {
        let all = Arc::new(Exclusive::new(Vec::new()));
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let (go, is_to_go) = std::sync::mpsc::channel::<()>();
        let first = Arc::clone(&all);
        let task = tokio::spawn(async move {
            let call = move |all: &mut Vec<u8>| {
                let _ = begun.send(());
                let _ = is_to_go.recv();
                all.push(1);
                Ok(())
            };
            first.run(call).await
        });
        is_begun.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let second = Arc::clone(&all);
        let read = tokio::spawn(async move { second.run(|all| Ok(all.clone())).await });
        go.send(()).unwrap();
        all.settle().await;
        assert_eq!(read.await.unwrap().unwrap(), [1]);
    }
}
