//! Which answers to a write are tried again, when, and how often. The rules stand at
//! [`RetryPolicy`].

use std::time::Duration;

use crate::{DropCause, OccurrenceKind};

/// Why a sink did not write an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// What kind of failure it is; decides about trying again.
    pub kind: WriteErrorKind,
    /// What a person should read.
    pub message: String,
}

/// The kinds of failure that are treated differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// No connection, a broken one, or an answer that is no HTTP: the server may or may not have
    /// done it.
    Transport,
    /// No answer in time: the server may or may not have done it.
    Timeout,
    /// The server answered with an error.
    Status(StatusFailure),
    /// No request could be made of the event, and trying again makes none either.
    Invalid,
}

/// An error answer of the server, as far as it decides about trying again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFailure {
    /// The HTTP status code.
    pub code: u16,
    /// The `reason` of the Status object, such as `AlreadyExists`; empty if the body was none.
    pub reason: String,
    /// How long the server asks to wait: the `Retry-After` header, or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    /// Whether the Status object names the cause `NamespaceTerminating`.
    pub namespace_terminating: bool,
}

impl WriteError {
    /// A failure without an answer.
    pub fn transport(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Transport,
            message: message.into(),
        }
    }

    /// An answer that did not come in time.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Timeout,
            message: message.into(),
        }
    }

    /// An event that no request can be made of.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            kind: WriteErrorKind::Invalid,
            message: message.into(),
        }
    }

    /// An error answer.
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

    /// Whether no server answered, or none that had the time: nothing came back, or something
    /// before it says that it is busy (429) or not there (502, 503, 504). Another event would fare
    /// no better; after any other failure it might.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        match &self.kind {
            WriteErrorKind::Transport | WriteErrorKind::Timeout => true,
            WriteErrorKind::Status(failure) if failure.is_rate_limited() => false,
            WriteErrorKind::Status(failure) => matches!(failure.code, 429 | 502..=504),
            WriteErrorKind::Invalid => false,
        }
    }

    /// Whether the server refused this event because events like it come too fast, and asks for no
    /// wait: what kube-apiserver's EventRateLimit says. A server that is busy answers 429 as well,
    /// but with a wait, or with no Status.
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

/// What to do about a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryClass {
    /// Another try may succeed, but not before the time the server asked for.
    Transient {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// Create it: there was nothing to patch.
    NotFound,
    /// The name is taken: by an earlier try of the same create if one had no answer, else by
    /// something else.
    AlreadyExists,
    /// Give it up, for this cause.
    Permanent(DropCause),
}

/// How long to wait before a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backoff {
    /// `first`, then twice as long each time, up to `max`; each wait is between half of that and
    /// all of it, at random.
    Exponential {
        /// The longest the first wait can be.
        first: Duration,
        /// The longest any wait can be.
        max: Duration,
    },
    /// Always the same, but the first time between nothing and that, at random: the way of
    /// client-go's `tools/record`.
    Constant(Duration),
    /// Always between these, at random: the way of client-go's `tools/events`.
    Between {
        /// The shortest any wait can be.
        least: Duration,
        /// The longest any wait can be.
        most: Duration,
    },
}

impl Backoff {
    /// How long to wait after `failures` failures in a row (1 for the first). `random` is uniform
    /// over all of `u64`.
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

    /// The wait to begin with where waits are not spread at random.
    pub(crate) fn shortest(&self) -> Duration {
        match *self {
            Self::Exponential { first, .. } => first,
            Self::Constant(wait) => wait,
            Self::Between { least, .. } => least,
        }
    }

    /// The longest of all waits.
    pub(crate) fn longest(&self) -> Duration {
        match *self {
            Self::Exponential { max, .. } => max,
            Self::Constant(wait) => wait,
            Self::Between { most, .. } => most,
        }
    }
}

/// What is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusErrors {
    /// What the table at [`RetryPolicy`] says.
    ByMeaning,
    /// client-go's way: an error answer with a `Retry-After` is tried again, every other is final.
    OnlyWithRetryAfter,
}

