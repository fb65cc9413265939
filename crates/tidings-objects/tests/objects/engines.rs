//! DuckDB and ClickHouse read an archive as it lies there, by the questions of the how-to, and
//! answer what is in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_objects::{Place, SealOptions};
use tidings_testing::programs::engines;

use super::world::World;

const HOW_TO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/how-to/query-an-archive.md"
);
const GRAFANA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/how-to/show-an-archive-in-grafana.md"
);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/engines.py");

/// What engines answer to the questions of a how-to.
fn ask(python: &Path, how_to: &str, folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let ran = Command::new(python)
        .arg(SCRIPT)
        .arg(how_to)
        .arg(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let mut answers = BTreeMap::<String, Vec<Value>>::new();
    for line in String::from_utf8(ran.stdout).unwrap().lines() {
        let mut answer: Value = serde_json::from_str(line).unwrap();
        let engine = answer["engine"].as_str().unwrap().to_owned();
        answers
            .entry(engine)
            .or_default()
            .push(answer["rows"].take());
    }
    answers
}

#[tokio::test]
async fn engines_answer_what_is_in_the_archive() {
    let Some(python) = engines() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let place = Place::open(&url).unwrap();
    let mut world = World::new();
    let mut options = SealOptions::default();
    options.grace = Duration::from_secs(24 * 3600);
    // Merged files, those they were made of, and some that are not merged.
    for _ in 0..10 {
        world.observe(700).await;
        world.seal(&place, options).await.unwrap();
    }
    world.check(&place).await;

    let versions = world.observed;
    let panels = ask(&python, GRAFANA, folder.path());
    let newest = (versions - 7 * 13 + 1..=versions).map(|number| {
        let (pod, event) = (number % 7, number % 13);
        let (object, message) = (format!("Pod/web-{pod}"), format!("back-off {number}"));
        let seen = "2023-11-14 22:13:21";
        let row = json!([seen, "Warning", "BackOff", object, number, message]);
        (format!("uid-{pod}-{event}"), row)
    });
    let newest: BTreeMap<String, Value> = newest.collect();
    let expected = [
        json!([["2023-11-14 22:00:00", "BackOff", 7 * 13]]),
        json!([["shop", 7 * 13]]),
        newest.into_values().collect(),
    ];
    assert_eq!(panels["ClickHouse"], expected);

    let answers = ask(&python, HOW_TO, folder.path());
    // Every seventh version is about web-0, and the newest have the greatest numbers.
    let last = (1..=versions)
        .rev()
        .filter(|number| number % 7 == 0)
        .take(50);
    let last = last.map(|number| {
        let message = format!("back-off {number}");
        json!(["2023-11-14 22:13:21", "BackOff", number, message])
    });
    let expected = vec![
        json!([[versions, 7 * 13]]),
        Value::Array(last.collect()),
        json!([["2023-11-14 22:00:00", "BackOff", 7 * 13]]),
        json!([["web", versions]]),
        json!([["2023-11-14 22:00:00", "shop", "BackOff", versions]]),
    ];
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["ClickHouse", "DuckDB"]);
    for (engine, answers) in answers {
        assert_eq!(answers, expected, "{engine}");
    }
}
