//! JSON Lines: a version as in `tidings export --versions`, with its cluster and its occurrences.

use serde_json::{Value, json};
use tidings_api::codec::{self, Api};
use tidings_history::{ExportLine, timestamp};

use crate::record::{Record, RecordBody, Source};

/// Appends the line of a record.
pub(crate) fn write(source: &Source, record: &Record, out: &mut Vec<u8>) {
    let cluster = Value::from(source.cluster.as_str());
    let line = match &record.body {
        RecordBody::Version(found) => {
            let metadata = found.event.metadata.as_ref();
            let line = ExportLine::Version {
                namespace: metadata.map_or("", |it| it.namespace()).to_owned(),
                name: metadata.map_or("", |it| it.name()).to_owned(),
                epoch: found.version.epoch,
                observed_at: found.version.observed_at,
                event: Value::Null,
            };
            line.write(out);
            // The rest is inserted before the closing brace.
            out.truncate(out.len() - 2);
            let more = format!(
                ",\"cluster\":{cluster},\"occurrences\":{},\"event\":",
                found.occurrences
            );
            out.extend_from_slice(more.as_bytes());
            codec::write_event(Api::Core, &found.event, true, out);
            out.extend_from_slice(b"}\n");
            return;
        }
        RecordBody::Gap(gap) => {
            json!({"kind": "Gap", "cluster": cluster, "gap": gap})
        }
        RecordBody::Skip(skip) => json!({
            "kind": "Skip", "cluster": cluster, "versions": skip.versions,
            "from": timestamp(skip.from), "to": timestamp(skip.to),
        }),
        RecordBody::Test { text, .. } => {
            json!({"kind": "Test", "cluster": cluster, "id": record.id, "message": text})
        }
    };
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}

/// The begin of each line of a version.
const VERSION: &[u8] = br#"{"kind":"Version","namespace":""#;

/// Whether a text is the line of a record, without its line feed.
pub(crate) fn is_line(text: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<Value>(text) else {
        return false;
    };
    let keys: &[&str] = match line["kind"].as_str() {
        Some("Version") => &["cluster", "occurrences", "event"],
        Some("Gap") => &["cluster", "gap"],
        Some("Skip") => &["cluster", "versions", "from", "to"],
        Some("Test") => &["cluster", "id", "message"],
        _ => return false,
    };
    keys.iter().all(|key| line.get(key).is_some())
}

/// Whether a text is the begin of a version's line.
pub(crate) fn is_begun(text: &[u8]) -> bool {
    text.starts_with(VERSION) || VERSION.starts_with(text)
}
