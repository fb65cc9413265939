//! The tasks of the project; `cargo xtask --help` lists them. Nothing here is needed to
//! build or use tidings.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the terminal it was started from"
)]

mod archive;
mod bench;
mod clouds;
mod collector;
mod command;
mod contract;
mod crash;
mod engines;
mod faults;
mod feeds;
mod helm;
mod hostile;
mod image;
mod install;
mod kube_apiserver;
mod mcp;
mod mutants;
mod npm;
mod outage;
mod readme;
mod reference;
mod release;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The tasks of the project")]
enum Task {
    /// Every test, from nothing
    Test(test::Args),
    /// The rules of the repository: layers, rooms, files, columns, links
    Tidy,
    /// The store's contract suite, counted for each backend
    Contract(contract::Args),
    /// Kills a writing process of the store repeatedly, and checks the store
    Crash(crash::Args),
    /// Kills servers and recorders under a stream of events, and accounts for each event
    Outage(outage::Args),
    /// Kills the archive, its source and their connections under a stream of events: every version
    /// must be kept once
    Archive(archive::Args),
    /// Fails each request of an archive's writer in turn, and kills it at each step
    Faults,
    /// Archives in a container of Azure and in a bucket of Google, on emulators
    Clouds(clouds::Args),
    /// Sends what feeds send to real receivers, and compares what they have; then kills an archive
    /// with feeds to them, and accounts for each version
    Feeds(feeds::Args),
    /// Programs of others judge the tools for agents: conformance suite, inspector, Python client
    Mcp(mcp::Args),
    /// Hostile input to a server, and its cost: time, memory, and the wait of other clients
    Hostile(hostile::Args),
    /// Makes faults in a crate one at a time, and lists those that no test notices
    Mutants(mutants::Args),
    /// Tests the container file without a registry
    Image(image::Args),
    /// Installs the chart into a real kube-apiserver, and reads what is past through it
    Install(install::Args),
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
    Reference(reference::Args),
}

fn main() -> ExitCode {
    let task = Task::parse();
    let root = root();
    let result = match task {
        Task::Test(args) => test::run(&root, &args, &Task::command()),
        Task::Tidy => tidy::run(&root, &Task::command()),
        Task::Contract(args) => contract::run(&root, &args),
        Task::Crash(args) => crash::run(&root, &args),
        Task::Outage(args) => outage::run(&root, &args),
        Task::Archive(args) => archive::run(&root, &args),
        Task::Faults => faults::run(&root),
        Task::Clouds(args) => clouds::run(&root, &args),
        Task::Feeds(args) => feeds::run(&root, &args),
        Task::Mcp(args) => mcp::run(&root, &args),
        Task::Hostile(args) => hostile::run(&root, &args),
        Task::Mutants(args) => mutants::run(&root, &args),
        Task::Image(args) => image::run(&root, &args),
        Task::Install(args) => install::run(&root, &args),
        Task::Release(args) => release::run(&root, &args),
        Task::Bench(bench) => bench::run(&root, &bench),
        Task::Soak(args) => bench::soak::run(&root, &args),
        Task::Readme => readme::run(&root),
        Task::Reference(args) => reference::run(&root, &args),
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
