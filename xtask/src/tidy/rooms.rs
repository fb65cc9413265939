//! The rooms of a crate, in one table: a file uses files of its own room and of those below, never
//! of a room above.

use std::path::Path;

use super::source::SourceFile;
use super::uses::{Uses, roots};

/// A room's name, and its files and folders (with `/` at the end); `*` means everything that is in
/// no other room.
type Room = (&'static str, &'static [&'static str]);

/// Crates with their rooms, the highest first. Every file of such a crate is in one room, except
/// the root, which declares them, and `clock.rs`.
const ROOMS: [(&str, &[Room]); 8] = [
    (
        "tidings-core",
        &[
            (
                "correlation and delivery",
                &["correlator/", "delivery/", "patch.rs", "retry.rs"],
            ),
            ("wire forms", &["recorded.rs", "recorded/"]),
            ("events", &["*"]),
        ],
    ),
    (
        "tidings-api",
        &[
            ("requests", &["patch/", "selector/", "table.rs"]),
            ("codec", &["codec/", "managed/"]),
            ("words", &["*"]),
        ],
    ),
    (
        "tidings",
        &[
            (
                "broadcaster",
                &["broadcaster.rs", "kube_rs.rs", "testing.rs"],
            ),
            ("delivery", &["delivery.rs", "questions.rs"]),
            ("recording", &["*"]),
        ],
    ),
    (
        "tidings-store",
        &[
            ("backends", &["embedded/", "etcd/", "memory.rs"]),
            ("contract", &["*"]),
        ],
    ),
    (
        "tidings-archive",
        &[
            ("archive", &["archive.rs", "fuzzing.rs"]),
            ("source", &["source/"]),
            ("follow", &["follow/"]),
            ("keep", &["keep/"]),
            ("versions", &["version/"]),
        ],
    ),
    (
        "tidings-objects",
        &[
            ("reading", &["reader/"]),
            (
                "sealing",
                &[
                    "continued.rs",
                    "filling.rs",
                    "background.rs",
                    "seal.rs",
                    "merge.rs",
                    "clean.rs",
                    "check.rs",
                    "waiting.rs",
                ],
            ),
            ("folder", &["folder.rs", "manifest.rs", "unfinished.rs"]),
            ("place", &["place.rs", "client.rs"]),
            ("files", &["file/", "row.rs"]),
        ],
    ),
    (
        "tidings-server",
        &[
            ("start", &["start/", "fuzzing.rs"]),
            ("timeline", &["timeline/"]),
            ("archive", &["archive/"]),
            ("api", &["api/"]),
            ("admission", &["admission/"]),
            ("audit", &["audit/"]),
            ("auth", &["auth/"]),
            ("flow", &["flow/"]),
            ("metrics", &["metrics/"]),
            ("http", &["http/"]),
        ],
    ),
    (
        "tidings-cli",
        &[
            ("import", &["import/"]),
            (
                "printing",
                &["columns.rs", "format.rs", "jsonpath/", "printer.rs"],
            ),
            ("events", &["*"]),
        ],
    ),
];

/// Files outside the rooms.
const BESIDE: [&str; 3] = ["lib.rs", "main.rs", "clock.rs"];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, root) in roots(files) {
        let Some((_, rooms)) = ROOMS.iter().find(|(crate_name, _)| *crate_name == name) else {
            continue;
        };
        // The search for circles reports unreadable files.
        let Ok(uses) = Uses::read(files, &root) else {
            continue;
        };
        let sources = root.parent().unwrap_or(Path::new(""));
        problems.extend(broken(&uses, sources, rooms));
    }
    problems
}

fn broken(uses: &Uses, sources: &Path, rooms: &[Room]) -> Vec<String> {
    let room_of = |file: &Path| {
        let file = file.strip_prefix(sources).unwrap_or(file).to_str()?;
        let is_in =
            |member: &&str| file == *member || member.ends_with('/') && file.starts_with(*member);
        let named = |room: &Room| room.1.iter().any(is_in);
        let rest = |room: &Room| room.1.contains(&"*");
        rooms
            .iter()
            .position(named)
            .or_else(|| rooms.iter().position(rest))
    };
    let is_beside = |file: &Path| {
        let file = file.strip_prefix(sources).unwrap_or(file);
        BESIDE.iter().any(|beside| file == Path::new(beside))
    };
    let mut problems = Vec::new();
    for (file, used) in &uses.arrows {
        if is_beside(file) {
            continue;
        }
        let Some(room) = room_of(file) else {
            problems.push(format!("{}: in no room of its crate", file.display()));
            continue;
        };
        for (other, what) in used {
            if is_beside(other) {
                continue;
            }
            if let Some(above) = room_of(other).filter(|above| *above < room)
                && let (Some((room, _)), Some((above, _))) = (rooms.get(room), rooms.get(above))
            {
                problems.push(format!(
                    "{} ({room}) uses {} ({above}) for {what}, which is a room above",
                    file.display(),
                    other.display()
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Room; 2] = [("upper", &["upper.rs", "attic/"]), ("lower", &["lower.rs"])];

    fn problems(upper: &str, attic: &str, lower: &str) -> usize {
        problems_in(&TWO, upper, attic, lower)
    }

    fn problems_in(rooms: &[Room], upper: &str, attic: &str, lower: &str) -> usize {
        let files = [
            ("lib.rs", "mod attic; mod lower; mod upper;"),
            ("upper.rs", upper),
            ("attic/mod.rs", attic),
            ("lower.rs", lower),
        ];
        let files = files.map(|(path, text)| SourceFile {
            path: Path::new("a/src").join(path),
            text: text.to_owned(),
        });
        let uses = Uses::read(&files, Path::new("a/src/lib.rs")).unwrap();
        broken(&uses, Path::new("a/src"), rooms).len()
    }

    #[test]
    fn what_uses_a_room_above_is_found() {
        let down = "use crate::lower::Lower; pub struct Upper(Lower);";
        assert_eq!(
            problems(down, "use crate::upper::Upper;", "pub struct Lower;"),
            0
        );
        let up = "use crate::upper::Upper; pub struct Lower(Upper);";
        assert_eq!(problems("pub struct Upper;", "", up), 1);
        let attic = "pub struct Lower(crate::attic::Attic);";
        assert_eq!(problems("", "pub struct Attic;", attic), 1);
        // The lower room has everything that the other does not.
        let rest: [Room; 2] = [("upper", &["upper.rs"]), ("rest", &["*"])];
        assert_eq!(problems_in(&rest, "pub struct Upper;", "", up), 1);
        assert_eq!(problems_in(&rest, down, "", "pub struct Lower;"), 0);
    }
}
