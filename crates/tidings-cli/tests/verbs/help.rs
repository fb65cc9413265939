//! What the command says about itself, word for word. `UPDATE_SNAPSHOTS=1 cargo test -p tidings-cli --test verbs help` writes the files anew.

use std::path::Path;

use super::support::run;

const VERBS: [&str; 12] = [
    "completions",
    "demo",
    "describe",
    "events",
    "export",
    "import",
    "man",
    "rbac",
    "record",
    "serve",
    "top",
    "",
];

#[track_caller]
fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if text == expected {
        return;
    }
    let mut lines = text.lines().zip(expected.lines()).enumerate();
    let differs = lines.find(|(_, (said, expected))| said != expected);
    panic!("{file} is not what the command says any more: {differs:?}");
}

#[test]
fn help() {
    for verb in VERBS {
        let arguments: Vec<&str> = [verb, "--help"]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let name = if verb.is_empty() { "tidings" } else { verb };
        check(&format!("tests/verbs/snapshots/{name}.txt"), &ran.stdout);
    }
}

/// The reference is what the verbs say themselves.
#[test]
fn the_reference_is_what_help_says() {
    let mut text = String::from(
        "# The command\n\nWhat `tidings VERB --help` says, verb by verb; written by the test that checks it. [deploy](../deploy/README.md) has what to\n\
         run `tidings serve` with.\n",
    );
    for verb in VERBS.iter().rev() {
        let arguments: Vec<&str> = [*verb, "--help"]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let help = run(&arguments).stdout;
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let title = format!("tidings {verb}");
        for part in [
            "\n## ",
            title.trim_end(),
            "\n\n```text\n",
            &lines.join("\n"),
            "\n```\n",
        ] {
            text.push_str(part);
        }
    }
    check("../../docs/command.md", &text);
}

/// Every verb says how it ends, and shows how it is used.
#[test]
fn help_has_examples_and_exit_codes() {
    for verb in VERBS.into_iter().filter(|verb| !verb.is_empty()) {
        let ran = run(&[verb, "--help"]);
        assert!(ran.stdout.contains("Examples:"), "{verb}");
        let is_of_shells = matches!(verb, "completions" | "man");
        assert!(is_of_shells || ran.stdout.contains("Exit codes:"), "{verb}");
    }
}

#[test]
fn completions_of_every_shell_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for verb in VERBS {
            assert!(ran.stdout.contains(verb), "{shell} does not know {verb}");
        }
    }
    // bash takes it as a program.
    let script = format!(
        "{}\ncomplete -p tidings",
        run(&["completions", "bash"]).stdout
    );
    let checked = std::process::Command::new("bash")
        .args(["-c", &script])
        .output();
    match checked {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("skipped: bash cannot be run ({error})"),
    }
}

#[test]
fn manual_pages_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&["man", "--dir", folder.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for verb in VERBS.into_iter().filter(|verb| !verb.is_empty()) {
        let page =
            std::fs::read_to_string(folder.path().join(format!("tidings-{verb}.1"))).unwrap();
        assert!(page.contains(".SH"), "{verb}");
        let printed = run(&["man", verb]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
    }
    let wrong = run(&["man", "nothing"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
