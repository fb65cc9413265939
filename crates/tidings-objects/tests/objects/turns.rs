//! Several users of one storage make their requests one at a time, in an order that is drawn from a
//! seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidings_store::clock::ManualClock;
use tokio::sync::{Notify, oneshot};

/// Decides which user makes the next request.
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// The number of users that are not done.
    live: usize,
    waiting: BTreeMap<usize, oneshot::Sender<()>>,
}

impl Turns {
    pub(crate) fn of(live: usize) -> Arc<Self> {
        let waiting = BTreeMap::new();
        Arc::new(Self {
            state: Mutex::new(State { live, waiting }),
            changed: Notify::new(),
        })
    }

    /// Waits for the turn of this user.
    pub(crate) async fn wait(&self, who: usize) {
        let (tell, told) = oneshot::channel();
        self.state.lock().waiting.insert(who, tell);
        self.changed.notify_one();
        told.await.unwrap();
    }

    /// Reports that a user has no more requests.
    pub(crate) fn done(&self) {
        self.state.lock().live -= 1;
        self.changed.notify_one();
    }

    /// Gives turns until all users are done: each to the user of the last turn, or to another. Now
    /// and then the clock moves on, by at most this number of milliseconds.
    pub(crate) async fn give(&self, random: &mut fastrand::Rng, clock: &ManualClock, most: i64) {
        let mut last = 0;
        loop {
            let next = loop {
                match self.next(random, &mut last) {
                    Next::Turn(next) => break next,
                    Next::Over => return,
                    // Other users are still at work. Each of them will make a request, or report
                    // that it is done.
                    Next::Wait => self.changed.notified().await,
                }
            };
            if random.usize(..8) == 0 {
                clock.advance(random.i64(1..=most));
            }
            next.send(()).unwrap();
        }
    }

    /// Chooses the user of the next turn.
    fn next(&self, random: &mut fastrand::Rng, last: &mut usize) -> Next {
        let mut state = self.state.lock();
        if state.live == 0 {
            return Next::Over;
        }
        if state.waiting.len() < state.live {
            return Next::Wait;
        }
        let stays = random.usize(..4) > 0 && state.waiting.contains_key(last);
        if !stays {
            let at = random.usize(..state.waiting.len());
            *last = *state.waiting.keys().nth(at).unwrap();
        }
        Next::Turn(state.waiting.remove(last).unwrap())
    }
}

enum Next {
    Turn(oneshot::Sender<()>),
    Wait,
    Over,
}
