//! Answers of a cluster, kept for a while.
//!
//! Anybody can ask about as many tokens as they like, so what is known to be good is kept apart from what may be anything:
//!
//! - **What is kept.** Answers that were good are driven out by such answers alone, never by refusals. They are remembered
//!   for longer than they hold, as questions that were good before.
//! - **Who may ask.** Of the questions that are open at once, some places are for those that were good before. The others
//!   go round by whoever asks (a peer's address, a user): one that asks many questions makes its own wait.
//! - **Asked once.** Who asks what is being asked already waits for that answer.
//! - **Failures** are kept for a second from when they were known, so that a cluster that is down is not asked by every
//!   request that waits.

use std::future::Future;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::reviewer::ReviewError;
use crate::clock;

/// Answers kept, and as many good ones beside them.
const ANSWERS_MAX: usize = 4096;
/// Questions open at once.
const QUESTIONS_MAX: usize = 100;
/// Of these, questions that were not good before.
const NEW_QUESTIONS_MAX: usize = 75;
/// Groups of those who ask: each has one question in the line for a place. Who falls into which changes from start to
/// start, so that no one can be aimed at.
const GROUPS: usize = 256;
/// How long an answer holds: `k8s.io/apiserver`'s default for delegated authentication and authorization.
const ANSWER_TTL: Duration = Duration::from_secs(10);
/// How long a failure holds.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Within this a question gets an answer or a failure; upstream's default. Also how long an answer to somebody else is waited
/// for.
const PATIENCE: Duration = Duration::from_secs(10);
/// A question that was not good before gets a place within this, or none.
const PLACE_PATIENCE: Duration = Duration::from_secs(5);

/// Stands for a question: a digest of all of it.
pub(super) type Question = [u8; 32];

/// An answer, and when it was known.
type Kept<V> = (Instant, Result<V, ReviewError>);

/// See the module documentation.
pub(super) struct Reviewed<V> {
    is_good: fn(&V) -> bool,
    /// The last answers, whatever they were; and what is being asked.
    answers: Cache<Question, Kept<V>>,
    /// The last that were good.
    good: Cache<Question, Kept<V>>,
    places: Places,
}

impl<V: Clone> Reviewed<V> {
    /// Keeps answers; `is_good` says which of them let somebody in.
    pub(super) fn new(is_good: fn(&V) -> bool) -> Self {
        Self {
            is_good,
            answers: Cache::new(ANSWERS_MAX),
            good: Cache::new(ANSWERS_MAX),
            places: Places::default(),
        }
    }

    /// The answer to a question of `asker`: a kept one, or what `ask` says.
    ///
    /// # Errors
    /// What `ask` fails with, that it took too long, or that too many others ask.
    pub(super) async fn get<F: Future<Output = Result<V, ReviewError>>>(
        &self,
        question: Question,
        asker: impl Hash,
        now: Instant,
        ask: impl FnOnce() -> F,
    ) -> Result<V, ReviewError> {
        let good_before = self.good.get(&question);
        if let Some(kept) = &good_before
            && holds(kept, now)
        {
            return kept.1.clone();
        }
        let begun = clock::timer();
        let found = self.answers.entry_async(&question, |_, kept| {
            if holds(kept, now) {
                EntryAction::Retain(kept.1.clone())
            } else {
                EntryAction::ReplaceWithGuard
            }
        });
        let unanswered = match timeout(PATIENCE, found).await {
            Ok(EntryResult::Vacant(unanswered) | EntryResult::Replaced(unanswered, _)) => {
                unanswered
            }
            Ok(EntryResult::Retained(answer)) => return answer,
            Ok(EntryResult::Removed(..) | EntryResult::Timeout) | Err(_) => {
                return Err(ReviewError::TimedOut);
            }
        };
        let answered = async {
            let Some(_place) = self.places.take(asker, good_before.is_some()).await else {
                return Err(ReviewError::TooManyQuestions);
            };
            ask().await
        };
        let answer = timeout(PATIENCE, answered)
            .await
            .unwrap_or(Err(ReviewError::TimedOut));
        let took = clock::timer().saturating_duration_since(begun);
        // Who waited while it was asked for began before it was known.
        let known = now.checked_add(took).unwrap_or(now);
        let kept = (known, answer.clone());
        match &answer {
            Ok(value) if (self.is_good)(value) => self.good.insert(question, kept.clone()),
            Ok(_) => drop(self.good.remove(&question)),
            // What was good before may be again.
            Err(_) => {}
        }
        // Those who wait are told.
        let _ = unanswered.insert(kept);
        answer
    }
}

