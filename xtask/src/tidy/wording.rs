//! Plain wording in documents, comments, messages, the page and tables of cases: bounded lines,
//! and no awkward phrases, each with a hint. Quoted code is not checked.

use super::source::SourceFile;

/// Maximum columns of prose. Tables and unbreakable words may be longer.
const COLUMNS: usize = 100;

/// A phrase to avoid, longer phrases that may contain it, and a better phrase.
type Phrase = (&'static str, &'static [&'static str], &'static str);

const PERSON: &str = "name the client, caller, user or watcher";

// In halves, so that this file keeps its own rule.
const PHRASES: [Phrase; 19] = [
    (
        concat!("so ", "many"),
        &[],
        "name the quantity, as in \"maximum concurrent reads\"",
    ),
    (
        concat!("is ", "none"),
        &["there is none", "option is none"],
        "say \"there is no …\" or \"is not …\"",
    ),
    (
        concat!("are ", "none"),
        &["there are none"],
        "say \"there are no …\" or \"are not …\"",
    ),
    (concat!("who", "ever"), &[], PERSON),
    (concat!("some", "body"), &[], PERSON),
    (concat!("no", "body"), &[], PERSON),
    (concat!("every", "body"), &[], PERSON),
    (
        concat!("be", "sides"),
        &[],
        "say \"also\", \"apart from\" or \"in addition to\"",
    ),
    (concat!("goes ", "on"), &[], "say \"continues\""),
    (concat!("go ", "on"), &[], "say \"continue\""),
    (
        concat!("a", "side"),
        &["set aside", "<aside", "</aside"],
        "say \"except for\" or \"apart from\"",
    ),
    (concat!("in ", "silence"), &[], "say \"silently\""),
    (concat!("told ", "of"), &[], "say \"reported\""),
    (concat!("tells ", "of"), &[], "say \"reports\" or \"has\""),
    (concat!("became ", "of"), &[], "say \"the outcome of\""),
    (concat!("becomes ", "of"), &[], "say \"happens to\""),
    (concat!("comes ", "to"), &[], "say what happens"),
    (concat!("goes ", "by"), &[], "say \"uses\""),
    (
        concat!("next to ", "nothing"),
        &[],
        "say \"almost nothing\"",
    ),
];

/// The beginning of a command in a comment of a file of settings. It cannot be broken.
const COMMAND: &str = "#   ";

/// Minimum words of a quoted text that is a sentence for users.
const SENTENCE_WORDS: usize = 5;

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let mut problems = Vec::new();
    let path = file.path.display();
    for (number, line, prose) in prose(file) {
        let columns = line.chars().count();
        if columns > COLUMNS && may_break(prose) {
            problems.push(format!(
                "{path}:{number}: {columns} columns, more than {COLUMNS}"
            ));
        }
        for (phrase, hint) in phrases(prose) {
            problems.push(format!("{path}:{number}: \"{phrase}\": {hint}"));
        }
    }
    for (number, sentence) in sentences(file) {
        for (phrase, hint) in phrases(sentence) {
            problems.push(format!("{path}:{number}: \"{phrase}\": {hint}"));
        }
    }
    problems
}

/// Texts for users that are no comments, each with its line: longer quoted ones of a program, and
/// all lines of a page or of a table of cases.
fn sentences(file: &SourceFile) -> Vec<(usize, &str)> {
    let kind = kind(file);
    let lines = (1..).zip(file.text.lines());
    let code = lines.filter(|(_, line)| comment(kind, line).is_none());
    let is_sentence = |text: &str| text.split_whitespace().count() >= SENTENCE_WORDS;
    match kind {
        "rs" | "js" => code
            .flat_map(|(number, line)| {
                let quoted = line.split('"').skip(1).step_by(2);
                quoted.map(move |text| (number, text))
            })
            .filter(|(_, text)| is_sentence(text))
            .collect(),
        "html" | "yaml" | "yml" => code.collect(),
        _ => Vec::new(),
    }
}

/// The lines of prose of a file, each with its number, without comment marks.
fn prose(file: &SourceFile) -> Vec<(usize, &str, &str)> {
    let kind = kind(file);
    let mut lines = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let Some(text) = comment(kind, line) else {
            is_code = false;
            continue;
        };
        if kind != "md" && line.trim_start().starts_with(COMMAND) {
            continue;
        }
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((number, line, text.trim()));
        }
    }
    lines
}

/// The extension of a file's name; empty for scripts, which have none.
fn kind(file: &SourceFile) -> &str {
    let kind = file.path.extension().and_then(|kind| kind.to_str());
    kind.unwrap_or_default()
}

