//! `cargo xtask bench timeline` and `mcp`: measure a server that has a million events of a month.
//!
//! - `timeline`: the answers of its timeline, and the page in Chromium beside vis-timeline with
//!   some of the events. With another number of events, only what depends on it is measured.
//! - `mcp`: the tools of the Model Context Protocol, each beside the answer that it reads.

use std::path::Path;
use std::process::Command;

use super::figure::{Built, Figure, Output, figures};
use super::server::Running;
use super::tables;
use crate::command::{Result, find};
use crate::tools::VIS_TIMELINE;

/// The number of events in the tables of docs/benchmarks.md.
const EVENTS: u64 = 1_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// Number of events; tables of another one than the default are not written
    #[arg(long, default_value_t = EVENTS)]
    events: u64,
    /// Number of times each answer is asked for
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// Time for which a tab follows new events, in minutes; 0 means not at all
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    #[command(flatten)]
    built: Built,
}

#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    built: Built,
}

/// Fills and starts a server, and measures it by a function that runs the parts of the measuring
/// program.
fn measured(
    root: &Path,
    built: &Built,
    events: u64,
    measure: impl FnOnce(&str, &dyn Fn(&[&str]) -> Result<Vec<Figure>>) -> Result,
) -> Result {
    let timeline = built.bench(root, "timeline")?;
    let part = |words: &[&str]| {
        let mut command = Command::new(&timeline);
        figures(command.arg(format!("--events={events}")).args(words))
    };
    let server = Running::start_filled(root, built, |data| part(&["fill", data]))?;
    measure(&server.kubeconfig.to_string_lossy(), &part)
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "timeline")?;
    let is_main = args.events == EVENTS;
    let mut skipped = Vec::new();
    if !is_main {
        skipped.push(format!(
            "what does not depend on the number of events, here not {EVENTS}"
        ));
    }
    measured(root, &args.built, args.events, |kubeconfig, part| {
        let rounds = format!("--rounds={}", args.rounds);
        let answers = part(&["answers", kubeconfig, &rounds])?;
        let (mut page, mut live) = (Vec::new(), Vec::new());
        if find("chromium").is_none() || find("chromedriver").is_none() {
            skipped.push("no chromium with its chromedriver on the PATH".to_owned());
        } else {
            page.extend(part(&["page", kubeconfig])?);
            if is_main && args.minutes > 0 {
                let minutes = format!("--minutes={}", args.minutes);
                live.extend(part(&["live", kubeconfig, &minutes])?);
            } else {
                skipped.push("the tab that follows".to_owned());
            }
            if is_main {
                match VIS_TIMELINE.find(root, true) {
                    Ok(file) => {
                        let package = file.parent().unwrap_or(&file).to_string_lossy();
                        page.extend(part(&["peer", &package])?);
                    }
                    Err(reason) => skipped.push(format!("no vis-timeline: {reason}")),
                }
            }
        }
        let tables = tables::timeline(&answers, &page, &live);
        let tables = format!("{}\n{tables}", args.built.machine());
        args.output.put(root, "timeline", &tables, &skipped)
    })
}

pub(super) fn tools(root: &Path, args: &McpArgs) -> Result {
    args.output.check(root, "mcp")?;
    measured(root, &args.built, EVENTS, |kubeconfig, part| {
        let found = part(&["tools", kubeconfig])?;
        let table = format!("{}\n{}", args.built.machine(), tables::tools(&found));
        args.output.put(root, "mcp", &table, &[])
    })
}
