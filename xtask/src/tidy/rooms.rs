//! Checks the rooms of a crate: a file uses files of its own room and of those below, never of a
//! room above, or of another room of the same rank.
//!
//! A large room has sub-rooms, under the same rule: a second entry for its folder. Each sub-room is
//! a folder whose `mod.rs` says what it is, its invariants, and what may be used from outside. It
//! keeps its modules private, or opens them to the room alone.

use std::cmp::Ordering;
use std::path::Path;

use super::source::SourceFile;
use super::uses::{Crate, Uses};

/// Houses with their rooms, the highest first. A house is the folder of a crate's root, or a folder
/// with sub-rooms. A line has the rooms of one rank. A room has files and folders (with `/` at the
/// end); `*` means what is in no other room. Every file of a house is in one room, except
/// those of [`BESIDE`].
pub(super) const ROOMS: &str = "
crates/tidings-core/src
    correlation and delivery: correlator/ delivery/ patch.rs retry.rs
    wire forms: recorded.rs recorded/
    events: *
crates/tidings-api/src
    requests: patch/ selector/ table.rs
    managed fields: managed/
    codec: codec/
    words: *
crates/tidings/src
    broadcaster: broadcaster.rs kube_rs.rs testing.rs
    delivery: delivery.rs questions.rs
    recording: *
crates/tidings-store/src
    backends: embedded/ etcd/ memory.rs
    contract: *
crates/tidings-store/src/embedded
    store: mod.rs fuzzing.rs
    commit: commit/
    maintenance: maintenance/ | read: read/
    engine: engine/
    index: index/ | log: log/
    codec: codec/
    files: files/
    options and errors: error.rs options.rs
crates/tidings-archive/src
    supervisor: supervisor/
    archive: archive.rs history.rs fuzzing.rs
    source: source/
    follow: follow/
    keep: keep/
    versions: version/ clocks.rs
crates/tidings-archive/src/keep
    consumers: consumers/ | served: served/
    transfer: transfer/
    report: report.rs
    retention: retention/
    versions: versions/
    feed: feed/
    coverage: coverage/
    records: mod.rs error.rs index.rs json.rs keys.rs
crates/tidings-objects/src
    reading: reader/ fuzzing.rs
    sealing: continued.rs filling.rs forged.rs background.rs schedule.rs seal.rs seal_error.rs \
        merge.rs clean.rs erase.rs check.rs waiting.rs
    folder: described.rs folder.rs manifest.rs unfinished.rs
    place: place.rs client.rs foreign.rs private.rs
    files: file/ row.rs
crates/tidings-objects/src/reader
    reader: mod.rs fuzzing.rs
    serve: serve/
    answer: answer/ | state: state/
    plan: plan/
    pending: pending/
    scan: scan/
    keys: keys/
    faults: fault.rs
crates/tidings-server/src
    start: start/ fuzzing.rs
    mcp: mcp/
    timeline: timeline/
    archive: archive/
    api: api/
    admission: admission/ | audit: audit/
    auth: auth/
    flow: flow/
    metrics: metrics/
    http: http/
crates/tidings-server/src/api
    routes: mod.rs
    history: history/
    chain: chain/ | documents: documents/ health.rs metrics.rs | write: write/
    read: read/
    access: access/ | watch: watch/
    request: request/
    server: server/
    random: random.rs
crates/tidings-cli/src
    captures: capture/
    printing: columns.rs format.rs jsonpath/ printer.rs sort_key.rs
    events: *
crates/tidings-cli/src/bin/tidings
    verbs: commands/mod.rs
    mcp: commands/mcp.rs | timeline: commands/timeline.rs | demo: commands/demo/
    servers: commands/archive.rs commands/archive/ commands/data_dir.rs commands/followed.rs \
        commands/serve.rs commands/serve/ | completions: commands/completions.rs | coverage: \
        commands/coverage.rs commands/coverage/ | describe: commands/describe.rs | events: \
        commands/events.rs | export: commands/export.rs commands/export/ | kubeconfig: \
        commands/hand_out.rs | man: commands/man.rs | rbac: commands/rbac.rs | record: \
        commands/record.rs commands/record/ | sealed: commands/sealed.rs | top: commands/top.rs
    captures: commands/capture.rs
    import: commands/import.rs commands/import/
    common parts: *
