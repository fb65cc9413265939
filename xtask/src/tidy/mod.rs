//! `cargo xtask tidy`: rules that the compiler does not check: dependencies of crates ([`layers`]),
//! rooms ([`rooms`]) and files ([`circles`]), rules for files ([`files`]), the width of prose
//! ([`columns`]), and existing targets of documents ([`documents`]).

mod circles;
mod columns;
mod documents;
mod files;
mod layers;
mod rooms;
mod source;
mod uses;

use std::path::Path;

use crate::command::{Result, cargo, output};

/// Prints every broken rule, and where.
pub(crate) fn run(root: &Path, tasks: &clap::Command) -> Result {
    eprintln!("\n$ tidy");
    let words = ["metadata", "--format-version", "1", "--no-deps"];
    let metadata = output(&mut cargo(root, &words))?;
    let metadata =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let files = source::read(root)?;

    let (crates, mut problems) = uses::crates(&files);
    problems.extend(layers::check(&metadata));
    problems.extend(circles::check(&crates));
    problems.extend(rooms::check(rooms::ROOMS, &files, &crates));
    problems.extend(files::check(&files));
    problems.extend(columns::check(&files));
    problems.extend(documents::check(root, &files, &metadata, tasks));
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
