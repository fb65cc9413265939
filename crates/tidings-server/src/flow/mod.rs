//! What happens at the same time: connections, requests in flight, and answers written no faster
//! than they are read.

pub(crate) mod activity;
pub(crate) mod connection_counters;
pub(crate) mod connections;
pub(crate) mod paced;
pub(crate) mod pass_through;
pub(crate) mod place_counters;
pub(crate) mod places;
