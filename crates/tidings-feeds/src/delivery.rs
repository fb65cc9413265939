//! The delivery of one batch: decides what is sent next, and what an answer means for the records.
//!
//! It does no I/O and reads no clock. Invariant: each record ends as delivered or dead, exactly
//! once, and records that are sent again keep their order.

use std::collections::VecDeque;
use std::time::Duration;

use tidings_core::Backoff;

use crate::encode::{Outcome, Verdict};
use crate::record::Record;

/// The wait before records are sent again, which doubles with each failure.
const BACKOFF: Backoff = Backoff::Exponential {
    first: Duration::from_millis(500),
    max: Duration::from_secs(60),
};
/// Interval at which a receiver is asked that refuses the feed.
pub(crate) const REFUSED: Duration = Duration::from_secs(60);
/// Maximum of a receiver's `Retry-After` that is obeyed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Why a record is not delivered and is not sent again.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DeadCause {
    /// The receiver rejected it.
    Rejected,
    /// The receiver does not take a request with this record alone.
    TooLarge,
    /// It has no form that the receiver takes.
    Unencodable,
    /// The stored bytes are no event.
    Unreadable,
}

impl DeadCause {
    /// All causes.
    pub const ALL: [Self; 4] = [
        Self::Rejected,
        Self::TooLarge,
        Self::Unencodable,
        Self::Unreadable,
    ];

    /// The cause as metrics and dead letters have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::TooLarge => "too-large",
            Self::Unencodable => "unencodable",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It was answered, or there was no answer; with the receiver's `Retry-After`.
    Judged(Verdict, Option<Duration>),
    /// It was not sent, because these records cannot be encoded.
    Unencodable(Vec<(usize, String)>),
}

/// What follows an answer.
#[derive(Debug)]
pub(crate) struct Step {
    /// Number of versions that were delivered.
    pub(crate) delivered: u64,
    /// Records that will not be delivered.
    pub(crate) dead: Vec<(Record, DeadCause, String)>,
    pub(crate) next: Next,
}

/// When the next request is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    /// After a wait; the text has the receiver's words.
    Retry(Duration, String),
    /// After a minute, because the receiver refuses the feed.
    Refused(String),
}

/// Records on their way to a receiver.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The records of the coming requests.
    parts: VecDeque<Vec<Record>>,
    /// Failures without any progress in between.
    failures: u32,
}

fn versions(records: &[Record]) -> u64 {
    records.iter().filter(|record| record.is_version()).count() as u64
}

impl Delivery {
    /// Begins the delivery of records, at most `max` in a request.
    pub(crate) fn new(records: Vec<Record>, max: usize) -> Self {
        let mut parts = VecDeque::new();
        let mut rest = records;
        while rest.len() > max.max(1) {
            let behind = rest.split_off(max.max(1));
            parts.push_back(std::mem::replace(&mut rest, behind));
        }
        parts.push_back(rest);
        Self { parts, failures: 0 }
    }

    /// The records of the next request; `None` if all are delivered or dead.
    pub(crate) fn next(&mut self) -> Option<&[Record]> {
        while self.parts.front()?.is_empty() {
            self.parts.pop_front();
        }
        self.parts.front().map(Vec::as_slice)
    }

