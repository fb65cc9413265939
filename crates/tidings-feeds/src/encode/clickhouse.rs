//! ClickHouse over HTTP: one `INSERT` with a JSON object for each row.
//!
//! The rows have the columns of an archive's Parquet files, but JSON in place of protobuf, and
//! `occurrences`. They are JSON and not Parquet, because a feed's batch is small: a few rows, and
//! at most 500. Of captured events, 20 rows take about four times as many bytes as Parquet with
//! zstd as they take as JSON with gzip, and 500 rows 0.88 to 1.02 times; only 5,000 gain (0.71). A
//! Parquet writer would also be this crate's largest dependency.
//!
//! An `INSERT` that comes twice has the same deduplication token, which the table remembers. What
//! the token does not prevent, the table's engine does: rows with the same key become one.

mod answer;

use std::collections::BTreeMap;
use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use jiff::civil::{DateTime, datetime};
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use tidings_api::codec::{self, Api};

use super::facts::{EventFacts, Facts, Notice};
use super::{Answer, Encoded, Encoder, Verdict};
use crate::record::{Record, Source};

/// The first and the last time of a `DateTime64` with microseconds.
const TIMES: (DateTime, DateTime) = (
    datetime(1900, 1, 1, 0, 0, 0, 0),
    datetime(2299, 12, 31, 23, 59, 59, 0),
);

/// Settings of each request, whatever the user's profile says.
const SETTINGS: [(&str, &str); 5] = [
    // A server that collects rows first would answer before it has them.
    ("async_insert", "0"),
    ("wait_end_of_query", "1"),
    // It would begin its answer before it has the rows.
    ("send_progress_in_http_headers", "0"),
    // Of a table without our columns, rows would have nothing but defaults.
    ("input_format_skip_unknown_fields", "0"),
    ("date_time_input_format", "basic"),
];

/// The name of a table, perhaps with its database: `events`, `monitoring.events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(String);

/// A text is no name of a table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is no table: letters, digits and '_', not beginning with a digit, or DATABASE.TABLE"
)]
pub struct TableError(String);

/// The encoder for ClickHouse. The receiver's URL is that of the HTTP interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClickHouse {
    table: Table,
}

/// One row, with the names of columns.
#[derive(Default, Serialize)]
struct Row<'a> {
    cluster: &'a str,
    namespace: &'a str,
    kind: &'a str,
    name: &'a str,
    observed: String,
    uid: &'a str,
    event: &'a str,
    epoch: u64,
    version: u64,
    object_uid: &'a str,
    reason: &'a str,
    r#type: &'a str,
    action: &'a str,
    message: &'a str,
    source: &'a str,
    host: &'a str,
    reporting_controller: &'a str,
    count: Option<i32>,
    first_seen: Option<String>,
    last_seen: Option<String>,
    labels: BTreeMap<&'a str, &'a str>,
    occurrences: u64,
    json: String,
}

impl ClickHouse {
    /// Makes an encoder for a table.
    pub fn new(table: Table) -> Self {
        Self { table }
    }

    /// Returns the statement that creates the table, whose rows expire after 90 days.
    pub fn template(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (
    cluster LowCardinality(String),
    namespace LowCardinality(String),
    kind LowCardinality(String),
    name String,
    observed DateTime64(6, 'UTC'),
    uid String,
    event String,
    epoch UInt64,
    version UInt64,
    object_uid String,
    reason LowCardinality(String),
    type LowCardinality(String),
    action LowCardinality(String),
    message String,
    source LowCardinality(String),
    host LowCardinality(String),
    reporting_controller LowCardinality(String),
    count Nullable(Int32),
    first_seen Nullable(DateTime64(6, 'UTC')),
    last_seen Nullable(DateTime64(6, 'UTC')),
    labels Map(LowCardinality(String), String),
    occurrences UInt64,
    json String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(observed)
ORDER BY (cluster, namespace, kind, name, uid, epoch, version)
TTL toDateTime(observed) + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 1000;
",
            self.table.quoted()
        )
    }
}

