//! Checks the width of prose in documents and comments.

use super::source::SourceFile;

/// Maximum columns of prose. Tables and unbreakable words may be longer.
const COLUMNS: usize = 100;

/// The beginning of a command in a comment of a file of settings. It cannot be broken.
const COMMAND: &str = "#   ";

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_code = false;
    for (number, line) in file.lines() {
        let Some(text) = comment(file.kind(), line) else {
            is_code = false;
            continue;
        };
        let is_command = file.kind() != "md" && line.trim_start().starts_with(COMMAND);
        let columns = line.chars().count();
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !is_command && columns > COLUMNS && may_break(text.trim()) {
            let path = file.path.display();
            problems.push(format!(
                "{path}:{number}: {columns} columns, more than {COLUMNS}"
            ));
        }
    }
    problems
}

/// The text of a comment line; `None` for code. Every line of a document is text.
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

#[cfg(test)]
mod tests {
    use super::super::source::files;
    use super::*;

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
            assert_eq!(
                check(&files(&[(path, &text)])).len(),
                expected,
                "{path}: {text}"
            );
        }
    }
}
