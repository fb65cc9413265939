//! What ClickHouse's answers mean, by the codes of its exceptions.
//!
//! The status alone does not say it: a server that fails while it reads a request may have begun
//! its answer with 200, and 500 stands for values that a column cannot have as for lack of memory.

use crate::encode::{Answer, Verdict, judge_failure, words};

/// Exceptions about values of rows: texts that are no date, number or array; a string that is too
/// long; a value that is out of bounds, that is not in an enum, or that a constraint forbids.
const OF_ROWS: [u32; 18] = [
    6, 25, 26, 27, 38, 41, 69, 70, 72, 117, 130, 131, 321, 349, 407, 441, 469, 691,
];
/// Exceptions that no row causes: the table, its columns or the user's rights are others than the
/// feed needs, or the server does not know the statement or a setting.
const OF_FEED: [u32; 23] = [
    8, 10, 15, 16, 20, 36, 44, 46, 47, 50, 53, 60, 62, 73, 81, 115, 164, 192, 193, 291, 452, 497,
    516,
];

/// An `INSERT` that succeeds has an empty answer.
pub(super) fn judge(answer: &Answer<'_>) -> Verdict {
    match (answer.status.as_u16(), exception(answer)) {
        (_, Some(code)) if OF_ROWS.contains(&code) => Verdict::Rejected(words(answer)),
        (_, Some(code)) if OF_FEED.contains(&code) => Verdict::Refused(words(answer)),
        (200, Some(_)) => Verdict::Retry(words(answer)),
        (200, None) if answer.body.is_empty() => Verdict::Delivered,
        _ => judge_failure(answer),
    }
}

/// Returns the code of the exception, from the header or from the beginning of the text:
/// `Code: 60. DB::Exception: …`.
fn exception(answer: &Answer<'_>) -> Option<u32> {
    if let Some(code) = answer.header("x-clickhouse-exception-code") {
        return Some(code.parse().unwrap_or_default());
    }
    let digits = answer.body.trim_ascii_start().strip_prefix(b"Code: ")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
