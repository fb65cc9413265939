//! The source over HTTP: carries out the state machine's requests at a cluster's API server, and
//! decodes the answers.

pub(crate) mod api_server;
pub(crate) mod shell;
pub(crate) mod wire;
