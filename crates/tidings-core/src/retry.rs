//! Decides which failed writes are retried, when, and how often. The rules are at [`RetryPolicy`].

use std::time::Duration;

use crate::{DropCause, OccurrenceKind};

/// The reason why a sink did not write an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// The kind of failure, which decides about a retry.
    pub kind: WriteErrorKind,
    /// The message for people.
    pub message: String,
}

/// The kinds of failure that are treated differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// There was no connection, or it broke, or the answer was no HTTP. The server may or may not
    /// have done the write.
    Transport,
    /// No answer came in time. The server may or may not have done the write.
    Timeout,
    /// The server answered with an error.
    Status(StatusFailure),
    /// No request could be made of the event, and a retry would not help.
    Invalid,
}

/// The parts of a server's error answer that decide about a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFailure {
    /// The HTTP status code.
    pub code: u16,
    /// The `reason` of the Status object, such as `AlreadyExists`; empty if the body was no Status.
    pub reason: String,
    /// The wait that the server asks for: the `Retry-After` header, or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    /// Whether the Status object names the cause `NamespaceTerminating`.
    pub namespace_terminating: bool,
}

impl WriteError {
    /// The error of a write without an answer.
    pub fn transport(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Transport,
            message: message.into(),
        }
    }

    /// The error of a write whose answer did not come in time.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Timeout,
            message: message.into(),
        }
    }

    /// The error of an event of which no request can be made.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Invalid,
            message: message.into(),
        }
    }

    /// The error of a write that the server answered with an error.
    pub fn status(failure: StatusFailure, message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Status(failure),
            message: message.into(),
        }
    }

    /// Whether the server may have written the event anyway.
    pub fn may_have_been_written(&self) -> bool {
        match &self.kind {
            WriteErrorKind::Transport | WriteErrorKind::Timeout => true,
            WriteErrorKind::Status(failure) => failure.code == 408 || failure.code >= 500,
            WriteErrorKind::Invalid => false,
        }
    }

    /// Whether no server answered, or only one without capacity. Either nothing came back, or a
    /// proxy says that the server is busy (429) or not there (502, 503, 504). Another event would
    /// fail in the same way; after any other failure it might succeed.
    pub fn is_out_of_reach(&self) -> bool {
        match &self.kind {
            WriteErrorKind::Transport | WriteErrorKind::Timeout => true,
            WriteErrorKind::Status(failure) if failure.is_rate_limited() => false,
            WriteErrorKind::Status(failure) => matches!(failure.code, 429 | 502..=504),
            WriteErrorKind::Invalid => false,
        }
    }

    /// Whether the server refused this event because such events come too fast, without asking for
    /// a wait. kube-apiserver's EventRateLimit answers so. A busy server also answers 429, but with
    /// a wait, or without a Status.
    pub fn is_rate_limited(&self) -> bool {
        matches!(&self.kind, WriteErrorKind::Status(failure) if failure.is_rate_limited())
    }

    pub(crate) fn is_status(&self) -> bool {
        matches!(self.kind, WriteErrorKind::Status(_))
    }

    /// Whether the server did not accept the credentials (401).
    pub fn is_unauthorized(&self) -> bool {
        matches!(&self.kind, WriteErrorKind::Status(failure) if failure.code == 401)
    }
}

/// The action after a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryClass {
    /// Retry, but not before the time that the server asked for.
    Transient {
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// Create the event: there was nothing to patch.
    NotFound,
    /// The name is taken. If an earlier attempt of the same create had no answer, that attempt took
    /// it; otherwise another event did.
    AlreadyExists,
    /// Drop the event, for this cause.
    Permanent(DropCause),
}

/// The back-off between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backoff {
    /// `first`, then twice as long each time, up to `max`. Each wait is random, between half of
    /// that and all of it.
    Exponential {
        /// The longest possible first wait.
        first: Duration,
        /// The longest possible wait.
        max: Duration,
    },
    /// Always the same wait, but the first one is random, between zero and that. This is what
    /// client-go's `tools/record` does.
    Constant(Duration),
    /// Always random between two waits. This is what client-go's `tools/events` does.
    Between {
        /// The shortest possible wait.
        least: Duration,
        /// The longest possible wait.
        most: Duration,
    },
}

