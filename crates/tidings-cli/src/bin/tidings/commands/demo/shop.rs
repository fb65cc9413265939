//! The work of the demo: orders of a shop, most of which go through, and some of which do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::controller::Work;

/// What becomes of an order, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Goes through at once.
    Smooth,
    /// Fails a few times with one message: a count on one event.
    Bumpy,
    /// Fails with a message of its own every time: combined from the tenth on.
    Wordy,
    /// Fails over and over with one message: more than the spam filter lets through.
    Stuck,
}

impl Fate {
    fn of(number: usize) -> Self {
        match number % 40 {
            7 => Self::Stuck,
            13 => Self::Wordy,
            3 | 17 | 23 | 31 => Self::Bumpy,
            _ => Self::Smooth,
        }
    }

    /// How often the work fails before it succeeds.
    fn failures(self) -> u32 {
        match self {
            Self::Smooth => 0,
            Self::Bumpy => 3,
            Self::Wordy => 16,
            Self::Stuck => 40,
        }
    }
}

/// The orders. Clones are the same shop.
#[derive(Clone)]
pub(super) struct Shop {
    orders: usize,
    done: Arc<AtomicUsize>,
}

impl Shop {
    pub(super) fn new(orders: usize) -> Self {
        Self {
            orders,
            done: Arc::default(),
        }
    }

    /// The names of all orders.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.orders).map(|number| format!("order-{number:03}"))
    }

    /// How many went through.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl Work for Shop {
    type Error = String;

    async fn work(&self, name: &str, failures: u32) -> Result<String, String> {
        let number = name
            .rsplit('-')
            .next()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let fate = Fate::of(number);
        if failures >= fate.failures() {
            self.done.fetch_add(1, Ordering::Relaxed);
            return Ok(format!("{name} packed and shipped"));
        }
        Err(match fate {
            Fate::Wordy => format!(
                "payment of {name} not confirmed: attempt {}, no answer after {} ms",
                failures + 1,
                90 + 7 * failures
            ),
            Fate::Stuck => format!("back-off packing {name}: warehouse is closed"),
            Fate::Smooth | Fate::Bumpy => format!("stock of {name} is being counted"),
        })
    }
}
