//! Reads events from an API server: lists in pages, and a watch that continues across failures of
//! the server and the network.

mod list;
mod page;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

pub(crate) use self::page::{EVENTS_MAX, Group, Listed, Reader, refusal};
pub(crate) use self::watch::{Notice, Watched};
