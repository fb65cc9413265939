//! Measures the time that recording takes: see [`tidings_bench::recording`].

use std::time::Duration;

use clap::Parser;
use tidings_bench::{Measure, recording};

/// Measures event recording, and prints each figure as a line of JSON.
#[derive(Parser)]
struct Arguments {
    /// Seconds to measure each figure
    #[arg(long, default_value_t = 1.)]
    seconds: f64,
    /// Measure only figures with this in their name
    #[arg(long, default_value = "")]
    only: String,
}

fn main() {
    let arguments = Arguments::parse();
    let total = Duration::try_from_secs_f64(arguments.seconds).unwrap_or(Duration::from_secs(1));
    recording::run(
        Measure {
            total,
            allocator: None,
        },
        &arguments.only,
    );
    if "record_stuck_sink".contains(&arguments.only) {
        recording::series::stuck_sink().print();
    }
}
