//! Loads Event API servers. Ours, kube-apiserver, and one that only echoes get the same requests.
//!
//! Every connection speaks HTTP/1.1 over TLS and has one request at a time, so the number of
//! connections is that of concurrent requests. A load ends after a number of requests, or after a
//! time from which on no more are begun.

mod client;
mod events;
mod load;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use hyper::header::ACCEPT;
use tidings_testing::process::resident_bytes;

pub(crate) use client::{Connection, JSON, Target};

use crate::load::Load;
use crate::{Failure, Figure};

/// Loads an Event API server, and prints figures as lines of JSON.
#[derive(clap::Parser)]
pub struct Arguments {
    /// Kubeconfig of the server, of which the authority and a token are used
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Name of the server in the figures
    #[arg(long, default_value = "tidings")]
    peer: String,
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Wait until the server is ready
    Ready,
    /// Create events
    Creates(Timed),
    /// Patch events as a recorder does
    Patches(Timed),
    /// Create a number of events, twenty about each object
    Fill {
        #[arg(long)]
        events: u64,
    },
    /// Read what `fill` created
    Reads {
        #[arg(long)]
        events: u64,
    },
    /// Watch everything, with many watchers
    Watch {
        #[arg(long)]
        watchers: usize,
        /// Events per second [default: as fast as they are accepted]
        #[arg(long)]
        per_second: Option<f64>,
    },
    /// Write and watch for a long time, and account for every event
    Soak(watch::Soak),
}

#[derive(clap::Args)]
struct Timed {
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    seconds: u64,
}

/// Number of events that watchers get.
const WATCHED: u64 = 200;

/// The pause between attempts to reach a server that is starting, and their maximum number.
const READY_POLL: Duration = Duration::from_millis(20);
const READY_POLLS: u32 = 6_000;

const PERCENTILES: [&str; 2] = ["p50", "p99"];

/// Does a part, and prints its figures.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let target = &Target::from_kubeconfig(&arguments.kubeconfig).await?;
    let (peer, part) = (&arguments.peer, arguments.part);
    let figure = |name: &str| Figure::of(peer, name);
    let print = |name: &str, mut load: Load| {
        figure(name)
            .with("count", load.times.count() as f64)
            .with("per_second", load.rate())
            .times("", &PERCENTILES, &mut load.times)
            .print();
    };
    // Names differ between runs, so that two runs against one server do not use the same.
    let run = format!("{:x}.", std::process::id());
    if !matches!(part, Part::Ready) {
        load::make_namespaces(target).await?;
    }
    let timed = async |what: &str, of: Timed| {
        let time = Duration::from_secs(of.seconds);
        let load = load::timed(target, &run, what, of.connections, time).await?;
        print(&format!("{what}_{}", of.connections), load);
        Ok::<_, Failure>(())
    };
    match part {
        Part::Ready => {
            ready(target).await?;
            figure("ready").print();
        }
        Part::Creates(of) => timed("creates", of).await?,
        Part::Patches(of) => timed("patches", of).await?,
        Part::Fill { events } => print("fill", load::fill(target, &run, events).await?),
        Part::Reads { events } => {
            let (reads, bytes) = load::reads(target, events).await?;
            for (name, mut times) in reads {
                figure(name).times("", &PERCENTILES, &mut times).print();
            }
            figure("everything_size")
                .with("bytes", bytes as f64)
                .print();
        }
        Part::Watch {
            watchers,
            per_second,
        } => {
            let seen = watch::fan_out(target, &run, watchers, WATCHED, per_second).await?;
            let name = if per_second.is_some() {
                "watch_paced"
            } else {
                "watch_burst"
            };
            print(name, seen);
        }
        Part::Soak(sizes) => soak(target, &run, sizes).await?,
    }
    Ok(())
}

async fn soak(target: &Target, run: &str, sizes: watch::Soak) -> Result<(), Failure> {
    let minute = |until: Duration, mut written: Load| {
        Figure::new("soak_minute")
            .with("until_s", until.as_secs_f64())
            .with("count", written.times.count() as f64)
            .times("", &PERCENTILES, &mut written.times)
            .with_bytes("bytes", resident_bytes(sizes.process))
            .print();
    };
    let mut account = watch::soak(target, run, sizes, minute).await?;
    Figure::new("soak")
        .with("written", sizes.events() as f64)
        .with("lost", account.lost as f64)
        .with("doubled", account.doubled as f64)
        .with("immortal", account.immortal as f64)
        .with("early", account.early as f64)
        .times("late_", &["p50", "max"], &mut account.late)
        .print();
    if account.lost + account.doubled + account.immortal + account.early > 0 {
        return Err("not every watcher saw every event come once and go once, on time".into());
    }
    Ok(())
}

/// Waits until the server says that it is ready.
async fn ready(target: &Target) -> Result<(), Failure> {
    let mut polls = 0;
    loop {
        let answer = async {
            let mut connection = target.connect().await?;
            connection
                .send(hyper::Method::GET, "/readyz", &[(ACCEPT, "*/*")], "")
                .await
        };
        match answer.await {
            Ok(_) => return Ok(()),
            Err(error) if polls == READY_POLLS => return Err(error),
            Err(_) => polls += 1,
        }
        tokio::time::sleep(READY_POLL).await;
    }
}
