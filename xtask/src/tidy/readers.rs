//! Checks that rooms that only read name nothing that writes.

use super::source::SourceFile;

/// Folders of rooms that only read.
const READERS: [&str; 1] = ["crates/tidings-server/src/mcp"];

/// Names of what can write: stores, and methods of stores and of HTTP.
const WRITERS: [&str; 12] = [
    "Store", "store.", "Method::", "create(", "update(", "delete(", "compact(", "expire(", "post(",
    "put(", "patch(", "watch(",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let is_reader = |file: &&SourceFile| READERS.iter().any(|folder| file.path.starts_with(folder));
    files
        .iter()
        .filter(is_reader)
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let code = file.text.split("#[cfg(test)]\nmod ").next();
    let lines = (1..).zip(code.unwrap_or_default().lines());
    let lines = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = lines.filter_map(|(number, line)| {
        let writer = WRITERS.iter().find(|writer| names(line, writer))?;
        let path = file.path.display();
        Some(format!(
            "{path}:{number}: {writer} can write, and this room only reads"
        ))
    });
    found.collect()
}

/// Whether a line has this name, and not a longer one with the same ending.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_write_is_found() {
        let tool = "crates/tidings-server/src/mcp/tools/event.rs";
        for (path, text, expected) in [
            (tool, "source.server.store.get(key)", 1),
            (tool, "store: Arc<dyn Store>", 1),
            (tool, "http::Method::POST", 1),
            (tool, ".route(MCP, post(handle))", 1),
            (tool, "// a Store cannot be named", 0),
            (tool, "source.get(\"events\", query)", 0),
            (tool, "\n#[cfg(test)]\nmod tests { create(1) }", 0),
            (
                "crates/tidings-server/src/api/write.rs",
                "store.create(key)",
                0,
            ),
        ] {
            let found = check(&[SourceFile {
                path: path.into(),
                text: text.to_owned(),
            }]);
            assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
        }
    }
}
