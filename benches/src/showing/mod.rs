//! Measures the timeline: its answers as a client gets them, and the page in a browser, beside
//! vis-timeline with the same events.
//!
//! - `cluster`: invents the events of a cluster over days.
//! - `fill`: fills the data folder of a server with them.
//! - `answers`: makes the page's requests, for random times.
//! - `tools`: calls the tools of the Model Context Protocol, and requests the answers they read.
//! - `page`: measures the page itself, by the browser's clock.
//! - `peer`: measures vis-timeline in the same browser.

mod answers;
pub(crate) mod cluster;
mod fill;
mod page;
mod peer;
mod tab;
mod tools;

pub use answers::answers;
pub use fill::fill;
pub use page::{live, page};
pub use peer::peer;
pub use tools::tools;
