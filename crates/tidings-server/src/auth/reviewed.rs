//! A cache of a cluster's answers to reviews, and limits on asking it.
//!
//! Any client can send any number of tokens, so accepting answers are protected from others:
//!
//! - **Caching.** Accepting answers are evicted only by other accepting answers, never by refusals.
//!   They are remembered for longer than they are valid, to mark questions that were accepted
//!   before. Their cache has sixteen parts, chosen by the asker (a peer's address, a user), so that
//!   an asker with many questions evicts the answers of few others.
//! - **Fairness.** Some places for open questions are reserved for questions that were accepted
//!   before. The other places are given to askers in turns, so an asker with many questions delays
//!   only its own.
//! - **Sharing.** Concurrent callers with the same question share one answer.
//! - **Completion.** A question keeps its place until the cluster has answered or its time is over,
//!   even if no caller waits any more. Otherwise clients that disconnect at once could keep more
//!   questions open in the cluster than there are places.
//! - **Failures** are cached for a second, so that a cluster that is down is not asked by every
//!   waiting request.

use std::future::Future;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, oneshot};
use tokio::time::{timeout, timeout_at};

use super::reviewer::ReviewError;
use crate::clock;

/// The size of the caches: whole for the one cluster of a server, smaller for each of many.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    Whole,
    /// A sixteenth of the whole size.
    Part,
}

impl Room {
    fn of(self, whole: usize) -> usize {
        match self {
            Self::Whole => whole,
            Self::Part => whole / 16,
        }
    }
}

/// Maximum cached answers of any kind.
const ANSWERS_MAX: usize = 4096;
/// Number of parts of the cache of accepting answers.
const GOOD_PARTS: usize = 16;
/// Maximum accepting answers in each part.
const GOOD_MAX: usize = 1024;
/// Maximum open questions.
const QUESTIONS_MAX: usize = 100;
/// Maximum open questions that were not accepted before, among all open questions.
const NEW_QUESTIONS_MAX: usize = 75;
/// Number of groups of askers. Each group has one question in the line for a place. Askers are
/// assigned to groups by a hash with a random key, so that no asker can be targeted.
const GROUPS: usize = 256;
/// Validity of an answer, `k8s.io/apiserver`'s default for delegated reviews.
const ANSWER_TTL: Duration = Duration::from_secs(10);
/// Validity of a failure.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Maximum time from a question to its answer or failure; upstream's default. It is also the
/// maximum wait for an answer that another caller has asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait for a place, for a question that was not accepted before.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// A digest of a question.
pub(super) type Question = [u8; 32];

/// An answer, with the time at which it was known.
type Known<V> = (Instant, Result<V, ReviewError>);

/// A cache of reviews; see the module documentation.
pub(super) struct Reviewed<V>(Arc<Kept<V>>);

struct Kept<V> {
    is_good: fn(&V) -> bool,
    /// The last answers of any kind, and the questions that are being asked.
    answers: Cache<Question, Known<V>>,
    /// The last accepting answers, by their asker's group.
    good: Box<[Cache<Question, Known<V>>]>,
    places: Places,
}

impl<V: Clone + Send + Sync + 'static> Reviewed<V> {
    /// An empty cache. `is_good` is true for accepting answers.
    pub(super) fn new(room: Room, is_good: fn(&V) -> bool) -> Self {
        let good = || Cache::new(room.of(GOOD_MAX));
        Self(Arc::new(Kept {
            is_good,
            answers: Cache::new(room.of(ANSWERS_MAX)),
            good: (0..GOOD_PARTS).map(|_| good()).collect(),
            places: Places::default(),
        }))
    }

    /// The answer to a question of `asker`, from the cache or from `ask`.
    ///
    /// # Errors
    ///
    /// The error of `ask`, a timeout, or too many other questions.
    pub(super) async fn get<F>(
        &self,
        question: Question,
        asker: impl Hash,
        now: Instant,
        ask: impl FnOnce() -> F + Send + 'static,
    ) -> Result<V, ReviewError>
    where
        F: Future<Output = Result<V, ReviewError>> + Send + 'static,
    {
        let kept = &self.0;
        let group = kept.places.group(asker);
        let good_before = kept.good(group).and_then(|good| good.get(&question));
        let answer = good_before.as_ref().filter(|kept| holds(kept, now));
        if let Some((_, answer)) = answer {
            return answer.clone();
        }
        let answer = kept.answers.get(&question).filter(|kept| holds(kept, now));
        if let Some((_, answer)) = answer {
            return answer;
        }
        let asking = Asking {
            kept: Arc::clone(kept),
            question,
            group,
            good_before: good_before.is_some(),
            now,
        };
        let (sender, answer) = oneshot::channel();
        tokio::spawn(asking.answer(ask, sender));
        // Without an answer, the runtime is shutting down.
        answer.await.unwrap_or(Err(ReviewError::TimedOut))
    }
}

