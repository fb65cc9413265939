//! Checks that only one file of the command writes to standard output and standard error. That file
//! escapes text from others before it reaches a terminal, and no other file can forget to do so.

use super::source::SourceFile;

/// The folder of the command's files, and the one file that writes.
const COMMAND: &str = "crates/tidings-cli/src";
const WRITER: &str = "crates/tidings-cli/src/bin/tidings/commands/terminal.rs";

/// Names of functions and macros that write. They are written in halves, so that this file does not
/// break its own rule.
const WAYS: [&str; 7] = [
    concat!("std", "out()"),
    concat!("std", "err()"),
    concat!("print", "!("),
    concat!("print", "ln!("),
    concat!("eprint", "!("),
    concat!("eprint", "ln!("),
    concat!("db", "g!("),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let is_of_command =
        |file: &&SourceFile| file.path.starts_with(COMMAND) && !file.path.ends_with("tests.rs");
    let files = files.iter().filter(is_of_command);
    let files = files.filter(|file| !file.path.ends_with(WRITER));
    files.flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let code = file.text.split("#[cfg(test)]\nmod ").next();
    let lines = (1..).zip(code.unwrap_or_default().lines());
    let lines = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let ways = lines.filter_map(|(number, line)| {
        let way = WAYS.iter().find(|way| has_call(line, way));
        way.map(|way| {
            let path = file.path.display();
            format!("{path}:{number}: {way} passes {WRITER} by: write with what it gives")
        })
    });
    ways.collect()
}

/// Whether a line calls this function or macro. A longer name with the same ending does not count.
fn has_call(line: &str, way: &str) -> bool {
    line.match_indices(way).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_the_writer_by_is_found() {
        let command = "crates/tidings-cli/src/bin/tidings/commands/top.rs";
        for (path, text, expected) in [
            (command, "    let out = io::stdout();", 1),
            (command, "use std::io;\nstd::io::stderr().lock()", 1),
            (command, "console::Term::stdout().size()", 1),
            (command, "println!(\"{message}\"); eprint!(\"\")", 1),
            (command, "eprintln!(\"\")", 1),
            (command, "writeln!(out, \"{message}\")?;", 0),
            (command, "command.stdout(Stdio::null())", 0),
            (command, "// not io::stdout()", 0),
            (command, "\n#[cfg(test)]\nmod tests { println!(\"\") }", 0),
            (WRITER, "std::io::stdout()", 0),
            ("crates/tidings-cli/src/text.rs", "print!(\"\")", 1),
            ("crates/tidings-server/src/lib.rs", "println!(\"\")", 0),
        ] {
            let found = check(&[SourceFile {
                path: path.into(),
                text: text.to_owned(),
            }]);
            assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
        }
    }
}
