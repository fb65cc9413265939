//! Archives on object storage, from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod engines;
mod reading;
mod sealing;
mod world;
