//! Reading events from an API server: lists in pages, and a watch that continues through whatever
//! happens to the server or the network.

mod list;
mod page;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

pub(crate) use self::page::{EVENTS_MAX, Group, Listed, Reader};
pub(crate) use self::watch::{Notice, Watched};
