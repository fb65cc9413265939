//! Tasks that run more of some tests than `cargo xtask test` does: with other programs, or for
//! longer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Result, cargo, read, run_lines};
use crate::tools::{
    AZURITE, ETCD, FAKE_GCS, HELM, KUBE_APISERVER, KUBECTL, MCP_CONFORMANCE, MCP_INSPECTOR,
    MCP_PYTHON, NODE, Tool, Tools,
};

/// The option of tasks that use programs of others.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Offline {
    /// Do not fetch or build programs that are missing
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Tests of a suite that a task runs.
pub(crate) struct Suite {
    /// The words after `cargo test`. With the whole workspace nothing is compiled again.
    words: &'static [&'static str],
    /// The groups of tests, each of which must run.
    groups: &'static [&'static str],
    /// Name and value of an environment variable with which the tests run more cases. A value that
    /// is set already is kept.
    more: Option<(&'static str, &'static str)>,
    /// The beginning of the text that must be printed, and is repeated at the end.
    summary: Option<&'static str>,
    /// The programs of others, at least one of which is needed.
    tools: &'static [Tool],
}

/// Every case in which requests to object storage fail or a writer is killed. `cargo xtask test`
/// runs only a sample.
pub(crate) const FAULTS: Suite = Suite {
    words: &["--workspace", "--test", "objects"],
    groups: &["faults::", "killed::", "erased::"],
    more: Some(("TIDINGS_ALL_FAULTS", "1")),
    summary: None,
    tools: &[],
};

/// Archives in Azure's and in Google's object storage, on emulators of both.
pub(crate) const CLOUDS: Suite = Suite {
    words: &["--workspace", "--test", "objects"],
    groups: &["emulated::", "erased::", "reading::", "sealing::"],
    more: None,
    summary: None,
    tools: &[AZURITE, FAKE_GCS],
};

/// `tidings mcp`, judged by programs of others.
pub(crate) const MCP: Suite = Suite {
    words: &["--workspace", "--test", "verbs"],
    groups: &["judges::"],
    more: None,
    summary: None,
    tools: &[NODE, MCP_CONFORMANCE, MCP_INSPECTOR, MCP_PYTHON],
};

/// The store's crash test in its long form; the environment variables of
/// `tidings-store/tests/contract/crash.rs` repeat a run.
pub(crate) const CRASH: Suite = Suite {
    words: &["-p", "tidings-store", "--test", "contract"],
    groups: &["crash::nothing_acknowledged_is_lost"],
    more: Some(("TIDINGS_STORE_KILLS", "200")),
    summary: Some("crash: "),
    tools: &[],
};

/// Runs the tests of a suite with the tools that are available. Without any, it prints why and does
/// not fail.
pub(crate) fn run(root: &Path, suite: &Suite, args: &Offline) -> Result {
    let tools = Tools::default().and(root, suite.tools, !args.offline);
    for line in &tools.missing {
        println!("skipped: {line}");
    }
    if !suite.tools.is_empty() && tools.missing.len() == suite.tools.len() {
        return Ok(());
    }
    let mut command = cargo(root, &["test"]);
    command.args(suite.words);
    command.envs(suite.more.filter(is_unset));
    run_and_sum_up(tools.tell(&mut command), suite.groups, suite.summary)
}

fn is_unset((name, _): &(&str, &str)) -> bool {
    std::env::var_os(name).is_none()
}

/// Runs the tests of these groups. Fails if a group has none, at which cargo succeeds.
pub(crate) fn run_groups(command: &mut Command, groups: &[&str]) -> Result {
    run_and_sum_up(command, groups, None)
}

/// Like [`run_groups`]. With a `summary`, it also fails if the tests print no line that contains
/// this text. The end of the last such line, from the text on, is printed again after all tests.
fn run_and_sum_up(command: &mut Command, groups: &[&str], summary: Option<&str>) -> Result {
    command.arg("--").args(groups).arg("--nocapture");
    let mut counts = Counts::new(groups.iter().copied());
    let mut last = None;
    run_lines(command, |line| {
        println!("{line}");
        counts.note(line);
        // It may stand behind the name of the test.
        if let Some(at) = summary.and_then(|beginning| line.find(beginning)) {
            last = Some(line[at..].to_owned());
        }
    })?;
    counts.all_ran()?;
    if let Some(beginning) = summary {
        println!("\n{}", last.ok_or(format!("no line of {beginning:?}"))?);
    }
    Ok(())
}

/// The numbers of tests that ran and that failed, by the first parts of their names. A group with
/// `::` is the beginning of names.
struct Counts<'a>(BTreeMap<&'a str, (u64, u64)>);

impl<'a> Counts<'a> {
    fn new(groups: impl Iterator<Item = &'a str>) -> Self {
        Self(groups.map(|group| (group, (0, 0))).collect())
    }

