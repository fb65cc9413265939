//! Loads an Event API server with creates, patches, reads among many events, and watchers, and
//! prints how long they took.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tidings_bench::serving::{self, LoadError, Plan, Reads, Stretch, Target};
use tidings_bench::{Figure, ended, resident_bytes};

/// Loads an Event API server, and prints figures as lines of JSON.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the server, of which the authority and a token are used
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Name of the server in the figures
    #[arg(long, default_value = "tidings")]
    peer: String,
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Wait until the server is ready
    Ready,
    /// Create events
    Creates(Timed),
    /// Patch events as a recorder does
    Patches(Timed),
    /// Create a number of events, twenty about each object
    Fill {
        #[arg(long, default_value_t = 25_000)]
        events: u64,
        #[arg(long, default_value_t = 64)]
        connections: usize,
    },
    /// Read what `fill` created
    Reads {
        #[arg(long, default_value_t = 25_000)]
        events: u64,
        #[arg(long, default_value_t = 20)]
        rounds: u64,
    },
    /// List everything, while nothing is written and beside creates at a steady rate
    Lists {
        #[arg(long, default_value_t = 5)]
        rounds: u64,
        #[arg(long, default_value_t = 5_000)]
        per_second: u64,
    },
    /// Watch everything, with many watchers
    Watch {
        #[arg(long, default_value_t = 1_000)]
        watchers: usize,
        #[arg(long, default_value_t = 200)]
        events: u64,
        /// Events per second [default: as fast as they are accepted]
        #[arg(long)]
        per_second: Option<f64>,
    },
    /// Write and watch for a long time, and account for every event
    Soak {
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        #[arg(long, default_value_t = 1_000)]
        per_second: u64,
        #[arg(long, default_value_t = 200)]
        watchers: usize,
        /// Seconds for which the server keeps an event
        #[arg(long, default_value_t = 60)]
        ttl: u64,
        /// The server's process, whose memory is printed
        #[arg(long)]
        process: Option<u32>,
    },
}

#[derive(clap::Args)]
struct Timed {
    #[arg(long)]
    connections: usize,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The pause between attempts to reach a server that is starting, and their maximum number.
const READY_POLL: Duration = Duration::from_millis(20);
const READY_POLLS: u32 = 6_000;

// One thread, so that the load uses as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), LoadError> {
    let target = Target::from_kubeconfig(&arguments.kubeconfig).await?;
    let figure = |name: &str| Figure::of(&arguments.peer, name);
    // Names differ between runs, so that two runs against one server do not use the same.
    let run = format!("{:x}.", std::process::id());
    if !matches!(arguments.part, Part::Ready) {
        serving::make_namespaces(&target).await?;
    }
    match arguments.part {
        Part::Ready => {
            ready(&target).await?;
            figure("ready").print();
        }
        Part::Creates(Timed {
            connections,
            seconds,
        }) => {
            let load =
                serving::creates(&target, &run, connections, Duration::from_secs(seconds)).await?;
            print_load(figure(&format!("creates_{connections}")), load);
        }
        Part::Patches(Timed {
            connections,
            seconds,
        }) => {
            let load =
                serving::patches(&target, &run, connections, Duration::from_secs(seconds)).await?;
            print_load(figure(&format!("patches_{connections}")), load);
        }
        Part::Fill {
            events,
            connections,
        } => {
            let load = serving::fill(&target, &run, connections, events).await?;
            print_load(figure("fill"), load);
        }
        Part::Reads { events, rounds } => {
            let reads = serving::reads(&target, events, rounds).await?;
            print_reads(figure, reads);
        }
        Part::Lists { rounds, per_second } => {
            let mut lists = serving::lists(&target, &run, rounds, per_second).await?;
            let (idle, beside) = (median(&mut lists.idle), median(&mut lists.beside));
            figure("lists")
                .with("idle_seconds", idle)
                .with("beside_seconds", beside)
                .with("ratio", beside / idle)
                .with("creates_per_second", lists.per_second)
                .with("creates_p99_ms", lists.creates.percentile_ms(0.99))
                .print();
        }
        Part::Watch {
            watchers,
            events,
            per_second,
        } => {
            let mut fan_out = serving::fan_out(&target, &run, watchers, events, per_second).await?;
            let name = if per_second.is_some() {
                "watch_paced"
            } else {
                "watch_burst"
            };
            figure(name)
                .with("per_second", fan_out.rate())
                .with("p50_ms", fan_out.delays.percentile_ms(0.5))
                .with("p99_ms", fan_out.delays.percentile_ms(0.99))
                .print();
        }
        Part::Soak {
            seconds,
            per_second,
            watchers,
            ttl,
            process,
        } => {
            let plan = Plan {
                time: Duration::from_secs(seconds),
                per_second,
                watchers,
                ttl: Duration::from_secs(ttl),
            };
            soak(&target, &run, plan, process, figure).await?;
        }
    }
    Ok(())
}

fn print_reads(figure: impl Fn(&str) -> Figure, mut reads: Reads) {
    for (name, latencies) in [
        ("one_object", &mut reads.one_object),
        ("one_object_of_all", &mut reads.one_object_of_all),
        ("first_page", &mut reads.first_page),
        ("everything", &mut reads.everything),
    ] {
        figure(name)
            .with("p50_ms", latencies.percentile_ms(0.5))
            .with("p99_ms", latencies.percentile_ms(0.99))
            .print();
    }
    figure("everything_size")
        .with("bytes", reads.everything_bytes as f64)
        .print();
}

async fn soak(
    target: &Target,
    run: &str,
    plan: Plan,
    process: Option<u32>,
    figure: impl Fn(&str) -> Figure,
) -> Result<(), LoadError> {
    let minute = |mut stretch: Stretch| {
        figure("soak_minute")
            .with("until_s", stretch.until.as_secs_f64())
            .with("count", stretch.writes.count() as f64)
            .with("p50_ms", stretch.writes.percentile_ms(0.5))
            .with("p99_ms", stretch.writes.percentile_ms(0.99))
            .with(
                "bytes",
                process.and_then(resident_bytes).unwrap_or_default() as f64,
            )
            .print();
    };
    let mut account = serving::soak(target, run, plan, minute).await?;
    figure("soak")
        .with("written", account.written as f64)
        .with("lost", account.lost as f64)
        .with("doubled", account.doubled as f64)
        .with("immortal", account.immortal as f64)
        .with("early", account.early as f64)
        .with("late_p50_ms", account.lateness.percentile_ms(0.5))
        .with("late_max_ms", account.lateness.percentile_ms(1.))
        .print();
    if account.lost + account.doubled + account.immortal + account.early > 0 {
        return Err(LoadError::Answer(
            "not every watcher saw every event come once and go once, on time".to_owned(),
        ));
    }
    Ok(())
}

fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

fn print_load(figure: Figure, mut load: serving::Load) {
    figure
        .with("count", load.latencies.count() as f64)
        .with("per_second", load.rate())
        .with("p50_ms", load.latencies.percentile_ms(0.5))
        .with("p99_ms", load.latencies.percentile_ms(0.99))
        .print();
}

/// Waits until the server says that it is ready.
async fn ready(target: &Target) -> Result<(), LoadError> {
    let mut polls = 0;
    loop {
        let answer = async { target.connect().await?.read("/readyz", "*/*").await };
        match answer.await {
            Ok(_) => return Ok(()),
            Err(error) if polls == READY_POLLS => return Err(error),
            Err(_) => polls += 1,
        }
        tokio::time::sleep(READY_POLL).await;
    }
}