/// The text of a comment line. Documents are all text.
fn comment<'a>(kind: &str, line: &'a str) -> Option<&'a str> {
    let marks: &[&str] = match kind {
        "md" => return Some(line),
        "rs" => &["//!", "///", "//"],
        "js" => &["//", "/**", "/*", "*"],
        "toml" | "yaml" | "yml" | "sh" | "" => &["#"],
        _ => return None,
    };
    let line = line.trim_start();
    marks.iter().find_map(|mark| line.strip_prefix(mark))
}

/// Whether a line could be broken: it is not in a table, and has a space.
fn may_break(prose: &str) -> bool {
    let text = prose.trim_start_matches(['-', '*', '#', ' ']);
    !text.starts_with('|') && text.contains(' ')
}

/// Phrases to avoid in a line, outside of quoted code.
fn phrases(prose: &str) -> Vec<(&'static str, &'static str)> {
    let words: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let words = words.to_lowercase();
    let mut found = Vec::new();
    for (phrase, fine, hint) in PHRASES {
        let rest = fine
            .iter()
            .fold(words.clone(), |rest, fine| rest.replace(fine, ""));
        let is_part = |at: Option<char>| at.is_some_and(char::is_alphanumeric);
        let stands = rest
            .split(phrase)
            .collect::<Vec<_>>()
            .windows(2)
            .any(|around| {
                let [before, after] = around else {
                    return false;
                };
                !is_part(before.chars().next_back()) && !is_part(after.chars().next())
            });
        if stands {
            found.push((phrase, hint));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile {
            path: path.into(),
            text: text.to_owned(),
        }])
    }

    #[test]
    fn every_phrase_is_found_in_documents_and_comments_only() {
        for (phrase, fine, hint) in PHRASES {
            for (path, text) in [
                ("a.md", format!("It {phrase} x\n")),
                ("a.md", format!("- {phrase}, x\n")),
                ("a.rs", format!("    /// It {phrase} x\n")),
                ("a.rs", format!("// {}\n", phrase.to_uppercase())),
                ("a.rs", format!("warn!(\"a text that {phrase} x\");\n")),
                ("a.js", format!("/** It {phrase} x */\n")),
                ("a.js", format!(" * It {phrase} x\n")),
                ("a.js", format!("say(\"a text that {phrase} x\");\n")),
                ("a.html", format!("<p>It {phrase} x</p>\n")),
                ("a.yaml", format!("  # It {phrase} x\n")),
                ("a.yaml", format!("- case: it {phrase} x\n")),
                ("a.toml", format!("# It {phrase} x\n")),
                ("run", format!("# It {phrase} x\n")),
            ] {
                let found = problems(path, &text);
                assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
                assert!(
                    found.iter().all(|problem| problem.ends_with(hint)),
                    "{found:?}"
                );
            }
            for (path, text) in [
                ("a.rs", format!("let text = \"{phrase} x\";\n")),
                ("a.rs", format!("/// ```\n/// // it {phrase} x\n/// ```\n")),
                ("a.md", format!("```text\nit {phrase} x\n```\n")),
                ("a.md", format!("It `{phrase}` x\n")),
                ("a.md", format!("x{phrase}x\n")),
                ("a.js", format!("let text = \"{phrase} x\";\n")),
                ("a.toml", format!("text = \"it {phrase} x\"\n")),
                ("a.yaml", format!("#   it {phrase} x\n")),
                ("run", format!("echo it {phrase} x\n")),
                ("a.css", format!("it {phrase} x\n")),
            ] {
                assert_eq!(problems(path, &text), [""; 0], "{path}: {text}");
            }
            for fine in fine {
                assert_eq!(
                    problems("a.md", &format!("x {fine} x\n")),
                    [""; 0],
                    "{fine}"
                );
            }
        }
    }

    #[test]
    fn long_lines_are_found_where_they_can_break() {
        let word = "x".repeat(COLUMNS);
        let fits = format!("{} x\n", "x".repeat(COLUMNS - 2));
        let cases = [
            ("a.md", fits.clone(), 0),
            ("a.md", format!("x{fits}"), 1),
            ("a.md", format!("| a | {word} |\n"), 0),
            ("a.md", format!("- {word}\n"), 0),
            ("a.md", format!("```\nx {word}\n```\n"), 0),
            ("a.rs", format!("/// x {word}\n"), 1),
            ("a.rs", format!("// {word}\n"), 0),
            ("a.rs", format!("/// ```text\n/// x {word}\n/// ```\n"), 0),
            ("a.rs", format!("let x = \"x {word}\";\n"), 0),
            ("a.toml", format!("# x {word}\n"), 1),
            ("a.yaml", format!("# x {word}\n"), 1),
            ("a.yaml", format!("#   x {word}\n"), 0),
            ("a.yaml", format!("x: x {word}\n"), 0),
            ("a.html", format!("x {word}\n"), 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(problems(path, &text).len(), expected, "{path}: {text}");
        }
    }
}