impl Backoff {
    /// The wait after `failures` failures in a row (1 for the first). `random` is uniform over all
    /// of `u64`.
    pub fn wait(&self, failures: u32, random: u64) -> Duration {
        match *self {
            Self::Exponential { first, max } => {
                let doublings = failures.saturating_sub(1).min(63);
                let full = nanoseconds(first)
                    .saturating_mul(1 << doublings)
                    .min(nanoseconds(max));
                Duration::from_nanos(full - scale(full / 2, random))
            }
            Self::Constant(wait) if failures <= 1 => {
                Duration::from_nanos(scale(nanoseconds(wait), random))
            }
            Self::Constant(wait) => wait,
            Self::Between { least, most } => {
                let (least, most) = (nanoseconds(least), nanoseconds(most));
                let range = most.saturating_sub(least);
                Duration::from_nanos(least.saturating_add(scale(range, random)))
            }
        }
    }

    /// The shortest wait before it is shortened at random.
    pub(crate) fn shortest(&self) -> Duration {
        match *self {
            Self::Exponential { first, .. } => first,
            Self::Constant(wait) => wait,
            Self::Between { least, .. } => least,
        }
    }

    /// The longest possible wait.
    pub(crate) fn longest(&self) -> Duration {
        match *self {
            Self::Exponential { max, .. } => max,
            Self::Constant(wait) => wait,
            Self::Between { most, .. } => most,
        }
    }
}

/// The rule for which error answers are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusErrors {
    /// The table at [`RetryPolicy`] decides.
    ByMeaning,
    /// An error answer with a `Retry-After` is retried, every other is final, as in client-go.
    OnlyWithRetryAfter,
}

/// How failed writes are retried.
///
/// | answer | what it means | what is done |
/// |---|---|---|
/// | none (connection, TLS, timeout) | may pass | tried again |
/// | 408, 425, 429, 500 and above | may pass | tried again, not before `Retry-After` |
/// | 429 with the reason `TooManyRequests` and no wait asked for (EventRateLimit) | too many events like it | paced, or tried again a few times |
/// | 409 other than `AlreadyExists` | a conflict within the server, may pass | tried again |
/// | 401 | a token being rotated, or wrong credentials | tried again, but fewer times |
/// | 404 to a patch | the event expired or was deleted | created at once |
/// | 409 `AlreadyExists` to a create | the name is taken | dropped quietly; patched or taken for delivered, if by this event itself |
/// | 403 with cause `NamespaceTerminating` | nothing can be created there any more | dropped quietly |
/// | 413 | the event is too large | dropped |
/// | any other status | the server means it | dropped |
/// | the sink could make no request | it never will | dropped |
///
/// client-go's `recordEvent` differs: see [`RetryPolicy::client_go`].
///
/// ```
/// use std::time::Duration;
/// use tidings_core::{RetryClass, RetryPolicy, StatusFailure, OccurrenceKind, WriteError};
///
/// let busy = WriteError::status(
///     StatusFailure { code: 429, retry_after: Some(Duration::from_secs(1)), ..Default::default() },
///     "too many requests",
/// );
/// let class = RetryPolicy::default().classify(&busy, OccurrenceKind::Create);
/// assert_eq!(class, RetryClass::Transient { retry_after: Some(Duration::from_secs(1)) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Maximum failures of an event before it is dropped; at least 1. Default 30: two to four
    /// minutes. Only failures that may pass count. Refusals under a shared limit on the rate of
    /// events do not count (see [`RetryPolicy::rate_limited_tries_max`]).
    pub tries_max: u32,
    /// Whether an event is dropped even if every other event may fail in the same way. Default
    /// true.
    ///
    /// If false, an event's failure counts only if another event was written since its last
    /// failure. A server that is unreachable for an hour, or answers 500 or 401 to everything, then
    /// costs no event, and neither does a shared limit on the rate of events. A limit on the events
    /// about a few objects still does, and so does a namespace whose writes hang.
    ///
    /// While events that failed take more than half of
    /// [`pending_events_max`](crate::DeliveryOptions::pending_events_max) or
    /// [`pending_bytes_max`](crate::DeliveryOptions::pending_bytes_max), two failures of its own
    /// are enough for each event. If queued events are on disk ([`SinkOptions::spill`] of the
    /// `tidings` crate, which sets this), they can wait until that is over.
    ///
    /// [`SinkOptions::spill`]: https://docs.rs/tidings
    pub give_up_out_of_reach: bool,
    /// Maximum 401 answers among these failures; at least 1. Default 18: more than a minute. By
    /// then a client reads a rotated token file again.
    pub unauthorized_tries_max: u32,
    /// Maximum attempts for an event that the server refuses for its rate; at least 1. Default 5.
    ///
    /// See [`WriteError::is_rate_limited`]. The event is then dropped as
    /// [`DropCause::RateLimited`]. Five attempts take two to four seconds. client-go drops such an
    /// event at once, and recorders that keep asking are the reason for such a limit. Other events
    /// are not delayed meanwhile.
    ///
    /// A refusal does not count if, since this event's last attempt, events about as many different
    /// objects as [`DeliveryOptions::pause_after_keys`](crate::DeliveryOptions::pause_after_keys)
    /// were refused. Then they share the limit, which belongs to a server, a user or a namespace.
    /// Under a shared limit an event is dropped by time, also as [`DropCause::RateLimited`]: when
    /// nothing under the limit was admitted for four minutes, or when the event was refused for an
    /// hour, which is as long as the API server keeps events. So a backlog of any length arrives at
    /// the server's rate. If [`give_up_out_of_reach`](RetryPolicy::give_up_out_of_reach) is false,
    /// the event waits for ever.
    pub rate_limited_tries_max: u32,
    /// The back-off between attempts. Default: exponential from 250 ms to 10 s.
    pub backoff: Backoff,
    /// Maximum wait that a server's `Retry-After` can ask for. Default one minute.
    pub retry_after_max: Duration,
    /// The rule for which error answers are retried. Default [`StatusErrors::ByMeaning`].
    pub status_errors: StatusErrors,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries_max: 30,
            give_up_out_of_reach: true,
            unauthorized_tries_max: 18,
            rate_limited_tries_max: 5,
            backoff: Backoff::Exponential {
                first: Duration::from_millis(250),
                max: Duration::from_secs(10),
            },
            retry_after_max: Duration::from_secs(60),
            status_errors: StatusErrors::ByMeaning,
        }
    }
}

