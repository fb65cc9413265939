//! Checks that what documents refer to exists: linked files and headings, commands of ours that
//! they show, and tests that `docs/compatibility` names: `core::some_test` is a function anywhere
//! in the crate `tidings-core`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::source::{SourceFile, normal};

/// The pages that name tests.
const TESTS: &str = "docs/compatibility";

pub(super) fn check(
    root: &Path,
    files: &[SourceFile],
    metadata: &Value,
    tasks: &clap::Command,
) -> Vec<String> {
    let functions = functions(files);
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.kind() == "md") {
        let document = parse(&file.text);
        let path = file.path.display();
        let mut add = |line, problem: Option<String>| {
            problems.extend(problem.map(|problem| format!("{path}:{line}: {problem}")));
        };
        for (line, link) in &document.links {
            add(line, broken_link(root, &file.path, link, files));
        }
        for (line, command) in &document.commands {
            let wrong = wrong_command(root, command, metadata, tasks);
            add(line, wrong.map(|why| format!("`{command}`: {why}")));
        }
        for (line, code) in &document.code {
            let test = named_test(code).filter(|_| file.path.starts_with(TESTS));
            let gone = test.filter(|test| !functions.contains(test));
            add(
                line,
                gone.map(|(folder, name)| format!("{folder} has no function {name}")),
            );
        }
    }
    problems
}

/// What a Markdown text refers to, with line numbers, and the anchors of its headings.
#[derive(Debug, Default)]
struct Document {
    links: Vec<(usize, String)>,
    commands: Vec<(usize, String)>,
    /// The text between backticks.
    code: Vec<(usize, String)>,
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
            let command = command(line).map(|command| (number, command));
            document.commands.extend(command);
            continue;
        }
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#');
            document.anchors.insert(anchor(heading));
        }
        for piece in line.split('`').skip(1).step_by(2) {
            // Prose may mention a verb that does not exist.
            let typed = command(piece).filter(|command| command.starts_with("cargo "));
            document
                .commands
                .extend(typed.map(|command| (number, command)));
            document.code.push((number, piece.to_owned()));
        }
        for piece in line.split("](").skip(1) {
            let link = piece.split([')', ' ']).next().unwrap_or_default();
            document.links.push((number, link.to_owned()));
        }
    }
    document
}

/// The command of ours in a line, without prompt, comment and other commands; `None` if there is
/// none.
fn command(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches("$ ");
    let line = line.split(" #").next()?.split(" && ").next()?;
    let line = line.trim().trim_end_matches(" &");
    (line.starts_with("cargo ") || line.starts_with("tidings ")).then(|| line.to_owned())
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let mut anchor = heading.trim().replace(' ', "-");
    anchor.retain(|character| matches!(character, '-' | '_') || character.is_alphanumeric());
    anchor.make_ascii_lowercase();
    anchor
}

fn broken_link(root: &Path, from: &Path, link: &str, files: &[SourceFile]) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => from.to_path_buf(),
        path => normal(&from.parent()?.join(path)),
    };
    if !root.join(&target).exists() {
        return Some(format!("{link} leads nowhere"));
    }
    let target = files.iter().find(|file| file.path == target)?;
    let is_checked = !heading.is_empty() && target.kind() == "md";
    (is_checked && !parse(&target.text).anchors.contains(heading))
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
            for word in words.iter().take_while(|word| is_word(word)) {
                let Some(found) = task.find_subcommand(word) else {
                    return Some(format!("xtask has no task {word}"));
                };
                task = found;
            }
            None
        }
        ["cargo", "run", options @ ..] => {
            let after = |option: &str| {
                let at = options.iter().position(|word| *word == option)?;
                options.get(at + 1).copied()
            };
            // The program that is run by default is the command.
            let package = after("-p").unwrap_or("tidings-cli");
            let mut packages = metadata["packages"].as_array().into_iter().flatten();
            let Some(found) = packages.find(|found| found["name"] == package) else {
                return Some(format!("there is no package {package}"));
            };
            for kind in ["bin", "example"] {
                let mut targets = found["targets"].as_array().into_iter().flatten();
                if let Some(name) = after(&format!("--{kind}"))
                    && !targets.any(|it| it["name"] == name && it["kind"][0] == kind)
                {
                    return Some(format!("{package} has no {kind} {name}"));
                }
            }
            let verb = after("--").filter(|_| package == "tidings-cli")?;
            wrong_verb(root, verb)
        }
        ["tidings", verb, ..] => wrong_verb(root, verb),
        _ => None,
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
}

