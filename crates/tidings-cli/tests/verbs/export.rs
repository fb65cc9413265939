//! `tidings export`, and `tidings import` of its output.

use serde_json::Value;

use super::support::{Cluster, event, rollout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_exported_can_be_imported() {
    let cluster = Cluster::with(&rollout()).await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.jsonl", "a.jsonl.gz", "a.json", "a.json.gz", "a.yaml"] {
        let file = folder.path().join(name);
        let file = file.to_str().unwrap();
        let ran = cluster.run(&["export", "-A", file]);
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (Some(0), "5 events exported\n"),
            "{name}: {ran:?}"
        );
        let other = Cluster::start().await;
        let ran = other.run(&["import", file]);
        assert_eq!(
            ran.stdout, "5 read: 5 created, 0 already there, 0 refused, 0 unreadable\n",
            "{name}: {ran:?}"
        );
        let messages = [
            "events",
            "-A",
            "-o",
            "custom-columns=A:.message,B:.count,C:.firstTimestamp",
        ];
        assert_eq!(other.lines(&messages), cluster.lines(&messages), "{name}");
    }
    let piped = cluster.lines(&["export", "-A", "-q", "--types=Warning"]);
    let names: Vec<Value> = piped
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["api.1", "web-5d4f8c7b9-x7k2p.1"]);
}

/// The file may be a log that others write to as well.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_behind_standard_output_is_written_to_and_not_replaced() {
    use std::io::Write;

    let cluster = Cluster::with(&rollout()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = std::fs::File::create(&path).unwrap();
    writeln!(log, "before").unwrap();
    let mut export = cluster.command(&["export", "-A", "-q", "/dev/stdout"]);
    let status = export.stdout(log.try_clone().unwrap()).status().unwrap();
    assert!(status.success());
    writeln!(log, "after").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert_eq!((lines[0], lines[6]), ("before", "after"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_export_goes_on_where_it_ended() {
    let events: Vec<Value> = (0..1200)
        .map(|number| event(&format!("e{number:04}"), ("Pod", "web"), "Pulled", 5))
        .collect();
    let mut cluster = Cluster::with(&events).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let path = file.to_str().unwrap();
    assert_eq!(cluster.run(&["export", "-A", path]).code, Some(0));
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    // The server ends during the export, which leaves an incomplete line.
    let port = cluster.stop().await;
    let ran = cluster.run(&["export", "-A", path]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr.contains("--resume continues from there"),
        "{ran:?}"
    );
    let part = folder.path().join("a.jsonl.part");
    std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    cluster.go_on(port).await;

    // An export of other events does not continue the file.
    for other in [&["-n", "shop"] as &[&str], &["-A", "--types=Warning"]] {
        let ran = cluster.run(&[&["export", "--resume", path], other].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("--all-namespaces, not of"), "{ran:?}");
    }
    let elsewhere = Cluster::start().await;
    let ran = elsewhere.run(&["export", "-A", "--resume", path]);
    assert_eq!(ran.code, Some(2), "{ran:?}");

    let ran = cluster.run(&["export", "-A", "--resume", path]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("events exported after "), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    // Relative times refer to the beginning of the export, even if it is continued later.
    let recent = ["export", "-A", "--since=1h", "--until=0s", path];
    let port = cluster.stop().await;
    assert_eq!(cluster.run(&recent).code, Some(3));
    cluster.go_on(port).await;
    let note = folder.path().join("a.jsonl.part.of");
    let noted = std::fs::read_to_string(&note).unwrap();
    let (words, began) = noted.trim_end().rsplit_once(' ').unwrap();
    let began: jiff::Timestamp = began.parse().unwrap();
    let a_day_before = began - jiff::SignedDuration::from_hours(24);
    for (began, count) in [(began, 1_200), (a_day_before, 0)] {
        std::fs::write(&part, "").unwrap();
        std::fs::write(&note, format!("{words} {began}\n")).unwrap();
        let ran = cluster.run(&[&recent as &[&str], &["--resume"]].concat());
        let said = format!("{count} events exported\n");
        assert_eq!((ran.code, ran.stderr), (Some(0), said));
    }

    // The file has no note that tells its origin.
    std::fs::write(&part, &whole).unwrap();
    let ran = cluster.run(&["export", "-A", "--resume", path]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    std::fs::remove_file(&part).unwrap();
    let ran = cluster.run(&["export", "-A", "--resume", path]);
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let ran = cluster.run(&[
        "export",
        "-A",
        "--resume",
        folder.path().join("b.yaml").to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
