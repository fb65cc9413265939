//! The files that are checked: all texts of the repository.

use std::path::{Component, Path, PathBuf};

use crate::command::{self, Result, cannot};

/// A file of the repository, with its path relative to the root.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SourceFile {
    /// The extension of the file's name; empty for scripts, which have none.
    pub(super) fn kind(&self) -> &str {
        let kind = self.path.extension().and_then(|kind| kind.to_str());
        kind.unwrap_or_default()
    }

    /// The lines with their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Files for tests of rules.
#[cfg(test)]
pub(super) fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let file = |(path, text): &(&str, &str)| SourceFile {
        path: path.into(),
        text: (*text).to_owned(),
    };
    files.iter().map(file).collect()
}

/// All text files in the working folder, tracked or not.
pub(super) fn read(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let unreadable = || cannot("read", &path);
        if path.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(unreadable())? {
                let entry = entry.map_err(unreadable())?;
                if is_checked(&path, &entry.path(), &entry.file_name().to_string_lossy()) {
                    open.push(entry.path());
                }
            }
        } else {
            let text = command::read(&path)?;
            let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            files.push(SourceFile { path, text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_checked(folder: &Path, path: &Path, name: &str) -> bool {
    const KINDS: &str = "rs md toml go sh yaml yml json js html";
    // A library in the page that was written elsewhere.
    const VENDORED: &str = "uplot.js";
    if path.is_dir() {
        // The last three are what cargo-fuzz writes beside its targets.
        return match name {
            ".git" | "target" => false,
            "corpus" | "artifacts" | "coverage" => !folder.ends_with("fuzz"),
            _ => true,
        };
    }
    let kind = path.extension().and_then(|kind| kind.to_str());
    name == "run"
        || name != VENDORED && kind.is_some_and(|kind| KINDS.split(' ').any(|it| it == kind))
}

/// A path without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}
