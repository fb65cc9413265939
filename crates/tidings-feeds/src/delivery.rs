//! The delivery of one batch: decides what is sent next, and what an answer means for the records.
//!
//! It does no I/O and reads no clock. Invariants: each record ends as delivered or dead, exactly
//! once, and records that are sent again keep their order. If a receiver rejects some records of a
//! request and does not say which, all of them become dead letters, and only so many count as dead.
//! If the receiver takes no record of a batch, none is dead before it takes a test record; where a
//! request has one record, one may be if it took one of the batch before. So neither a wrong
//! configuration nor an outage makes many dead letters, and no record holds up the others forever.
//! A receiver that is busy gets the same records until it takes them, in the end in smaller
//! requests.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
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
/// Failures of the same records after which a test record is sent: half an hour of retries.
const RETRIES_MAX: u32 = 30;
/// As [`RETRIES_MAX`], once a record became a dead letter after so many: a feed with many such
/// records goes on.
const RETRIES_AFTER_DEATH: u32 = 3;
/// Records without such a death after which retries are as many as before.
const RECORDS_AFTER_DEATH: usize = 500;
/// Refusals of the same records after which a test record is sent: a minute lies between them.
const REFUSALS_MAX: u32 = 2;
/// Times a receiver is busy with the same records until they are sent in halves: it may be because
/// of their size.
const BUSY_MAX: u32 = 8;
/// Why a record alone is too large.
const TOO_LARGE: &str = "413: the receiver does not take a request with this record alone";
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
    /// The receiver rejected some records of a request, it is not known which. All are kept, and
    /// only the number of rejected ones counts.
    PossiblyRejected,
    /// The receiver does not take a request with this record alone.
    TooLarge,
    /// It has no form that the receiver takes.
    Unencodable,
    /// The stored bytes are no event.
    Unreadable,
}

impl DeadCause {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::Rejected,
        Self::PossiblyRejected,
        Self::TooLarge,
        Self::Unencodable,
        Self::Unreadable,
    ];

    /// The cause as metrics and dead letters have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::PossiblyRejected => "possibly-rejected",
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

/// What is sent next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Records(&'a [Record]),
    /// A test record, which shows whether the receiver takes any.
    Test,
}

/// Whether the first records or the receiver are at fault, which a test record shows.
#[derive(Debug)]
struct Doubt {
    /// Why records were rejected, if the answer was about each, so that they must not be sent
    /// again.
    rejected: Option<Vec<Option<String>>>,
    /// What follows if the receiver does not take the test record.
    otherwise: Next,
}

/// What follows an answer.
#[derive(Debug)]
pub(crate) struct Step {
    /// Number of versions that were delivered.
    pub(crate) delivered: u64,
    /// Records that become dead letters.
    pub(crate) dead: Vec<(Record, DeadCause, String)>,
    /// Number of versions that were not delivered and are not sent again, by cause.
    pub(crate) dead_versions: BTreeMap<DeadCause, u64>,
    pub(crate) next: Next,
}

impl Step {
    fn bury(&mut self, record: Record, cause: DeadCause, why: String) {
        *self.dead_versions.entry(cause).or_default() += u64::from(record.is_version());
        self.dead.push((record, cause, why));
    }
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

/// What the deliveries so far showed of the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Experience {
    /// Whether it took a record of the last delivery.
    is_taking: bool,
    /// Records since the last one whose retries were exhausted; `None` if there is none among the
    /// last [`RECORDS_AFTER_DEATH`].
    since_death: Option<usize>,
}

