//! The controller: workers take keys from the queue, do the work, and record the outcome as events
//! about the object.

use std::fmt;

use tidings::{Recorder, Reference, ReferenceFields};
use tokio::task::JoinSet;

use super::queue::WorkQueue;

/// The work of a controller.
pub(crate) trait Work: Clone + Send + Sync + 'static {
    /// The error of failed work.
    type Error: fmt::Display + Send;

    /// Does the work on `name`, after `failures` failures. Returns the message of an event.
    fn work(
        &self,
        name: &str,
        failures: u32,
    ) -> impl Future<Output = Result<String, Self::Error>> + Send;
}

/// A controller for the jobs of one namespace. Clones share their state.
#[derive(Clone)]
pub(crate) struct Controller<W> {
    namespace: String,
    queue: WorkQueue,
    recorder: Recorder,
    work: W,
}

impl<W: Work> Controller<W> {
    /// A controller for the jobs of `namespace`.
    pub(crate) fn new(namespace: &str, queue: WorkQueue, recorder: Recorder, work: W) -> Self {
        Self {
            namespace: namespace.to_owned(),
            queue,
            recorder,
            work,
        }
    }

    /// Works until the queue is closed, `workers` keys at a time.
    pub(crate) async fn run(&self, workers: usize) {
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let this = self.clone();
            tasks.spawn(async move {
                while let Some(name) = this.queue.get().await {
                    this.reconcile(&name).await;
                    this.queue.done(&name);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn reconcile(&self, name: &str) {
        let job = self.reference(name);
        let failures = self.queue.failures(name);
        match self.work.work(name, failures).await {
            Ok(result) => {
                self.recorder.normal(&job, "SuccessfulCreate", result);
                self.queue.forget(name);
            }
            Err(error) => {
                self.recorder.warning(&job, "FailedCreate", error);
                self.queue.add_rate_limited(name);
            }
        }
    }

    /// A reference to a job. A controller that has the object itself passes that to the recorder
    /// instead.
    fn reference(&self, name: &str) -> Reference {
        Reference::new(ReferenceFields {
            api_version: "batch/v1",
            kind: "Job",
            namespace: &self.namespace,
            name,
            ..ReferenceFields::default()
        })
    }
}
