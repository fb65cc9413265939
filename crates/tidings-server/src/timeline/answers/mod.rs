//! The answers to the page's requests, one file for each path.

mod bounds;
pub(super) mod coverage;
pub(super) mod event;
pub(super) mod events;
pub(super) mod export;
pub(super) mod filter;
mod item;
mod json;
pub(super) mod live;
pub(super) mod object;
pub(super) mod overview;
mod perfetto;
pub(super) mod top;
mod totals;
mod versions;
pub(super) mod view;