/// Records on their way to a receiver.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is of another answer, and they change apart"
)]
pub(crate) struct Delivery {
    /// The records of the coming requests.
    parts: VecDeque<Vec<Record>>,
    /// Failures without any progress in between.
    failures: u32,
    /// Failures since then, or since the last test record, without those of a busy receiver.
    failures_untested: u32,
    /// Times the receiver was busy with the first part.
    busy: u32,
    /// Whether the receiver took a record.
    is_taking: bool,
    /// Whether it did so in the delivery before, and not yet in this one.
    is_taking_since_before: bool,
    /// Whether records that fail are sent in halves, because the receiver took a test record.
    is_halving: bool,
    /// Whether the first record is dead if it fails once more.
    is_last_try: bool,
    /// Failures of the same records after which a test record is sent.
    retries_max: u32,
    /// As [`Experience::since_death`], if the rest of the records has no such death.
    since_death: Option<usize>,
    doubt: Option<Doubt>,
}

fn versions(records: &[Record]) -> u64 {
    records.iter().filter(|record| record.is_version()).count() as u64
}

impl Delivery {
    /// Begins the delivery of records, at most `max` in a request.
    pub(crate) fn new(records: Vec<Record>, max: usize, former: Experience) -> Self {
        let since_death = former.since_death.map(|since| since + records.len());
        let is_taking = former.is_taking && max == 1;
        let mut parts = VecDeque::new();
        let mut rest = records;
        while rest.len() > max.max(1) {
            let behind = rest.split_off(max.max(1));
            parts.push_back(std::mem::replace(&mut rest, behind));
        }
        parts.push_back(rest);
        Self {
            parts,
            failures: 0,
            failures_untested: 0,
            busy: 0,
            is_taking,
            is_taking_since_before: is_taking,
            is_halving: false,
            is_last_try: false,
            retries_max: if former.since_death.is_some() {
                RETRIES_AFTER_DEATH
            } else {
                RETRIES_MAX
            },
            since_death: since_death.filter(|since| *since < RECORDS_AFTER_DEATH),
            doubt: None,
        }
    }

    /// What this delivery and those before showed of the receiver.
    pub(crate) fn experience(&self) -> Experience {
        Experience {
            is_taking: self.is_taking,
            since_death: self.since_death,
        }
    }

