//! What every implementation must do at least: hash a key's bytes, allocate once, put something
//! into a locked queue, read the clock.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

use super::sample::MESSAGE;
use crate::{Figure, Measure, time};

const BATCH: u64 = 100_000;

fn each(name: &'static str, measure: Measure, mut work: impl FnMut()) -> Figure {
    measure.run(name, BATCH, || {
        time(|| {
            for _ in 0..BATCH {
                work();
            }
        })
    })
}

/// Hashes the bytes of an event's three keys, each once.
pub(super) fn hash(name: &'static str, measure: Measure) -> Figure {
    let object = "Poddefaultweb-7d4b9c6f5-000003c1f0a52-8d0e-4b1e-9f5e-000000000000v1".repeat(3);
    let texts = format!("example-controllernode-1WarningBackOff{MESSAGE}");
    let state = foldhash::fast::FixedState::with_seed(1);
    each(name, measure, || {
        let mut hasher = state.build_hasher();
        hasher.write(black_box(object.as_bytes()));
        hasher.write(black_box(texts.as_bytes()));
        black_box(hasher.finish());
    })
}

/// Allocates as much as an event needs, and frees it.
pub(super) fn allocation(name: &'static str, measure: Measure) -> Figure {
    each(name, measure, || {
        black_box(Box::new(black_box([0_u8; 256])));
    })
}

/// Puts a pointer into a locked queue, and takes it out.
pub(super) fn queue_slot(name: &'static str, measure: Measure) -> Figure {
    let queue = Mutex::new(VecDeque::with_capacity(16));
    let event = Arc::new(0_u64);
    each(name, measure, || {
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(Arc::clone(&event));
        black_box(
            queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front(),
        );
    })
}

/// Reads the wall clock once.
pub(super) fn clock(name: &'static str, measure: Measure) -> Figure {
    #[expect(clippy::disallowed_methods, reason = "the reading is what is measured")]
    each(name, measure, || {
        black_box(jiff::Timestamp::now());
    })
}
