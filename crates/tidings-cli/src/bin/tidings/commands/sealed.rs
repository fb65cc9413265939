//! `tidings sealed`: what `tidings archive --objects` has sealed, and whether it is whole.

use std::io::{self, Write};
use std::process::ExitCode;

use tidings_objects::{Checked, Manifest, Place, check, newest};

use super::cluster::tell;

/// Everything is as it should be.
const WHOLE: u8 = 0;
/// Something is wrong, or could not be read.
const FAILED: u8 = 1;

/// Show what tidings archive --objects has sealed, and check it.
///
/// A line for each cluster: versions, files and bytes, and from when to when they were observed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0    shown; with --check, everything is whole
  1    something is missing or damaged, or could not be read
  2    wrong arguments

Examples:
  tidings sealed s3://events/archive
  tidings sealed file:///srv/events --check

  # Count the Warnings of a cluster with DuckDB
  duckdb -c \"select reason, count(*) from read_parquet([$(tidings sealed file:///srv/events \\
    --cluster prod --files | sed \\\"s/.*/'&'/\\\" | paste -sd,)]) where type = 'Warning' group by 1\"")]
pub(crate) struct Args {
    /// URL of the archive, as for tidings archive --objects
    #[arg(value_name = "URL")]
    url: String,
    /// Only this cluster [default: all]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Read everything, and compare it with the manifest: checksums, counts, sums, order, and each
    /// column with what the event says
    #[arg(long)]
    check: bool,
    /// Print the URLs of the files instead, one a line: paths where the archive is in a folder
    ///
    /// Only these are part of the archive. Beside them there may be files that were merged, and are
    /// left for a while to those who read them.
    #[arg(long, conflicts_with = "check")]
    files: bool,
}

/// Shows or checks an archive.
pub(crate) async fn run(args: Args) -> ExitCode {
    match sealed(args).await {
        Ok(true) => ExitCode::from(WHOLE),
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            tell(&format!("error: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Whether nothing is wrong, as far as was looked.
async fn sealed(args: Args) -> Result<bool, Box<dyn std::error::Error>> {
    let place = Place::open(&args.url)?;
    let clusters = match args.cluster {
        Some(cluster) => vec![cluster],
        None => place.clusters().await?,
    };
    if clusters.is_empty() {
        return Err(format!("there is no archive at {}", place.url()).into());
    }
    let mut out = io::stdout();
    let mut is_whole = true;
    for cluster in clusters {
        if args.check {
            let checked = check(&place, &cluster).await?;
            is_whole &= checked.problems.is_empty();
            writeln!(out, "{}", line(&checked.manifest))?;
            for text in words(&checked) {
                writeln!(out, "  {text}")?;
            }
            continue;
        }
        let manifest = newest(&place, &cluster).await?;
        if args.files {
            let root = place.url().strip_prefix("file://").unwrap_or(place.url());
            for file in &manifest.files {
                writeln!(out, "{root}/{cluster}/{}", file.path)?;
            }
        } else {
            writeln!(out, "{}", line(&manifest))?;
        }
    }
    Ok(is_whole)
}

/// What a manifest says, in a line.
fn line(manifest: &Manifest) -> String {
    let from = manifest.files.iter().map(|file| file.from).min();
    let to = manifest.files.iter().map(|file| file.to).max();
    let times = from
        .zip(to)
        .map(|(from, to)| format!(", from {from:.0} to {to:.0}"));
    format!(
        "{}: {} versions in {} files, {} bytes{}",
        manifest.cluster,
        manifest.rows(),
        manifest.files.len(),
        manifest.bytes(),
        times.unwrap_or_default(),
    )
}

/// What was found by reading everything.
fn words(checked: &Checked) -> Vec<String> {
    let mut words = checked.problems.clone();
    if words.is_empty() {
        words.push(format!(
            "all {} versions are there, and as they were written",
            checked.rows
        ));
    }
    if checked.manifest.gone > 0 {
        let gone = checked.manifest.gone;
        words.push(format!(
            "{gone} ended or were deleted before they were sealed"
        ));
    }
    if checked.leavings > 0 {
        let leavings = checked.leavings;
        words.push(format!(
            "{leavings} files are of no manifest, and will be deleted"
        ));
    }
    words
}
