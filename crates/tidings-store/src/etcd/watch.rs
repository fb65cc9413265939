//! Watches read the shared ring of recent changes, or, if that is too short, their own stream.
//!
//! ```text
//!   start ──▶ Recent ──fell behind──▶ Direct (no stream) ──▶ Direct (stream) ──caught up──▶ Recent
//!                                           ▲     member failed     │
//!                                           └───────────────────────┘
//! ```
//!
//! Both sources have the same changes, so a watch may switch at any revision that it has reached.
//! It ends when etcd's history is replaced by another one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until};

use super::Shared;
use super::client::{RANGE, signed};
use super::pause::Pause;
use super::stream::{Ended, PROGRESS_EVERY, Stream};
use super::wire::{RangeRequest, RangeResponse};
use crate::changes::{Bounds, Older};
use crate::{BoxFuture, Change, Fault, Revision, Watch, WatchError};

/// Starts a watch after a revision.
pub(super) async fn start(
    shared: &Arc<Shared>,
    prefix: Bytes,
    after: Revision,
) -> Result<Box<dyn Watch>, WatchError> {
    shared.check_open()?;
    // The number is read first: all that follows must belong to this history or end the watch.
    let history = shared.history();
    let oldest = shared.oldest();
    if after < oldest {
        return Err(WatchError::Compacted { after, oldest });
    }
    if after > shared.client.revision() {
        let current = shared.latest(shared.client.deadline()).await;
        let current = current.map_err(Fault::from)?;
        if after > current {
            return Err(WatchError::Future {
                requested: after,
                current,
            });
        }
    }
    let source = match shared.recent(&prefix, after) {
        Ok(recent) => Source::Recent(recent),
        Err(WatchError::Compacted { .. }) => {
            check_readable(shared, after).await?;
            Source::Direct(Direct::boxed(shared))
        }
        Err(other) => return Err(other),
    };
    Ok(Box::new(EtcdWatch {
        shared: Arc::clone(shared),
        prefix,
        position: after,
        history,
        source,
        ended: None,
    }))
}

/// Checks that etcd still has the history after a revision. etcd's watch would report that, too,
/// but only after the watch has started.
async fn check_readable(shared: &Shared, after: Revision) -> Result<(), WatchError> {
    // Nothing was ever compacted. To etcd zero would mean the latest.
    if after == 0 {
        return Ok(());
    }
    let request = RangeRequest {
        key: shared.keys.full(b""),
        revision: signed(after),
        ..RangeRequest::default()
    };
    let deadline = shared.client.deadline();
    let answer: Result<RangeResponse, _> = shared.client.ask(RANGE, request, deadline).await;
    match answer {
        Ok(_) => Ok(()),
        Err(failure) if failure.is_compacted() => {
            let oldest = shared.oldest().max(after + 1);
            Err(WatchError::Compacted { after, oldest })
        }
        Err(failure) => Err(Fault::from(failure).into()),
    }
}

/// The missing older history of a shared watcher. A shared watcher reads only the ring in memory;
/// [`Direct`] reads older changes.
struct NothingOlder(Arc<crate::changes::Changes>);

impl Older for NothingOlder {
    fn read(&self, after: Revision, _: Bounds) -> Result<(Vec<Arc<Change>>, Revision), WatchError> {
        Err(WatchError::Compacted {
            after,
            oldest: self.0.oldest(),
        })
    }

    fn oldest(&self) -> Result<Revision, Fault> {
        Ok(self.0.oldest())
    }
}

impl Shared {
    fn recent(&self, prefix: &Bytes, after: Revision) -> Result<Box<dyn Watch>, WatchError> {
        let older = Arc::new(NothingOlder(Arc::clone(&self.changes)));
        self.changes.watch(prefix.clone(), after, older)
    }
}

enum Source {
    Recent(Box<dyn Watch>),
    Direct(Box<Direct>),
}

/// A watch's own stream. It is counted while it exists.
struct Direct {
    shared: Arc<Shared>,
    stream: Option<Stream>,
    pause: Pause,
    /// The time of the next progress request. Progress lets the watch reach the ring in memory even
    /// if nothing changes. The time is stored here because a call may be dropped before it comes.
    asks_at: Instant,
}

impl Direct {
    fn boxed(shared: &Arc<Shared>) -> Box<Self> {
        shared.direct_watches.fetch_add(1, Ordering::AcqRel);
        Box::new(Self {
            shared: Arc::clone(shared),
            stream: None,
            pause: Pause::default(),
            asks_at: sleep(PROGRESS_EVERY).deadline(),
        })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.shared.direct_watches.fetch_sub(1, Ordering::AcqRel);
    }
}

