//! Output to a terminal has fitted lines and colours; output to a pipe has neither. The terminal is
//! a pseudo-terminal of a known width.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::support::{Cluster, event, rollout};

/// A pseudo-terminal of a given width: the first end reads what a program writes to the second.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    (File::from(ours), theirs)
}

/// The program's output to a terminal, line by line.
pub(crate) fn shown(
    cluster: &Cluster,
    columns: u16,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Vec<String> {
    let (mut ours, theirs) = terminal(columns);
    let mut process = cluster
        .command(arguments)
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .stdout(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    // A terminal without writers returns an error instead of an end.
    let _ = ours.read_to_end(&mut bytes);
    assert!(process.wait().unwrap().success());
    String::from_utf8(bytes)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_fit_and_warnings_stand_out() {
    let cluster = Cluster::with(&rollout()).await;
    let arguments = ["events", "-A", "--types=Warning"];
    for columns in [60, 80, 100, 200] {
        let lines = shown(&cluster, columns, &arguments, &[]);
        let warnings = lines
            .iter()
            .filter(|line| line.contains("\u{1b}[33mWarning\u{1b}[0m"));
        assert_eq!(warnings.count(), 2, "{lines:?}");
        for line in &lines {
            let plain = console::strip_ansi_codes(line);
            assert!(
                console::measure_text_width(&plain) <= usize::from(columns),
                "{columns}: {plain}"
            );
        }
        // A row takes one line if there is room for it, and a message is always visible.
        assert_eq!(
            lines.len(),
            // The note that something was cut is a line, too.
            [(200, 3), (100, 4)]
                .into_iter()
                .find(|(wide, _)| columns == *wide)
                .map_or(6, |(_, lines)| lines),
            "{columns}: {lines:?}"
        );
        let is_cut = lines.iter().any(|line| line.contains('…'));
        assert_eq!(is_cut, columns == 100, "{columns}: {lines:?}");
    }
    // All columns, untruncated.
    let wide = shown(
        &cluster,
        60,
        &["events", "-A", "--types=Warning", "-o", "wide"],
        &[],
    );
    assert!(wide.iter().all(|line| !line.contains('…')), "{wide:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_are_for_those_who_want_them() {
    let cluster = Cluster::with(&rollout()).await;
    let arguments = ["events", "-A"];
    let is_coloured = |lines: Vec<String>| lines.iter().any(|line| line.contains('\u{1b}'));
    for (flags, environment, expected) in [
        (&[] as &[&str], &[] as &[(&str, &str)], true),
        (&[], &[("NO_COLOR", "1")], false),
        (&[], &[("NO_COLOR", "")], true),
        (&[], &[("TERM", "dumb")], false),
        (&["--color=never"], &[], false),
        (&["--color=always"], &[("NO_COLOR", "1")], true),
    ] {
        let all = [&arguments, flags].concat();
        assert_eq!(
            is_coloured(shown(&cluster, 80, &all, environment)),
            expected,
            "{flags:?} {environment:?}"
        );
    }
    assert!(!is_coloured(cluster.lines(&arguments)));
    assert!(is_coloured(cluster.lines(&[
        "events",
        "-A",
        "--color=always"
    ])));
}

/// Whether a terminal would interpret or hide a character instead of printing it.
fn is_unseen(character: char) -> bool {
    let unseen = [
        '\u{202e}',
        '\u{2066}',
        '\u{200b}',
        '\u{feff}',
        '\u{61c}',
        '\u{e0041}',
    ];
    unseen.contains(&character) || character.is_control() && character != '\t'
}

/// Authors of events cannot send escape sequences to their readers' terminals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_wrote_is_no_command_to_the_terminal() {
    // Escape, its one-character form, delete, bell, backspace and carriage return; and characters
    // that are invisible: a change of direction, no width, a tag.
    let commands = "a\u{202e}\u{2066}\u{200b}\u{feff}\u{61c}\u{e0041}\
                    \u{1b}]0;title\u{7}\u{9b}2J\u{7f}\u{8}\u{90}b\rc\td\ne";
    let mut written = event("web.1", ("Pod", "web"), "BackOff", 5);
    written["message"] = serde_json::json!(commands);
    written["reason"] = serde_json::json!(commands);
    written["source"]["component"] = serde_json::json!(commands);
    let cluster = Cluster::with(&[written]).await;
    for form in [
        "table",
        "wide",
        "json",
        "yaml",
        "jsonl",
        "name",
        "custom-columns=M:.message",
        "jsonpath={.items[*].message}",
        "jsonpath={.items[*]}",
    ] {
        let arguments = ["events", "-A", "--color=never", "-o", form];
        let lines = shown(&cluster, 200, &arguments, &[]);
        assert!(!lines.is_empty(), "{form}");
        for line in lines {
            assert!(!line.contains(is_unseen), "{form}: {line:?}");
        }
    }
    for arguments in [
        &["export", "-A", "-o", "json"] as &[&str],
        &["export", "-A", "-o", "yaml"],
        &["export", "-A", "-o", "jsonl"],
        &["top", "-A", "--by=reason,object,source", "--color=never"],
        &["describe", "-n", "shop", "pod/web", "--color=never"],
    ] {
        let lines = shown(&cluster, 200, arguments, &[]);
        assert!(!lines.is_empty(), "{arguments:?}");
        for line in lines {
            assert!(!line.contains(is_unseen), "{arguments:?}: {line:?}");
        }
    }
    // A program gets every character unchanged.
    let piped = cluster.run(&["events", "-A", "-o", "jsonpath={.items[*].message}"]);
    assert_eq!(piped.stdout, commands);
    // The escaped JSON has the same meaning.
    let lines = shown(&cluster, 200, &["events", "-A", "-o", "jsonl"], &[]);
    let event: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(event["message"], commands);
}
