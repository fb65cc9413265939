//! The timeline's page in a real browser, on a real server: every gesture, refusals and failures,
//! hostile events, keyboard use, and no requests to other hosts.
//!
//! Skipped with a message if there is no Chromium with its driver (Debian: `chromium
//! chromium-driver`).
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::float_cmp, reason = "numbers of the browser that are whole")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are made for the call"
)]
#![expect(clippy::disallowed_methods, reason = "the page shows the real time")]

mod access;
mod archive;
mod files;
mod focus;
mod gestures;
mod hostile;
mod living;
mod narrow;
mod pictures;
mod reading;
mod rows;
mod still;
mod table;
mod world;
