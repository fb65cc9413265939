//! An allocator that counts. A test program installs it, and takes one measurement at a time,
//! because the allocator counts for the whole process.
//!
//! ```
//! use tidings_testing::allocations::{COUNTING, Counting, Peak};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = COUNTING;
//!
//! let peak = Peak::default();
//! let buffer = vec![0_u8; 1 << 20];
//! peak.look();
//! drop(buffer);
//! assert!(peak.bytes() >= 1 << 20);
//! ```

use std::alloc::System;
use std::sync::atomic::{AtomicUsize, Ordering};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// The allocator's type.
pub type Counting = &'static StatsAlloc<System>;

/// The counting allocator, for `#[global_allocator]`.
pub const COUNTING: Counting = &INSTRUMENTED_SYSTEM;

/// Counts the allocations since it was made.
pub type Region = stats_alloc::Region<'static, System>;

/// Begins to count allocations.
pub fn region() -> Region {
    Region::new(COUNTING)
}

/// The most memory that was held at any measurement, beyond that at the beginning.
pub struct Peak {
    region: Region,
    bytes: AtomicUsize,
}

impl Default for Peak {
    fn default() -> Self {
        Self {
            region: region(),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl Peak {
    /// Measures the memory that is held now.
    pub fn look(&self) {
        let change = self.region.change();
        let held = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        self.bytes.fetch_max(held, Ordering::Relaxed);
    }

    /// The maximum in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
