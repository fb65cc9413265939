//! ClickHouse: rows of real events for the columns of the table, and tokens of requests.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_feeds::encode::Encoder;
use tidings_feeds::encode::clickhouse::{ClickHouse, Table};
use tidings_feeds::{Record, RecordBody};

use crate::events::{BACK_OFF, SERIES, hostile, record, records, source};

fn rows(records: &[Record]) -> Vec<Value> {
    let body = ClickHouse::default().encode(&source(), records).body;
    let text = std::str::from_utf8(&body).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn rows_have_the_columns_of_an_archives_files() {
    let rows = rows(&[record(BACK_OFF), record(SERIES), records().remove(4)]);
    let mut first = rows[0].clone();
    let json: Value = serde_json::from_str(first["json"].as_str().unwrap()).unwrap();
    assert_eq!(json["metadata"]["resourceVersion"], "1179");
    first.as_object_mut().unwrap().remove("json");
    assert_eq!(
        first,
        json!({
            "cluster": "prod", "namespace": "kube-system", "kind": "Pod",
            "name": "storage-provisioner", "observed": "2021-06-21 02:31:24.000000",
            "uid": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa",
            "event": "storage-provisioner.168a78018af09212", "epoch": 0, "version": 1179,
            "object_uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52", "reason": "BackOff",
            "type": "Warning", "action": "", "message": "Back-off restarting \"failed\" container",
            "source": "kubelet", "host": "minikube", "reporting_controller": "", "count": 7,
            "first_seen": "2021-06-21 02:29:23.000000", "last_seen": "2021-06-21 02:31:23.000000",
            "labels": {}, "occurrences": 2,
        })
    );
    assert_eq!(rows[1]["last_seen"], "2026-01-02 20:02:20.396050");
    assert_eq!(
        (&rows[1]["count"], &rows[1]["action"]),
        (&json!(26), &json!("Scheduling"))
    );
    assert_eq!(rows[2]["uid"], "skip/shop/1767384000000/1767384600000/47");
    assert_eq!(rows[2]["reason"], "VersionsNotDelivered");
}

#[test]
fn the_table_has_every_column_of_a_row() {
    let statement = ClickHouse::new(Table::parse("logs.events").unwrap()).template();
    assert!(
        statement.starts_with("CREATE TABLE IF NOT EXISTS `logs`.`events` ("),
        "{statement}"
    );
    for column in rows(&records())[0].as_object().unwrap().keys() {
        assert!(statement.contains(&format!("\n    {column} ")), "{column}");
    }
}

/// The token is that of these rows: other rows between the same first and last one have another.
#[test]
fn a_request_that_comes_twice_has_the_same_token() {
    let path = |records: &[Record]| ClickHouse::default().encode(&source(), records).path;
    let all = records();
    let (before, rest) = path(&all)
        .split_once("&insert_deduplication_token=")
        .map_or_else(
            || panic!("no token"),
            |(before, rest)| (before.to_owned(), rest.to_owned()),
        );
    assert_eq!(
        before,
        "?query=INSERT+INTO+%60kubernetes_events%60+FORMAT+JSONEachRow"
    );
    let (token, settings) = rest.split_once('&').unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(
        settings,
        "async_insert=0&wait_end_of_query=1&send_progress_in_http_headers=0\
         &input_format_skip_unknown_fields=0&date_time_input_format=basic"
    );
    assert_eq!(path(&all), path(&records()));
    assert_ne!(
        path(&all[..3]),
        path(&[record(BACK_OFF), record(BACK_OFF), all[2].clone()])
    );
    assert_ne!(path(&all), path(&all[..5]));
}

#[test]
fn names_of_tables_cannot_be_statements() {
    for text in ["events", "_e1", "logs.events"] {
        assert!(Table::parse(text).is_ok(), "{text}");
    }
    for text in ["", "1a", "a.b.c", "a.", "a`b", "a b", "a;b", "ä"] {
        assert!(Table::parse(text).is_err(), "{text}");
    }
}

/// Times that a column cannot have become the nearest ones.
#[test]
fn times_fit_their_columns() {
    for (at, expected) in [
        ("1812-01-01T00:00:00Z", "1900-01-01 00:00:00.000000"),
        ("9999-12-30T00:00:00Z", "2299-12-31 23:59:59.000000"),
    ] {
        let event = BACK_OFF.replace("2021-06-21T02:31:23Z", at);
        assert_eq!(rows(&[record(&event)])[0]["last_seen"], expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_data(record in hostile()) {
        let RecordBody::Version(version) = &record.body else { unreachable!() };
        let rows = rows(std::slice::from_ref(&record));
        prop_assert_eq!(rows.len(), 1);
        prop_assert_eq!(rows[0]["message"].as_str().unwrap(), version.event.message());
        let json: Value = serde_json::from_str(rows[0]["json"].as_str().unwrap()).unwrap();
        prop_assert_eq!(json["message"].as_str().unwrap_or_default(), version.event.message());
    }
}
