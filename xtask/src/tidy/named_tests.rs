//! Checks that tests named in `docs/compatibility` exist: `core::some_test` is a function anywhere
//! in the crate `tidings-core`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::source::SourceFile;

const PAGES: &str = "docs/compatibility";

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let functions = functions(files);
    let mut problems = Vec::new();
    for page in files.iter().filter(|file| file.path.starts_with(PAGES)) {
        for (number, line) in (1..).zip(page.text.lines()) {
            for (folder, name) in line.split('`').skip(1).step_by(2).filter_map(named) {
                if !functions.contains(&(folder.clone(), name.to_owned())) {
                    problems.push(format!(
                        "{}:{number}: {} has no function {name}",
                        page.path.display(),
                        folder.display()
                    ));
                }
            }
        }
    }
    problems
}

/// The crate's folder and the function that a code span such as `core::some_test` names.
fn named(code: &str) -> Option<(PathBuf, &str)> {
    let (krate, name) = code.split_once("::")?;
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'))
    };
    let is_crate = !krate.is_empty() && krate.chars().all(|c| c.is_ascii_lowercase());
    let folder = match krate {
        "tidings" => "tidings".to_owned(),
        _ => format!("tidings-{krate}"),
    };
    (is_crate && is_name(name)).then(|| (Path::new("crates").join(folder), name))
}

/// Every function of the crates, with the folder of its crate.
fn functions(files: &[SourceFile]) -> BTreeSet<(PathBuf, String)> {
    let mut functions = BTreeSet::new();
    for file in files {
        let folder: PathBuf = file.path.components().take(2).collect();
        if !folder.starts_with("crates") || file.path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        for line in file.text.lines() {
            let Some((_, rest)) = line.split_once("fn ") else {
                continue;
            };
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            functions.insert((folder.clone(), name.to_owned()));
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile {
            path: path.into(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn every_named_test_is_a_function_of_its_crate() {
        let files = [
            file("crates/tidings-core/src/deep/a.rs", "    fn there() {\n"),
            file("crates/tidings/tests/b.rs", "async fn waits() {\n"),
            file(
                "docs/compatibility/a.md",
                "`core::there`, `tidings::waits`, `core::gone`,\n`server::there` `KubeSink::new` `a::B`\n",
            ),
            file("docs/other.md", "`core::gone`\n"),
        ];
        assert_eq!(
            check(&files),
            [
                "docs/compatibility/a.md:1: crates/tidings-core has no function gone",
                "docs/compatibility/a.md:2: crates/tidings-server has no function there",
            ]
        );
    }
}