fn wrong_verb(root: &Path, verb: &str) -> Option<String> {
    let commands = root.join("crates/tidings-cli/src/bin/tidings/commands");
    let is_there =
        commands.join(format!("{verb}.rs")).exists() || commands.join(verb).join("mod.rs").exists();
    (is_word(verb) && !is_there).then(|| format!("tidings has no verb {verb}"))
}

/// The crate's folder and the function that a code span such as `core::some_test` names.
fn named_test(code: &str) -> Option<(String, String)> {
    let (krate, name) = code.split_once("::")?;
    let is_name = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
    let is_test = !name.is_empty() && name.chars().all(is_name);
    let is_crate = !krate.is_empty() && krate.chars().all(|c| c.is_ascii_lowercase());
    let folder = match krate {
        "tidings" => "crates/tidings".to_owned(),
        _ => format!("crates/tidings-{krate}"),
    };
    (is_test && is_crate).then(|| (folder, name.to_owned()))
}

/// Every function of the crates, with the folder of its crate.
fn functions(files: &[SourceFile]) -> BTreeSet<(String, String)> {
    let mut functions = BTreeSet::new();
    for file in files.iter().filter(|file| file.kind() == "rs") {
        let folder: PathBuf = file.path.components().take(2).collect();
        for (_, line) in file.lines() {
            if let Some((_, rest)) = line.split_once("fn ") {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                functions.insert((folder.display().to_string(), name.to_owned()));
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::source::files;
    use super::*;

    /// Each row: a line of a page about compatibility, and whether it is right.
    #[test]
    fn what_documents_name_exists() {
        let root = crate::root();
        let tasks = <crate::Task as clap::CommandFactory>::command();
        let metadata = serde_json::json!({"packages": [
            {"name": "p", "targets": [{"name": "b", "kind": ["bin"]}]},
            {"name": "tidings-cli", "targets": []},
        ]});
        let rows = [
            ("[x](../../Cargo.toml) and [y](../../xtask/src \"t\")", true),
            ("[x](https://example.com/x), [y](../../Cargo.toml#L3)", true),
            ("[x](#what-it-is-a-b) [y](page.md#what-it-is-a-b)", true),
            ("[x](#what-it-was)", false),
            ("[x](Cargo.toml)", false),
            ("[x](README.md) [y](../nowhere.md)", false),
            ("```\n[not](a-link)\n```", true),
            (
                "`cargo xtask tidy`, `cargo xtask bench record --write`",
                true,
            ),
            ("`cargo xtask dance`", false),
            ("```\n$ cargo xtask bench dance # in time\n```", false),
            ("    cargo run --release -q -p p --bin b -- x &", true),
            ("    cargo run -p p --bin c", false),
            ("    cargo run -p p --example b", false),
            ("    cargo run -p q", false),
            ("    cargo run -- demo", true),
            ("    cargo run -- dance", false),
            ("    tidings import --kubeconfig x y && z", true),
            ("    tidings dance", false),
            ("    tidings <verb> --help", true),
            ("`tidings dance`, `cargo test`", true),
            (
                "`core::there`, `tidings::waits`, `KubeSink::new`, `a::B`",
                true,
            ),
            ("`core::gone`", false),
            ("`server::there`", false),
        ];
        // Both the page and its name exist.
        let path = "docs/compatibility/README.md";
        for (line, is_right) in rows {
            let page = format!(
                "# What it is: `a`, b!\n{}\n",
                line.replace("page.md", "README.md")
            );
            let files = files(&[
                (path, &page),
                ("crates/tidings-core/src/deep/a.rs", "    fn there() {\n"),
                ("crates/tidings/tests/b.rs", "async fn waits() {\n"),
                (
                    "docs/other.md",
                    "Only pages about compatibility name tests: `core::gone`\n",
                ),
            ]);
            let found = check(&root, &files, &metadata, &tasks);
            assert_eq!(found.is_empty(), is_right, "{line}: {found:?}");
        }
    }
}
