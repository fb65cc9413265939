//! Tests of archives on object storage through the public API.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod chosen;
mod emulated;
mod engines;
mod erased;
mod faults;
mod foreign;
mod formats;
mod history;
mod killed;
mod ledger;
mod looking;
mod reading;
mod restored;
mod sampled;
mod sealing;
mod seeds;
mod sought;
mod storage;
mod turns;
mod unsure;
mod waiting;
mod world;
