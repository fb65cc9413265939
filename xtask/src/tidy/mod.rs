//! `cargo xtask tidy`: rules that the compiler does not check: dependencies of crates ([`layers`]),
//! rooms ([`rooms`]) and files ([`circles`]), rules for files ([`files`]), the one file that writes
//! to a terminal ([`outputs`]), rooms that only read ([`readers`]), the width of prose
//! ([`columns`]), and existing targets of documents ([`documents`], [`named_tests`]).

mod circles;
mod columns;
mod documents;
mod files;
mod layers;
mod named_tests;
mod outputs;
mod readers;
mod rooms;
mod source;
mod uses;

use std::path::Path;

use crate::command::{Result, cargo, output};

/// Prints every broken rule, and where.
pub(crate) fn run(root: &Path, tasks: &clap::Command) -> Result {
    eprintln!("\n$ tidy");
    let metadata = output(&mut cargo(
        root,
        &["metadata", "--format-version", "1", "--no-deps"],
    ))?;
    let metadata =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let files = source::read(root)?;

    let mut problems = layers::check(&metadata);
    problems.extend(circles::check(&files));
    problems.extend(rooms::check(&files));
    problems.extend(files::check(&files));
    problems.extend(outputs::check(&files));
    problems.extend(readers::check(&files));
    problems.extend(columns::check(&files));
    problems.extend(named_tests::check(&files));
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
