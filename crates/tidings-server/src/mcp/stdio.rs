//! The protocol over standard input and output, for one client that started this process.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::stdio;

use super::protocol::Handler;
use super::source::Source;

/// Why the protocol is not served on standard input and output any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The client did not begin with a message of the protocol.
    #[error("the client speaks another protocol: {0}")]
    Client(String),
    /// The task that served the client ended abnormally.
    #[error("serving ended abnormally: {0}")]
    Task(String),
}

/// Serves what a source has to the client on standard input and output, until the input ends.
///
/// # Errors
/// [`StdioError`]: what the client sent is not the protocol.
pub async fn serve_stdio(source: Arc<dyn Source>) -> Result<(), StdioError> {
    let client = |error: String| StdioError::Client(error);
    let served = Handler::of(source).serve(stdio()).await;
    let served = served.map_err(|error| client(error.to_string()))?;
    let ended = served.waiting().await;
    ended.map_err(|error| StdioError::Task(error.to_string()))?;
    Ok(())
}
