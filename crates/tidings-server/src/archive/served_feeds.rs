//! What the server of an archive knows of feeds.

use http::{Method, StatusCode};
use tidings_store::BoxFuture;

/// The feeds that deliver an archive's events to receivers.
pub trait ServedFeeds: std::fmt::Debug + Send + Sync + 'static {
    /// Answers a request at `/feeds` or below. `path` is what follows that. The answer is JSON if
    /// its status is 200, and otherwise a message.
    fn answer<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
    ) -> BoxFuture<'a, (StatusCode, Vec<u8>)>;

    /// Returns the metrics of all feeds in Prometheus' text format.
    fn metrics(&self) -> BoxFuture<'_, String>;

    /// Returns the metrics of events in Prometheus' text format, if a feed counts them.
    fn event_metrics(&self) -> BoxFuture<'_, Option<String>>;
}