crates/tidings-conformance/src
    archive: archive/ | clients: clients.rs k9s.rs kube_rs.rs passing.rs | correlator: \
        correlator.rs scenario.rs | hostile: hostile/ | interchange: interchange/ | \
        reference: reference/
    common parts: error.rs http.rs process.rs servers.rs
benches/src
    sealed: sealed/
    showing: showing/
    recording: recording/ | serving: serving/ | storing: storing/
    loads: load.rs
";

/// Files outside the rooms.
const BESIDE: [&str; 3] = ["lib.rs", "main.rs", "clock.rs"];

/// A part of a crate that has rooms.
struct House<'a> {
    sources: &'a Path,
    rooms: Vec<Room<'a>>,
}

struct Room<'a> {
    /// The highest has the smallest.
    rank: usize,
    name: &'a str,
    members: Vec<&'a str>,
}

fn houses(table: &str) -> Vec<House<'_>> {
    let mut houses: Vec<House<'_>> = Vec::new();
    for (rank, line) in table
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let rooms = line.split(" | ").filter_map(|room| room.split_once(": "));
        let rooms = rooms.map(|(name, members)| Room {
            rank,
            name: name.trim(),
            members: members.split(' ').collect(),
        });
        match houses.last_mut().filter(|_| line.starts_with(' ')) {
            Some(house) => house.rooms.extend(rooms),
            None => houses.push(House {
                sources: Path::new(line),
                rooms: Vec::new(),
            }),
        }
    }
    houses
}

pub(super) fn check(table: &str, files: &[SourceFile], crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for house in houses(table) {
        // The crate with this folder has the nearest root file.
        let of = crates.iter();
        let of = of.filter(|it| house.sources.starts_with(&it.sources));
        let of = of.max_by_key(|it| it.sources.components().count());
        let of = of.filter(|it| it.uses.keys().any(|it| it.starts_with(house.sources)));
        let Some(of) = of else {
            let folder = house.sources.display();
            problems.push(format!("{folder}: has rooms, but no crate has files there"));
            continue;
        };
        problems.extend(house.broken(&of.uses));
        if of.sources != house.sources {
            problems.extend(house.open_doors(files));
        }
    }
    problems
}

