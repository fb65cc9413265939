//! `cargo xtask tidy`: rules no compiler checks. Who may use whom ([`layers`]), what every file keeps ([`files`]), and
//! that what the documents point at is there ([`documents`]).

mod documents;
mod files;
mod layers;

use std::path::{Path, PathBuf};

use crate::Result;
use crate::command::{cargo, output};

/// A file of the repository, by its path from the root.
#[derive(Debug)]
struct SourceFile {
    path: PathBuf,
    text: String,
}

/// Prints every rule that is broken and where.
pub(crate) fn run(root: &Path) -> Result {
    eprintln!("\n$ tidy");
    let metadata = output(&mut cargo(
        root,
        &["metadata", "--format-version", "1", "--no-deps"],
    ))?;
    let metadata =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let files = read_files(root)?;

    let mut problems = layers::check(&metadata);
    problems.extend(files::check(&files));
    problems.extend(documents::check(root, &files, &metadata));
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => {
            eprintln!("{} files are tidy", files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} problems")),
    }
}

/// Every text file of the repository, tracked or not, as the working folder has it.
fn read_files(root: &Path) -> Result<Vec<SourceFile>> {
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
                if !matches!(
                    &*name,
                    ".git" | "target" | "corpus" | "artifacts" | "coverage"
                ) {
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

fn is_checked(name: &str) -> bool {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    matches!(
        extension,
        Some("rs" | "md" | "toml" | "go" | "sh" | "yaml" | "yml" | "json")
    ) || name == "run"
}