impl<V> Kept<V> {
    /// The part of the accepting answers for a group.
    fn good(&self, group: usize) -> Option<&Cache<Question, Known<V>>> {
        self.good.get(group % GOOD_PARTS)
    }
}

/// An open question, in a task of its own.
struct Asking<V> {
    kept: Arc<Kept<V>>,
    question: Question,
    group: usize,
    good_before: bool,
    now: Instant,
}

impl<V: Clone> Asking<V> {
    /// Asks the question, and sends the answer. While the question waits for a place, it is given
    /// up if the receiver of `sender` is dropped.
    async fn answer<F: Future<Output = Result<V, ReviewError>>>(
        self,
        ask: impl FnOnce() -> F,
        mut sender: oneshot::Sender<Result<V, ReviewError>>,
    ) {
        let (kept, now) = (&*self.kept, self.now);
        let begun = clock::timer();
        let found = kept.answers.entry_async(&self.question, |_, known| {
            if holds(known, now) {
                EntryAction::Retain(known.1.clone())
            } else {
                EntryAction::ReplaceWithGuard
            }
        });
        let found = tokio::select! {
            () = sender.closed() => return,
            found = timeout(ANSWER_TIMEOUT, found) => found,
        };
        let unanswered = match found {
            Ok(EntryResult::Vacant(unanswered) | EntryResult::Replaced(unanswered, _)) => {
                unanswered
            }
            Ok(EntryResult::Retained(answer)) => return drop(sender.send(answer)),
            Ok(EntryResult::Removed(..) | EntryResult::Timeout) | Err(_) => {
                return drop(sender.send(Err(ReviewError::TimedOut)));
            }
        };
        let end = clock::timer() + ANSWER_TIMEOUT;
        let place = kept.places.take(self.group, self.good_before);
        let place = tokio::select! {
            () = sender.closed() => return,
            place = timeout_at(end, place) => place,
        };
        let answer = match place {
            Ok(Some(_place)) => timeout_at(end, ask())
                .await
                .unwrap_or(Err(ReviewError::TimedOut)),
            Ok(None) => Err(ReviewError::TooManyQuestions),
            Err(_) => Err(ReviewError::TimedOut),
        };
        let took = clock::timer().saturating_duration_since(begun);
        // The time at which the answer was known, not the time at which its callers began.
        let known = (now.checked_add(took).unwrap_or(now), answer.clone());
        match &answer {
            // A question that was accepted before may be accepted again.
            Err(_) => {}
            Ok(value) => match kept.good(self.group) {
                Some(good) if (kept.is_good)(value) => good.insert(self.question, known.clone()),
                Some(good) => drop(good.remove(&self.question)),
                None => {}
            },
        }
        // All callers that wait for this question get the answer.
        let _ = unanswered.insert(known);
        drop(sender.send(answer));
    }
}

fn holds<V>((known, answer): &Known<V>, now: Instant) -> bool {
    let ttl = if answer.is_ok() {
        ANSWER_TTL
    } else {
        FAILURE_TTL
    };
    now.saturating_duration_since(*known) < ttl
}

/// The places for open questions.
struct Places {
    all: Semaphore,
    new: Semaphore,
    /// Each group's line; the holder of the lock is at its head.
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
    /// The group of an asker.
    fn group(&self, asker: impl Hash) -> usize {
        self.hasher.hash_one(asker) as usize % self.turns.len()
    }

