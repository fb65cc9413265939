//! Runs the correlator's suite on our scenarios, on further ones in the folder that
//! `TIDINGS_VECTORS` names, on wrong ones, and on none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn replay(dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidings-conformance"))
        .arg("correlator")
        .arg(dir)
        .output()
        .expect("the runner starts")
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or_default().to_owned()
}

fn own_vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/correlator")
}

#[track_caller]
fn assert_same(dir: &Path) {
    let output = replay(dir);
    assert!(
        output.status.success() && last_line(&output).ends_with(" 0 differences"),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn our_calls_are_those_of_client_go() {
    assert_same(&own_vectors());
}

#[test]
fn further_vectors_agree_too() {
    if let Some(dir) = std::env::var_os("TIDINGS_VECTORS") {
        assert_same(&Path::new(&dir).join("correlator"));
    }
}

/// Writes one of our scenarios, changed by `change`, into a folder of its own.
fn changed(name: &str, change: impl Fn(&str) -> String) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the folder can be made");
    let mut paths: Vec<_> = std::fs::read_dir(own_vectors())
        .expect("our vectors are there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    let text = std::fs::read_to_string(&paths[0]).expect("a vector can be read");
    std::fs::write(dir.join("changed.jsonl"), change(&text)).expect("the folder can be written");
    dir
}

#[test]
fn a_difference_is_shown_and_fails() {
    let dir = changed("difference", |text| {
        text.replacen(
            r#""calls":[{"verb":"create""#,
            r#""calls":[{"verb":"patch""#,
            1,
        )
    });
    let output = replay(&dir);
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).ends_with(" 1 differences"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("changed.jsonl: line ") && text.contains("client-go patch"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_used_is_named() {
    let cases = [
        (
            changed("cut", |text| text[..text.len() / 2].to_owned()),
            "changed.jsonl:",
        ),
        (
            changed("options", |text| text.replacen("qps", "qqps", 1)),
            "unknown field `qqps`",
        ),
        (changed("empty", |_| String::new()), "no options"),
        (
            Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            "there is no *.jsonl",
        ),
        (PathBuf::from("no-such-folder"), "no-such-folder: "),
    ];
    for (dir, expected) in cases {
        let output = replay(&dir);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with("error: ") && text.contains(expected),
            "{expected}: {text}"
        );
    }
}