impl Encoder for ClickHouse {
    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let mut body = Vec::new();
        for record in records {
            // Writing a row to memory cannot fail.
            let _ = match record.facts() {
                Facts::Event(event) => serde_json::to_writer(&mut body, &row(source, &event)),
                Facts::Notice(notice) => {
                    let row = notice_row(source, &record.id, &notice);
                    serde_json::to_writer(&mut body, &row)
                }
            };
            body.push(b'\n');
        }
        // Requests with other rows are never taken for this one, whichever feed sends them.
        let mut token = String::new();
        for byte in digest(&SHA256, &body).as_ref() {
            let _ = write!(token, "{byte:02x}");
        }
        let insert = format!("INSERT INTO {} FORMAT JSONEachRow", self.table.quoted());
        let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
        query.append_pair("query", &insert);
        query.append_pair("insert_deduplication_token", &token);
        query.extend_pairs(SETTINGS);
        let query = query.finish();
        let form = HeaderValue::from_static("application/x-ndjson");
        Encoded {
            method: Method::POST,
            path: query,
            headers: vec![(CONTENT_TYPE, form)],
            body: body.into(),
            unencodable: Vec::new(),
        }
    }

    fn judge(&self, answer: &Answer<'_>, _: &[Record]) -> Verdict {
        answer::judge(answer)
    }
}

impl Table {
    /// Reads a name.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let is_name = |part: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            part.bytes().next().is_some_and(is_letter)
                && part
                    .bytes()
                    .all(|byte| is_letter(byte) || byte.is_ascii_digit())
        };
        if text.split('.').count() <= 2 && text.split('.').all(is_name) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TableError(text.to_owned()))
        }
    }

    fn quoted(&self) -> String {
        format!("`{}`", self.0.replace('.', "`.`"))
    }
}

impl Default for Table {
    /// `kubernetes_events`.
    fn default() -> Self {
        Self("kubernetes_events".to_owned())
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

fn row<'a>(source: &'a Source, facts: &EventFacts<'a>) -> Row<'a> {
    let (event, object, version) = (facts.event(), facts.object, &facts.record.version);
    let metadata = event.metadata.as_ref();
    let times = codec::times(event);
    let mut json = Vec::new();
    codec::write_event(Api::Core, event, true, &mut json);
    Row {
        cluster: &source.cluster,
        namespace: metadata.map_or("", |metadata| metadata.namespace()),
        kind: object.kind(),
        name: object.name(),
        observed: time(facts.observed()),
        uid: &version.uid,
        event: metadata.map_or("", |metadata| metadata.name()),
        epoch: version.epoch,
        version: version.number,
        object_uid: object.uid(),
        reason: event.reason(),
        r#type: event.r#type(),
        action: event.action(),
        message: event.message(),
        source: facts.component(),
        host: facts.host(),
        reporting_controller: event.reporting_component(),
        count: Some(facts.count()).filter(|count| *count != 0),
        first_seen: times.first_seen().map(time),
        last_seen: times.last_seen().map(time),
        labels: metadata
            .iter()
            .flat_map(|metadata| &metadata.labels)
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
        occurrences: facts.record.occurrences,
        json: String::from_utf8(json).unwrap_or_default(),
    }
}

fn notice_row<'a>(source: &'a Source, id: &'a str, notice: &'a Notice<'_>) -> Row<'a> {
    let at = time(tidings_history::timestamp(notice.at));
    Row {
        cluster: &source.cluster,
        namespace: notice.namespace,
        observed: at.clone(),
        uid: id,
        reason: notice.reason,
        r#type: notice.event_type,
        message: &notice.message,
        source: "tidings",
        first_seen: Some(at.clone()),
        last_seen: Some(at),
        ..Row::default()
    }
}

/// Returns a time in ClickHouse's form, or the nearest one that its columns can have.
fn time(at: Timestamp) -> String {
    let at = at.to_zoned(TimeZone::UTC).datetime();
    let at = at.clamp(TIMES.0, TIMES.1);
    at.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}