impl RetryPolicy {
    /// The policy of client-go's `tools/record`: 12 attempts, 10 s apart. The first wait is
    /// shorter, at random. An error answer is final unless it has a `Retry-After`.
    ///
    /// Two things differ from client-go. An event of which no request can be made is not attempted
    /// twelve times. And a wait that the server asks for is one of the twelve attempts; client-go's
    /// REST client makes ten more within each.
    pub fn client_go() -> Self {
        Self {
            tries_max: 12,
            give_up_out_of_reach: true,
            unauthorized_tries_max: 12,
            rate_limited_tries_max: 1,
            backoff: Backoff::Constant(Duration::from_secs(10)),
            retry_after_max: Duration::MAX,
            status_errors: StatusErrors::OnlyWithRetryAfter,
        }
    }

    /// Sets [`RetryPolicy::tries_max`].
    pub const fn tries_max(mut self, tries: u32) -> Self {
        self.tries_max = tries;
        self
    }

    /// Sets [`RetryPolicy::give_up_out_of_reach`].
    pub const fn give_up_out_of_reach(mut self, give_up: bool) -> Self {
        self.give_up_out_of_reach = give_up;
        self
    }

    /// Sets [`RetryPolicy::unauthorized_tries_max`].
    pub const fn unauthorized_tries_max(mut self, tries: u32) -> Self {
        self.unauthorized_tries_max = tries;
        self
    }

    /// Sets [`RetryPolicy::rate_limited_tries_max`].
    pub const fn rate_limited_tries_max(mut self, tries: u32) -> Self {
        self.rate_limited_tries_max = tries;
        self
    }

    /// Sets [`RetryPolicy::backoff`].
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets [`RetryPolicy::retry_after_max`].
    pub const fn retry_after_max(mut self, wait: Duration) -> Self {
        self.retry_after_max = wait;
        self
    }

    /// Sets [`RetryPolicy::status_errors`].
    pub const fn status_errors(mut self, errors: StatusErrors) -> Self {
        self.status_errors = errors;
        self
    }

    /// The policy of client-go's `tools/events`: 12 attempts, each wait random from 10 to 12.5 s.
    pub fn client_go_events() -> Self {
        Self {
            backoff: Backoff::Between {
                least: Duration::from_secs(10),
                most: Duration::from_millis(12_500),
            },
            ..Self::client_go()
        }
    }

