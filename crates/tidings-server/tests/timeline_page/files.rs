//! Rules for the page's files, without a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidings_testing::programs;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/timeline/page")
}

/// The names and texts of our own scripts and of the page.
fn own_files() -> Vec<(String, String)> {
    fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .filter(|(name, _)| !name.starts_with("uplot"))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn nothing_of_an_event_can_become_html() {
    let refused = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "eval(",
        "new Function",
        "createContextualFragment",
        "srcdoc",
        "setHTML",
        "javascript:",
    ];
    let files = own_files();
    assert!(files.len() > 20, "{}", files.len());
    for (name, text) in files {
        for word in refused {
            assert!(!text.contains(word), "{name} has {word}");
        }
    }
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    for (name, text) in own_files() {
        // XML namespaces are not URLs to load.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "//cdn"] {
            assert!(!text.contains(word), "{name} has {word}");
        }
        if name == "index.html" {
            for word in ["style=", "<style", " onclick", " onload", "<script>"] {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
    }
}

#[test]
fn lines_fit_and_files_are_small() {
    for (name, text) in own_files() {
        for (number, line) in (1..).zip(text.lines()) {
            let columns = line.chars().count();
            assert!(
                columns <= 100 || name == "icon.svg",
                "{name}:{number}: {columns} columns"
            );
        }
        let lines = text.lines().count();
        assert!(lines <= 450, "{name}: {lines} lines");
        let opens = name == "index.html"
            || name == "icon.svg"
            || text.starts_with("//")
            || text.starts_with("/*");
        assert!(opens, "{name} does not open with its purpose");
    }
}

#[test]
fn every_module_is_loaded_ahead() {
    let index = fs::read_to_string(folder().join("index.html")).unwrap();
    for (name, _) in own_files() {
        // types.js contains no code.
        if name.strip_suffix(".js").is_some_and(|name| name != "types") {
            assert!(
                index.contains(&format!("/timeline/assets/{name}\"")),
                "{name}"
            );
        }
    }
}

#[test]
fn the_types_are_right() {
    let Some(mut tsc) = programs::tsc().map(Command::new) else {
        return;
    };
    tsc.args([
        "--checkJs",
        "--allowJs",
        "--noEmit",
        "--strict",
        "--noUnusedLocals",
    ])
    .args([
        "--noUnusedParameters",
        "--target",
        "es2023",
        "--module",
        "esnext",
    ])
    .args([
        "--moduleResolution",
        "bundler",
        "--lib",
        "es2023,dom,dom.iterable",
    ])
    .args(["--types", "", "main.js"])
    .current_dir(folder());
    let output = tsc.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
