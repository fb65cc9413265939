//! Encoders: the forms of receivers that are reached over HTTP, one file each.
//!
//! An encoder does no I/O and reads no clock. The same records give the same bytes, so a request
//! that is repeated is the same request. Loki's labels depend on the streams before them, too, so
//! there it is the same until the process ends.
//!
//! Invariant: an answer counts as success only if the form's documentation names it as one. A
//! proxy, a log-in page or a receiver that ignores records may answer with any status of 2xx.

pub mod clickhouse;
pub mod elasticsearch;
pub(crate) mod facts;
pub mod loki;
pub mod otlp;
pub mod webhook;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::record::{Record, Source};

pub use facts::{EventFacts, Facts, GAP_REASON, Notice, SKIP_REASON, TEST_REASON};

/// Maximum records of a request, also of forms that can have more.
pub const RECORDS_MAX: usize = 500;
/// Maximum bytes of a receiver's answer that are read.
pub const ANSWER_LEN_MAX: usize = 1 << 20;
/// Maximum bytes of a receiver's own words in states, logs and dead letters.
pub const WORDS_LEN_MAX: usize = 512;

/// The form of a receiver.
pub trait Encoder: Send + Sync {
    /// Returns how many records one request has at most. A batch of the feed may have more.
    fn records_max(&self) -> usize {
        RECORDS_MAX
    }

    /// Encodes records as one request. Records that cannot be encoded are named in the result and
    /// are not in the request.
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded;

    /// Judges the answer to the request of these records, all of which are in the request.
    fn judge(&self, answer: &Answer<'_>, records: &[Record]) -> Verdict;
}

/// Records in the form of a receiver.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The request's method.
    pub method: Method,
    /// What is added to the receiver's URL: a path, or a query that begins with `?`. May be empty.
    pub path: String,
    /// Headers, such as the content type. Those with credentials are not among them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, not compressed.
    pub body: Bytes,
    /// Indexes of the records that cannot be encoded, in ascending order, each with the reason.
    pub unencodable: Vec<(usize, String)>,
}

/// The answer of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The first [`ANSWER_LEN_MAX`] bytes of the body.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// Whether the body has as many bytes as are read, so that its end may be missing.
    pub fn is_cut(&self) -> bool {
        self.body.len() >= ANSWER_LEN_MAX
    }

    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What an answer means for the records of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has all of them.
    Delivered,
    /// One outcome for each record of the request, in the order of the records.
    Items(Vec<Outcome>),
    /// So many were rejected, fewer than all, and the others were taken. It is not known which, and
    /// none must be sent again. The text has the receiver's words.
    PartlyRejected(u64, String),
    /// None was taken, all can be sent again. The text has the receiver's words.
    Retry(String),
    /// As `Retry`, because the receiver takes nothing now, whatever the records are.
    Busy(String),
    /// None was taken, because together they are too large: several can be sent in two halves. One
    /// alone is rejected.
    TooLarge,
    /// The receiver rejects the request. Several records can be sent in two halves, since one of
    /// them may spoil it for the others; one alone is rejected. The text has the receiver's words.
    Rejected(String),
    /// The receiver refuses the feed, whatever it sends: its credentials, its URL or its version
    /// are wrong. The text has the receiver's words.
    Refused(String),
}

/// What an answer means for one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it, perhaps from an earlier request.
    Delivered,
    /// It was not taken, and can be sent again.
    Retry(String),
    /// As `Retry`, because the receiver takes nothing now, whatever the record is.
    Busy(String),
    /// It will not be taken.
    Rejected(String),
}

/// Judges an answer that is no success by its status alone.
///
/// 400 and 422 reject the records; 408, 425 and 5xx can be sent again, except 501; 429 and 503 are
/// those of a busy receiver; 413 is too large. Every other status refuses the feed, because it is
/// about the request and not about its records: so are credentials, redirects, missing paths, and
/// successes that the form does not have.
pub fn judge_failure(answer: &Answer<'_>) -> Verdict {
    match answer.status.as_u16() {
        400 | 422 => Verdict::Rejected(words(answer)),
        413 => Verdict::TooLarge,
        429 | 503 => Verdict::Busy(words(answer)),
        408 | 425 | 500 | 502..=599 => Verdict::Retry(words(answer)),
        _ => Verdict::Refused(words(answer)),
    }
}

/// Returns the status and the receiver's own words on one line, at most [`WORDS_LEN_MAX`] bytes.
pub fn words(answer: &Answer<'_>) -> String {
    let mut said = answer.status.to_string();
    let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(WORDS_LEN_MAX)]);
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if said.len() + 1 + word.len() > WORDS_LEN_MAX {
            break;
        }
        said.push(' ');
        said.push_str(word);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(status: u16, body: &[u8]) -> String {
        words(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: &HeaderMap::new(),
            body,
        })
    }

    #[test]
    fn words_are_one_bounded_line() {
        let said = words_of(400, b"line one\n\tline\x1b[2J two");
        assert_eq!(said, "400 Bad Request line one line [2J two");
        assert!(words_of(500, &[b'x'; 9000]).len() <= WORDS_LEN_MAX);
        assert!(words_of(500, &b"word ".repeat(900)).len() <= WORDS_LEN_MAX);
    }
}
