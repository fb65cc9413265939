//! Finds out from which commit the program is built: from `TIDINGS_COMMIT`, from what cargo notes
//! in a package, or from git. A debug build has no commit: it would be compiled anew with each.

use std::path::Path;
use std::process::Command;

/// The digits of a commit that are shown.
const SHOWN: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed=TIDINGS_COMMIT");
    let version = env!("CARGO_PKG_VERSION");
    let commit = commit().unwrap_or_default();
    let shown = match commit.get(..SHOWN) {
        Some(start) => format!("{version} ({start})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=TIDINGS_COMMIT={commit}");
    println!("cargo::rustc-env=TIDINGS_VERSION={shown}");
}

fn commit() -> Option<String> {
    let given = std::env::var("TIDINGS_COMMIT").ok();
    let found = given.or_else(of_package).or_else(of_git)?;
    let found = found.trim().to_owned();
    let is_digit = |letter: char| letter.is_ascii_hexdigit();
    (found.len() >= SHOWN && found.chars().all(is_digit)).then_some(found)
}

/// The commit that cargo notes in a package.
fn of_package() -> Option<String> {
    let noted = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cargo_vcs_info.json");
    let text = std::fs::read_to_string(noted).ok()?;
    let after = text.split_once("\"sha1\"")?.1;
    after.split('"').nth(1).map(str::to_owned)
}

/// The commit of the working tree, for a release build.
fn of_git() -> Option<String> {
    if std::env::var("PROFILE").ok()? != "release" {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Every commit and checkout adds a line to this file.
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "HEAD"])
}
