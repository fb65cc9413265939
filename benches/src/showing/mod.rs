//! Measures the timeline: its answers as a client gets them, and the page in a browser, beside
//! vis-timeline with the same events.
//!
//! - `cluster`: invents the events of a cluster over days.
//! - `fill`: fills the data folder of a server with them.
//! - `answers`: makes the page's requests, for random times.
//! - `tools`: calls the tools of the Model Context Protocol, and requests the answers they read.
//! - `page`: measures the page itself, by the browser's clock.
//! - `peer`: measures vis-timeline in the same browser.

mod answers;
pub(crate) mod cluster;
mod fill;
mod page;
mod peer;
mod tab;
mod tools;

use std::path::PathBuf;

use crate::Failure;
use crate::serving::Target;

/// Measures one part, and prints figures as lines of JSON.
#[derive(clap::Parser)]
pub struct Arguments {
    /// Number of events of the cluster.
    #[arg(long, global = true, default_value_t = 1_000_000)]
    events: u64,
    /// Days over which they happened.
    #[arg(long, global = true, default_value_t = 30)]
    days: i64,
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Fill the data folder of a server
    Fill { folder: PathBuf },
    /// The answers of the server's timeline
    Answers {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 50)]
        rounds: u64,
    },
    /// The tools of the Model Context Protocol, beside the answers that they read
    Tools { kubeconfig: PathBuf },
    /// The page in a browser
    Page { kubeconfig: PathBuf },
    /// The memory of a tab that follows new events
    Live {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        #[arg(long, default_value_t = 10)]
        per_second: u64,
    },
    /// vis-timeline, an npm package, with the latest events
    Peer { package: PathBuf },
}

/// Measures a part.
pub async fn run(Arguments { events, days, part }: Arguments) -> Result<(), Failure> {
    match part {
        Part::Fill { folder } => fill::fill(&folder, events, days, millis()).await,
        Part::Answers { kubeconfig, rounds } => {
            answers::answers(&Target::from_kubeconfig(&kubeconfig).await?, rounds).await
        }
        Part::Tools { kubeconfig } => {
            tools::tools(&Target::from_kubeconfig(&kubeconfig).await?).await
        }
        Part::Page { kubeconfig } => page::page(&Target::from_kubeconfig(&kubeconfig).await?),
        Part::Live {
            kubeconfig,
            minutes,
            per_second,
        } => {
            let target = Target::from_kubeconfig(&kubeconfig).await?;
            page::live(&target, minutes, per_second, millis).await
        }
        Part::Peer { package } => peer::peer(&package, events, days, millis()),
    }
}

/// The time in milliseconds since 1970, when the events end.
#[expect(clippy::disallowed_methods, reason = "the events end now")]
fn millis() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
