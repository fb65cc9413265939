//! Measures the memory that recording takes: the allocations of each figure of `record`, and the
//! bytes of a cached key.

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tidings_bench::{Measure, recording};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let total = Duration::from_millis(200);
    recording::run(
        Measure {
            total,
            allocator: Some(ALLOCATOR),
        },
        "",
    );
    recording::correlate::cached_key(ALLOCATOR).print();
    recording::series::memory(ALLOCATOR).print();
}