    /// The next request; `None` if all records are delivered or dead.
    pub(crate) fn next(&mut self) -> Option<Request<'_>> {
        while self.parts.front()?.is_empty() {
            self.parts.pop_front();
        }
        if self.doubt.is_some() {
            return Some(Request::Test);
        }
        self.parts.front().map(|part| Request::Records(part))
    }

    /// Handles what became of the [`next`](Self::next) request. `random` is uniform over all of
    /// `u64`.
    pub(crate) fn handle(&mut self, reply: Reply, random: u64) -> Step {
        let mut step = Step {
            delivered: 0,
            dead: Vec::new(),
            dead_versions: BTreeMap::new(),
            next: Next::Now,
        };
        let Some(mut part) = self.parts.pop_front() else {
            return step;
        };
        if let Some(mut doubt) = self.doubt.take() {
            // A receiver that has no room for the test record says nothing of the others.
            if let Reply::Judged(Verdict::Busy(why) | Verdict::Retry(why), asked) = &reply {
                doubt.otherwise = Next::Retry(self.wait(*asked, random), why.clone());
            }
            self.settle(doubt, part, is_taken(&reply), &mut step);
            return step;
        }
        let (verdict, retry_after) = match reply {
            Reply::Judged(verdict, retry_after) => (verdict, retry_after),
            Reply::Unencodable(mut which) => {
                which.dedup_by_key(|(at, _)| *at);
                self.is_last_try = false;
                for (at, why) in which.into_iter().rev() {
                    if at < part.len() {
                        step.bury(part.remove(at), DeadCause::Unencodable, why);
                    }
                }
                self.parts.push_front(part);
                return step;
            }
        };
        match verdict {
            Verdict::Delivered => {
                step.delivered = versions(&part);
                self.note_progress();
                self.note_taken(true);
            }
            Verdict::PartlyRejected(rejected, why) => {
                let dead = rejected.min(versions(&part));
                step.delivered = versions(&part) - dead;
                self.note_taken(true);
                let cause = DeadCause::PossiblyRejected;
                self.bury(
                    part.into_iter().map(|it| (it, why.clone())),
                    cause,
                    &mut step,
                );
                step.dead_versions.insert(cause, dead);
            }
            Verdict::Retry(why) => {
                let wait = self.wait(retry_after, random);
                self.fail(part, Next::Retry(wait, why), &mut step);
            }
            Verdict::Busy(why) => {
                let next = Next::Retry(self.wait(retry_after, random), why);
                self.keep(part, next, &mut step);
            }
            Verdict::Refused(why) => {
                self.wait(None, random);
                self.fail(part, Next::Refused(why), &mut step);
            }
            // One record may spoil the request for the others.
            Verdict::TooLarge | Verdict::Rejected(_) if part.len() > 1 => self.halve(part),
            Verdict::TooLarge if self.is_taking => {
                let dead = part.into_iter().map(|it| (it, TOO_LARGE.to_owned()));
                self.bury(dead, DeadCause::TooLarge, &mut step);
            }
            // A limit can be too low for any record.
            Verdict::TooLarge => self.ask(part, None, Next::Refused(TOO_LARGE.to_owned())),
            Verdict::Rejected(why) if self.is_taking => {
                let dead = part.into_iter().map(|record| (record, why.clone()));
                self.bury(dead, DeadCause::Rejected, &mut step);
            }
            Verdict::Rejected(why) => self.ask(part, None, Next::Refused(why)),
            Verdict::Items(outcomes) => {
                if let Some((left, why, is_busy)) = self.take(part, outcomes, &mut step) {
                    let next = Next::Retry(self.wait(retry_after, random), why);
                    if is_busy {
                        self.keep(left, next, &mut step);
                    } else {
                        self.fail(left, next, &mut step);
                    }
                }
            }
        }
        step
    }

    /// Handles outcomes. Returns the records that can be sent again, why they were not taken, and
    /// whether the receiver is busy.
    fn take(
        &mut self,
        part: Vec<Record>,
        outcomes: Vec<Outcome>,
        step: &mut Step,
    ) -> Option<(Vec<Record>, String, bool)> {
        let (mut left, mut why, mut is_busy) = (Vec::new(), None, false);
        let mut outcomes = outcomes.into_iter();
        for record in part {
            let missing = || Outcome::Retry("no outcome for each record".to_owned());
            match outcomes.next().unwrap_or_else(missing) {
                Outcome::Delivered => {
                    step.delivered += u64::from(record.is_version());
                    self.note_taken(true);
                    self.note_progress();
                }
                Outcome::Rejected(reason) => left.push((record, Some(reason))),
                Outcome::Busy(reason) => {
                    is_busy = true;
                    why.get_or_insert(reason);
                    left.push((record, None));
                }
                Outcome::Retry(reason) => {
                    why.get_or_insert(reason);
                    left.push((record, None));
                }
            }
        }
        let rejected = left.iter().find_map(|(_, reason)| reason.clone());
        if let Some(why) = rejected.filter(|_| !self.is_taking) {
            let (part, rejected) = left.into_iter().unzip();
            self.ask(part, Some(rejected), Next::Refused(why));
            return None;
        }
        let left = self.bury_rejected(left, step);
        why.map(|why| (left, why, is_busy))
    }

    /// Has a test record show whether these records or the receiver are at fault.
    fn ask(&mut self, part: Vec<Record>, rejected: Option<Vec<Option<String>>>, otherwise: Next) {
        self.doubt = Some(Doubt {
            rejected,
            otherwise,
        });
        self.parts.push_front(part);
    }

    /// Handles records that were not taken, and can be sent again after `next`.
    fn fail(&mut self, part: Vec<Record>, next: Next, step: &mut Step) {
        self.failures_untested = self.failures_untested.saturating_add(1);
        let (max, why) = match &next {
            Next::Refused(why) => (REFUSALS_MAX, why),
            Next::Retry(_, why) => (self.retries_max, why),
            Next::Now => return self.parts.push_front(part),
        };
        if self.is_last_try && part.len() == 1 {
            let why = why.clone();
            let dead = part.into_iter().map(|record| (record, why.clone()));
            self.bury(dead, DeadCause::Rejected, step);
            self.since_death = Some(0);
            self.retries_max = RETRIES_AFTER_DEATH;
        } else if self.is_halving && part.len() > 1 {
            self.halve(part);
            if matches!(next, Next::Retry(..)) {
                step.next = next;
            }
        } else if self.failures_untested >= max {
            if matches!(next, Next::Retry(..)) {
                step.next = next.clone();
            }
            self.ask(part, None, next);
        } else {
            step.next = next;
            self.parts.push_front(part);
        }
    }

    /// Settles a doubt about records by whether the receiver took a test record.
    fn settle(&mut self, doubt: Doubt, part: Vec<Record>, is_taken: bool, step: &mut Step) {
        self.failures_untested = 0;
        self.note_taken(is_taken);
        self.is_halving = is_taken;
        match doubt.rejected {
            _ if !is_taken => {
                step.next = doubt.otherwise;
                self.parts.push_front(part);
            }
            Some(reasons) => {
                let left = self.bury_rejected(part.into_iter().zip(reasons), step);
                self.parts.push_front(left);
            }
            None if part.len() > 1 => self.halve(part),
            // The receiver may have recovered just before the test record.
            None => {
                self.is_last_try = true;
                self.parts.push_front(part);
            }
        }
    }

    /// Keeps records for a receiver that is busy. The waits go on growing.
    fn keep(&mut self, part: Vec<Record>, next: Next, step: &mut Step) {
        step.next = next;
        self.busy = self.busy.saturating_add(1);
        if self.busy >= BUSY_MAX {
            self.split(part);
        } else {
            self.parts.push_front(part);
        }
    }

    fn halve(&mut self, part: Vec<Record>) {
        self.split(part);
        (self.failures, self.failures_untested) = (0, 0);
    }

    fn split(&mut self, mut part: Vec<Record>) {
        let behind = part.split_off(part.len().div_ceil(2));
        self.parts.push_front(behind);
        self.parts.push_front(part);
        self.busy = 0;
    }

    /// Ends the records that were rejected. Returns the others.
    fn bury_rejected(
        &mut self,
        part: impl IntoIterator<Item = (Record, Option<String>)>,
        step: &mut Step,
    ) -> Vec<Record> {
        let (mut dead, mut left) = (Vec::new(), Vec::new());
        for (record, reason) in part {
            match reason {
                Some(reason) => dead.push((record, reason)),
                None => left.push(record),
            }
        }
        if !dead.is_empty() {
            self.bury(dead, DeadCause::Rejected, step);
        }
        left
    }

    fn bury(
        &mut self,
        dead: impl IntoIterator<Item = (Record, String)>,
        cause: DeadCause,
        step: &mut Step,
    ) {
        for (record, why) in dead {
            step.bury(record, cause, why);
        }
        self.note_progress();
        self.is_halving = false;
        // One record at most is dead for what was before.
        self.is_taking &= !self.is_taking_since_before;
    }

    /// Notes whether the receiver took a record or a test record just now.
    fn note_taken(&mut self, is_taken: bool) {
        (self.is_taking, self.is_taking_since_before) = (is_taken, false);
    }

    fn note_progress(&mut self) {
        (self.failures, self.failures_untested, self.busy) = (0, 0, 0);
        self.is_last_try = false;
    }

    /// Counts a failure. Returns the wait until the records are sent again.
    fn wait(&mut self, retry_after: Option<Duration>, random: u64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let asked = asked + asked.mul_f64(random as f64 / u64::MAX as f64 / 4.0);
        asked.max(BACKOFF.wait(self.failures, random))
    }
}

/// Whether the receiver took the only record of a request.
fn is_taken(reply: &Reply) -> bool {
    match reply {
        Reply::Judged(Verdict::Delivered, _) => true,
        Reply::Judged(Verdict::Items(outcomes), _) => outcomes[..] == [Outcome::Delivered],
        _ => false,
    }
}