fn holds<V>((known, answer): &Kept<V>, now: Instant) -> bool {
    let ttl = if answer.is_ok() {
        ANSWER_TTL
    } else {
        FAILURE_TTL
    };
    now.saturating_duration_since(*known) < ttl
}

/// The places of questions that are open.
struct Places {
    all: Semaphore,
    new: Semaphore,
    /// The head of each group's line.
    turns: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            all: Semaphore::new(QUESTIONS_MAX),
            new: Semaphore::new(NEW_QUESTIONS_MAX),
            turns: (0..GROUPS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Places {
    /// A place, if there is one in time. Places that are free go to those who wait, in the order in which they came, and of
    /// each group no more than one waits here: the next of it comes behind all other groups.
    async fn take(
        &self,
        asker: impl Hash,
        good_before: bool,
    ) -> Option<(Option<SemaphorePermit<'_>>, SemaphorePermit<'_>)> {
        if good_before {
            return Some((None, self.all.acquire().await.ok()?));
        }
        let group = self.hasher.hash_one(asker) as usize % self.turns.len();
        let turn = self.turns.get(group)?;
        let place = async {
            let _turn = turn.lock().await;
            let new = self.new.acquire().await.ok()?;
            Some((Some(new), self.all.acquire().await.ok()?))
        };
        timeout(PLACE_PATIENCE, place).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_while_and_failures_for_less() {
        let reviewed: Reviewed<u32> = Reviewed::new(|_| true);
        let start = clock::monotonic();
        let fails = || async { Err(ReviewError::Unreachable { why: "down".into() }) };
        let at = |millis| start + Duration::from_millis(millis);
        assert!(reviewed.get([1; 32], "ann", at(0), fails).await.is_err());
        // Millisecond of the question, what asking would say, what is said.
        for (millis, says, expected) in [
            (999, 1, None),
            (1000, 2, Some(2)),
            (10_999, 3, Some(2)),
            (11_000, 4, Some(4)),
        ] {
            let answer = reviewed
                .get([1; 32], "ann", at(millis), || async move { Ok(says) })
                .await;
            assert_eq!(answer.ok(), expected, "{millis}");
        }
        assert!(
            reviewed
                .get([2; 32], "ann", at(11_000), fails)
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn many_who_ask_the_same_are_one_question() {
        let reviewed: Reviewed<usize> = Reviewed::new(|_| true);
        let asked = AtomicUsize::new(0);
        let now = clock::monotonic();
        let ask = || async {
            tokio::task::yield_now().await;
            Ok(asked.fetch_add(1, Ordering::Relaxed))
        };
        let answers = (0..50).map(|_| reviewed.get([0; 32], "ann", now, ask));
        let answers = futures::future::join_all(answers).await;
        assert!(answers.into_iter().all(|answer| answer.ok() == Some(0)));
        assert_eq!(asked.into_inner(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_says_nothing_keeps_nobody_waiting_for_long() {
        let reviewed: &Reviewed<u32> = &Reviewed::new(|_| true);
        let now = clock::monotonic();
        let asked = &AtomicUsize::new(0);
        let ask = || {
            asked.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        };
        let silent = |after: Duration| async move {
            tokio::time::sleep(after).await;
            let answer = reviewed.get([0; 32], "ann", now + after, ask).await;
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

    fn question(number: usize) -> Question {
        let mut question = [0; 32];
        question[..8].copy_from_slice(&number.to_le_bytes());
        question
    }

    /// Zero is good, everything else is refused.
    fn strict() -> Reviewed<usize> {
        Reviewed::new(|answer| *answer == 0)
    }

    #[tokio::test]
    async fn the_number_of_answers_is_bounded() {
        for good in [0, 1] {
            let reviewed = strict();
            let now = clock::monotonic();
            for number in 0..2 * ANSWERS_MAX {
                let answer = reviewed.get(question(number), "ann", now, || async move { Ok(good) });
                answer.await.unwrap();
            }
            for cache in [&reviewed.answers, &reviewed.good] {
                assert!(cache.len() <= ANSWERS_MAX);
            }
            assert_eq!(reviewed.good.is_empty(), good != 0);
        }
    }

    #[tokio::test]
    async fn refusals_drive_out_no_good_answer() {
        let reviewed = &strict();
        let now = clock::monotonic();
        // Before and after those that are good.
        let refusals = |from: usize| async move {
            for number in from..from + 4 * ANSWERS_MAX {
                let answer = reviewed.get(question(number), "eve", now, || async { Ok(1) });
                assert_eq!(answer.await.ok(), Some(1));
            }
        };
        refusals(100_000).await;
        for number in 0..100 {
            let answer = reviewed.get(question(number), "ann", now, || async { Ok(0) });
            assert_eq!(answer.await.ok(), Some(0));
        }
        refusals(200_000).await;
        let unasked = || async { Err(ReviewError::TimedOut) };
        for number in 0..100 {
            let answer = reviewed.get(question(number), "ann", now, unasked).await;
            assert_eq!(answer.ok(), Some(0), "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_good_any_more_is_refused() {
        let reviewed = strict();
        let start = clock::monotonic();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Second of the question, what the cluster says or that it is down, what is said.
        for (second, says, expected) in [
            (0, Some(0), Some(0)),
            (9, Some(1), Some(0)),
            (10, None, None),
            (11, Some(0), Some(0)),
            (21, Some(1), Some(1)),
            (22, Some(0), Some(1)),
        ] {
            let says = says.ok_or(ReviewError::TimedOut);
            let answer = reviewed.get(question(1), "ann", at(second), || async { says });
            assert_eq!(answer.await.ok(), expected, "{second}");
        }
    }

    /// 1,300 tokens of nobody's from one peer, beside a cluster that takes a second for each.
    #[tokio::test(start_paused = true)]
    async fn many_unknown_questions_hold_up_their_own_asker_alone() {
        let reviewed = &strict();
        let start = clock::monotonic();
        let begun = clock::timer();
        let open = &AtomicUsize::new(0);
        let most_open = &AtomicUsize::new(0);
        let ask = move |number: usize, asker: &'static str, answer: usize| async move {
            let now = start + (clock::timer() - begun);
            let ask = || async {
                most_open.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                open.fetch_sub(1, Ordering::Relaxed);
                Ok(answer)
            };
            let asked = clock::timer();
            let answer = reviewed.get(question(number), asker, now, ask).await;
            (answer, clock::timer() - asked)
        };
        assert_eq!(ask(1, "ann", 0).await.0.ok(), Some(0));
        // It holds no more, and is remembered as good.
        tokio::time::sleep(ANSWER_TTL).await;

        let flood = futures::future::join_all((100..1400).map(|number| ask(number, "eve", 1)));
        let later = |number, asker| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ask(number, asker, 0).await
        };
        let (flood, known, new, their_own) =
            futures::join!(flood, later(1, "ann"), later(2, "bob"), later(3, "eve"));
        assert_eq!((known.0.ok(), known.1), (Some(0), Duration::from_secs(1)));
        // The first place that is given back, and the answer.
        assert_eq!((new.0.ok(), new.1), (Some(0), Duration::from_millis(1900)));
        // Whoever asks so much is told to come back.
        assert!(matches!(their_own.0, Err(ReviewError::TooManyQuestions)));
        assert_eq!(their_own.1, PLACE_PATIENCE);
        let answered = flood.iter().filter(|(answer, _)| answer.is_ok()).count();
        let rounds = 5 * NEW_QUESTIONS_MAX - 1..=6 * NEW_QUESTIONS_MAX;
        assert!(rounds.contains(&answered), "{answered}");
        assert_eq!(most_open.load(Ordering::Relaxed), NEW_QUESTIONS_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_question_to_the_next() {
        let reviewed = &strict();
        let now = clock::monotonic();
        let first = reviewed.get(question(1), "ann", now, std::future::pending);
        let first = timeout(Duration::from_secs(1), first);
        let second = async {
            tokio::task::yield_now().await;
            reviewed
                .get(question(1), "ann", now, || async { Ok(0) })
                .await
        };
        let (first, second) = futures::join!(first, second);
        assert!(first.is_err());
        assert_eq!(second.ok(), Some(0));
    }
}
