//! Measures the time that recording takes: see [`tidings_bench::recording`].

use std::time::Duration;

use tidings_bench::{Measure, recording};

/// Measures the figures with the argument in their names, or all.
fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let measure = Measure {
        total: Duration::from_secs(1),
        allocator: None,
    };
    recording::run(measure, &only);
    if "record_stuck_sink".contains(&only) {
        recording::series::stuck_sink().print();
    }
}
