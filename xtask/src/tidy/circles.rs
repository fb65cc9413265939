//! Checks that no two files of a crate use each other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::uses::{Crate, Uses};

pub(super) fn check(crates: &[Crate]) -> Vec<String> {
    let uses = crates.iter().map(|it| &it.uses);
    let described = uses.flat_map(|uses| {
        let circles = circles(uses).into_iter();
        circles.map(|circle| describe(uses, &circle))
    });
    described.collect()
}

/// The sets of files that use each other.
fn circles(uses: &Uses) -> Vec<BTreeSet<&Path>> {
    let reached = uses.keys().map(|file| (&**file, reached_from(uses, file)));
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = reached.collect();
    let mut circles: Vec<BTreeSet<&Path>> = Vec::new();
    for (file, reaches) in &reached {
        if reaches.contains(file) && !circles.iter().any(|circle| circle.contains(file)) {
            let leads_back = |other: &&Path| reached.get(other).is_some_and(|it| it.contains(file));
            circles.push(reaches.iter().copied().filter(leads_back).collect());
        }
    }
    circles
}

fn reached_from<'a>(uses: &'a Uses, file: &Path) -> BTreeSet<&'a Path> {
    let used = |file: &Path| uses.get(file).into_iter().flat_map(BTreeMap::keys);
    let mut reached = BTreeSet::new();
    let mut next: Vec<_> = used(file).collect();
    while let Some(file) = next.pop() {
        if reached.insert(&**file) {
            next.extend(used(file));
        }
    }
    reached
}

/// The uses among the files of such a set, one per line.
fn describe(uses: &Uses, circle: &BTreeSet<&Path>) -> String {
    let mut lines = vec![format!("{} files use each other:", circle.len())];
    for (file, used) in uses.iter().filter(|(file, _)| circle.contains(&***file)) {
        for (used, name) in used.iter().filter(|(used, _)| circle.contains(&***used)) {
            let (file, used) = (file.display(), used.display());
            lines.push(format!("    {file} uses {used} for {name}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::source::files;
    use super::super::uses::crates;
    use super::*;

    /// The number of files in circles, of files in `a/src`.
    fn in_circles(texts: &[(&str, &str)]) -> usize {
        let mut files = files(texts);
        for file in &mut files {
            file.path = Path::new("a/src").join(&file.path).with_extension("rs");
        }
        let (crates, problems) = crates(&files);
        assert_eq!(problems, [""; 0]);
        let circles = crates.iter().flat_map(|it| circles(&it.uses));
        circles.map(|circle| circle.len()).sum()
    }

    /// Each row: what `two.rs` has, and whether it uses `one.rs`, which uses it.
    #[test]
    fn circles_are_found_however_their_names_are_written() {
        let rows = [
            ("use crate::one::First; struct B(First);", true),
            ("struct B(crate::one::First);", true),
            ("use super::one; struct B(one::First);", true),
            ("use crate::{one::First as Other};", true),
            (
                "use crate::{self as all, one::{self}}; struct B(all::one::First);",
                true,
            ),
            ("use crate::First; struct B(First);", true),
            ("fn b() { println!(\"{}\", crate::one::first()); }", true),
            ("fn b() { use crate::one::first; first(); }", true),
            (
                "fn b() -> impl A + use<'static> { crate::one::first() }",
                true,
            ),
            ("#[arg(value_parser = crate::one::first)] struct B;", true),
            ("use crate::one::*; struct B(First);", true),
            (
                "use crate::one::*; fn b() { <A as B>::first(a.first()); }",
                false,
            ),
            ("use crate::Root; struct B(Root);", false),
            ("pub use crate::one::First;", false),
            ("use one::First;", false),
            ("use ::one::First;", false),
            ("#[cfg(test)] mod tests { use crate::one::First; }", false),
            (
                "#[cfg(all(test, unix))] use crate::one::{First}; struct B;",
                false,
            ),
        ];
        let root = "mod one; mod two; pub use one::First; pub struct Root;";
        let one = "use crate::two::Two; pub struct First(Two); pub fn first() {}";
        for (two, expected) in rows {
            let text = format!("pub struct Two; {two}");
            let texts = [("lib", root), ("one", one), ("two", &text)];
            assert_eq!(in_circles(&texts) == 2, expected, "{two}");
        }
    }

    #[test]
    fn a_detour_through_folders_is_a_circle() {
        let outer = "mod inner; pub struct Outer; fn f() { inner::g() }";
        let inner = "use super::Outer; pub(super) fn g() -> Outer { Outer }";
        let place = format!("#[path = \"b/inner.rs\"] {outer}");
        for [outer, inner] in [
            [("room/mod", outer), ("room/inner", inner)],
            [("room", outer), ("room/inner", inner)],
            [("room/mod", &place), ("room/b/inner", inner)],
        ] {
            let texts = [("lib", "mod room;"), outer, inner];
            assert_eq!(in_circles(&texts), 2, "{texts:?}");
        }
        assert_eq!(crates(&files(&[("a/src/lib.rs", "mod none;")])).1.len(), 1);
    }
}
