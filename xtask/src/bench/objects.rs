//! `cargo xtask bench objects`: measures readers of an archive of several clusters over months, on
//! an S3 server that takes 20 ms for each request: the time of each question, first and repeated.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Built, Output, figures, real_events};
use super::server::folder;
use super::tables;
use crate::command::Result;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// Number of clusters
    #[arg(long, default_value_t = 30)]
    clusters: u64,
    /// Days over which their events happened
    #[arg(long, default_value_t = 90)]
    days: u64,
    /// Number of events of all clusters
    #[arg(long, default_value_t = 3_000_000)]
    events: u64,
    /// Folder where the archive is made and stays, or is from before [default: one that is removed]
    #[arg(long)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "objects")?;
    let (clusters, days, events) = (args.clusters, args.days, args.events);
    let tidings = args.built.tidings(root)?;
    let objects = args.built.bench(root, "objects")?;
    let temporary = folder()?;
    let place = args.folder.as_deref().unwrap_or(temporary.path());
    let sizes = format!("--clusters={clusters} --days={days} --events={events}");
    let bench = || {
        let mut command = Command::new(&objects);
        command.args(sizes.split(' '));
        command
    };
    let mut measured = Vec::new();
    if !place.join("events").exists() {
        measured.extend(figures(bench().arg("fill").arg(place))?);
    }
    let mut ask = bench();
    ask.arg("ask").arg(place).arg("--tidings").arg(tidings);
    measured.extend(figures(&mut ask)?);
    if let Some(captures) = real_events() {
        let mut real = Command::new(&objects);
        measured.extend(figures(
            real.args(["--events=200000", "real"]).arg(captures),
        )?);
    }
    let tables = format!(
        "{}\n{events} events of {clusters} clusters and {days} days; 20 ms for each request; 20 \
         readers for each question.\n\n{}",
        args.built.machine(),
        tables::objects(&measured)
    );
    args.output.put(root, "objects", &tables, &[])
}