    /// Waits for a place, for a bounded time. Free places go to waiting questions in order of
    /// arrival. At most one question of each group is in that line: the next of the group comes
    /// after all other groups.
    async fn take(
        &self,
        group: usize,
        good_before: bool,
    ) -> Option<(Option<SemaphorePermit<'_>>, SemaphorePermit<'_>)> {
        if good_before {
            return Some((None, self.all.acquire().await.ok()?));
        }
        let turn = self.turns.get(group)?;
        let place = async {
            let _turn = turn.lock().await;
            let new = self.new.acquire().await.ok()?;
            Some((Some(new), self.all.acquire().await.ok()?))
        };
        timeout(PLACE_TIMEOUT, place).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_while_and_failures_for_less() {
        let reviewed: Reviewed<u32> = Reviewed::new(Room::Whole, |_| true);
        let start = clock::monotonic();
        let fails = || async { Err(ReviewError::Unreachable { why: "down".into() }) };
        let at = |millis| start + Duration::from_millis(millis);
        assert!(reviewed.get([1; 32], "ann", at(0), fails).await.is_err());
        // Each row: the millisecond of the question, the answer that asking would give, the
        // expected answer.
        for (millis, says, expected) in [
            (999, 1, None),
            (1000, 2, Some(2)),
            (10_999, 3, Some(2)),
            (11_000, 4, Some(4)),
        ] {
            let ask = move || async move { Ok(says) };
            let answer = reviewed.get([1; 32], "ann", at(millis), ask).await;
            assert_eq!(answer.ok(), expected, "{millis}");
        }
        let failed = reviewed.get([2; 32], "ann", at(11_000), fails).await;
        assert!(failed.is_err());
    }

    #[tokio::test]
    async fn many_who_ask_the_same_are_one_question() {
        let reviewed: Reviewed<usize> = Reviewed::new(Room::Whole, |_| true);
        let asked = Arc::new(AtomicUsize::new(0));
        let now = clock::monotonic();
        let answers = (0..50).map(|_| {
            let asked = Arc::clone(&asked);
            let ask = || async move {
                tokio::task::yield_now().await;
                Ok(asked.fetch_add(1, Ordering::Relaxed))
            };
            reviewed.get([0; 32], "ann", now, ask)
        });
        let answers = futures::future::join_all(answers).await;
        assert!(answers.into_iter().all(|answer| answer.ok() == Some(0)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_says_nothing_keeps_nobody_waiting_for_long() {
        let reviewed: &Reviewed<u32> = &Reviewed::new(Room::Whole, |_| true);
        let now = clock::monotonic();
        let asked = &Arc::new(AtomicUsize::new(0));
        let silent = |after: Duration| async move {
            tokio::time::sleep(after).await;
            let asked = Arc::clone(asked);
            let ask = move || {
                asked.fetch_add(1, Ordering::Relaxed);
                std::future::pending()
            };
            let answer = reviewed.get([0; 32], "ann", now + after, ask).await;
            assert!(matches!(answer, Err(ReviewError::TimedOut)), "{answer:?}");
        };
        // Callers that come while the question is open, or a moment later, get the first one's
        // failure.
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

    /// A cache in which zero is accepting, and everything else is a refusal.
    fn strict() -> Reviewed<usize> {
        Reviewed::new(Room::Whole, |answer| *answer == 0)
    }

    fn good_len(reviewed: &Reviewed<usize>) -> usize {
        reviewed.0.good.iter().map(Cache::len).sum()
    }

    #[tokio::test]
    async fn many_good_answers_of_one_asker_drive_out_none_of_most_others() {
        let reviewed = &strict();
        let now = clock::monotonic();
        let part = |asker: &str| reviewed.0.places.group(asker) % GOOD_PARTS;
        let askers: Vec<String> = (0..64).map(|number| format!("ann-{number}")).collect();
        let others = || askers.iter().filter(|asker| part(asker) != part("eve"));
        assert!(others().count() > 32);
        for (number, asker) in others().enumerate() {
            let answer = reviewed.get(question(number), asker, now, || async { Ok(0) });
            assert_eq!(answer.await.ok(), Some(0));
        }
        for number in 1000..1000 + 4 * ANSWERS_MAX {
            let answer = reviewed.get(question(number), "eve", now, || async { Ok(0) });
            assert_eq!(answer.await.ok(), Some(0));
        }
        let unasked = || async { Err(ReviewError::TimedOut) };
        for (number, asker) in others().enumerate() {
            let answer = reviewed.get(question(number), asker, now, unasked).await;
            assert_eq!(answer.ok(), Some(0), "{asker}");
        }
    }

    #[tokio::test]
    async fn the_number_of_answers_is_bounded() {
        for (good, room) in [
            (0, Room::Whole),
            (1, Room::Whole),
            (0, Room::Part),
            (1, Room::Part),
        ] {
            let reviewed = Reviewed::new(room, |answer: &usize| *answer == 0);
            let now = clock::monotonic();
            for number in 0..2 * ANSWERS_MAX {
                let ask = move || async move { Ok(good) };
                let answer = reviewed.get(question(number), "ann", now, ask);
                answer.await.unwrap();
            }
            assert!(reviewed.0.answers.len() <= room.of(ANSWERS_MAX));
            let kept = good_len(&reviewed);
            assert!(kept <= room.of(GOOD_MAX));
            assert_eq!(kept == 0, good != 0);
        }
    }

    #[tokio::test]
    async fn refusals_drive_out_no_good_answer() {
        let reviewed = &strict();
        let now = clock::monotonic();
        // Refusals come before and after the accepting answers.
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
        // Each row: the second of the question, the cluster's answer or failure, the expected
        // answer.
        for (second, says, expected) in [
            (0, Some(0), Some(0)),
            (9, Some(1), Some(0)),
            (10, None, None),
            (11, Some(0), Some(0)),
            (21, Some(1), Some(1)),
            (22, Some(0), Some(1)),
        ] {
            let says = says.ok_or(ReviewError::TimedOut);
            let answer = reviewed.get(question(1), "ann", at(second), move || async { says });
            assert_eq!(answer.await.ok(), expected, "{second}");
        }
    }

    /// One peer sends 1,300 unknown tokens, and the cluster takes about a second for each.
    #[tokio::test(start_paused = true)]
    async fn many_unknown_questions_hold_up_their_own_asker_alone() {
        /// So that no answer comes at the very moment at which a waiting question is refused.
        const ANSWERED: Duration = Duration::from_millis(950);
        static COUNTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
        let reviewed = &strict();
        let start = clock::monotonic();
        let begun = clock::timer();
        let (open, most_open) = (&COUNTS[0], &COUNTS[1]);
        // Groups are chosen by a random key, and askers of one group wait for each other.
        let (ann, eve) = (0, 1);
        let group = |asker: usize| reviewed.0.places.group(asker);
        let bob = (2..9).find(|bob| group(*bob) != group(eve)).unwrap();
        let ask = move |number: usize, asker: usize, answer: usize| async move {
            let now = start + (clock::timer() - begun);
            let ask = move || async move {
                most_open.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(ANSWERED).await;
                open.fetch_sub(1, Ordering::Relaxed);
                Ok(answer)
            };
            let asked = clock::timer();
            let answer = reviewed.get(question(number), asker, now, ask).await;
            (answer, clock::timer() - asked)
        };
        assert_eq!(ask(1, ann, 0).await.0.ok(), Some(0));
        // The answer is no longer valid, but is remembered as accepting.
        tokio::time::sleep(ANSWER_TTL).await;

        let flood = futures::future::join_all((100..1400).map(|number| ask(number, eve, 1)));
        let later = |number, asker| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ask(number, asker, 0).await
        };
        let (flood, known, new, their_own) =
            futures::join!(flood, later(1, ann), later(2, bob), later(3, eve));
        assert_eq!((known.0.ok(), known.1), (Some(0), ANSWERED));
        // The question takes the first place that is released, and then gets the answer.
        assert_eq!(
            (new.0.ok(), new.1),
            (Some(0), Duration::from_millis(2 * 950 - 100))
        );
        // A caller with as many questions is told to come back.
        assert!(matches!(their_own.0, Err(ReviewError::TooManyQuestions)));
        assert_eq!(their_own.1, PLACE_TIMEOUT);
        let answered = flood.iter().filter(|(answer, _)| answer.is_ok()).count();
        let rounds = 5 * NEW_QUESTIONS_MAX - 1..=6 * NEW_QUESTIONS_MAX;
        assert!(rounds.contains(&answered), "{answered}");
        assert_eq!(most_open.load(Ordering::Relaxed), NEW_QUESTIONS_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_to_its_end_whoever_waits() {
        static OPEN: AtomicUsize = AtomicUsize::new(0);
        let reviewed = &strict();
        let now = clock::monotonic();
        let ask = || async {
            OPEN.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(2)).await;
            OPEN.fetch_sub(1, Ordering::Relaxed);
            Ok(0)
        };
        // Twice as many questions as there are places, given up one after the other.
        for number in 0..2 * NEW_QUESTIONS_MAX {
            let asked = reviewed.get(question(number), number, now, ask);
            assert!(timeout(Duration::from_millis(1), asked).await.is_err());
        }
        assert_eq!(OPEN.load(Ordering::Relaxed), NEW_QUESTIONS_MAX);
        // Callers with the same question get the answer, now and later.
        let unasked = || async { Err(ReviewError::TimedOut) };
        for _ in 0..2 {
            let answer = reviewed.get(question(0), "ann", now, unasked).await;
            assert_eq!(answer.ok(), Some(0));
        }
        // A question that had no place yet was given up with its client.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(OPEN.load(Ordering::Relaxed), 0);
        assert_eq!(good_len(reviewed), NEW_QUESTIONS_MAX);
    }
}
