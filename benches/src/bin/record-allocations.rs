//! Measures the memory that recording takes: the allocations of each figure of `record`, and the
//! bytes of a cached key and of a series.

use std::time::Duration;

use tidings_bench::{Measure, recording};
use tidings_testing::allocations::{COUNTING, Counting};

#[global_allocator]
static ALLOCATOR: Counting = COUNTING;

fn main() {
    let measure = Measure {
        total: Duration::from_millis(200),
        allocator: Some(ALLOCATOR),
    };
    recording::run(measure, "");
    recording::correlate::cached_key(ALLOCATOR).print();
    recording::series::memory(ALLOCATOR).print();
}
