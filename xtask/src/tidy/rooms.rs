//! Checks the rooms of a crate: a file uses files of its own room and of those below, never of a
//! room above, or of another room of the same rank.
//!
//! A large room has sub-rooms, under the same rule: a second entry for its folder. Each sub-room is
//! a folder whose `mod.rs` says what it is, its invariants, and what may be used from outside. It
//! keeps its modules private, or opens them to the room alone.

use std::cmp::Ordering;
use std::path::Path;

use super::source::SourceFile;
use super::uses::{Uses, roots};

/// The name of a room, with its files and folders (with `/` at the end). `*` means everything that
/// is in no other room.
type Room = (&'static str, &'static [&'static str]);

/// Rooms of the same rank, which may not use each other.
type Rank = &'static [Room];

/// The part of a crate that has rooms: the folder of its root, or a folder with sub-rooms.
type House = (&'static str, &'static [Rank]);

/// Folders with their ranks of rooms, the highest first. Every file there is in one room, except
/// the folder's root, which declares them, and `clock.rs`.
const ROOMS: [House; 15] = [
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
            &[("managed fields", &["managed/"])],
            &[("codec", &["codec/"])],
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
        "crates/tidings-store/src/embedded",
        &[
            &[("store", &["mod.rs", "fuzzing.rs"])],
            &[("commit", &["commit/"])],
            &[("maintenance", &["maintenance/"]), ("read", &["read/"])],
            &[("engine", &["engine/"])],
            &[("index", &["index/"]), ("log", &["log/"])],
            &[("codec", &["codec/"])],
            &[("files", &["files/"])],
            &[("options and errors", &["error.rs", "options.rs"])],
        ],
    ),
    (
        "crates/tidings-archive/src",
        &[
            &[("supervisor", &["supervisor/"])],
            &[("archive", &["archive.rs", "history.rs", "fuzzing.rs"])],
            &[("source", &["source/"])],
            &[("follow", &["follow/"])],
            &[("keep", &["keep/"])],
            &[("versions", &["version/", "clocks.rs"])],
        ],
    ),
    (
        "crates/tidings-archive/src/keep",
        &[
            &[("consumers", &["consumers/"]), ("served", &["served/"])],
            &[("transfer", &["transfer/"])],
            &[("report", &["report.rs"])],
            &[("retention", &["retention/"])],
            &[("versions", &["versions/"])],
            &[("feed", &["feed/"])],
            &[("coverage", &["coverage/"])],
            &[(
                "records",
                &["mod.rs", "error.rs", "index.rs", "json.rs", "keys.rs"],
            )],
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
                    "seal_error.rs",
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
        "crates/tidings-objects/src/reader",
        &[
            &[("reader", &["mod.rs", "fuzzing.rs"])],
            &[("serve", &["serve/"])],
            &[("answer", &["answer/"]), ("state", &["state/"])],
            &[("plan", &["plan/"])],
            &[("pending", &["pending/"])],
            &[("scan", &["scan/"])],
            &[("keys", &["keys/"])],
            &[("faults", &["fault.rs"])],
        ],
    ),
    (
        "crates/tidings-server/src",
        &[
            &[("start", &["start/", "fuzzing.rs"])],
            &[("mcp", &["mcp/"])],
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
        "crates/tidings-server/src/api",
        &[
            &[("routes", &["mod.rs"])],
            &[("history", &["history/"])],
            &[
                ("chain", &["chain/"]),
                ("documents", &["documents/", "health.rs", "metrics.rs"]),
                ("write", &["write/"]),
            ],
            &[("read", &["read/"])],
            &[("access", &["access/"]), ("watch", &["watch/"])],
            &[("request", &["request/"])],
            &[("server", &["server/"])],
            &[("random", &["random.rs"])],
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
                ("mcp", &["commands/mcp.rs"]),
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
                        "commands/followed.rs",
                        "commands/serve.rs",
                        "commands/serve/",
                    ],
                ),
                ("completions", &["commands/completions.rs"]),
                ("coverage", &["commands/coverage.rs", "commands/coverage/"]),
                ("describe", &["commands/describe.rs"]),
                ("events", &["commands/events.rs"]),
                ("export", &["commands/export.rs", "commands/export/"]),
                ("kubeconfig", &["commands/hand_out.rs"]),
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
        // The crate with this folder has the nearest root file.
        let root = roots
            .iter()
            .map(|(_, root)| root)
            .filter(|root| root.parent().is_some_and(|it| sources.starts_with(it)))
            .max_by_key(|root| root.components().count());
        // The search for circles reports unreadable files.
        let uses = root.map(|root| Uses::read(files, root).unwrap_or_default());
        let Some(uses) = uses.filter(|uses| uses.arrows.keys().any(|it| it.starts_with(sources)))
        else {
            problems.push(format!(
                "{}: has rooms in rooms.rs, but no file of a crate is there",
                sources.display()
            ));
            continue;
        };
        problems.extend(broken(&uses, sources, ranks));
        if root.is_some_and(|root| root.parent() != Some(sources)) {
            problems.extend(open_doors(files, sources, ranks));
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
    let is_outside = |file: &Path| {
        file.strip_prefix(sources)
            .map_or(true, |file| BESIDE.iter().any(|it| file == Path::new(it)))
    };
    let mut problems = Vec::new();
    for (file, used) in &uses.arrows {
        if is_outside(file) {
            continue;
        }
        let Some((rank, (room, _))) = room_of(file) else {
            problems.push(format!("{}: in no room of its crate", file.display()));
            continue;
        };
        for (other, what) in used {
            if is_outside(other) {
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

/// The folders of sub-rooms without a `mod.rs` that says what they are, and modules in it that more
/// than the room may use.
fn open_doors(files: &[SourceFile], sources: &Path, ranks: &[Rank]) -> Vec<String> {
    let members = ranks
        .iter()
        .flat_map(|rank| rank.iter())
        .flat_map(|room| room.1);
    let mut problems = Vec::new();
    for folder in members.filter(|member| member.ends_with('/')) {
        let path = sources.join(folder).join("mod.rs");
        let Some(door) = files.iter().find(|file| file.path == path) else {
            problems.push(format!("{}: a room without this file", path.display()));
            continue;
        };
        if !door.text.starts_with("//! ") {
            problems.push(format!("{}: does not say what the room is", path.display()));
        }
        let is_module = |line: &&str| line.trim_end().ends_with(';') && line.contains("mod ");
        for line in door.text.lines().filter(is_module) {
            if line.starts_with("pub mod ") || line.starts_with("pub(crate) mod ") {
                problems.push(format!(
                    "{}: `{line}` opens it to more than the folder above",
                    path.display()
                ));
            }
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

    fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: Path::new("a/src").join(path),
            text: (*text).to_owned(),
        };
        files.iter().map(file).collect()
    }

    const SUB_ROOMS: [Rank; 3] = [
        &[("house", &["mod.rs"])],
        &[("attic", &["attic/"]), ("hall", &["hall/"])],
        &[("cellar", &["cellar/"])],
    ];

    /// Each row: a file of the folder with sub-rooms (`house`), what it uses, and whether it may.
    #[test]
    fn sub_rooms_use_those_below_through_their_doors() {
        let rows = [
            ("house/attic/roof.rs", "crate::house::cellar::Coal", true),
            ("house/attic/roof.rs", "super::Attic", true),
            ("house/attic/roof.rs", "crate::house::hall::Hall", false),
            ("house/hall/mod.rs", "crate::house::attic::Roof", false),
            ("house/cellar/coal.rs", "crate::house::hall::Hall", false),
            ("house/cellar/mod.rs", "crate::house::House", false),
            // The rules of sub-rooms do not apply to files outside their folder.
            ("house/cellar/mod.rs", "crate::garden::Garden", true),
            ("garden.rs", "crate::house::House", true),
            ("house/mod.rs", "hall::Hall", true),
        ];
        for (user, used, expected) in rows {
            let mut house = files(&[
                ("lib.rs", "mod garden; mod house;"),
                ("garden.rs", "pub struct Garden;"),
                (
                    "house/mod.rs",
                    "mod attic; mod cellar; mod hall; pub struct House;",
                ),
                (
                    "house/attic/mod.rs",
                    "mod roof; pub use roof::Roof; struct Attic;",
                ),
                ("house/attic/roof.rs", "pub struct Roof;"),
                ("house/hall/mod.rs", "pub struct Hall;"),
                ("house/cellar/mod.rs", "mod coal; pub use coal::Coal;"),
                ("house/cellar/coal.rs", "pub struct Coal;"),
            ]);
            let path = Path::new("a/src").join(user);
            let file = house.iter_mut().find(|file| file.path == path).unwrap();
            file.text = format!("{} struct User({used});", file.text);
            let uses = Uses::read(&house, Path::new("a/src/lib.rs")).unwrap();
            let problems = broken(&uses, Path::new("a/src/house"), &SUB_ROOMS);
            assert_eq!(problems.is_empty(), expected, "{user} {used}: {problems:?}");
        }
    }

    #[test]
    fn a_sub_room_says_what_it_is_and_opens_its_modules_to_the_house_alone() {
        let rows = [
            ("//! The attic.\nmod roof;\npub(super) mod beams;\n", 0),
            ("mod roof;\n", 1),
            ("//! The attic.\npub(crate) mod roof;\n", 1),
            ("//! The attic.\npub mod roof;\npub(crate) mod beams;\n", 2),
        ];
        let attic: [Rank; 1] = [&[("attic", &["attic/"])]];
        for (door, expected) in rows {
            let house = files(&[("house/attic/mod.rs", door)]);
            let problems = open_doors(&house, Path::new("a/src/house"), &attic);
            assert_eq!(problems.len(), expected, "{door}: {problems:?}");
        }
        assert_eq!(open_doors(&[], Path::new("a/src/house"), &attic).len(), 1);
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
