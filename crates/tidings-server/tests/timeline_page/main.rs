//! The timeline's page in a real browser, on a real server: every gesture, what refuses and what
//! fails, hostile events, keys alone, and nothing asked of any other host.
//!
//! Skipped with a line where there is no Chromium with its driver (Debian: `chromium
//! chromium-driver`).
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod access;
mod driver;
mod files;
mod gestures;
mod hostile;
mod living;
mod measure;
mod narrow;
mod pictures;
mod world;