/// How failed writes are tried again.
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
pub struct RetryPolicy {
    /// How many failures that might pass an event may meet before it is given up; at least 1.
    /// Default 30, which is two to four minutes. Refusals under a shared limit on the rate of
    /// events are no tries (see [`RetryPolicy::rate_limited_tries_max`]).
    pub tries_max: u32,
    /// Whether an event is given up although every other may fare no better. Default true. If
    /// false, only such failures count as tries as are the event's own: those since the last of
    /// which another event was written. A server that is away, or answers 500 or 401 to everything,
    /// for an hour then costs no event, and neither does a shared limit on the rate of events; one
    /// on the events about a few objects does, and so does a namespace whose writes hang. While
    /// events that failed take more than half of
    /// [`pending_events_max`](crate::DeliveryOptions::pending_events_max) or
    /// [`pending_bytes_max`](crate::DeliveryOptions::pending_bytes_max), two failures of its own
    /// are enough for each. Where events that wait lie on disk ([`SinkOptions::spill`] of the
    /// `tidings` crate, which sets this) they can as well wait for the end of that.
    ///
    /// [`SinkOptions::spill`]: https://docs.rs/tidings
    pub give_up_out_of_reach: bool,
    /// How many of these may be 401; at least 1. Default 18, which is more than a minute: by then a
    /// client reads a rotated token file again.
    pub unauthorized_tries_max: u32,
    /// How often an event is tried that the server refuses for its rate
    /// ([`WriteError::is_rate_limited`]) before it is given up as [`DropCause::RateLimited`]; at
    /// least 1. Default 5, which is two to four seconds: client-go gives it up at once, and a
    /// recorder that continues to ask is what such a limit is for. Other events are not held up
    /// meanwhile.
    ///
    /// A refusal is no try if events about as many different objects as
    /// [`DeliveryOptions::pause_after_keys`](crate::DeliveryOptions::pause_after_keys) were refused
    /// since this one was tried last: then they share the limit, of a server, a user or a
    /// namespace. Under a shared limit an event is given up by time, also as
    /// [`DropCause::RateLimited`]: when nothing under the limit was admitted for four minutes, or
    /// when it was refused for an hour, which is as long as the API server keeps events. A backlog
    /// of any length thus arrives at the server's rate. If
    /// [`give_up_out_of_reach`](RetryPolicy::give_up_out_of_reach) is false, it waits for ever.
    pub rate_limited_tries_max: u32,
    /// The wait between tries. Default: exponential from 250 ms to 10 s.
    pub backoff: Backoff,
    /// The longest that a server's `Retry-After` is obeyed. Default one minute.
    pub retry_after_max: Duration,
    /// Which error answers are tried again. Default [`StatusErrors::ByMeaning`].
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
    /// What client-go's `tools/record` does: 12 tries 10 s apart, the first wait shorter at random;
    /// an error answer is final unless it has a `Retry-After`.
    ///
    /// Two things are mended: what no request can be made of is not tried twelve times, and a wait
    /// that the server asks for is one of the twelve tries, where client-go's REST client tries ten
    /// times more within each.
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

    /// What client-go's `tools/events` does: the same 12 tries, each wait from 10 to 12.5 s, at
    /// random.
    pub fn client_go_events() -> Self {
        Self {
            backoff: Backoff::Between {
                least: Duration::from_secs(10),
                most: Duration::from_millis(12_500),
            },
            ..Self::client_go()
        }
    }

    /// What to do about `error`, met by a write of `kind`. How many tries are left is not looked
    /// at.
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

    /// How long to wait after `failures` failures in a row, when the server asked for
    /// `retry_after`. `random` is uniform over `u64`.
    ///
    /// What the server asks for is the least; up to a quarter is added at random, so that not
    /// everyone comes back at once.
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
    /// apimachinery's `NewTooManyRequestsError`, as against `NewTooManyRequests`, which has a wait,
    /// and the text with a `Retry-After` of what limits requests.
    fn is_rate_limited(&self) -> bool {
        self.code == 429 && self.reason == "TooManyRequests" && self.retry_after.is_none()
    }

    /// Of a create. A 409 without a Status object says this too (apimachinery's
    /// `NewGenericServerResponse`).
    fn is_already_exists(&self) -> bool {
        self.code == 409 && (self.reason.is_empty() || self.reason == "AlreadyExists")
    }
}

/// The duration in nanoseconds, at most the 292 years a [`Monotonic`](crate::Monotonic) can tell.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos())
        .unwrap_or(u64::MAX)
        .min(i64::MAX as u64)
}

/// `random` brought from all of `u64` down to `0..=range`.
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
    /// TestRetryableConditions: what they call retryable, for both presets.
    #[test]
    fn answers_are_classified() {
        use DropCause as Cause;
        use RetryClass::Permanent;
        let later = transient(None);
        #[rustfmt::skip]
        let table = [
            // error, kind, by meaning, as client-go does
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

    /// kube-apiserver's EventRateLimit answers `NewTooManyRequestsError`; what says that the server
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

    /// kube reads a token file again within a minute (client-go within a minute, too), at the
    /// shortest waits there are.
    #[test]
    fn a_token_file_is_read_again_before_a_401_is_final() {
        let policy = RetryPolicy::default();
        let waits = (1..policy.unauthorized_tries_max)
            .map(|failures| policy.wait(failures, None, u64::MAX));
        assert!(waits.sum::<Duration>() > Duration::from_secs(60));
        assert!(policy.unauthorized_tries_max < policy.tries_max);
    }
}
