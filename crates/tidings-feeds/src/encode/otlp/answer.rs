//! What the answers of OTLP receivers mean.

use prost::Message;
use serde_json::Value;

use super::message::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use crate::encode::{Answer, Outcome, Verdict, judge_failure, words};

/// A partial success says how many log records were rejected and not which. The protocol forbids to
/// send its request again, so that halves of it cannot find out which.
pub(super) fn judge(answer: &Answer<'_>, records: usize) -> Verdict {
    if answer.status.as_u16() != 200 {
        return judge_failure(answer);
    }
    let Some(partial) = partial_success(answer) else {
        return Verdict::Refused(format!("an answer that is not OTLP: {}", words(answer)));
    };
    let rejected = u64::try_from(partial.rejected_log_records).unwrap_or(0);
    if rejected == 0 {
        return Verdict::Delivered;
    }
    let why = words(&Answer {
        body: partial.error_message.as_bytes(),
        ..*answer
    });
    if rejected >= records as u64 {
        return Verdict::Items(vec![Outcome::Rejected(why); records]);
    }
    let why = format!("{rejected} of {records} log records, it is not known which: {why}");
    Verdict::PartlyRejected(rejected, why)
}

/// Reads an answer in protobuf, or in JSON, which some receivers send in any case. Protobuf can
/// begin like JSON; JSON that is an object is no protobuf.
fn partial_success(answer: &Answer<'_>) -> Option<ExportLogsPartialSuccess> {
    let media = answer.header("content-type").unwrap_or_default();
    let protobuf = || {
        let response = ExportLogsServiceResponse::decode(answer.body).ok()?;
        Some(response.partial_success.unwrap_or_default())
    };
    if media.starts_with("application/json") {
        return json(answer.body);
    }
    protobuf().or_else(|| json(answer.body))
}

/// Reads JSON of protobuf, which has either of two names for each field. An object that has other
/// members only is from something else.
fn json(body: &[u8]) -> Option<ExportLogsPartialSuccess> {
    let response: Value = serde_json::from_slice(body).ok()?;
    let of = |object: &Value, names: [&str; 2]| -> Value {
        let found = names.iter().find_map(|name| object.get(*name));
        found.cloned().unwrap_or_default()
    };
    let names = ["partialSuccess", "partial_success"];
    let members = response.as_object()?;
    if !members.is_empty() && !names.iter().any(|name| members.contains_key(*name)) {
        return None;
    }
    let partial = of(&response, names);
    let rejected_log_records = match of(&partial, ["rejectedLogRecords", "rejected_log_records"]) {
        Value::Null => 0,
        // 64-bit integers are texts.
        Value::String(text) => text.parse().ok()?,
        number => number.as_i64()?,
    };
    let message = of(&partial, ["errorMessage", "error_message"]);
    Some(ExportLogsPartialSuccess {
        rejected_log_records,
        error_message: message.as_str().unwrap_or_default().to_owned(),
    })
}
