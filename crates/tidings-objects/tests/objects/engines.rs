//! DuckDB and ClickHouse read the files of an archive. They answer the questions of the how-to as
//! expected, and find every promised value of every row, in a folder and on S3.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_api::codec::{self, Api};
use tidings_objects::{Place, ReadOptions, Reader, SealOptions, check};
use tidings_store::VALUE_LEN_MAX;
use tidings_store::clock::Clock;
use tidings_testing::programs::engines;
use tidings_testing::s3::{BUCKET, S3Server};

use super::history::History;
use super::storage::temporary;
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
const COMPARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/compare.py");
/// The environment variable that may name a folder of real events as JSON Lines.
const CAPTURED: &str = "TIDINGS_CAPTURES";
/// With fewer events, files are missing in that folder.
const CAPTURED_MIN: usize = 10_000;
const DAY_MILLIS: i64 = 24 * 3_600_000;

/// Runs a script, and returns the lines of JSON that it prints.
fn run(python: &Path, script: &str, arguments: &[&Path]) -> Vec<Value> {
    let ran = Command::new(python).arg(script).args(arguments).output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    printed.lines().map(read).collect()
}

/// The answers of both engines to the questions of a how-to.
fn ask(python: &Path, how_to: &str, folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut answers = BTreeMap::<String, Vec<Value>>::new();
    for mut answer in run(python, SCRIPT, &[Path::new(how_to), folder]) {
        let engine = answer["engine"].as_str().unwrap().to_owned();
        answers
            .entry(engine)
            .or_default()
            .push(answer["rows"].take());
    }
    answers
}

/// A cluster with the rows that its files must have.
struct Observed {
    cluster: &'static str,
    world: World,
    lines: Vec<Line>,
    /// The uid of the event that has this namespace and name now.
    names: BTreeMap<(String, String), String>,
    /// Uids of events that were deleted in the archive.
    deleted: BTreeSet<String>,
}

/// A version in the form of an export's line.
struct Line {
    said: Value,
    is_sealed: bool,
}

impl Line {
    fn uid(&self) -> &str {
        uid_of(&self.said)
    }
}

