//! Tables show the distinguishing parts: times where ages are equal, names with their ends on
//! narrow terminals, and the matching line of a message.

use serde_json::{Value, json};

use super::support::{Cluster, Ran, ago, event, tidings};
use super::terminal::shown;

const DAY: i64 = 24 * 3600;

/// Events of two pods that failed two weeks ago, a second apart.
fn incident() -> Vec<Value> {
    let pods = ["web-5d4f8c7b9-x7k2p", "web-5d4f8c7b9-q2w4e"];
    let events = (0..6).map(|number| {
        let pod = pods[number % 2];
        let seconds = 14 * DAY + 7200 - i64::try_from(number).unwrap();
        let mut event = event(
            &format!("{pod}.{number}"),
            ("Pod", pod),
            "FailedMount",
            seconds,
        );
        event["message"] = json!("MountVolume.SetUp failed: rpc error\nsecret \"tls\" not found");
        event
    });
    events.collect()
}

/// Whether a text begins with a time to the second in UTC.
fn is_time(text: &str) -> bool {
    text.get(..20)
        .is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok() && time.ends_with('Z'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incident_of_two_weeks_ago_is_told_in_times() {
    let cluster = Cluster::with(&incident()).await;
    for arguments in [
        &["events", "-n", "shop", "--no-headers"] as &[&str],
        &["events", "-n", "shop", "--no-headers", "--timestamps"],
        &[
            "events",
            "-n",
            "shop",
            "--no-headers",
            "--timestamps=utc",
            "--limit=1",
        ],
    ] {
        for line in cluster.lines(arguments) {
            assert!(is_time(&line), "{line}");
            // A printed time can be passed to --since.
            let since = format!("--since={}", &line[..20]);
            let found = cluster.lines(&["events", "-n", "shop", &since, "-o", "name", "--limit=9"]);
            assert!(!found.is_empty(), "{line}");
        }
    }
    let ages = cluster.lines(&["events", "-n", "shop", "--no-headers", "--timestamps=age"]);
    assert!(
        ages.iter().all(|line| line.starts_with("14d   ")),
        "{ages:?}"
    );
    // A single row need not be distinguished from others.
    let one = cluster.lines(&["events", "-n", "shop", "--no-headers", "--limit=1"]);
    assert!(one[0].starts_with("14d   "), "{one:?}");
    for pod in ["pod/web-5d4f8c7b9-x7k2p", "pod/web-5d4f8c7b9-q2w4e"] {
        let described = cluster.lines(&["describe", "-n", "shop", pod]);
        assert!(described[1].contains("  Last Seen  "), "{described:?}");
        let times = described[3..]
            .iter()
            .filter(|line| line.split("  ").any(is_time));
        assert_eq!(times.count(), 3, "{described:?}");
    }
    let top = cluster.lines(&["top", "-n", "shop", "--by=object", "--window=30d"]);
    let times = top[3..]
        .iter()
        .filter(|line| line.split("   ").any(|cell| is_time(cell.trim())));
    assert_eq!(times.count(), 2, "{top:?}");
    // The variable TZ sets the zone of this machine.
    let mut command =
        cluster.command(&["events", "-n", "shop", "--no-headers", "--timestamps=local"]);
    let output = command.env("TZ", "NPT-5:45").output().unwrap();
    let local = String::from_utf8(output.stdout).unwrap();
    let first = local.lines().next().unwrap().split("   ").next().unwrap();
    let utc = cluster.lines(&["events", "-n", "shop", "--no-headers", "--timestamps"]);
    assert!(first.ends_with("+05:45"), "{local}");
    let same = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(same(first), same(&utc[0][..20]));
}

/// A printed age is accepted as a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_printed_is_accepted() {
    let old = event(
        "old.1",
        ("Pod", "old"),
        "Pulled",
        2 * 365 * DAY + 11 * DAY + 3600,
    );
    let cluster = Cluster::with(&[old, event("new.1", ("Pod", "new"), "Pulled", 60)]).await;
    let lines = cluster.lines(&["events", "-A", "--no-headers", "--timestamps=age"]);
    let age = lines[0].split_whitespace().nth(1).unwrap();
    assert_eq!(age, "2y11d");
    for (since, expected) in [("2y11d", 1), ("2y12d", 2), ("3y", 2)] {
        let found = cluster.lines(&["events", "-A", "-o", "name", "--since", since]);
        assert_eq!(found.len(), expected, "{since}");
    }
    assert_eq!(
        cluster
            .lines(&["top", "-A", "--window=2y12d", "--by=object"])
            .len(),
        5
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrow_terminal_shows_what_tells_rows_apart() {
    let cluster = Cluster::with(&incident()).await;
    for columns in [40, 60, 80] {
        for arguments in [
            &["events", "-A", "--color=never"] as &[&str],
            &[
                "events",
                "-n",
                "shop",
                "--color=never",
                "--filter",
                "\"not found\"",
            ],
            &["top", "-A", "--color=never", "--window=30d", "--by=object"],
        ] {
            let lines = shown(&cluster, columns, arguments, &[]);
            for line in &lines {
                let width = console::measure_text_width(line);
                assert!(
                    width <= usize::from(columns) || line.contains(": "),
                    "{columns}: {line}"
                );
            }
            let text = lines.join("\n");
            for part in ["x7k2p", "q2w4e"] {
                assert!(text.contains(part), "{columns}: no {part} in\n{text}");
            }
            // Each row shows another second; those of top show the first and the last one.
            let times: std::collections::BTreeSet<_> = text
                .split_whitespace()
                .filter(|word| is_time(word))
                .collect();
            let expected = if arguments[0] == "top" { 4 } else { 6 };
            assert_eq!(times.len(), expected, "{columns}:\n{text}");
            if arguments.contains(&"--filter") {
                assert_eq!(text.matches("not found").count(), 6, "{columns}:\n{text}");
            }
            let says_so = lines.last().unwrap().starts_with("… cut: ");
            let is_cut = lines.iter().rev().skip(1).any(|line| line.contains('…'));
            assert_eq!(says_so, is_cut, "{columns}:\n{text}");
        }
    }
}

/// Durations count from when the newest event of a capture was seen, as ages do. If no event is in
/// the selected time, the message gives the capture's period.
#[test]
fn a_capture_without_what_is_wanted_says_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.json");
    let seen = |name: &str, time: &str| {
        let mut event = event(name, ("Pod", "r1"), "Failed", 60);
        for field in ["firstTimestamp", "lastTimestamp"] {
            event[field] = json!(time);
        }
        event.to_string()
    };
    let first = seen("r1.1", "2023-07-10T05:21:34Z");
    let both = first + "\n" + &seen("r1.2", "2023-07-10T07:21:34Z");
    std::fs::write(&file, both).unwrap();
    let file = file.to_str().unwrap();
    for (words, names) in [
        (&["--since=1h"] as &[&str], &["event/r1.2"] as &[&str]),
        (&["--since=2h"], &["event/r1.1", "event/r1.2"]),
        (&["--until=1h"], &["event/r1.1"]),
        (&["--since=2023-07-11"], &[]),
    ] {
        let all = [&["events", "--file", file, "-o=name"], words].concat();
        let ran: Ran = tidings(&all).output().unwrap().into();
        assert_eq!(
            ran.stdout.lines().collect::<Vec<_>>(),
            names,
            "{words:?}: {ran:?}"
        );
    }
    for (words, counted) in [
        (
            &["--window=1h"] as &[&str],
            "2023-07-10T06:21:34Z to 2023-07-10T07:21:34Z: 1 occ",
        ),
        (
            &["--since=3h"],
            "2023-07-10T04:21:34Z to 2023-07-10T07:21:34Z: 2 occ",
        ),
        (
            &["--until=1h"],
            "2023-07-10T05:21:34Z to 2023-07-10T05:21:35Z: 1 occ",
        ),
    ] {
        let all = [&["top", "--file", file], words].concat();
        let ran: Ran = tidings(&all).output().unwrap().into();
        assert!(ran.stdout.starts_with(counted), "{words:?}: {ran:?}");
    }
    let output = tidings(&["events", "--since=2023-07-11", "--file", file]).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    let hint =
        "hint: 2 events are there, last seen from 2023-07-10T05:21:34Z to 2023-07-10T07:21:34Z";
    assert!(said.contains(hint), "{said}");
}

/// The matching line is also shown without a terminal.
#[test]
fn the_line_that_was_looked_for_is_the_line_that_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let message = "Error: exit 1\r\nstdout: foo\r\nstderr: the real cause";
    let mut event = event("r1.1", ("HelmRelease", "r1"), "Failed", 60);
    event["message"] = json!(message);
    event["lastTimestamp"] = json!(ago(60));
    let file = folder.path().join("events.json");
    std::fs::write(&file, event.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (wanted, line) in [
        (&[] as &[&str], "Error: exit 1..."),
        (&["--filter", "\"real CAUSE\""], "...stderr: the real cause"),
        (&["--filter", "stdout"], "...stdout: foo..."),
        (&["--filter", "helmrelease/r1"], "Error: exit 1..."),
    ] {
        let output = tidings(&[&["events", "--file", file], wanted].concat())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.trim_end().ends_with(&format!("   {line}")),
            "{wanted:?}: {text}"
        );
    }
}
