//! Limits on concurrent work.
//!
//! They cover connections, requests in flight, the memory of answers, and bodies, which are sent no
//! faster than their clients read.

pub(crate) mod activity;
pub(crate) mod budget;
pub(crate) mod connection_counters;
pub(crate) mod connections;
pub(crate) mod paced;
pub(crate) mod pass_through;
pub(crate) mod place_counters;
pub(crate) mod places;
