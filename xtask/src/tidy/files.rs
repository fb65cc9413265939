//! Checks every file: it begins with its purpose, has a bounded length, and has no unfinished work.

use super::source::SourceFile;

/// Maximum lines of a Rust file.
const LINES_MAX: usize = 900;

/// Words for unfinished work, or for a path of one machine. They are written in halves, so that
/// this file does not break its own rule.
const NOWHERE: [(&str, &str); 9] = [
    (concat!("TO", "DO"), "do it or leave it out"),
    (concat!("FIX", "ME"), "fix it or leave it out"),
    (concat!("X", "XX"), "say what is wrong or leave it out"),
    (concat!("to", "do!("), "do it or leave it out"),
    (
        concat!("unimple", "mented!("),
        "implement it or leave it out",
    ),
    (concat!("#[", "allow("), "use #[expect(…, reason = \"…\")]"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
];

/// The attribute of a test that `cargo test` skips. It is allowed if another test runs the test,
/// for example to kill it.
const IGNORED: &str = concat!("#[", "ignore");
const RUN_BY_ANOTHER: &str = concat!("#[", "ignore = \"run by the test ");

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let path = file.path.display();
    let mut problems = Vec::new();
    if file
        .path
        .extension()
        .is_some_and(|extension| extension == "rs")
    {
        if !file.text.starts_with("//! ") {
            problems.push(format!(
                "{path}:1: opens without a line of //! that says what the file is for"
            ));
        }
        let count = file.text.lines().count();
        if count > LINES_MAX {
            problems.push(format!("{path}: {count} lines, more than {LINES_MAX}"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        problems.push(format!("{path}: ends without a line feed"));
    }
    for (number, line) in (1..).zip(file.text.lines()) {
        for (word, advice) in NOWHERE {
            if contains_word(line, word) {
                problems.push(format!("{path}:{number}: {word}: {advice}"));
            }
        }
        if line.contains(IGNORED) && !line.contains(RUN_BY_ANOTHER) {
            problems.push(format!(
                "{path}:{number}: {IGNORED}]: a test that never runs proves nothing"
            ));
        }
        // In Markdown, two spaces at the end of a line are a line break that nobody sees.
        if line.ends_with([' ', '\t']) {
            problems.push(format!("{path}:{number}: blank space at the end"));
        }
    }
    problems
}

/// Whether `line` has `word` as a whole word.
fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(index, _)| {
        let before = line
            .get(..index)
            .and_then(|before| before.chars().next_back());
        let after = line
            .get(index + word.len()..)
            .and_then(|after| after.chars().next());
        let begins_apart = !word.starts_with(char::is_alphanumeric) || !is_part(before);
        let ends_apart = !word.ends_with(char::is_alphanumeric) || !is_part(after);
        begins_apart && ends_apart && !(word.starts_with('/') && is_part(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check_file(&SourceFile {
            path: path.into(),
            text: text.to_owned(),
        })
        .len()
    }

    #[test]
    fn each_rule_is_found_where_it_is_broken() {
        assert_eq!(problems("a.rs", "//! What it is.\n"), 0);
        assert_eq!(problems("a.rs", "fn main() {}\n"), 1);
        assert_eq!(problems("a.md", "# Title\n"), 0);
        assert_eq!(problems("a.md", "# Title"), 1);
        assert_eq!(problems("a.md", "# Title \n"), 1);
        assert_eq!(
            problems("a.rs", &format!("//! {}", "x\n".repeat(LINES_MAX + 1))),
            1
        );
        for (word, _) in NOWHERE {
            assert!(problems("a.md", &format!("a {word} b\n")) > 0, "{word}");
        }
        assert_eq!(problems("a.md", &format!("{IGNORED}]\n")), 1);
        assert_eq!(problems("a.md", &format!("{IGNORED} = \"slow\"]\n")), 1);
        assert_eq!(problems("a.md", &format!("{RUN_BY_ANOTHER}below\"]\n")), 0);
        for innocent in [
            "mastodon",
            concat!("TO", "DOS"),
            "https://example.com/home/page",
            "#[expect(x)]",
            "x/root/y",
        ] {
            assert_eq!(problems("a.md", &format!("{innocent}\n")), 0, "{innocent}");
        }
    }
}