struct EtcdWatch {
    shared: Arc<Shared>,
    prefix: Bytes,
    position: Revision,
    /// The number of the history that the position belongs to.
    history: u64,
    source: Source,
    ended: Option<WatchError>,
}

impl EtcdWatch {
    async fn wait(&mut self) -> Result<Vec<Arc<Change>>, WatchError> {
        let history = self.history;
        loop {
            if self.shared.history() != history {
                return Err(WatchError::Compacted {
                    after: self.revision(),
                    oldest: self.shared.oldest(),
                });
            }
            match &mut self.source {
                Source::Recent(recent) => match recent.next().await {
                    Ok(changes) => return Ok(changes),
                    Err(WatchError::Compacted { .. }) => {
                        self.position = recent.revision();
                        self.source = Source::Direct(Direct::boxed(&self.shared));
                    }
                    Err(error) => return Err(error),
                },
                Source::Direct(_) => {
                    let shared = Arc::clone(&self.shared);
                    let changes = tokio::select! {
                        changes = self.read_direct() => changes?,
                        () = shared.until_closed() => return Err(Fault::Closed.into()),
                        () = shared.until_replaced(history) => continue,
                    };
                    if self.position >= self.shared.changes.oldest()
                        && let Ok(recent) = self.shared.recent(&self.prefix, self.position)
                    {
                        self.source = Source::Recent(recent);
                    }
                    if !changes.is_empty() {
                        return Ok(changes);
                    }
                }
            }
        }
    }

    /// Reads the next changes of the watch's own stream; perhaps none match the prefix.
    /// Cancel-safe: the position advances only on return.
    async fn read_direct(&mut self) -> Result<Vec<Arc<Change>>, WatchError> {
        let Source::Direct(direct) = &mut self.source else {
            return Ok(Vec::new());
        };
        let oldest = self.shared.oldest();
        if self.position < oldest {
            return Err(WatchError::Compacted {
                after: self.position,
                oldest,
            });
        }
        let compacted = |oldest: Revision| {
            self.shared.oldest.fetch_max(oldest, Ordering::AcqRel);
            WatchError::Compacted {
                after: self.position,
                oldest: oldest.max(self.position + 1),
            }
        };
        let delivery = loop {
            let stream = match &mut direct.stream {
                Some(stream) => stream,
                none => {
                    direct.pause.wait().await;
                    let opened =
                        Stream::open(&self.shared.client, &self.shared.keys, self.position);
                    match opened.await {
                        Ok(stream) => none.insert(stream),
                        Err(Ended::Compacted(oldest)) => return Err(compacted(oldest)),
                        Err(Ended::Failed(failure)) => {
                            tracing::warn!(%failure, "a watch cannot be opened; trying the next member");
                            continue;
                        }
                    }
                }
            };
            let next = tokio::select! {
                next = stream.next() => next,
                () = sleep_until(direct.asks_at) => {
                    stream.ask_progress();
                    direct.asks_at = sleep(PROGRESS_EVERY).deadline();
                    continue;
                }
            };
            match next {
                Ok(delivery) => break delivery,
                Err(Ended::Compacted(oldest)) => return Err(compacted(oldest)),
                Err(Ended::Failed(failure)) => {
                    tracing::warn!(%failure, "a watch ended; continuing at the next member");
                    direct.stream = None;
                }
            }
        };
        // From here on the changes are out of the stream. If this future is dropped during the
        // look-up of a lease, the stream is dropped with it and opened again at the unchanged
        // position.
        let stream = direct.stream.take();
        let changes = match self.shared.changes_of(&delivery.events).await {
            Ok(changes) => changes,
            Err(Ended::Compacted(oldest)) => return Err(compacted(oldest)),
            Err(Ended::Failed(failure)) => {
                tracing::warn!(%failure, "a previous value cannot be read; opening the watch again");
                return Ok(Vec::new());
            }
        };
        direct.stream = stream;
        direct.pause = Pause::default();
        self.position = delivery.revision;
        let changes = changes.into_iter().map(|(change, _)| change);
        let changes = changes.filter(|change| change.key().starts_with(&self.prefix));
        Ok(changes.map(Arc::new).collect())
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async move {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            self.wait()
                .await
                .inspect_err(|error| self.ended = Some(error.clone()))
        })
    }

    fn revision(&self) -> Revision {
        match &self.source {
            Source::Recent(recent) => recent.revision(),
            Source::Direct(_) => self.position,
        }
    }
}