    /// Counts a line such as `test embedded::newest_first ... ok`. The outcome of a test that
    /// prints is on a later line.
    fn note(&mut self, line: &str) {
        let Some(test) = line.strip_prefix("test ") else {
            return;
        };
        for (group, (ran, failed)) in &mut self.0 {
            let rest = test.strip_prefix(*group);
            let is_of = rest.is_some_and(|it| group.contains("::") || it.starts_with("::"));
            if is_of && !test.contains(" ... ignored") {
                *ran += 1;
                *failed += u64::from(test.ends_with(" FAILED"));
            }
        }
    }

    fn all_ran(&self) -> Result {
        match self.0.iter().find(|(_, (ran, _))| *ran == 0) {
            Some((group, _)) => Err(format!("no test of {group} ran")),
            None if self.0.is_empty() => Err("there are no groups of tests".to_owned()),
            None => Ok(()),
        }
    }
}

/// Runs the store's contract suite unchanged on every backend, and counts the passed cases of each.
/// It fails if no case ran on a backend that the suite names.
pub(crate) fn contract(root: &Path, args: &Offline) -> Result {
    /// The suite, with a line `contract!(NAME);` for each backend.
    const SUITE: &str = "crates/tidings-store/tests/contract/main.rs";
    /// The features of the backends.
    const FEATURES: &str = "etcd";
    let suite = read(&root.join(SUITE))?;
    let mut counts = Counts::new(backends(&suite));
    let tools = Tools::find(root, !args.offline);
    let mut command = cargo(
        root,
        &["test", "-p", "tidings-store", "--features", FEATURES],
    );
    command.args(["--test", "contract", "--no-fail-fast"]);
    command.envs(Some(("TIDINGS_STORE_HISTORIES", "100")).filter(is_unset));
    let result = run_lines(tools.tell(&mut command), |line| {
        println!("{line}");
        counts.note(line);
    });
    println!();
    for (backend, (ran, failed)) in &counts.0 {
        let passed = ran - failed;
        // Without etcd its cases are skipped.
        if *backend == "etcd" && tools.program("ETCD").is_none() {
            println!("{backend:16} skipped: there is no etcd");
        } else {
            println!("{backend:16} {passed} passed, {failed} failed");
        }
    }
    result.and(counts.all_ran())
}

/// The backends that the contract suite names.
fn backends(suite: &str) -> impl Iterator<Item = &str> {
    suite
        .lines()
        .filter_map(|line| line.strip_prefix("contract!(")?.strip_suffix(");"))
}

#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// Do not build kube-apiserver and Helm (about ten minutes the first time) or fetch anything,
    /// and watch only as long as the restarts take
    #[arg(long)]
    short: bool,
    /// Measure: an archive of a million events, and lists of 25,000 rows
    #[arg(long)]
    measure: bool,
    /// The archive's program, such as one of the profile dist, instead of one for debugging
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Installs the chart with Helm into a real kube-apiserver, found or built, and reads what is past
/// through it, as several users and for ten minutes.
pub(crate) fn install(root: &Path, args: &Install) -> Result {
    let may_build = !args.short;
    let tools = Tools::find(root, may_build).and(root, &[KUBE_APISERVER, HELM], may_build);
    if !tools.suffice(&[KUBECTL, ETCD, KUBE_APISERVER, HELM]) {
        return Ok(());
    }
    let mut test = cargo(root, &["test", "-p", "tidings-cli", "--test", "verbs"]);
    test.envs(
        args.program
            .iter()
            .map(|it| ("TIDINGS_PROGRAM", root.join(it))),
    );
    if !args.short {
        // The watch outlives a restart of the archive and of kube-apiserver.
        test.env("TIDINGS_WATCH_SECONDS", "600");
    }
    if !args.measure {
        return run_groups(tools.tell(&mut test), &["among_many::", "installed::"]);
    }
    test.env("TIDINGS_PAST_EVENTS", "1000000");
    test.env("TIDINGS_ROWS", "25000");
    run_groups(tools.tell(&mut test), &["among_many::"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_the_beginnings_of_their_names() {
        let suite = "macro_rules! contract {\n    ($backend:ident) => {};\n}\n\ncontract!(memory);\n\
             contract!(embedded);\ncontract!(embedded_roomy);\n#[cfg(feature = \"new\")]\ncontract!(new);\n";
        let mut counts = Counts::new(backends(suite).chain(["crash::"]));
        for line in [
            "running 90 tests",
            "test embedded::newest_first ... ok",
            "test embedded::lists_by_object ... FAILED",
            "test embedded::random_histories ... 100 histories",
            "test embedded_roomy::newest_first ... ok",
            "test memory::newest_first ... ok",
            "test crash::child ... ignored, run by the test below",
            "test others::crash::child ... ok",
            "test result: ok. 3 passed",
        ] {
            counts.note(line);
        }
        let counted: Vec<_> = counts.0.iter().map(|(group, it)| (*group, *it)).collect();
        assert_eq!(
            counted,
            [
                ("crash::", (0, 0)),
                ("embedded", (3, 1)),
                ("embedded_roomy", (1, 0)),
                ("memory", (1, 0)),
                ("new", (0, 0))
            ]
        );
        assert_eq!(counts.all_ran(), Err("no test of crash:: ran".to_owned()));
    }
}
