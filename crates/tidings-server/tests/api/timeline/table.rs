//! The table of what happened most.

use serde_json::{Value, json};

use super::{MINUTE, about, create, get};
use crate::support::{START, Server};

/// Objects of one name are apart by kind, namespace and, if they were created again, uid.
#[tokio::test]
async fn rows_of_objects_are_objects() {
    let server = Server::new();
    let pod = |name: &str, uid: &str| {
        let mut event = about("redis-0", name, "Pulled", "Normal", -MINUTE);
        event["involvedObject"]["uid"] = uid.into();
        event
    };
    let mut claim = pod("claim", "c");
    claim["involvedObject"]["kind"] = "PersistentVolumeClaim".into();
    let mut other = pod("other", "d");
    for reference in ["metadata", "involvedObject"] {
        other[reference]["namespace"] = "bank".into();
    }
    for event in [pod("a", "a"), pod("a2", "a"), pod("none", ""), claim, other] {
        create(&server, &event).await;
    }
    let rows = async || -> Vec<Value> {
        let table = get(&server, "top?by=object").await;
        let rows = table["rows"].as_array().unwrap().iter();
        let row = |row: &Value| {
            json!([
                row["kind"],
                row["namespace"],
                row["name"],
                row["uid"],
                row["occurrences"]
            ])
        };
        let mut rows: Vec<_> = rows.map(row).collect();
        rows.sort_by_key(Value::to_string);
        rows
    };
    let others = [
        json!(["PersistentVolumeClaim", "shop", "redis-0", null, 1]),
        json!(["Pod", "bank", "redis-0", null, 1]),
    ];
    let mut expected = others.to_vec();
    expected.push(json!(["Pod", "shop", "redis-0", null, 3]));
    assert_eq!(rows().await, expected);
    create(&server, &pod("b", "b")).await;
    let mut expected = others.to_vec();
    expected.extend([
        json!(["Pod", "shop", "redis-0", "a", 2]),
        json!(["Pod", "shop", "redis-0", "b", 1]),
        json!(["Pod", "shop", "redis-0", null, 1]),
    ]);
    assert_eq!(rows().await, expected);
}

/// The table of reasons says what the events say, also beside the range before.
#[tokio::test]
async fn a_table_says_what_happened_most() {
    let server = Server::new();
    let mut back_off = about("web-0", "back-off", "BackOff", "Warning", -MINUTE);
    back_off["firstTimestamp"] = about("", "", "", "", -31 * MINUTE)["firstTimestamp"].clone();
    back_off["count"] = 31.into();
    create(&server, &back_off).await;
    create(
        &server,
        &about("web-0", "p0", "Pulled", "Normal", -50 * MINUTE),
    )
    .await;
    create(
        &server,
        &about("web-1", "p1", "Pulled", "Normal", -70 * MINUTE),
    )
    .await;
    create(
        &server,
        &about("web-1", "k1", "Killing", "Normal", -80 * MINUTE),
    )
    .await;
    let table = get(&server, "top?parts=2").await;
    let brief = |table: &Value| -> Vec<Value> {
        let rows = table["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            json!([
                row["name"],
                row["occurrences"],
                row["objects"],
                row["before"],
                row["going"],
                row["parts"]
            ])
        })
        .collect()
    };
    assert_eq!(
        brief(&table),
        [
            json!(["BackOff", 31, 1, 0, true, [2, 29]]),
            json!(["Pulled", 1, 1, 0, false, [1, 0]]),
        ],
        "{table}"
    );
    assert_eq!(table["rows"][0]["first"], START - 31 * MINUTE);
    assert_eq!(
        (&table["complete"], &table["counted"]),
        (&json!(true), &json!("occurrences"))
    );
    // What is not estimated is marked as little as what is.
    assert_eq!(table["rows"][0]["partsEstimated"], true);
    assert_eq!(table["rows"][1]["partsEstimated"], false);

    let table = get(&server, "top?parts=1&against=before").await;
    assert_eq!(
        brief(&table),
        [
            json!(["BackOff", 31, 1, 0, true, [31]]),
            json!(["Killing", 0, 0, 1, false, [0]]),
            json!(["Pulled", 1, 1, 1, false, [1]]),
        ],
        "{table}"
    );
    assert_eq!(table["before"]["known"], false, "{table}");
    create(
        &server,
        &about("web-9", "old", "Pulled", "Normal", -150 * MINUTE),
    )
    .await;
    let table = get(&server, "top?against=before").await;
    assert_eq!(table["before"]["known"], true, "{table}");

    for (query, expected) in [
        ("by=object&filter=BackOff", json!([["web-0", "Pod"]])),
        ("by=namespace", json!([["shop", null]])),
        ("by=source", json!([["kubelet", null]])),
        ("by=node&filter=-reason:*", json!([])),
    ] {
        let table = get(&server, &format!("top?{query}")).await;
        let rows = table["rows"].as_array().unwrap().iter();
        let names: Vec<_> = rows.map(|row| json!([row["name"], row["kind"]])).collect();
        assert_eq!(json!(names), expected, "{query}");
    }
}
