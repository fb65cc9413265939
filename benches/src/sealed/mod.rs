//! Measures readers of an archive on object storage: `tidings serve --archive`, over an S3 server
//! whose answers are delayed as those of a cloud are.

mod ask;
mod extent;
mod fill;
mod real;

use std::path::PathBuf;

use crate::Failure;
pub use extent::Extent;

/// The part that is measured.
#[derive(clap::Subcommand)]
pub enum Part {
    /// Fill the folder of an S3 server with an archive of invented events
    Fill {
        /// The folder
        folder: PathBuf,
    },
    /// Ask questions of readers of the archive that were just started, and repeat them
    Ask(ask::Asked),
    /// Make an archive of real events, and print its size
    Real {
        /// A folder of real events as JSON Lines
        captures: PathBuf,
    },
}

/// Measures a part.
pub async fn run(part: Part, extent: Extent) -> Result<(), Failure> {
    match part {
        Part::Fill { folder } => fill::fill(&folder, extent).await,
        Part::Ask(asked) => ask::ask(&asked, extent).await,
        Part::Real { captures } => real::real(&captures, extent.events).await,
    }
}