impl House<'_> {
    /// Whether a file has to be in a room.
    fn has(&self, file: &Path) -> bool {
        let within = file.strip_prefix(self.sources);
        within.is_ok_and(|file| !BESIDE.iter().any(|beside| file == Path::new(beside)))
    }

    fn room_of(&self, file: &Path) -> Option<&Room<'_>> {
        let file = file.strip_prefix(self.sources).ok()?;
        let is_in = |it: &&str| file == Path::new(it) || it.ends_with('/') && file.starts_with(it);
        let mut named = self.rooms.iter().filter(|it| it.members.iter().any(is_in));
        let mut rest = self.rooms.iter().filter(|it| it.members == ["*"]);
        named.next().or_else(|| rest.next())
    }

    /// The files that are in no room, or use one that they may not.
    fn broken(&self, uses: &Uses) -> Vec<String> {
        let mut problems = Vec::new();
        for (file, used) in uses.iter().filter(|(file, _)| self.has(file)) {
            let name = file.display();
            let Some(room) = self.room_of(file) else {
                problems.push(format!("{name}: in no room of its crate"));
                continue;
            };
            for (other, what) in used.iter().filter(|(file, _)| self.has(file)) {
                let Some(its) = self.room_of(other) else {
                    continue;
                };
                let why = match its.rank.cmp(&room.rank) {
                    Ordering::Less => "a room above",
                    Ordering::Equal if its.name != room.name => "another room of its rank",
                    _ => continue,
                };
                let (other, room, its) = (other.display(), room.name, its.name);
                problems.push(format!(
                    "{name} ({room}) uses {other} ({its}) for {what}, which is {why}"
                ));
            }
        }
        problems
    }

    /// The folders of sub-rooms without a `mod.rs` that says what they are, and modules in it that
    /// more than the room may use.
    fn open_doors(&self, files: &[SourceFile]) -> Vec<String> {
        let members = self.rooms.iter().flat_map(|room| &room.members);
        let mut problems = Vec::new();
        for folder in members.filter(|member| member.ends_with('/')) {
            let path = self.sources.join(folder).join("mod.rs");
            let name = path.display();
            let Some(door) = files.iter().find(|file| file.path == path) else {
                problems.push(format!("{name}: a room without this file"));
                continue;
            };
            if !door.text.starts_with("//! ") {
                problems.push(format!("{name}: does not say what the room is"));
            }
            let is_open =
                |line: &&str| line.starts_with("pub mod ") || line.starts_with("pub(crate) mod ");
            for line in door
                .text
                .lines()
                .filter(is_open)
                .filter(|line| line.ends_with(';'))
            {
                problems.push(format!(
                    "{name}: `{line}` opens it to more than the folder above"
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::super::uses::crates;
    use super::*;

    const TABLE: &str = "
a/src
    upper: upper.rs | house: house/
    rest: *
a/src/house
    house: mod.rs
    attic: attic/ | hall: hall/
    cellar: cellar/
";
    const FILES: [(&str, &str); 9] = [
        ("lib.rs", "mod rest; mod house; mod upper; mod clock;"),
        ("clock.rs", "pub struct Clock;"),
        ("upper.rs", "pub struct Upper;"),
        ("rest.rs", "pub struct Rest;"),
        (
            "house/mod.rs",
            "mod attic; mod cellar; mod hall; pub struct House;",
        ),
        (
            "house/attic/mod.rs",
            "//! It.\nmod roof; pub use roof::Roof; struct Attic;",
        ),
        ("house/attic/roof.rs", "pub struct Roof;"),
        ("house/hall/mod.rs", "//! It.\npub struct Hall;"),
        ("house/cellar/mod.rs", "//! It.\npub struct Coal;"),
    ];

    /// The problems if this is added to a file.
    fn problems(changed: &str, added: &str) -> Vec<String> {
        let mut files = source::files(&FILES);
        for file in &mut files {
            if file.path == Path::new(changed) {
                file.text = format!("{}\n{added}", file.text);
            }
            file.path = Path::new("a/src").join(&file.path);
        }
        let (crates, unread) = crates(&files);
        assert_eq!(unread, [""; 0]);
        check(TABLE, &files, &crates)
    }

    /// Each row: a file, what it uses, and whether it may.
    #[test]
    fn files_use_rooms_below_through_their_doors() {
        let rows = [
            ("upper.rs", "crate::rest::Rest", true),
            ("upper.rs", "crate::house::House", false),
            ("rest.rs", "crate::upper::Upper", false),
            ("rest.rs", "crate::clock::Clock", true),
            ("clock.rs", "crate::upper::Upper", true),
            ("house/attic/roof.rs", "crate::house::cellar::Coal", true),
            ("house/attic/roof.rs", "super::Attic", true),
            ("house/attic/roof.rs", "crate::house::hall::Hall", false),
            ("house/hall/mod.rs", "crate::house::attic::Roof", false),
            ("house/cellar/mod.rs", "crate::house::hall::Hall", false),
            ("house/cellar/mod.rs", "crate::house::House", false),
            // The rules of sub-rooms do not apply to files outside their folder.
            ("house/cellar/mod.rs", "crate::rest::Rest", true),
            ("house/mod.rs", "hall::Hall", true),
        ];
        for (user, used, expected) in rows {
            let problems = problems(user, &format!("struct User({used});"));
            assert_eq!(problems.is_empty(), expected, "{user} {used}: {problems:?}");
        }
    }

    #[test]
    fn a_sub_room_says_what_it_is_and_opens_its_modules_to_the_house_alone() {
        let attic = houses("a\n    attic: attic/\n");
        let rows = [
            (
                "a/attic/mod.rs",
                "//! It.\nmod roof;\npub(super) mod beams;\n",
                0,
            ),
            ("a/attic/mod.rs", "mod roof;\n", 1),
            (
                "a/attic/mod.rs",
                "//! It.\npub mod roof;\npub(crate) mod beams;\n",
                2,
            ),
            ("a/attic.rs", "//! It.\n", 1),
        ];
        for (path, door, expected) in rows {
            let files = source::files(&[(path, door)]);
            let found = attic.iter().flat_map(|house| house.open_doors(&files));
            assert_eq!(found.count(), expected, "{path} {door}");
        }
    }

    #[test]
    fn files_in_no_room_and_rooms_without_files_are_found() {
        let files = source::files(&[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", "")]);
        let (crates, _) = crates(&files);
        assert_eq!(check("a/src\n    c: c.rs", &[], &crates).len(), 1);
        assert_eq!(check(ROOMS, &[], &crates).len(), houses(ROOMS).len());
    }
}
