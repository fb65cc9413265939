//! What the timeline costs: its answers as a client gets them, and the page in a browser, beside
//! vis-timeline with the same events.
//!
//! - `cluster`: the events of a cluster over days, made up from their number.
//! - `fill`: a data folder of a server that has kept them.
//! - `answers`: what the page asks for, at random positions.
//! - `page`: the page itself, by the browser's own clock.
//! - `peer`: vis-timeline in the same browser.

mod answers;
pub(crate) mod cluster;
mod fill;
mod page;
mod peer;
mod tab;

pub use answers::answers;
pub use fill::fill;
pub use page::{live, page};
pub use peer::peer;
