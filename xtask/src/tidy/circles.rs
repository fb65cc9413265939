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

    /// The number of files in circles.
    fn in_circles(texts: &[(&str, &str)]) -> usize {
        let (crates, problems) = crates(&files(texts));
        assert_eq!(problems, [""; 0]);
        let circles = crates.iter().flat_map(|it| circles(&it.uses));
        circles.map(|circle| circle.len()).sum()
    }

    const FIRST: &str = "use crate::two::Second; pub struct First(Second); pub fn first() {}";

    /// Each row: the root, `one.rs`, `two.rs`, and whether the two files use each other.
    #[test]
    fn circles_are_found_however_their_names_are_written() {
        let root = "mod one; mod two; pub use one::First;";
        let rows = [
            (root, FIRST, "use crate::one::First; struct B(First);", true),
            (root, FIRST, "struct B(crate::one::First);", true),
            (root, FIRST, "use super::one; struct B(one::First);", true),
            (root, FIRST, "use crate::{one::First as Other};", true),
            (
                root,
                FIRST,
                "use crate::{self as all, one::{self}}; struct B(all::one::First);",
                true,
            ),
            (root, FIRST, "use crate::First; struct B(First);", true),
            (
                root,
                FIRST,
                "fn b() { println!(\"{}\", crate::one::first()); }",
                true,
            ),
            (
                root,
                FIRST,
                "fn b() { use crate::one::first; first(); }",
                true,
            ),
            (
                root,
                FIRST,
                "fn b() -> impl A + use<'static> { crate::one::first() }",
                true,
            ),
            (
                root,
                FIRST,
                "#[arg(value_parser = crate::one::first)] struct B;",
                true,
            ),
            (root, FIRST, "use crate::one::*; struct B(First);", true),
            (
                root,
                FIRST,
                "use crate::one::*; fn b() { <A as B>::first(a.first()); }",
                false,
            ),
            (root, FIRST, "", false),
            (root, FIRST, "pub use crate::one::First;", false),
            (root, FIRST, "use one::First;", false),
            (root, FIRST, "use ::one::First;", false),
            (
                root,
                FIRST,
                "#[cfg(test)] mod tests { use crate::one::First; }",
                false,
            ),
            (
                root,
                FIRST,
                "#[cfg(all(test, unix))] use crate::one::{First}; struct B;",
                false,
            ),
            (
                "mod one; mod two; pub struct Root;",
                "use crate::Root;",
                "",
                false,
            ),
        ];
        for (root, one, two, expected) in rows {
            let two = format!("pub struct Second; {two}");
            let texts = [
                ("a/src/lib.rs", root),
                ("a/src/one.rs", one),
                ("a/src/two.rs", &two),
            ];
            assert_eq!(
                in_circles(&texts),
                if expected { 2 } else { 0 },
                "{root} {two}"
            );
        }
    }

    #[test]
    fn a_detour_through_folders_is_a_circle() {
        let outer = "mod inner; pub(crate) struct Outer; fn f() { inner::g() }";
        let inner = "use super::Outer; pub(super) fn g() -> Outer { Outer }";
        let place =
            "#[path = \"elsewhere/inner.rs\"] mod inner; pub struct Outer; fn f() { inner::g() }";
        for texts in [
            [
                ("a/src/lib.rs", "mod room;"),
                ("a/src/room/mod.rs", outer),
                ("a/src/room/inner.rs", inner),
            ],
            [
                ("a/src/lib.rs", "mod room;"),
                ("a/src/room.rs", outer),
                ("a/src/room/inner.rs", inner),
            ],
            [
                ("a/src/lib.rs", "mod room;"),
                ("a/src/room/mod.rs", place),
                ("a/src/room/elsewhere/inner.rs", inner),
            ],
        ] {
            assert_eq!(in_circles(&texts), 2, "{texts:?}");
        }
        assert_eq!(crates(&files(&[("a/src/lib.rs", "mod none;")])).1.len(), 1);
    }
}
