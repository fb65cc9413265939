//! Checks the rooms of a crate: a file uses files of its own room and of those below, never of a
//! room above, or of another room of the same rank.

use std::cmp::Ordering;
use std::path::Path;

use super::source::SourceFile;
use super::uses::{Uses, roots};

/// The name of a room, with its files and folders (with `/` at the end). `*` means everything that
/// is in no other room.
type Room = (&'static str, &'static [&'static str]);

/// Rooms of the same rank, which may not use each other.
type Rank = &'static [Room];

/// Folders that have rooms, each with its ranks, the highest first. Every file there is in one
/// room, except the root file, which declares the modules, and `clock.rs`.
const ROOMS: [(&str, &[Rank]); 11] = [
    (
        "crates/tidings-core/src",
        &[
            &[(
                "correlation and delivery",
                &["correlator/", "delivery/", "patch.rs", "retry.rs"],
            )],
            &[("wire forms", &["recorded.rs", "recorded/"])],
            &[("events", &["*"])],
        ],
    ),
    (
        "crates/tidings-api/src",
        &[
            &[("requests", &["patch/", "selector/", "table.rs"])],
            &[("codec", &["codec/", "managed/"])],
            &[("words", &["*"])],
        ],
    ),
    (
        "crates/tidings/src",
        &[
            &[(
                "broadcaster",
                &["broadcaster.rs", "kube_rs.rs", "testing.rs"],
            )],
            &[("delivery", &["delivery.rs", "questions.rs"])],
            &[("recording", &["*"])],
        ],
    ),
    (
        "crates/tidings-store/src",
        &[
            &[("backends", &["embedded/", "etcd/", "memory.rs"])],
            &[("contract", &["*"])],
        ],
    ),
    (
        "crates/tidings-archive/src",
        &[
            &[("archive", &["archive.rs", "history.rs", "fuzzing.rs"])],
            &[("source", &["source/"])],
            &[("follow", &["follow/"])],
            &[("keep", &["keep/"])],
            &[("versions", &["version/", "clocks.rs"])],
        ],
    ),
    (
        "crates/tidings-objects/src",
        &[
            &[("reading", &["reader/", "fuzzing.rs"])],
            &[(
                "sealing",
                &[
                    "continued.rs",
                    "filling.rs",
                    "forged.rs",
                    "background.rs",
                    "schedule.rs",
                    "seal.rs",
                    "merge.rs",
                    "clean.rs",
                    "erase.rs",
                    "check.rs",
                    "waiting.rs",
                ],
            )],
            &[(
                "folder",
                &["described.rs", "folder.rs", "manifest.rs", "unfinished.rs"],
            )],
            &[(
                "place",
                &["place.rs", "client.rs", "foreign.rs", "private.rs"],
            )],
            &[("files", &["file/", "row.rs"])],
        ],
    ),
    (
        "crates/tidings-server/src",
        &[
            &[("start", &["start/", "fuzzing.rs"])],
            &[("timeline", &["timeline/"])],
            &[("archive", &["archive/"])],
            &[("api", &["api/"])],
            &[("admission", &["admission/"]), ("audit", &["audit/"])],
            &[("auth", &["auth/"])],
            &[("flow", &["flow/"])],
            &[("metrics", &["metrics/"])],
            &[("http", &["http/"])],
        ],
    ),
    (
        "crates/tidings-cli/src",
        &[
            &[("captures", &["capture/"])],
            &[(
                "printing",
                &[
                    "columns.rs",
                    "format.rs",
                    "jsonpath/",
                    "printer.rs",
                    "sort_key.rs",
                ],
            )],
            &[("events", &["*"])],
        ],
    ),
    (
        "crates/tidings-cli/src/bin/tidings",
        &[
            &[("verbs", &["commands/mod.rs"])],
            &[
                ("timeline", &["commands/timeline.rs"]),
                ("demo", &["commands/demo/"]),
            ],
            &[
                (
                    "servers",
                    &[
                        "commands/archive.rs",
                        "commands/archive/",
                        "commands/data_dir.rs",
                        "commands/serve.rs",
                        "commands/serve/",
                    ],
                ),
                ("completions", &["commands/completions.rs"]),
                ("coverage", &["commands/coverage.rs"]),
                ("describe", &["commands/describe.rs"]),
                ("events", &["commands/events.rs"]),
                ("export", &["commands/export.rs", "commands/export/"]),
                ("man", &["commands/man.rs"]),
                ("rbac", &["commands/rbac.rs"]),
                ("record", &["commands/record.rs", "commands/record/"]),
                ("sealed", &["commands/sealed.rs"]),
                ("top", &["commands/top.rs"]),
            ],
            &[("captures", &["commands/capture.rs"])],
            &[("import", &["commands/import.rs", "commands/import/"])],
            &[("common parts", &["*"])],
        ],
    ),
    (
        "crates/tidings-conformance/src",
        &[
            &[
                ("archive", &["archive/"]),
                (
                    "clients",
                    &["clients.rs", "k9s.rs", "kube_rs.rs", "passing.rs"],
                ),
                (
                    "correlator",
                    &["correlator.rs", "difference.rs", "scenario.rs"],
                ),
                ("hostile", &["hostile/"]),
                ("interchange", &["interchange/"]),
                ("reference", &["reference/"]),
            ],
            &[("common parts", &["http.rs", "process.rs", "servers.rs"])],
        ],
    ),
    (
        "benches/src",
        &[
            &[("sealed", &["sealed/"])],
            &[("showing", &["showing/"])],
            &[
                ("recording", &["recording/"]),
                ("serving", &["serving/"]),
                ("storing", &["storing/"]),
            ],
        ],
    ),
];

/// Files outside the rooms.
const BESIDE: [&str; 3] = ["lib.rs", "main.rs", "clock.rs"];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let roots = roots(files);
    for (sources, ranks) in ROOMS {
        let sources = Path::new(sources);
        let mut begin = roots.iter().map(|(_, root)| root);
        let Some(root) = begin.find(|root| root.parent() == Some(sources)) else {
            problems.push(format!(
                "{}: has rooms in rooms.rs, but no crate begins there",
                sources.display()
            ));
            continue;
        };
        // If files cannot be read, the search for circles reports it.
        if let Ok(uses) = Uses::read(files, root) {
            problems.extend(broken(&uses, sources, ranks));
        }
    }
    problems
}

fn broken(uses: &Uses, sources: &Path, ranks: &[Rank]) -> Vec<String> {
    let rooms: Vec<(usize, &Room)> = ranks
        .iter()
        .enumerate()
        .flat_map(|(rank, rooms)| rooms.iter().map(move |room| (rank, room)))
        .collect();
    let room_of = |file: &Path| {
        let file = file.strip_prefix(sources).unwrap_or(file).to_str()?;
        let is_in =
            |member: &&str| file == *member || member.ends_with('/') && file.starts_with(*member);
        let mut named = rooms.iter().filter(|(_, room)| room.1.iter().any(is_in));
        let mut rest = rooms.iter().filter(|(_, room)| room.1.contains(&"*"));
        named.next().or_else(|| rest.next()).copied()
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
        let Some((rank, (room, _))) = room_of(file) else {
            problems.push(format!("{}: in no room of its crate", file.display()));
            continue;
        };
        for (other, what) in used {
            if is_beside(other) {
                continue;
            }
            let Some((its_rank, (its_room, _))) = room_of(other) else {
                continue;
            };
            let why = match its_rank.cmp(&rank) {
                Ordering::Less => "a room above",
                Ordering::Equal if its_room != room => "another room of its rank",
                _ => continue,
            };
            problems.push(format!(
                "{} ({room}) uses {} ({its_room}) for {what}, which is {why}",
                file.display(),
                other.display()
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Rank; 2] = [
        &[("upper", &["upper.rs", "attic/"])],
        &[("lower", &["lower.rs"])],
    ];

    fn problems(upper: &str, attic: &str, lower: &str) -> usize {
        problems_in(&TWO, upper, attic, lower)
    }

    fn problems_in(ranks: &[Rank], upper: &str, attic: &str, lower: &str) -> usize {
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
        broken(&uses, Path::new("a/src"), ranks).len()
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
        // The lower room has every file that the other does not have.
        let rest: [Rank; 2] = [&[("upper", &["upper.rs"])], &[("rest", &["*"])]];
        assert_eq!(problems_in(&rest, "pub struct Upper;", "", up), 1);
        assert_eq!(problems_in(&rest, down, "", "pub struct Lower;"), 0);
    }

    #[test]
    fn what_uses_another_room_of_its_rank_is_found() {
        let siblings: [Rank; 2] = [
            &[("upper", &["upper.rs"]), ("attic", &["attic/"])],
            &[("lower", &["lower.rs"])],
        ];
        let down = "use crate::lower::Lower; pub struct Upper(Lower);";
        let lower = "pub struct Lower;";
        assert_eq!(problems_in(&siblings, down, down, lower), 0);
        let across = "use crate::upper::Upper; pub struct Attic(Upper);";
        assert_eq!(problems_in(&siblings, down, across, lower), 1);
    }

    #[test]
    fn rooms_of_a_crate_that_is_not_there_are_found() {
        assert_eq!(check(&[]).len(), ROOMS.len());
    }
}
