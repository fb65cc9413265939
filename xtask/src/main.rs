//! The tasks of the project; `cargo xtask --help` lists them. Nothing here is needed to
//! build or use tidings.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the terminal it was started from"
)]

mod bench;
mod command;
mod image;
mod judge;
mod mutants;
mod outage;
mod readme;
mod release;
mod suites;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use suites::Offline;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The tasks of the project")]
enum Task {
    /// Every test, from nothing
    Test(Offline),
    /// The rules of the repository: layers, rooms, files, columns, links
    Tidy,
    /// The store's contract suite, counted for each backend
    Contract(Offline),
    /// Kills a writing process of the store repeatedly, and checks the store
    Crash,
    /// Kills servers and recorders under a stream of events, and accounts for each event
    Outage(outage::Args),
    /// Kills the archive, its source and their connections under a stream of events: every version
    /// must be kept once
    Archive(judge::Archive),
    /// Fails each request of an archive's writer in turn, and kills it at each step
    Faults,
    /// Archives in a container of Azure and in a bucket of Google, on emulators
    Clouds(Offline),
    /// Sends what feeds send to real receivers, and compares what they have; then kills an archive
    /// with feeds to them, and accounts for each version
    Feeds(judge::Args),
    /// Programs of others judge the tools for agents: conformance suite, inspector, Python client
    Mcp(Offline),
    /// Hostile input to a server, and its cost: time, memory, and the wait of other clients
    Hostile(judge::Args),
    /// Makes faults in a crate one at a time, and lists those that no test notices
    Mutants(mutants::Args),
    /// Tests the container file without a registry
    Image,
    /// Installs the chart into a real kube-apiserver, and reads what is past through it
    Install(suites::Install),
    /// Makes what a release consists of: programs, image, chart, plugin manifest, bill of materials
    Release(release::Args),
    /// Our figures beside those of client-go and kube-rs
    #[command(subcommand)]
    Bench(bench::Bench),
    /// A long, steady load on our server, with watchers that check every event
    Soak(bench::soak::Args),
    /// The README's program, compiled in an empty crate
    Readme,
    /// Sends our server and a real kube-apiserver the same requests, and compares the answers
    Reference(judge::Args),
}

fn main() -> ExitCode {
    let task = Task::parse();
    let root = root();
    let result = match task {
        Task::Test(args) => test::run(&root, &args, &Task::command()),
        Task::Tidy => tidy::run(&root, &Task::command()),
        Task::Contract(args) => suites::contract(&root, &args),
        Task::Crash => suites::run(&root, &suites::CRASH, &Offline::default()),
        Task::Outage(args) => outage::run(&root, &args),
        Task::Archive(args) => judge::archive(&root, &args),
        Task::Faults => suites::run(&root, &suites::FAULTS, &Offline::default()),
        Task::Clouds(args) => suites::run(&root, &suites::CLOUDS, &args),
        Task::Feeds(args) => judge::feeds(&root, &args),
        Task::Mcp(args) => suites::run(&root, &suites::MCP, &args),
        Task::Hostile(args) => judge::hostile(&root, &args),
        Task::Mutants(args) => mutants::run(&root, &args),
        Task::Image => image::run(&root),
        Task::Install(args) => suites::install(&root, &args),
        Task::Release(args) => release::run(&root, &args),
        Task::Bench(bench) => bench::run(&root, &bench),
        Task::Soak(args) => bench::soak::run(&root, &args),
        Task::Readme => readme::run(&root),
        Task::Reference(args) => judge::reference(&root, &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the repository, wherever the command was started.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}
