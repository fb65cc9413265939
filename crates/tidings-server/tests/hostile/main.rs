//! Hostile input: requests mutated at random and made by hand, against the real
//! router, and broken HTTP on a real connection. Whatever comes, there is an answer that blames the
//! client, and no other client notices.
//!
//! `TIDINGS_HOSTILE_REQUESTS` sets how many mutated requests are sent, `TIDINGS_HOSTILE_SEED` where
//! they begin.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod bombs;
mod framing;
mod mutation;