impl Observed {
    fn new(cluster: &'static str) -> Self {
        Self {
            cluster,
            world: World::new(),
            lines: Vec::new(),
            names: BTreeMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    fn now(&self) -> i64 {
        self.world.clock.now().0
    }

    /// Observes versions and ends of events, except of deleted events.
    async fn observe(&mut self, mut said: Vec<Value>) {
        said.retain(|said| !self.deleted.contains(uid_of(said)));
        self.world.import(&said).await;
        for said in said {
            if said["kind"] != "Version" {
                continue;
            }
            let of = |field: &str| text(&said[field]).to_owned();
            let (namespace, name) = (of("namespace"), of("name"));
            let uid = uid_of(&said).to_owned();
            let before = self.names.insert((namespace, name.clone()), uid.clone());
            if let Some(before) = before.filter(|before| *before != uid) {
                self.give_name(&name, &before);
            }
            let is_sealed = false;
            self.lines.push(Line { said, is_sealed });
        }
    }

    /// Records that a name was used again. From then on the older event's newest version has
    /// another name, unless it was sealed before.
    fn give_name(&mut self, name: &str, uid: &str) {
        let newest = self.lines.iter_mut().rfind(|line| line.uid() == uid);
        if let Some(newest) = newest.filter(|newest| !newest.is_sealed) {
            let short: String = uid.chars().take(8).collect();
            newest.said["event"]["metadata"]["name"] = json!(format!("{name}.{short}"));
        }
    }

    /// Deletes the event of a key in the archive.
    async fn delete(&mut self, key: &'static str) {
        let (namespace, name) = key.split_once('/').unwrap();
        let uid = self.names.remove(&(namespace.to_owned(), name.to_owned()));
        self.world.delete(key.as_bytes()).await;
        self.take_out(&uid.unwrap());
    }

    /// Deletes an event, and removes its rows from the expected ones.
    async fn delete_as_said(&mut self, namespace: &str, name: &str, uid: &str) {
        let until = time(self.now() + DAY_MILLIS);
        let deleted = json!({
            "kind": "Deleted", "namespace": namespace, "name": name, "uid": uid, "until": until,
        });
        self.world.import(&[deleted]).await;
        self.take_out(uid);
    }

    fn take_out(&mut self, uid: &str) {
        let before = self.lines.len();
        self.lines.retain(|line| line.uid() != uid);
        assert!(self.lines.len() < before, "{uid} was not observed");
        self.deleted.insert(uid.to_owned());
    }

    /// Seals what waits, and removes deleted events from the files.
    async fn seal(&mut self, place: &Place) {
        let (world, options) = (&self.world, SealOptions::default());
        loop {
            let sealed = world.seal_as(self.cluster, world.path(), place, options);
            if sealed.await.unwrap().erased == 0 {
                break;
            }
        }
        for line in &mut self.lines {
            line.is_sealed = true;
        }
    }

    /// Checks that our reader finds as many versions as the engines must find.
    async fn count(&self, place: &Place) {
        let versions = self.lines.len() as u64;
        let reader = Reader::new(place.clone(), ReadOptions::default());
        let sealed = reader.open(self.cluster).await.unwrap();
        assert_eq!(sealed.coverage().totals.unwrap().events, versions);
    }
}

/// The uid of the event in a line.
fn uid_of(said: &Value) -> &str {
    text(&said["event"]["metadata"]["uid"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(millis: i64) -> String {
    Timestamp::from_millisecond(millis).unwrap().to_string()
}

/// The line of a version.
fn version(event: &Value, epoch: u64, observed: i64) -> Value {
    json!({
        "kind": "Version", "namespace": event["metadata"]["namespace"],
        "name": event["metadata"]["name"], "epoch": epoch, "observedAt": time(observed),
        "event": event,
    })
}

/// A time in microseconds since 1970.
fn micros(time: &Value) -> Option<i64> {
    // Go's zero time means that there is no time.
    let time = time.as_str().filter(|time| *time != "0001-01-01T00:00:00Z");
    // Times on the last day of the year 9999 are beyond what is stored.
    let time = time?.parse().unwrap_or(Timestamp::MAX);
    Some(time.as_microsecond())
}

/// A time in microseconds since 1970, of a field with whole seconds.
fn seconds(time: &Value) -> Option<i64> {
    let micros = micros(time)?;
    // The last stored time is not cut to whole seconds.
    let is_last = micros == Timestamp::MAX.as_microsecond();
    Some(if is_last {
        micros
    } else {
        micros - micros.rem_euclid(1_000_000)
    })
}

/// The row of a version according to `docs/archive-format.md`, with the length of the event's
/// bytes, and these bytes.
fn row(cluster: &str, said: &Value) -> (Value, Bytes) {
    let event = &said["event"];
    let (metadata, object, series) = (
        &event["metadata"],
        &event["involvedObject"],
        &event["series"],
    );
    let number = |value: &Value| value.as_i64().filter(|number| *number != 0);
    let created = &metadata["creationTimestamp"];
    let first_seen = seconds(&event["firstTimestamp"])
        .or_else(|| micros(&event["eventTime"]))
        .or_else(|| seconds(created));
    let last_seen = micros(&series["lastObservedTime"])
        .or_else(|| seconds(&event["lastTimestamp"]))
        .or_else(|| micros(&event["eventTime"]))
        .or_else(|| seconds(&event["firstTimestamp"]))
        .or_else(|| seconds(created));
    let labels = Some(&metadata["labels"]).filter(|labels| labels.is_object());
    let read = codec::read_event(
        Api::Core,
        event.clone(),
        &mut codec::json::Reading::default(),
    );
    let bytes = codec::encode_stored(&mut read.unwrap().1);
    let row = json!({
        "cluster": cluster,
        "namespace": text(&metadata["namespace"]),
        "kind": text(&object["kind"]),
        "name": text(&object["name"]),
        "observed": micros(&said["observedAt"]),
        "uid": text(&metadata["uid"]),
        "event": text(&metadata["name"]),
        "epoch": said["epoch"],
        "version": text(&metadata["resourceVersion"]).parse::<u64>().unwrap(),
        "object_uid": text(&object["uid"]),
        "reason": text(&event["reason"]),
        "type": text(&event["type"]),
        "source": text(&event["source"]["component"]),
        "host": text(&event["source"]["host"]),
        "reporting_controller": text(&event["reportingComponent"]),
        "action": text(&event["action"]),
        "message": text(&event["message"]),
        "count": number(&event["count"]).or_else(|| number(&series["count"])),
        "first_seen": first_seen,
        "last_seen": last_seen,
        "labels": labels.cloned().unwrap_or_else(|| json!({})),
        "object": bytes.len(),
    });
    (row, bytes)
}

/// Puts the fields of one object into another, at all depths.
fn put(into: &mut Value, fields: &Value) {
    match fields.as_object() {
        Some(fields) if into.is_object() => {
            for (name, value) in fields {
                put(&mut into[name.as_str()], value);
            }
        }
        _ => into.clone_from(fields),
    }
}

/// Fields of unusual events, none of which an archive refuses.
fn oddities() -> Vec<Value> {
    let second = "2023-11-14T22:13:20Z";
    let micro = "2023-11-14T22:13:20.000001Z";
    let zero = "0001-01-01T00:00:00Z";
    // The event may fill half of a value in the store, including everything around the message.
    let longest = VALUE_LEN_MAX / 2 - 2048;
    vec![
        json!({}),
        // Texts that must be quoted, and texts that look like something else.
        json!({"message": "it's \"quoted\", {'a': 1}, back\\slash, \\n\n\t\r"}),
        json!({"message": "a\u{0}\u{1}\u{7f}\u{2028}", "reason": "\u{0}"}),
        json!({"message": "日本語 ünïcode 🦀 e\u{301} \u{feff}", "reason": "NULL", "action": "\\N"}),
        json!({"metadata": {
            "labels": {"a'b\"c\\d": "x\ny", "ü": "🦀", "empty": "", "{}": "[]", "a=b,c": "null"},
            "annotations": {"note": "it's \"quoted\"\n", "ü": "🦀", "empty": ""},
        }}),
        // The maximum length in events.k8s.io, with letters of two bytes, and the maximum length in
        // a store.
        json!({"message": "é".repeat(512)}),
        json!({"message": "long ".repeat(longest / 5)}),
        json!({"message": "z".repeat(longest)}),
        // Empty values where usually there is one.
        json!({"message": "", "reason": null, "type": "", "action": ""}),
        json!({"source": null, "reportingComponent": null, "reportingInstance": null}),
        json!({"source": {"component": null, "host": "node-1"}}),
        json!({"involvedObject": {"kind": "Node", "name": "n-1", "namespace": null, "uid": null}}),
        json!({"involvedObject": {"kind": null, "name": null, "namespace": null, "uid": null}}),
        json!({"count": null, "firstTimestamp": null, "lastTimestamp": null}),
        json!({"firstTimestamp": zero, "lastTimestamp": zero}),
        json!({"firstTimestamp": null, "lastTimestamp": null,
            "metadata": {"creationTimestamp": second}}),
        // Events as recorders of events.k8s.io make them.
        json!({"count": null, "firstTimestamp": null, "lastTimestamp": null, "source": null,
            "eventTime": micro, "action": "Binding", "reportingComponent": "example.com/scheduler",
            "related": {"kind": "Node", "name": "node-1", "apiVersion": "v1"}}),
        json!({"count": null, "firstTimestamp": null, "lastTimestamp": null, "eventTime": micro,
            "series": {"count": 40, "lastObservedTime": "2023-11-14T22:13:21.999999Z"}}),
        json!({"count": 0, "series": {"count": 0, "lastObservedTime": micro}}),
        json!({"count": 0, "series": {"count": -2, "lastObservedTime": null}}),
        // The least and greatest numbers and times, and those that engines can show.
        json!({"count": -1}),
        json!({"count": i32::MAX}),
        json!({"count": i32::MIN}),
        json!({"firstTimestamp": "2023-11-14T22:13:20.999Z"}),
        json!({"firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:00Z"}),
        json!({"firstTimestamp": null, "lastTimestamp": null,
            "eventTime": "1969-12-31T23:59:59.999999Z"}),
        json!({"firstTimestamp": "0001-01-01T00:00:01Z", "lastTimestamp": "1899-12-31T23:59:59Z"}),
        json!({"firstTimestamp": "1900-01-01T00:00:00Z", "lastTimestamp": "2106-02-07T06:28:16Z"}),
        json!({"firstTimestamp": "2299-12-31T23:59:59Z", "series": {"count": 2,
            "lastObservedTime": "2300-01-01T00:00:00.000001Z"}}),
        json!({"firstTimestamp": "9999-12-30T22:00:00Z", "lastTimestamp": "9999-12-31T23:59:59Z"}),
    ]
}

/// A version of each unusual event, and of one with the greatest numbers.
fn odd(turn: u64, observed: i64) -> Vec<Value> {
    let mut versions = Vec::new();
    for (number, fields) in (1..).zip(oddities()) {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "namespace": "odd", "name": format!("web-0.{number}"),
                "uid": format!("odd-{number:03}"),
                "resourceVersion": (turn * 1000 + number).to_string(),
            },
            "involvedObject": {
                "kind": "Pod", "namespace": "odd", "name": "web-0", "uid": "of-web-0",
            },
            "reason": "BackOff", "message": format!("turn {turn}"), "type": "Warning",
            "count": turn, "firstTimestamp": "2023-11-14T22:13:20Z",
            "lastTimestamp": "2023-11-14T22:13:21Z",
            "source": {"component": "kubelet", "host": "node-0"},
            "reportingComponent": "kubelet", "reportingInstance": "node-0",
        });
        put(&mut event, &fields);
        versions.push(version(&event, 0, observed));
    }
    let mut greatest = versions[0].clone();
    greatest["name"] = json!("web-0.greatest");
    greatest["epoch"] = json!(u64::from(u32::MAX) + turn);
    let metadata = json!({
        "name": "web-0.greatest", "uid": "odd-greatest",
        "resourceVersion": (u64::MAX - 100 + turn).to_string(),
    });
    put(&mut greatest["event"]["metadata"], &metadata);
    versions.push(greatest);
    versions
}

/// An event in the form of core/v1.
fn as_core(event: Value) -> Value {
    if event["apiVersion"] != "events.k8s.io/v1" {
        return event;
    }
    let read = codec::read_event(Api::Events, event, &mut codec::json::Reading::default());
    let mut written = Vec::new();
    codec::write_event(Api::Core, &read.unwrap().1, true, &mut written);
    serde_json::from_slice(&written).unwrap()
}

/// A cluster with much of what can happen: versions, names that are used again before and after a
/// seal, ends, deleted events, merged files, and files that were written again.
async fn eventful(place: &Place) -> Observed {
    let mut prod = Observed::new("prod");
    let mut history = History::new(21);
    for turn in 1..=14 {
        let mut said: Vec<_> = std::iter::repeat_with(|| history.next()).take(40).collect();
        prod.world.clock.advance(history.time + 1 - prod.now());
        if turn % 4 == 1 {
            said.extend(odd(turn, prod.now()));
        }
        prod.observe(said).await;
        match turn {
            3 => prod.delete("odd/web-0.2").await,
            5 => {
                // One version of each of these events is sealed, and one waits. One event's name is
                // used again.
                prod.delete("odd/web-0.3").await;
                let mut again = odd(turn, prod.now()).swap_remove(3);
                again["event"]["metadata"]["uid"] = json!("again-4");
                prod.observe(vec![again]).await;
            }
            7 => {
                let (name, uid) = ("web-0.4.odd-004", "odd-004");
                prod.delete_as_said("odd", name, uid).await;
            }
            10 => prod.delete("odd/web-0.8").await,
            14 => {
                let end = json!({
                    "kind": "End", "namespace": "odd", "name": "web-0.5", "uid": "odd-005",
                    "resourceVersion": "14000", "observedAt": time(prod.now()),
                });
                prod.observe(vec![end]).await;
            }
            _ => {}
        }
        // Two turns are sealed together, and then one turn alone.
        if turn % 3 != 2 {
            prod.seal(place).await;
        }
    }
    prod.seal(place).await;
    let checked = check(place, "prod").await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    let manifest = checked.manifest;
    let mut levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
    levels.dedup();
    assert_eq!(levels, [1, 0]);
    assert!(manifest.gone > 0 && manifest.forgotten > 0);
    // The files before merging still exist, and no engine may read them.
    assert!(!manifest.removed.is_empty());
    prod
}

/// Another cluster with events of the same uids.
async fn calm(place: &Place) -> Observed {
    let mut staging = Observed::new("staging");
    staging.observe(odd(1, staging.now())).await;
    staging.seal(place).await;
    staging
}

/// Real events, if a folder of them is named: in the form of core/v1 in one cluster, and in the
/// form of events.k8s.io/v1 in another.
async fn captured(place: &Place) -> Vec<Observed> {
    let Some(folder) = std::env::var_os(CAPTURED) else {
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut clusters = ["captured", "captured-anew"].map(Observed::new);
    let mut said = [Vec::new(), Vec::new()];
    for file in files {
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let cluster = usize::from(event["apiVersion"] == "events.k8s.io/v1");
            let said = &mut said[cluster];
            let observed = clusters[cluster].now() - i64::try_from(said.len()).unwrap();
            said.push(version(&as_core(event), 0, observed));
        }
    }
    assert!(said.iter().map(Vec::len).sum::<usize>() >= CAPTURED_MIN);
    for (cluster, said) in clusters.iter_mut().zip(said) {
        cluster.observe(said).await;
        cluster.seal(place).await;
    }
    Vec::from(clusters)
}

/// Prints what was skipped or delayed. It writes past the test's capture, so that it is seen
/// although the test passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Compares the rows of these clusters with those that every engine finds, for every way to read
/// the files.
fn compare(python: &Path, clusters: &[Observed], folder: &Path, server: Option<&S3Server>) {
    // The expected rows take megabytes, too much for an argument, so they are in files.
    let written = tempfile::tempdir().unwrap();
    let [rows, objects, asked] = ["rows", "objects", "asked"].map(|name| written.path().join(name));
    let create = |file: &Path| BufWriter::new(File::create(file).unwrap());
    let (mut to_rows, mut to_objects) = (create(&rows), create(&objects));
    let mut expected = BTreeMap::new();
    for observed in clusters {
        for line in &observed.lines {
            let (row, bytes) = row(observed.cluster, &line.said);
            writeln!(to_rows, "{row}").unwrap();
            to_objects.write_all(&bytes).unwrap();
        }
        expected.insert(observed.cluster.to_owned(), observed.lines.len() as u64);
    }
    to_rows.flush().unwrap();
    to_objects.flush().unwrap();
    let s3 = server.map(|server| {
        let environment = BTreeMap::from(server.environment());
        json!({
            "url": format!("{}/{BUCKET}/archive", environment["AWS_ENDPOINT"]),
            "key": environment["AWS_ACCESS_KEY_ID"],
            "secret": environment["AWS_SECRET_ACCESS_KEY"],
            "region": environment["AWS_REGION"],
        })
    });
    let question = json!({"rows": rows, "objects": objects, "folder": folder, "s3": s3});
    std::fs::write(&asked, question.to_string()).unwrap();

    let mut found = BTreeMap::<_, BTreeMap<String, u64>>::new();
    for answer in run(python, COMPARE, &[asked.as_path()]) {
        if let Some(said) = answer["said"].as_str() {
            say(said);
            continue;
        }
        let of = |field: &str| answer[field].as_str().unwrap().to_owned();
        let (engine, way, cluster) = (of("engine"), of("from"), of("cluster"));
        let differences = answer["differences"].as_array().unwrap();
        assert!(
            differences.is_empty(),
            "{engine}, {way}, {cluster}: {differences:#?}"
        );
        let rows = answer["rows"].as_u64().unwrap();
        found
            .entry((engine, way))
            .or_default()
            .insert(cluster, rows);
    }
    let mut ways = vec![("DuckDB", "folder"), ("ClickHouse", "folder")];
    ways.extend(server.map(|_| ("ClickHouse", "s3")));
    for (engine, way) in ways {
        let way = (engine.to_owned(), way.to_owned());
        assert_eq!(found.remove(&way).as_ref(), Some(&expected), "{way:?}");
    }
    // DuckDB reads S3 only if its extension is there.
    for (way, found) in found {
        assert_eq!(found, expected, "{way:?}");
    }
}

#[tokio::test]
async fn engines_have_every_value_that_was_observed_in_a_folder() {
    let Some(python) = engines() else {
        return;
    };
    let folder = temporary();
    let place = Place::open(&format!("file://{}", folder.path().display())).unwrap();
    let clusters = [eventful(&place).await, calm(&place).await];
    for observed in &clusters {
        observed.count(&place).await;
    }
    compare(&python, &clusters, folder.path(), None);
}

/// An S3 server over a folder, and the place of an archive on it.
fn on_s3() -> (tempfile::TempDir, S3Server, Place) {
    let folder = temporary();
    let server = S3Server::start(folder.path());
    let url = format!("s3://{BUCKET}/archive");
    let place = Place::open_with(&url, &server.environment()).unwrap();
    (folder, server, place)
}

/// The folder with the files of that archive.
fn files_of(folder: &Path) -> PathBuf {
    folder.join(BUCKET).join("archive")
}

#[tokio::test]
async fn engines_have_every_value_that_was_observed_on_s3() {
    let Some(python) = engines() else {
        return;
    };
    let (folder, server, place) = on_s3();
    let clusters = [eventful(&place).await, calm(&place).await];
    for observed in &clusters {
        observed.count(&place).await;
    }
    compare(&python, &clusters, &files_of(folder.path()), Some(&server));
}

#[tokio::test]
async fn engines_have_every_value_of_real_events() {
    let Some(python) = engines() else {
        return;
    };
    let (folder, server, place) = on_s3();
    let clusters = captured(&place).await;
    if clusters.is_empty() {
        return say("skipped: TIDINGS_CAPTURES names no folder of real events");
    }
    for observed in &clusters {
        observed.count(&place).await;
    }
    compare(&python, &clusters, &files_of(folder.path()), Some(&server));
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
    // The archive has merged files, the files that they were made from, and unmerged ones.
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
    // Every seventh version is about web-0. The newest versions have the greatest numbers.
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