    /// Decides what to do about `error`, which a write of `kind` met. It does not consider how many
    /// attempts are left.
    pub fn classify(&self, error: &WriteError, kind: OccurrenceKind) -> RetryClass {
        let failure = match &error.kind {
            WriteErrorKind::Transport | WriteErrorKind::Timeout => {
                return RetryClass::Transient { retry_after: None };
            }
            WriteErrorKind::Invalid => return RetryClass::Permanent(DropCause::InvalidRequest),
            WriteErrorKind::Status(failure) => failure,
        };
        if failure.code == 404 && kind == OccurrenceKind::Patch {
            return RetryClass::NotFound;
        }
        if kind == OccurrenceKind::Create && failure.is_already_exists() {
            return match self.status_errors {
                StatusErrors::ByMeaning => RetryClass::AlreadyExists,
                StatusErrors::OnlyWithRetryAfter => RetryClass::Permanent(DropCause::AlreadyExists),
            };
        }
        if self.is_transient(failure) {
            let retry_after = failure
                .retry_after
                .map(|wait| wait.min(self.retry_after_max));
            return RetryClass::Transient { retry_after };
        }
        RetryClass::Permanent(match failure.code {
            _ if failure.namespace_terminating => DropCause::NamespaceTerminating,
            400 | 422 => DropCause::RejectedInvalid,
            401 => DropCause::RejectedUnauthorized,
            403 => DropCause::RejectedForbidden,
            404 => DropCause::RejectedNotFound,
            413 => DropCause::TooLarge,
            429 if failure.is_rate_limited() => DropCause::RateLimited,
            _ => DropCause::RejectedOther,
        })
    }

    fn is_transient(&self, failure: &StatusFailure) -> bool {
        match self.status_errors {
            StatusErrors::ByMeaning => match failure.code {
                401 | 408 | 409 | 425 | 429 => true,
                code => code >= 500,
            },
            StatusErrors::OnlyWithRetryAfter => {
                failure.retry_after.is_some() && (failure.code == 429 || failure.code >= 500)
            }
        }
    }

    /// The wait after `failures` failures in a row, if the server asked for `retry_after`. `random`
    /// is uniform over `u64`. The wait is at least what the server asks for. Up to a quarter is
    /// added at random, so that clients do not all come back at once.
    pub fn wait(&self, failures: u32, retry_after: Option<Duration>, random: u64) -> Duration {
        let wait = self.backoff.wait(failures, random);
        match retry_after {
            None => wait,
            Some(asked) => {
                let asked = nanoseconds(asked);
                let spread = match self.status_errors {
                    StatusErrors::ByMeaning => scale(asked / 4, random),
                    StatusErrors::OnlyWithRetryAfter => return Duration::from_nanos(asked),
                };
                wait.max(Duration::from_nanos(asked.saturating_add(spread)))
            }
        }
    }
}

impl StatusFailure {
    /// Whether the answer is apimachinery's `NewTooManyRequestsError`. `NewTooManyRequests` has a
    /// wait, and a filter that limits requests answers a text with a `Retry-After`.
    fn is_rate_limited(&self) -> bool {
        self.code == 429 && self.reason == "TooManyRequests" && self.retry_after.is_none()
    }

    /// Whether the answer to a create says that the name is taken. A 409 without a Status object
    /// says this, too (apimachinery's `NewGenericServerResponse`).
    fn is_already_exists(&self) -> bool {
        self.code == 409 && (self.reason.is_empty() || self.reason == "AlreadyExists")
    }
}

/// The duration in nanoseconds, at most the 292 years that a [`Monotonic`](crate::Monotonic) can
/// hold.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos())
        .unwrap_or(u64::MAX)
        .min(i64::MAX as u64)
}