    /// Handles what became of the request with the [`next`](Self::next) records. `random` is
    /// uniform over all of `u64`.
    pub(crate) fn handle(&mut self, reply: Reply, random: u64) -> Step {
        let mut step = Step {
            delivered: 0,
            dead: Vec::new(),
            next: Next::Now,
        };
        let Some(mut part) = self.parts.pop_front() else {
            return step;
        };
        let (verdict, retry_after) = match reply {
            Reply::Judged(verdict, retry_after) => (verdict, retry_after),
            Reply::Unencodable(mut which) => {
                which.dedup_by_key(|(at, _)| *at);
                for (at, why) in which.into_iter().rev() {
                    if at < part.len() {
                        let cause = DeadCause::Unencodable;
                        step.dead.push((part.remove(at), cause, why));
                    }
                }
                self.parts.push_front(part);
                return step;
            }
        };
        let mut retry = None;
        let mut left = Vec::new();
        match verdict {
            Verdict::Delivered => step.delivered = versions(&part),
            Verdict::Retry(why) => (retry, left) = (Some(why), part),
            Verdict::Refused(why) => (step.next, left) = (Next::Refused(why), part),
            // One record may spoil the request for the others.
            Verdict::TooLarge | Verdict::Rejected(_) if part.len() > 1 => {
                let behind = part.split_off(part.len().div_ceil(2));
                self.parts.push_front(behind);
                left = part;
            }
            Verdict::TooLarge => {
                let why = "the receiver does not take a request with this record alone";
                let dead = part.into_iter();
                step.dead = dead
                    .map(|it| (it, DeadCause::TooLarge, why.to_owned()))
                    .collect();
            }
            Verdict::Rejected(why) => {
                let dead = part.into_iter();
                step.dead = dead
                    .map(|it| (it, DeadCause::Rejected, why.clone()))
                    .collect();
            }
            Verdict::Items(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                for record in part {
                    let missing = || Outcome::Retry("no outcome for each record".to_owned());
                    match outcomes.next().unwrap_or_else(missing) {
                        Outcome::Delivered => step.delivered += u64::from(record.is_version()),
                        Outcome::Rejected(why) => {
                            step.dead.push((record, DeadCause::Rejected, why));
                        }
                        Outcome::Retry(why) => {
                            retry.get_or_insert(why);
                            left.push(record);
                        }
                    }
                }
                if step.delivered > 0 || !step.dead.is_empty() {
                    self.failures = 0;
                }
            }
        }
        self.parts.push_front(left);
        match retry {
            None => self.failures = 0,
            Some(why) => {
                self.failures = self.failures.saturating_add(1);
                let wait = BACKOFF.wait(self.failures, random);
                let asked = retry_after.map_or(Duration::ZERO, |asked| {
                    let asked = asked.min(RETRY_AFTER_MAX);
                    asked + asked.mul_f64(random as f64 / u64::MAX as f64 / 4.0)
                });
                step.next = Next::Retry(asked.max(wait), why);
            }
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::record::RecordBody;

    fn records(number: usize) -> Vec<Record> {
        let records = (0..number).map(|id| Record {
            id: id.to_string(),
            body: RecordBody::Test {
                at: UnixMillis(0),
                text: String::new(),
            },
        });
        records.collect()
    }

    fn judged(verdict: Verdict) -> Reply {
        Reply::Judged(verdict, None)
    }

    #[test]
    fn a_rejected_request_is_halved_until_the_spoiling_record_is_alone() {
        let mut delivery = Delivery::new(records(8), usize::MAX);
        let (mut delivered, mut dead) = (Vec::new(), Vec::new());
        while let Some(part) = delivery.next() {
            let ids: Vec<_> = part.iter().map(|it| it.id.clone()).collect();
            let verdict = if ids.iter().any(|id| id == "5") {
                Verdict::Rejected("400".to_owned())
            } else {
                delivered.extend(ids);
                Verdict::Delivered
            };
            let step = delivery.handle(judged(verdict), 0);
            dead.extend(step.dead.into_iter().map(|(record, ..)| record.id));
        }
        assert_eq!(delivered, ["0", "1", "2", "3", "4", "6", "7"]);
        assert_eq!(dead, ["5"]);
    }

    #[test]
    fn waits_grow_and_are_not_shorter_than_the_receiver_asks() {
        let mut delivery = Delivery::new(records(1), 1);
        let retry = || Verdict::Retry("503".to_owned());
        let waits = |delivery: &mut Delivery, asked: Option<u64>| {
            let reply = Reply::Judged(retry(), asked.map(Duration::from_secs));
            match delivery.handle(reply, 0).next {
                Next::Retry(wait, _) => wait.as_millis(),
                other => panic!("{other:?}"),
            }
        };
        let found: Vec<_> = [None, None, Some(7), Some(9000)]
            .into_iter()
            .map(|asked| waits(&mut delivery, asked))
            .collect();
        assert_eq!(found, [500, 1000, 7000, 300_000]);
        for _ in 0..20 {
            assert!(waits(&mut delivery, None) <= 60_000);
        }
    }

    proptest! {
        /// Whatever the receiver answers, each record ends once, and those of one request that are
        /// sent again are sent in their order.
        #[test]
        fn each_record_ends_once(
            number in 0_usize..20,
            max in 1_usize..9,
            answers in prop::collection::vec((0_u8..7, any::<u64>()), 0..60),
        ) {
            let mut delivery = Delivery::new(records(number), max);
            let mut ended = Vec::new();
            let good = std::iter::repeat((0, 0));
            for (answer, random) in answers.into_iter().chain(good) {
                let Some(part) = delivery.next() else {
                    break;
                };
                let ids: Vec<usize> = part.iter().map(|it| it.id.parse().unwrap()).collect();
                prop_assert!(ids.is_sorted() && ids.len() <= max);
                let why = || "no".to_owned();
                let outcome = |at: usize| match (random >> (at % 32 * 2)) & 3 {
                    0 => Outcome::Rejected(why()),
                    1 => Outcome::Retry(why()),
                    _ => Outcome::Delivered,
                };
                let reply = match answer {
                    0 => judged(Verdict::Delivered),
                    1 => judged(Verdict::Retry(why())),
                    2 => judged(Verdict::Refused(why())),
                    3 => judged(Verdict::TooLarge),
                    4 => judged(Verdict::Rejected(why())),
                    5 => judged(Verdict::Items((0..ids.len()).map(outcome).collect())),
                    _ => Reply::Unencodable(vec![(0, why()), (ids.len() - 1, why())]),
                };
                match &reply {
                    Reply::Judged(Verdict::Delivered, _) => ended.extend(&ids),
                    Reply::Judged(Verdict::Items(outcomes), _) => {
                        let all = ids.iter().zip(outcomes);
                        ended.extend(all.filter(|it| *it.1 == Outcome::Delivered).map(|it| it.0));
                    }
                    _ => {}
                }
                let step = delivery.handle(reply, random);
                let dead = step.dead.iter().map(|(record, ..)| record.id.parse::<usize>().unwrap());
                ended.extend(dead);
            }
            ended.sort_unstable();
            prop_assert_eq!(ended, (0..number).collect::<Vec<_>>());
        }
    }
}
