//! Answers of a cluster, kept for a while.
//!
//! Bounded by number; who asks what somebody else is asking already waits for that answer instead of asking again; a failure
//! is kept for a second from when it was known, so that a cluster that is down is not asked by every request that waits.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::Semaphore;

use super::cluster::ReviewError;
use crate::clock;

/// So many answers are kept; the least recently used go first.
const ANSWERS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// So many questions are open at once.
const QUESTIONS_MAX: usize = 100;
/// An answer holds for so long: `k8s.io/apiserver`'s default for delegated authentication and authorization.
const ANSWER_TTL: Duration = Duration::from_secs(10);
/// A failure holds for so long.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// A question gets an answer within this, or a failure; upstream's default. Nobody waits longer for somebody else's.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stands for a question: a digest of all of it.
pub(super) type Question = [u8; 32];

type Slot<V> = Arc<tokio::sync::Mutex<Option<(Instant, Result<V, ReviewError>)>>>;

pub(super) struct Reviewed<V> {
    slots: Mutex<LruCache<Question, Slot<V>>>,
    questions: Semaphore,
}

impl<V: Clone> Reviewed<V> {
    pub(super) fn new() -> Self {
        Self {
            slots: Mutex::new(LruCache::new(ANSWERS_MAX)),
            questions: Semaphore::new(QUESTIONS_MAX),
        }
    }

    /// The answer to a question: a kept one, or what `ask` says.
    ///
    /// # Errors
    /// What `ask` fails with, or that it took too long.
    pub(super) async fn get<F: Future<Output = Result<V, ReviewError>>>(
        &self,
        question: Question,
        now: Instant,
        ask: impl FnOnce() -> F,
    ) -> Result<V, ReviewError> {
        let slot = self
            .slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(question, Slot::default)
            .clone();
        let begun = clock::timer();
        let Ok(mut slot) = tokio::time::timeout(PATIENCE, slot.lock()).await else {
            return Err(ReviewError::TimedOut);
        };
        if let Some((at, answer)) = &*slot {
            let ttl = if answer.is_ok() {
                ANSWER_TTL
            } else {
                FAILURE_TTL
            };
            // Who waited while it was asked for began before it was known.
            if now.saturating_duration_since(*at) < ttl {
                return answer.clone();
            }
        }
        let answered = async {
            let _permit = self.questions.acquire().await;
            ask().await
        };
        let answer = tokio::time::timeout(PATIENCE, answered)
            .await
            .unwrap_or(Err(ReviewError::TimedOut));
        let took = clock::timer().saturating_duration_since(begun);
        let known = now.checked_add(took).unwrap_or(now);
        *slot = Some((known, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_while_and_failures_for_less() {
        let reviewed: Reviewed<u32> = Reviewed::new();
        let start = clock::monotonic();
        let fails = || async { Err(ReviewError::Unreachable { why: "down".into() }) };
        let at = |millis| start + Duration::from_millis(millis);
        assert!(reviewed.get([1; 32], at(0), fails).await.is_err());
        // Millisecond of the question, what asking would say, what is said.
        for (millis, says, expected) in [
            (999, 1, None),
            (1000, 2, Some(2)),
            (10_999, 3, Some(2)),
            (11_000, 4, Some(4)),
        ] {
            let answer = reviewed
                .get([1; 32], at(millis), || async move { Ok(says) })
                .await;
            assert_eq!(answer.ok(), expected, "{millis}");
        }
        assert!(reviewed.get([2; 32], at(11_000), fails).await.is_err());
    }

    #[tokio::test]
    async fn many_who_ask_the_same_are_one_question() {
        let reviewed: Reviewed<usize> = Reviewed::new();
        let asked = AtomicUsize::new(0);
        let now = clock::monotonic();
        let ask = || async {
            tokio::task::yield_now().await;
            Ok(asked.fetch_add(1, Ordering::Relaxed))
        };
        let answers = (0..50).map(|_| reviewed.get([0; 32], now, ask));
        let answers = futures::future::join_all(answers).await;
        assert!(answers.into_iter().all(|answer| answer.ok() == Some(0)));
        assert_eq!(asked.into_inner(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_says_nothing_keeps_nobody_waiting_for_long() {
        let reviewed: &Reviewed<u32> = &Reviewed::new();
        let now = clock::monotonic();
        let asked = &AtomicUsize::new(0);
        let ask = || {
            asked.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        };
        let silent = |after: Duration| async move {
            tokio::time::sleep(after).await;
            let answer = reviewed.get([0; 32], now + after, ask).await;
            assert!(matches!(answer, Err(ReviewError::TimedOut)), "{answer:?}");
        };
        // Whoever comes while it is asked, and a moment after, is told what the first one was.
        let begun = clock::timer();
        let moments = [0, 1, 5000, 9000, 10_900].map(Duration::from_millis);
        futures::future::join_all(moments.map(silent)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(clock::timer() - begun, moments[4]);
        silent(Duration::from_secs(12)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn the_number_of_answers_is_bounded() {
        let reviewed: Reviewed<usize> = Reviewed::new();
        let now = clock::monotonic();
        for number in 0..ANSWERS_MAX.get() + 10 {
            let mut question = [0; 32];
            question[..8].copy_from_slice(&number.to_le_bytes());
            reviewed
                .get(question, now, || async move { Ok(number) })
                .await
                .unwrap();
        }
        assert_eq!(reviewed.slots.lock().unwrap().len(), ANSWERS_MAX.get());
    }
}
