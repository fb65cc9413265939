//! What a part failed with.

/// What a part failed with, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
