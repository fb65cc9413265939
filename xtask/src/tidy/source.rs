//! The files that are checked: all texts of the repository.

use std::path::{Component, Path, PathBuf};

use crate::command::Result;

/// A file of the repository, with its path relative to the root.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// All text files in the working folder, tracked or not.
pub(super) fn read(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .map_err(|error| format!("read {}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry
                .map_err(|error| format!("read {}: {error}", folder.display()))?
                .path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                // What cargo-fuzz writes beside its targets.
                let is_of_fuzzing = folder.ends_with("fuzz")
                    && matches!(&*name, "corpus" | "artifacts" | "coverage");
                if !is_of_fuzzing && !matches!(&*name, ".git" | "target") {
                    folders.push(path);
                }
            } else if is_checked(&name) {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("read {}: {error}", path.display()))?;
                let path = path
                    .strip_prefix(root)
                    .map(Path::to_path_buf)
                    .unwrap_or(path);
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A library in the page that was written elsewhere.
const VENDORED: &str = "uplot.js";

fn is_checked(name: &str) -> bool {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_text = matches!(
        extension,
        Some("rs" | "md" | "toml" | "go" | "sh" | "yaml" | "yml" | "json" | "js" | "html")
    );
    is_text && name != VENDORED || name == "run"
}

/// A path without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
