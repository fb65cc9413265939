//! The source over HTTP: what the state machine asks for, asked of a cluster's API server, and what
//! it answered.

pub(crate) mod api_server;
pub(crate) mod shell;
pub(crate) mod wire;
