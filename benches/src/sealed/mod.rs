//! Measures readers of an archive on object storage: `tidings serve --archive`, over an S3 server
//! whose answers are delayed as those of a cloud are.

mod ask;
mod extent;
mod fill;
mod real;

use std::path::PathBuf;

use crate::Failure;
use extent::Extent;

/// Measures one part, and prints figures as lines of JSON.
#[derive(clap::Parser)]
pub struct Arguments {
    #[command(flatten)]
    extent: Extent,
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Fill the folder of an S3 server with an archive of invented events
    Fill { folder: PathBuf },
    /// Ask questions of readers of the archive that were just started, and repeat them
    Ask(ask::Asked),
    /// Make an archive of real events from a folder of JSON Lines, and print its size
    Real { captures: PathBuf },
}

/// Measures a part.
pub async fn run(Arguments { extent, part }: Arguments) -> Result<(), Failure> {
    match part {
        Part::Fill { folder } => fill::fill(&folder, extent).await,
        Part::Ask(asked) => ask::ask(&asked, extent).await,
        Part::Real { captures } => real::real(&captures, extent.events).await,
    }
}
