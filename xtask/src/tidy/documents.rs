//! Checks that what documents refer to exists: linked files and headings, and commands of ours that
//! they show.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::source::{SourceFile, normal};

pub(super) fn check(
    root: &Path,
    files: &[SourceFile],
    metadata: &Value,
    tasks: &clap::Command,
) -> Vec<String> {
    let is_document = |file: &&SourceFile| {
        file.path
            .extension()
            .is_some_and(|extension| extension == "md")
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(is_document) {
        let document = parse(&file.text);
        for (line, link) in &document.links {
            if let Some(problem) = broken_link(root, &file.path, link, files) {
                problems.push(format!("{}:{line}: {problem}", file.path.display()));
            }
        }
        for (line, command) in &document.commands {
            if let Some(problem) = wrong_command(root, command, metadata, tasks) {
                problems.push(format!(
                    "{}:{line}: `{command}`: {problem}",
                    file.path.display()
                ));
            }
        }
    }
    problems
}

/// The links of a Markdown text with their line numbers, and the anchors of its headings.
#[derive(Debug, Default)]
struct Document {
    links: Vec<(usize, String)>,
    commands: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

fn parse(text: &str) -> Document {
    let mut document = Document::default();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code || line.starts_with("    ") {
            document
                .commands
                .extend(command(line).map(|command| (number, command)));
            continue;
        }
        if line.starts_with('#') {
            document
                .anchors
                .insert(anchor(line.trim_start_matches('#')));
        }
        // Every second piece between backticks is code. Prose may mention a verb that does not
        // exist.
        for (index, piece) in line.split('`').enumerate() {
            let typed =
                command(piece).filter(|command| index % 2 == 1 && command.starts_with("cargo "));
            document
                .commands
                .extend(typed.map(|command| (number, command)));
        }
        for (index, _) in line.match_indices("](") {
            let link = line
                .get(index + 2..)
                .and_then(|rest| rest.split([')', ' ']).next())
                .unwrap_or_default();
            document.links.push((number, link.to_owned()));
        }
    }
    document
}

/// The command of ours in a line, without prompt, comment and other commands; `None` if there is
/// none.
fn command(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches("$ ");
    let line = line
        .split(" #")
        .next()?
        .split(" && ")
        .next()?
        .trim()
        .trim_end_matches(" &");
    (line.starts_with("cargo ") || line.starts_with("tidings ")).then(|| line.to_owned())
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
            _ => None,
        });
    kept.collect()
}

fn broken_link(root: &Path, from: &Path, link: &str, files: &[SourceFile]) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => from.to_path_buf(),
        path => normal(&from.parent().unwrap_or(Path::new("")).join(path)),
    };
    if !root.join(&target).exists() {
        return Some(format!("{link} leads nowhere"));
    }
    let text = &files.iter().find(|file| file.path == target)?.text;
    (!heading.is_empty()
        && target
            .extension()
            .is_some_and(|extension| extension == "md"))
    .then(|| !parse(text).anchors.contains(heading))?
    .then(|| format!("{link}: there is no such heading"))
}

fn wrong_command(
    root: &Path,
    command: &str,
    metadata: &Value,
    tasks: &clap::Command,
) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", words @ ..] => {
            let mut task = tasks;
            for word in words
                .iter()
                .take_while(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()))
            {
                task = match task.find_subcommand(word) {
                    Some(found) => found,
                    None => return Some(format!("xtask has no task {word}")),
                };
            }
            None
        }
        ["cargo", "run", options @ ..] => {
            let after = |option: &str| {
                let index = options.iter().position(|word| *word == option)?;
                options.get(index + 1).copied()
            };
            let package = after("-p").unwrap_or("tidings-cli");
            let targets = match metadata["packages"]
                .as_array()?
                .iter()
                .find(|found| found["name"] == package)
            {
                Some(found) => found["targets"].as_array()?,
                None if after("-p").is_some() => {
                    return Some(format!("there is no package {package}"));
                }
                None => return None,
            };
            let is_there = |kind: &str, name: &str| {
                targets
                    .iter()
                    .any(|target| target["name"] == name && target["kind"][0] == kind)
            };
            for (option, kind) in [("--bin", "bin"), ("--example", "example")] {
                if let Some(name) = after(option).filter(|name| !is_there(kind, name)) {
                    return Some(format!("{package} has no {kind} {name}"));
                }
            }
            (package == "tidings-cli")
                .then(|| after("--"))
                .flatten()
                .and_then(|verb| wrong_verb(root, verb))
        }
        ["tidings", verb, ..] => wrong_verb(root, verb),
        _ => None,
    }
}

fn wrong_verb(root: &Path, verb: &str) -> Option<String> {
    let is_word = verb.starts_with(|letter: char| letter.is_ascii_lowercase());
    let commands = root.join("crates/tidings-cli/src/bin/tidings/commands");
    let is_there =
        commands.join(format!("{verb}.rs")).exists() || commands.join(verb).join("mod.rs").exists();
    (is_word && !is_there).then(|| format!("tidings has no verb {verb}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn links_commands_and_headings_are_read_from_text_and_code() {
        let text = "# What it is: `a`, b!\n[x](a.md) and [y](b.md#c \"t\"), `cargo xtask tidy`\n```console\n\
                    $ tidings serve & # comment\n[not](a-link)\n```\n    cargo run -- demo\n";
        let document = parse(text);
        assert_eq!(
            document.links,
            [(2, "a.md".to_owned()), (2, "b.md#c".to_owned())]
        );
        assert_eq!(
            document.commands,
            [
                (2, "cargo xtask tidy".to_owned()),
                (4, "tidings serve".to_owned()),
                (7, "cargo run -- demo".to_owned())
            ]
        );
        assert_eq!(
            document.anchors.into_iter().collect::<Vec<_>>(),
            ["what-it-is-a-b"]
        );
    }

    #[test]
    fn links_lead_somewhere() {
        let root = crate::root();
        let files = [SourceFile {
            path: "docs/a.md".into(),
            text: "# One two\n".to_owned(),
        }];
        let broken =
            |link: &str| broken_link(&root, Path::new("docs/b.md"), link, &files).is_some();
        for good in [
            "../Cargo.toml",
            "../xtask/src",
            "https://example.com/x",
            "../Cargo.toml#L3",
        ] {
            assert!(!broken(good), "{good}");
        }
        for bad in ["Cargo.toml", "../nowhere.md", "../docs/none.md#x"] {
            assert!(broken(bad), "{bad}");
        }
    }

    #[test]
    fn commands_are_those_there_are() {
        let root = crate::root();
        let tasks = <crate::Task as clap::CommandFactory>::command();
        let metadata =
            json!({"packages": [{"name": "p", "targets": [{"name": "b", "kind": ["bin"]}]}]});
        let cases = [
            ("cargo xtask tidy", false),
            ("cargo xtask bench record --write", false),
            ("cargo xtask dance", true),
            ("cargo xtask bench dance", true),
            ("cargo run --release -q -p p --bin b -- x", false),
            ("cargo run -p p --bin c", true),
            ("cargo run -p q", true),
            ("tidings import --kubeconfig x y", false),
            ("tidings dance", true),
            ("tidings <verb> --help", false),
            ("cargo test", false),
        ];
        for (command, is_wrong) in cases {
            assert_eq!(
                wrong_command(&root, command, &metadata, &tasks).is_some(),
                is_wrong,
                "{command}"
            );
        }
    }
}
