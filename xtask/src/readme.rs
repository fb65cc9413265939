//! `cargo xtask readme`: compiles the README's program in an empty crate with only the dependencies
//! that the README names. It is not run. A program with a common mistake is compiled, too: the
//! compiler must say what is wrong with it in the library's own words.

use std::path::Path;

use crate::command::{self, Result, cannot, cargo, read};

/// The READMEs that show the program. It is the same in each.
const READMES: [&str; 2] = ["README.md", "crates/tidings/README.md"];
/// Our crates that the program depends on.
const CRATES: [&str; 2] = ["tidings", "tidings-core"];

/// A program that records an event about a text, which is no object of Kubernetes.
const MISTAKE: &str = r#"fn main() {
    let (recorder, _events) = tidings::testing::recorder();
    recorder.warning(&"web-0", "ReconcileFailed", "out of disk space");
}
"#;
/// Parts of the compiler's message about that program.
const SAID: [&str; 2] = [
    "events cannot be recorded about `&str`",
    "`tidings::Reference`",
];

pub(crate) fn run(root: &Path) -> Result {
    let [first, second] = READMES.map(|readme| {
        let text = read(&root.join(readme))?;
        let shown = |language| {
            let block = block(&text, language).map(str::to_owned);
            block.ok_or(format!("{readme} shows no {language}"))
        };
        Ok::<_, String>((shown("toml")?, shown("rust,no_run")?))
    });
    let (first, second) = (first?, second?);
    let (manifest, program) = &first;
    if first != second {
        return Err(format!("{} show different programs", READMES.join(" and ")));
    }

    let folder = command::folder()?;
    let ours = CRATES.map(|name| {
        let path = root.join("crates").join(name);
        format!("{name} = {{ path = {:?} }}\n", path.display().to_string())
    });
    let manifest = format!(
        "[package]\nname = \"newcomer\"\nedition = \"2024\"\n\n{manifest}\n[workspace]\n\n[patch.crates-io]\n{}",
        ours.concat()
    );
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        let parent = file.parent().unwrap_or(folder.path());
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&file, text))
            .map_err(cannot("write", &file))
    };
    write("Cargo.toml", &manifest)?;
    write("src/main.rs", program)?;
    // The dependencies have the same versions as in all other tests.
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock"))
        .map_err(|error| format!("copy Cargo.lock: {error}"))?;
    let mut check = cargo(folder.path(), &["check", "--quiet"]);
    // This folder stays, so that dependencies are built only once.
    check.env("CARGO_TARGET_DIR", command::target(root).join("readme"));
    command::run(&mut check)?;

    write("src/main.rs", MISTAKE)?;
    let checked = check
        .output()
        .map_err(|error| format!("compile a program with a mistake: {error}"))?;
    let said = String::from_utf8_lossy(&checked.stderr);
    if checked.status.success() {
        return Err("a program that records about a text was compiled".to_owned());
    }
    match SAID.iter().find(|part| !said.contains(**part)) {
        Some(part) => Err(format!("the compiler does not say {part}, but:\n{said}")),
        None => Ok(()),
    }
}

/// The content of the first code block in this language.
fn block<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("```{language}\n"))?;
    Some(rest.split_once("```")?.0)
}
