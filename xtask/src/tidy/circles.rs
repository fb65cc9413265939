//! Checks that no two files of a crate use each other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source::SourceFile;
use super::uses::{Uses, roots};

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, root) in roots(files) {
        let uses = match Uses::read(files, &root) {
            Ok(uses) => uses,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for circle in uses.circles() {
            problems.push(format!(
                "{name}: {} files use each other in a circle:{}",
                circle.len(),
                uses.describe(&circle)
            ));
        }
    }
    problems
}

impl Uses {
    /// The sets of files that use each other, the largest first (Tarjan's algorithm, with two
    /// searches).
    fn circles(&self) -> Vec<Vec<PathBuf>> {
        let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = self
            .arrows
            .keys()
            .map(|file| (file, self.reached_from(file)))
            .collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (file, reaches) in &reached {
            if seen.contains(file) || !reaches.contains(file) {
                continue;
            }
            let circle: Vec<PathBuf> = reaches
                .iter()
                .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)))
                .map(|other| (*other).clone())
                .collect();
            seen.extend(
                reaches
                    .iter()
                    .copied()
                    .filter(|other| circle.contains(other)),
            );
            circles.push(circle);
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached_from<'a>(&'a self, file: &PathBuf) -> BTreeSet<&'a PathBuf> {
        let mut reached = BTreeSet::new();
        let uses = |file| self.arrows.get(file).into_iter().flat_map(BTreeMap::keys);
        let mut next: Vec<&PathBuf> = uses(file).collect();
        while let Some(file) = next.pop() {
            if reached.insert(file) {
                next.extend(uses(file));
            }
        }
        reached
    }

    /// The uses among the files of such a set, one per line.
    fn describe(&self, circle: &[PathBuf]) -> String {
        let lines = circle.iter().flat_map(|file| {
            let used = self.arrows.get(file).into_iter().flatten();
            let used = used.filter(|(used, _)| circle.contains(used));
            used.map(|(used, name)| {
                format!(
                    "\n    {} uses {} for {name}",
                    file.display(),
                    used.display()
                )
            })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| SourceFile {
                path: PathBuf::from("a/src").join(path),
                text: (*text).to_owned(),
            })
            .collect();
        let uses = Uses::read(&files, Path::new("a/src/lib.rs")).unwrap();
        uses.circles()
            .into_iter()
            .map(|circle| {
                circle
                    .iter()
                    .map(|file| file.strip_prefix("a/src").unwrap().display().to_string())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_circle_is_found_however_its_names_are_written() {
        let ways = [
            "use crate::one::First; struct Second(First);",
            "struct Second(crate::one::First);",
            "use super::one; struct Second(one::First);",
            "use crate::{one::First as Other}; struct Second(Other);",
            "use crate::First; struct Second(First);",
            "fn second() { println!(\"{}\", crate::one::first()); }",
            "fn second() { use crate::one::first; first(); }",
            "use crate::one::*; struct Second(First);",
        ];
        for way in ways {
            let found = circles(&[
                ("lib.rs", "mod one; mod two; pub use one::First;"),
                (
                    "one.rs",
                    "use crate::two::Second; pub struct First(Second); pub fn first() {}",
                ),
                ("two.rs", &format!("pub struct Second; {way}")),
            ]);
            assert_eq!(found, [["one.rs", "two.rs"]], "{way}");
        }
    }

    #[test]
    fn declarations_re_exports_tests_and_other_crates_are_no_uses() {
        let innocent = [
            (
                "mod one; mod two; pub use one::First;",
                "use crate::two::Second; pub struct First(Second);",
                "pub struct Second;",
            ),
            (
                "mod one; mod two; pub struct Root;",
                "use crate::Root; pub struct First(Root);",
                "",
            ),
            (
                "mod one; mod two;",
                "use crate::two::Second; pub struct First(Second);",
                "#[cfg(test)] mod tests { use crate::one::First; }",
            ),
            (
                "mod one; mod two;",
                "use crate::two::Second; pub struct First(Second);",
                "use one::First; pub struct Second;",
            ),
        ];
        for (root, one, two) in innocent {
            let found = circles(&[("lib.rs", root), ("one.rs", one), ("two.rs", two)]);
            assert!(found.is_empty(), "{root} {one} {two}: {found:?}");
        }
    }

    #[test]
    fn a_detour_through_folders_is_a_circle() {
        let found = circles(&[
            ("lib.rs", "mod room;"),
            (
                "room/mod.rs",
                "mod inner; pub(crate) struct Outer; fn f() { inner::g() }",
            ),
            (
                "room/inner.rs",
                "use super::Outer; pub(super) fn g() -> Outer { Outer }",
            ),
        ]);
        assert_eq!(found, [["room/inner.rs", "room/mod.rs"]]);
    }
}
