//! Hostile input: randomly mutated and handmade requests against the real router, and broken HTTP
//! on a real connection. Every request gets a 4xx answer, and other clients are not affected.
//!
//! `TIDINGS_HOSTILE_REQUESTS` sets the number of mutated requests, `TIDINGS_HOSTILE_SEED` the seed.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod bombs;
mod framing;
mod mutation;
