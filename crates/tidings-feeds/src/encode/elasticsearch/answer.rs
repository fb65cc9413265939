//! What the answers of bulk requests mean, document by document.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::encode::facts::beginning;
use crate::encode::{Answer, Outcome, Verdict, WORDS_LEN_MAX, judge_failure, words};
use crate::record::Record;

/// Types of errors with status 400 that end without any change of the document: there is no room
/// for another shard, or somebody closed the index.
const TRANSIENT: [&str; 2] = ["validation_exception", "index_closed_exception"];

#[derive(Deserialize)]
struct Bulk {
    errors: bool,
    #[serde(default)]
    items: Vec<Map<String, Value>>,
}

/// The answer has a status for each document. 409 means that the document is there, or a later
/// version of it. Only an answer that refuses each document refuses the feed: one index of several
/// may be write-protected or absent.
pub(super) fn judge(answer: &Answer<'_>, records: &[Record]) -> Verdict {
    if answer.status.as_u16() != 200 {
        return judge_failure(answer);
    }
    let bulk = match serde_json::from_slice::<Bulk>(answer.body) {
        // Receivers of this form that know no errors have no items.
        Ok(bulk) if !bulk.errors && bulk.items.is_empty() => return Verdict::Delivered,
        Ok(bulk) if bulk.items.len() == records.len() => bulk,
        _ if answer.is_cut() && records.len() > 1 => return Verdict::TooLarge,
        _ => {
            let why = format!("no outcome for each record: {}", words(answer));
            return Verdict::Refused(why);
        }
    };
    let mut outcomes = Vec::with_capacity(records.len());
    let mut refusals = 0;
    for item in &bulk.items {
        let item = item.values().next().unwrap_or(&Value::Null);
        let error = |name: &str| item["error"][name].as_str().unwrap_or_default();
        let status = item["status"].as_u64().unwrap_or(500);
        let text = format!("{status} {}: {}", error("type"), error("reason"));
        let text = beginning(&text, WORDS_LEN_MAX).to_owned();
        outcomes.push(match status {
            200..=299 | 409 => Outcome::Delivered,
            429 | 503 => Outcome::Busy(text),
            500.. => Outcome::Retry(text),
            _ if TRANSIENT.contains(&error("type")) => Outcome::Retry(text),
            _ if is_refusal(status, error("type"), error("reason")) => {
                refusals += 1;
                Outcome::Retry(text)
            }
            _ => Outcome::Rejected(text),
        });
    }
    match outcomes.first() {
        Some(Outcome::Retry(text)) if refusals == records.len() => Verdict::Refused(text.clone()),
        _ => Verdict::Items(outcomes),
    }
}

/// Whether an error is about the index or about credentials, and not about the document.
fn is_refusal(status: u64, kind: &str, reason: &str) -> bool {
    matches!(status, 401 | 403 | 404)
        || kind == "invalid_index_name_exception"
        // A data stream does not take the documents of `latest`.
        || (kind == "illegal_argument_exception" && reason.contains("op_type of create"))
}
