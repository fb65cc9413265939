//! The work of the demo: a job for each order of a shop. Most of their pods are created at once;
//! some fail a few times, and some repeatedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::controller::Work;

/// The outcome of a job, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Succeeds at once.
    Smooth,
    /// Fails a few times with one message: one event with a count.
    Bumpy,
    /// Fails with a different message each time: combined from the tenth.
    Wordy,
    /// Fails repeatedly with one message: more often than the spam filter admits.
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

    /// Number of failures before the work succeeds.
    fn failures(self) -> u32 {
        match self {
            Self::Smooth => 0,
            Self::Bumpy => 3,
            Self::Wordy => 16,
            Self::Stuck => 40,
        }
    }
}

/// The jobs. Clones share them.
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

    /// The names of all jobs.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.orders).map(|number| format!("order-{number:03}"))
    }

    /// Number of jobs done.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl Work for Shop {
    type Error = String;

    /// Creates the pod of a job, with the messages of Kubernetes' own job controller.
    async fn work(&self, name: &str, failures: u32) -> Result<String, String> {
        let number = name
            .rsplit('-')
            .next()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let fate = Fate::of(number);
        let pod = format!("{name}-{}", suffix(number + failures as usize));
        if failures >= fate.failures() {
            self.done.fetch_add(1, Ordering::Relaxed);
            return Ok(format!("Created pod: {pod}"));
        }
        Err(match fate {
            Fate::Wordy => format!(
                "Error creating: pods \"{pod}\" is forbidden: exceeded quota: compute, \
                 requested: limits.cpu=500m, used: limits.cpu={}m, limited: limits.cpu=8",
                7600 + 20 * failures
            ),
            Fate::Stuck => "Error creating: Internal error occurred: failed calling webhook \
                 \"policy.example.com\": failed to call webhook: Post \
                 \"https://policy.shop.svc:443/validate?timeout=10s\": \
                 dial tcp 10.96.14.3:443: connect: connection refused"
                .to_owned(),
            Fate::Smooth | Fate::Bumpy => {
                "Error creating: Timeout: request did not complete within \
                 requested timeout - context deadline exceeded"
                    .to_owned()
            }
        })
    }
}

/// The end of a generated name: five letters from the alphabet of Kubernetes' names.
fn suffix(number: usize) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number.wrapping_mul(7_368_787) % ALPHABET.len().pow(5);
    let letter = |_| {
        let letter = ALPHABET.get(rest % ALPHABET.len()).copied().unwrap_or(b'x');
        rest /= ALPHABET.len();
        char::from(letter)
    };
    (0..5).map(letter).collect()
}
