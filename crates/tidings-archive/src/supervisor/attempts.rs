//! Attempts to open and connect to clusters, each in its own task: none waits for another.
//!
//! Invariants: at most one attempt for a cluster runs. An attempt that is replaced or no longer
//! wanted is cancelled while it connects. If it opens the cluster already, it does so to the end,
//! because a store is open until it is closed. The next attempt waits for that, and until the
//! cluster is closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, oneshot};
use tokio::task::{Id, JoinSet};

use super::connector::{Connector, Refusal, Setting, Target};

/// Maximum clusters that are opened at the same time, because opening takes memory.
pub const OPENED_AT_ONCE: usize = 8;

/// The result of an attempt.
pub(super) enum Outcome<C: Connector> {
    /// The cluster was opened and, if it is to be followed, connected to.
    Opened(C::Cluster),
    /// A cluster that is already open was connected to with a new setting or new files.
    Connected(C::Source),
}

type Result<C> = std::result::Result<Outcome<C>, Refusal>;

/// An attempt that ended: to open a cluster, or to connect to it.
pub struct Ended<C: Connector> {
    /// `None` if the attempt was cancelled.
    pub(super) target: Option<Target<C::Setting>>,
    pub(super) outcome: Result<C>,
    /// Lets the cluster's next attempt begin when it is dropped.
    pub(super) turn: Option<OwnedMutexGuard<()>>,
}

struct Running<S> {
    /// `None` if the attempt was cancelled.
    target: Option<Target<S>>,
    task: Id,
    /// Cancels the attempt when it is dropped.
    cancel: Option<oneshot::Sender<()>>,
    /// Held by the attempt that runs.
    turn: Arc<Mutex<()>>,
}

/// All running attempts.
pub(super) struct Attempts<C: Connector> {
    connector: Arc<C>,
    /// Bounds the clusters that are opened at the same time.
    places: Arc<Semaphore>,
    running: BTreeMap<String, Running<C::Setting>>,
    tasks: JoinSet<(Option<OwnedMutexGuard<()>>, Result<C>)>,
}

impl<C: Connector> Attempts<C> {
    pub(super) fn new(connector: Arc<C>) -> Self {
        Self {
            connector,
            places: Arc::new(Semaphore::new(OPENED_AT_ONCE)),
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running
            .values()
            .all(|running| running.target.is_none())
    }

    /// Whether an attempt with this target is running.
    pub(super) fn has(&self, target: &Target<C::Setting>) -> bool {
        let running = self.running.get(target.name());
        running.is_some_and(|running| running.target.as_ref() == Some(target))
    }

    /// Starts to open a cluster, one of those `wanted`, and to follow it: from `source` if that is
    /// connected already.
    pub(super) fn open(
        &mut self,
        target: Target<C::Setting>,
        source: Option<C::Source>,
        wanted: Vec<String>,
    ) {
        let (connector, places) = (Arc::clone(&self.connector), Arc::clone(&self.places));
        let setting = target.setting.clone();
        let connecting = async move {
            let source = match source {
                None if setting.is_followed() => Some(connector.connect(&setting).await?),
                connected => connected,
            };
            // The semaphore is never closed.
            let place = places.acquire_owned().await.ok();
            Ok(async move {
                let _place = place;
                let cluster = connector.open(&setting, source, &wanted).await?;
                Ok(Outcome::Opened(cluster))
            })
        };
        self.begin(target, connecting);
    }

    /// Starts to connect to a cluster that is already open.
    pub(super) fn connect(&mut self, target: Target<C::Setting>) {
        let (connector, setting) = (Arc::clone(&self.connector), target.setting.clone());
        let connecting = async move {
            let source = connector.connect(&setting).await?;
            Ok(std::future::ready(Ok(Outcome::Connected(source))))
        };
        self.begin(target, connecting);
    }

    /// Starts an attempt: `connecting`, which can be cancelled, and then what that returns.
    fn begin<T>(
        &mut self,
        target: Target<C::Setting>,
        connecting: impl Future<Output = std::result::Result<T, Refusal>> + Send + 'static,
    ) where
        T: Future<Output = Result<C>> + Send,
    {
        let mut turn = Arc::default();
        if let Some(former) = self.running.remove(target.name()) {
            turn = former.turn;
        }
        let own_turn = Arc::clone(&turn).lock_owned();
        let (cancel, cancelled) = oneshot::channel::<()>();
        let work = async move {
            let connected = async { (own_turn.await, connecting.await) };
            let (turn, connected) = tokio::select! {
                biased;
                _ = cancelled => return (None, Err("it was cancelled".into())),
                connected = connected => connected,
            };
            let outcome = match connected {
                Ok(opening) => opening.await,
                Err(why) => Err(why),
            };
            (Some(turn), outcome)
        };
        let name = target.name().to_owned();
        let running = Running {
            target: Some(target),
            task: self.tasks.spawn(work).id(),
            cancel: Some(cancel),
            turn,
        };
        self.running.insert(name, running);
    }

    /// Cancels the attempts for all clusters that are not wanted.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for (name, running) in &mut self.running {
            if !is_wanted(name) {
                running.target = None;
                running.cancel = None;
            }
        }
    }

    /// Waits for the next attempt that ends, forever if none runs. Cancelling the wait loses
    /// nothing.
    pub(super) async fn next(&mut self) -> Ended<C> {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, (turn, outcome)))) => Ended {
                target: self.take(id),
                outcome,
                turn,
            },
            Some(Err(error)) => Ended {
                target: self.take(error.id()),
                outcome: Err("following it panicked; the log says how".into()),
                turn: None,
            },
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, id: Id) -> Option<Target<C::Setting>> {
        let mut running = self.running.iter();
        let (name, _) = running.find(|(_, running)| running.task == id)?;
        let name = name.clone();
        self.running.remove(&name)?.target
    }

    /// Cancels all attempts, and waits until those end that open their clusters already. Returns
    /// the clusters that were opened and not handled yet.
    pub(super) async fn end(mut self) -> Vec<C::Cluster> {
        self.keep(|_| false);
        let mut opened = Vec::new();
        while let Some(joined) = self.tasks.join_next().await {
            if let Ok((_, Ok(Outcome::Opened(cluster)))) = joined {
                opened.push(cluster);
            }
        }
        opened
    }
}