/// Scales `random` from all of `u64` down to `0..=range`.
fn scale(range: u64, random: u64) -> u64 {
    u64::try_from((u128::from(range) * u128::from(random)) >> 64).unwrap_or(range)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CREATE: OccurrenceKind = OccurrenceKind::Create;
    const PATCH: OccurrenceKind = OccurrenceKind::Patch;

    fn status(code: u16, reason: &str) -> WriteError {
        let failure = StatusFailure {
            code,
            reason: reason.to_owned(),
            ..StatusFailure::default()
        };
        WriteError::status(failure, "no")
    }

    fn asking(code: u16, seconds: u64) -> WriteError {
        let failure = StatusFailure {
            code,
            retry_after: Some(Duration::from_secs(seconds)),
            ..StatusFailure::default()
        };
        WriteError::status(failure, "later")
    }

    fn terminating() -> WriteError {
        let failure = StatusFailure {
            code: 403,
            reason: "Forbidden".to_owned(),
            namespace_terminating: true,
            ..StatusFailure::default()
        };
        WriteError::status(failure, "being terminated")
    }

    const fn transient(seconds: Option<u64>) -> RetryClass {
        RetryClass::Transient {
            retry_after: match seconds {
                Some(seconds) => Some(Duration::from_secs(seconds)),
                None => None,
            },
        }
    }

    /// client-go `tools/record` TestWriteEventError and `rest` TestCheckRetryHandles429And5xx,
    /// TestRetryableConditions. Each answer is classified under both presets.
    #[test]
    fn answers_are_classified() {
        use DropCause as Cause;
        use RetryClass::Permanent;
        let later = transient(None);
        #[rustfmt::skip]
        let table = [
            // Each row: the error, the kind of write, the class by meaning, and the class as in
            // client-go.
            (WriteError::transport("reset"), CREATE, later, later),
            (WriteError::timeout("30 s"), PATCH, later, later),
            (WriteError::invalid("namespace"), CREATE, Permanent(Cause::InvalidRequest), Permanent(Cause::InvalidRequest)),
            (status(400, "BadRequest"), CREATE, Permanent(Cause::RejectedInvalid), Permanent(Cause::RejectedInvalid)),
            (status(401, "Unauthorized"), PATCH, later, Permanent(Cause::RejectedUnauthorized)),
            (status(403, "Forbidden"), CREATE, Permanent(Cause::RejectedForbidden), Permanent(Cause::RejectedForbidden)),
            (terminating(), CREATE, Permanent(Cause::NamespaceTerminating), Permanent(Cause::NamespaceTerminating)),
            (status(404, "NotFound"), PATCH, RetryClass::NotFound, RetryClass::NotFound),
            (status(404, ""), PATCH, RetryClass::NotFound, RetryClass::NotFound),
            (status(404, "NotFound"), CREATE, Permanent(Cause::RejectedNotFound), Permanent(Cause::RejectedNotFound)),
            (status(408, ""), CREATE, later, Permanent(Cause::RejectedOther)),
            (status(409, "AlreadyExists"), CREATE, RetryClass::AlreadyExists, Permanent(Cause::AlreadyExists)),
            (status(409, ""), CREATE, RetryClass::AlreadyExists, Permanent(Cause::AlreadyExists)),
            (status(409, "Conflict"), CREATE, later, Permanent(Cause::RejectedOther)),
            (status(409, "Conflict"), PATCH, later, Permanent(Cause::RejectedOther)),
            (status(410, "Gone"), PATCH, Permanent(Cause::RejectedOther), Permanent(Cause::RejectedOther)),
            (status(413, "RequestEntityTooLarge"), CREATE, Permanent(Cause::TooLarge), Permanent(Cause::TooLarge)),
            (status(415, "UnsupportedMediaType"), PATCH, Permanent(Cause::RejectedOther), Permanent(Cause::RejectedOther)),
            (status(422, "Invalid"), CREATE, Permanent(Cause::RejectedInvalid), Permanent(Cause::RejectedInvalid)),
            (status(429, "TooManyRequests"), CREATE, later, Permanent(Cause::RateLimited)),
            (status(429, ""), CREATE, later, Permanent(Cause::RejectedOther)),
            (asking(429, 7), CREATE, transient(Some(7)), transient(Some(7))),
            (asking(429, 900), CREATE, transient(Some(60)), transient(Some(900))),
            (asking(503, 1), PATCH, transient(Some(1)), transient(Some(1))),
            (asking(422, 1), PATCH, Permanent(Cause::RejectedInvalid), Permanent(Cause::RejectedInvalid)),
            (status(500, "InternalError"), CREATE, later, Permanent(Cause::RejectedOther)),
            (status(501, ""), CREATE, later, Permanent(Cause::RejectedOther)),
            (status(503, "ServiceUnavailable"), CREATE, later, Permanent(Cause::RejectedOther)),
            (status(504, "Timeout"), PATCH, later, Permanent(Cause::RejectedOther)),
            (status(302, ""), CREATE, Permanent(Cause::RejectedOther), Permanent(Cause::RejectedOther)),
        ];
        for (error, kind, by_meaning, as_client_go) in table {
            assert_eq!(
                RetryPolicy::default().classify(&error, kind),
                by_meaning,
                "{kind:?}: {error:?}"
            );
            assert_eq!(
                RetryPolicy::client_go().classify(&error, kind),
                as_client_go,
                "client-go, {kind:?}: {error:?}"
            );
        }
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = RetryPolicy::default().backoff;
        let longest: Vec<_> = (1..=8).map(|failures| backoff.wait(failures, 0)).collect();
        assert_eq!(
            longest,
            [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000].map(Duration::from_millis)
        );
        assert_eq!(backoff.wait(1, u64::MAX).as_millis(), 125);
        assert_eq!(backoff.wait(u32::MAX, 0), Duration::from_secs(10));
    }

    /// client-go `recordToSink`: the first pause is random, the others are not.
    #[test]
    fn client_go_waits_ten_seconds() {
        let policy = RetryPolicy::client_go();
        assert_eq!(policy.wait(1, None, 0), Duration::ZERO);
        assert_eq!(policy.wait(1, None, u64::MAX / 2).as_millis(), 4_999);
        assert_eq!(policy.wait(2, None, 0), Duration::from_secs(10));
        assert_eq!(policy.wait(2, None, u64::MAX), Duration::from_secs(10));
    }

    /// client-go's `tools/events`: `wait.JitterUntil` by a quarter.
    #[test]
    fn client_go_s_series_wait_up_to_a_quarter_longer() {
        let policy = RetryPolicy::client_go_events();
        for failures in [1, 2, 11] {
            let wait = |random| policy.wait(failures, None, random).as_millis();
            assert_eq!(wait(0), 10_000);
            assert_eq!(wait(u64::MAX / 2), 11_249);
            assert_eq!(wait(u64::MAX), 12_499);
        }
    }

    proptest! {
        #[test]
        fn waits_stay_within_their_bounds(
            first in 0_u64..=u64::MAX, max in 0_u64..=u64::MAX, failures: u32, random: u64, asked in prop::option::of(0_u64..200),
        ) {
            let (first, max) = (Duration::from_nanos(first.min(max)), Duration::from_nanos(max));
            let policy = RetryPolicy { backoff: Backoff::Exponential { first, max }, ..RetryPolicy::default() };
            let wait = policy.wait(failures, None, random);
            prop_assert!(wait <= max);
            prop_assert!(wait >= first.min(Duration::from_nanos(i64::MAX as u64)) / 2);
            if let Some(asked) = asked.map(Duration::from_secs) {
                let obeyed = policy.wait(failures, Some(asked), random);
                prop_assert!(obeyed >= asked && obeyed <= wait.max(asked + asked / 4));
            }
        }
    }

    #[test]
    fn up_to_a_quarter_is_added_to_what_the_server_asks_for() {
        let asked = Some(Duration::from_secs(8));
        for (random, expected) in [(0, 8000), (1 << 63, 9000), (u64::MAX, 9999)] {
            let wait = RetryPolicy::default().wait(1, asked, random);
            assert_eq!(wait.as_millis(), expected);
        }
    }

    /// kube-apiserver's EventRateLimit answers `NewTooManyRequestsError`. An answer that the server
    /// is busy asks for a wait, or is no Status.
    #[test]
    fn a_refusal_for_the_rate_is_no_busy_server() {
        let status_asking = |seconds| {
            let failure = StatusFailure {
                code: 429,
                reason: "TooManyRequests".to_owned(),
                retry_after: Some(Duration::from_secs(seconds)),
                ..StatusFailure::default()
            };
            WriteError::status(failure, "try again")
        };
        for (error, rate_limited) in [
            (status(429, "TooManyRequests"), true),
            (status_asking(1), false),
            (asking(429, 1), false),
            (status(429, ""), false),
            (status(503, "TooManyRequests"), false),
        ] {
            let busy = !rate_limited;
            assert_eq!(error.is_rate_limited(), rate_limited, "{error:?}");
            assert_eq!(error.is_out_of_reach(), busy, "{error:?}");
        }
        let policy = RetryPolicy::default();
        let waits = |random| {
            let tries = 1..policy.rate_limited_tries_max;
            tries
                .map(|failures| policy.wait(failures, None, random))
                .sum::<Duration>()
        };
        assert!(waits(u64::MAX) > Duration::from_millis(1_800));
        assert!(waits(0) < Duration::from_secs(4));
    }

    /// A token file is read again before a 401 is final, even at the shortest possible waits. kube
    /// and client-go read it again within a minute.
    #[test]
    fn a_token_file_is_read_again_before_a_401_is_final() {
        let policy = RetryPolicy::default();
        let waits = (1..policy.unauthorized_tries_max)
            .map(|failures| policy.wait(failures, None, u64::MAX));
        assert!(waits.sum::<Duration>() > Duration::from_secs(60));
        assert!(policy.unauthorized_tries_max < policy.tries_max);
    }
}
