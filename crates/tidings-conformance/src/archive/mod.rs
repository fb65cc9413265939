//! The archive judged from outside: `tidings archive` follows a source through a proxy while it,
//! the source and their connections are killed, cut, held and damaged. A ledger has every version
//! that the source acknowledged; each must be in the archive once, or in a reported gap.

mod archived;
mod collector;
mod faults;
mod feeds;
mod footprint;
mod kills;
mod ledger;
mod proxy;
mod small_disk;
mod soak;
mod source;
mod stage;
mod writer;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use kills::Plan;
use source::Programs;
use stage::Stage;

use crate::error::{Result, fail};

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum SourceKind {
    Tidings,
    KubeApiserver,
}

/// The arguments of this suite.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// The kind of source.
    #[arg(long, value_enum, default_value_t = SourceKind::Tidings)]
    source: SourceKind,
    /// Time for which events are written, in seconds.
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// Events written per second, to all sources together.
    #[arg(long, default_value_t = 200)]
    per_second: u64,
    /// Number of kills of the archive.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Number of kills of the source.
    #[arg(long, default_value_t = 20)]
    source_kills: u32,
    /// Longest time for which connections are held, in seconds.
    #[arg(long, default_value_t = 70)]
    hold: u64,
    /// A collector to run beside the archive, and to kill as often.
    #[arg(long, env = "OTEL_COLLECTOR", value_name = "PROGRAM")]
    collector: Option<PathBuf>,
    /// One fault at a time instead: the state that the archive reports, and its gaps.
    #[arg(long)]
    faults: bool,
    /// Without faults, but with this number of sources: memory, and the progress of each.
    #[arg(long, value_name = "SOURCES", conflicts_with = "faults")]
    soak: Option<usize>,
    /// Without faults: memory and processor time, with these numbers of events at the source.
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', conflicts_with_all = ["faults", "soak"])]
    footprint: Vec<u64>,
    /// The kube-apiserver to follow.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    kube_apiserver: Option<PathBuf>,
    /// The etcd of some of these faults, and of kube-apiserver.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
    /// Feeds to real receivers instead: each version must be at each receiver, or accounted for.
    #[arg(long, conflicts_with_all = ["faults", "soak", "footprint"])]
    feeds: bool,
    /// VictoriaLogs, for feeds.
    #[arg(long, env = "VICTORIA_LOGS", value_name = "PROGRAM")]
    victoria_logs: Option<PathBuf>,
    /// A Python with chDB, for feeds.
    #[arg(long, env = "ENGINES_PYTHON", value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// With feeds: an OpenTelemetry collector follows the source, too.
    #[arg(long, requires = "feeds")]
    beside: bool,
    /// Only faults with this in their name.
    #[arg(long, value_name = "TEXT", requires = "faults")]
    only: Option<String>,
    /// The seed of random numbers, to repeat a run [default: a new one each time].
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the suite as the arguments say. Returns whether the archive passed.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    writeln!(out, "seed {seed}")?;
    out.flush()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut programs = Programs {
        tidings: args.tidings.clone(),
        etcd: args.etcd.clone(),
        kube_apiserver: None,
    };
    if args.source == SourceKind::KubeApiserver {
        programs.kube_apiserver.clone_from(&args.kube_apiserver);
        if programs.kube_apiserver.is_none() {
            return fail("there is no kube-apiserver: --kube-apiserver names none");
        }
    }
    if args.faults {
        return faults::run(&programs, args.only.as_deref(), &mut random, out).await;
    }
    let time = Duration::from_secs(args.seconds);
    if let Some(sources) = args.soak {
        let plan = soak::Plan {
            time,
            sources,
            per_second: args.per_second,
        };
        return soak::run(&programs, &plan, &mut random, out).await;
    }
    if !args.footprint.is_empty() {
        let plan = footprint::Plan {
            live: args.footprint.clone(),
            per_second: args.per_second,
            time,
            collector: args.collector.clone(),
        };
        footprint::run(&programs, &plan, &mut random, out).await?;
        return Ok(true);
    }
    if args.feeds {
        let [Some(victoria_logs), Some(collector), Some(python)] =
            [&args.victoria_logs, &args.collector, &args.python]
        else {
            return fail("--feeds needs --victoria-logs, --collector and --python");
        };
        let receivers = feeds::Receivers {
            victoria_logs: victoria_logs.clone(),
            collector: collector.clone(),
            python: python.clone(),
        };
        let plan = feeds::Plan {
            time,
            per_second: args.per_second,
            kills: args.kills,
            receivers,
            is_compared: args.beside,
        };
        return feeds::run(&programs, &plan, &mut random, out).await;
    }
    let plan = Plan {
        time,
        per_second: args.per_second,
        archive_kills: args.kills,
        source_kills: args.source_kills,
        hold: Duration::from_secs(args.hold),
        collector: args.collector.clone(),
    };
    let stage = Stage::start(&programs, &[]).await?;
    kills::run(stage, plan, &mut random, out).await
}
