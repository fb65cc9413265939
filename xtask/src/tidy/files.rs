//! Checks every file: it begins with its purpose, has a bounded length, and names nothing that is
//! banned from its folder.

use std::path::Path;

use super::source::SourceFile;

/// Maximum lines of a Rust file.
const LINES_MAX: usize = 900;

/// Names that no file of a folder may have.
struct Ban {
    /// Whose files are checked. Without a folder, all are, with their comments and tests.
    folder: &'static str,
    /// The file of the folder that may have the names.
    except: &'static str,
    names: &'static [&'static str],
    advice: &'static str,
}

/// Some names are written in halves, so that this file does not break its own rules.
const BANS: [Ban; 4] = [
    Ban {
        folder: "",
        except: "",
        names: &[
            concat!("TO", "DO"),
            concat!("FIX", "ME"),
            concat!("X", "XX"),
        ],
        advice: "do it or leave it out",
    },
    Ban {
        folder: "",
        except: "",
        names: &[
            concat!("/ho", "me/"),
            concat!("/ro", "ot/"),
            concat!("/wo", "rk/"),
        ],
        advice: "a path of one machine",
    },
    // The one file that writes escapes text from others before it reaches a terminal. No other file
    // can forget to do so.
    Ban {
        folder: "crates/tidings-cli/src",
        except: "crates/tidings-cli/src/bin/tidings/commands/terminal.rs",
        names: &[
            "stdout()",
            "stderr()",
            "print!(",
            "println!(",
            "eprint!(",
            "eprintln!(",
            "dbg!(",
        ],
        advice: "passes commands/terminal.rs by: write with what it gives",
    },
    // Names of what can write: stores, and methods of stores and of HTTP.
    Ban {
        folder: "crates/tidings-server/src/mcp",
        except: "",
        names: &[
            "Store", "store.", "Method::", "create(", "update(", "delete(", "compact(", "expire(",
            "post(", "put(", "patch(", "watch(",
        ],
        advice: "can write, and this room only reads",
    },
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
    if file.kind() == "rs" {
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
    let code = file.text.split("#[cfg(test)]\nmod ").next();
    let code = code.filter(|_| !file.path.ends_with("tests.rs"));
    let code_lines = code.unwrap_or_default().lines().count();
    for (number, line) in file.lines() {
        let is_code = number <= code_lines && !line.trim_start().starts_with("//");
        for ban in &BANS {
            let is_everywhere = ban.folder.is_empty();
            let is_there = file.path.starts_with(ban.folder) && file.path != Path::new(ban.except);
            if is_there && (is_everywhere || is_code) {
                let named = ban.names.iter().find(|name| has(line, name, is_everywhere));
                problems
                    .extend(named.map(|name| format!("{path}:{number}: {name}: {}", ban.advice)));
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

/// Whether a line has this name, and not a longer one with the same ending. A `whole` name is not
/// the beginning of a longer one either.
fn has(line: &str, name: &str, whole: bool) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, rest) = line.split_at_checked(at).unwrap_or_default();
        let after = rest.get(name.len()..).unwrap_or_default();
        let ends = !whole || !name.ends_with(is_part) || !after.starts_with(is_part);
        !before.ends_with(is_part) && ends
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::files;
    use super::*;

    #[test]
    fn each_rule_is_found_where_it_is_broken() {
        let top = "crates/tidings-cli/src/bin/tidings/commands/top.rs";
        let terminal = "crates/tidings-cli/src/bin/tidings/commands/terminal.rs";
        let tool = "crates/tidings-server/src/mcp/tools/event.rs";
        let long = "x\n".repeat(LINES_MAX);
        let run_by_another = format!("{RUN_BY_ANOTHER}below\"]");
        let rows = [
            ("a.rs", "", 0),
            ("a.rs", long.as_str(), 1),
            ("a.md", "a", 0),
            ("a.md", "a ", 1),
            ("a.md", concat!("a TO", "DO b"), 1),
            ("a.md", concat!("a FIX", "ME: b"), 1),
            ("a.md", concat!("/ho", "me/x"), 1),
            ("a.md", concat!("TO", "DOS"), 0),
            ("a.md", "https://example.com/home/page x/root/y", 0),
            ("a.md", concat!("#[", "ignore]"), 1),
            ("a.md", concat!("#[", "ignore = \"slow\"]"), 1),
            ("a.md", &run_by_another, 0),
            (top, "let out = io::stdout();", 1),
            (top, "std::io::stderr().lock()", 1),
            (top, "println!(\"\"); eprint!(\"\")", 1),
            (top, "eprintln!(\"\")", 1),
            (top, "dbg!(x)", 1),
            (top, "writeln!(out, \"\")?;", 0),
            (top, "command.stdout(Stdio::null())", 0),
            (top, "// not io::stdout()", 0),
            (top, "#[cfg(test)]\nmod tests { stdout() }", 0),
            (terminal, "std::io::stdout()", 0),
            ("crates/tidings-cli/src/text.rs", "stdout()", 1),
            ("crates/tidings-server/src/a.rs", "stdout()", 0),
            (tool, "source.server.store.get(key)", 1),
            (tool, "store: Arc<dyn StoreOfEvents>", 1),
            (tool, "http::Method::POST", 1),
            (tool, ".route(MCP, post(handle))", 1),
            (tool, "// a Store cannot be named", 0),
            (tool, "source.get(\"events\", query)", 0),
            (tool, "\n#[cfg(test)]\nmod tests { create(1) }", 0),
            ("crates/tidings-server/src/a.rs", "store.create(key)", 0),
        ];
        for (path, text, expected) in rows {
            let text = format!("//! It.\n{text}\n");
            let found = check(&files(&[(path, &text)]));
            assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
        }
        for (path, text) in [("a.rs", "fn main() {}\n"), ("a.md", "# Title")] {
            assert_eq!(check(&files(&[(path, text)])).len(), 1, "{path}: {text}");
        }
    }
}
