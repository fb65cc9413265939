//! The source over HTTP: sends the state machine's requests to a cluster's API server, and decodes
//! the answers.

pub(crate) mod api_server;
pub(crate) mod shell;
pub(crate) mod wire;
