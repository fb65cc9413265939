//! The error of a benchmark.

/// Why a part failed, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
