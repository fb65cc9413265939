//! The Model Context Protocol: tools, prompts and resources by which agents read events.
//!
//! Everything is read through [`Source`], whose only method is a GET of one of the timeline's
//! answers: nothing can be written, and nothing is calculated here that the timeline calculates.
//! Every answer is bounded in bytes, consists of whole lines, and says what may be missing from it.
//! What programs in a cluster wrote is data: it is fenced, one line each, and said to be untrusted.
//!
//! - `source`: the trait, and its implementation within a server.
//! - `answers`: the timeline's answers, as far as they are shown.
//! - `coverage`: what is covered, and what may be missing.
//! - `arguments` and `errors`: arguments of a call, and advice about what is wrong.
//! - `text` and `page`: lines of text, and pages that keep their bound.
//! - `tools`: the tools, one file for each large one; `prompts`: the prompts.
//! - `protocol`, `http` and `stdio`: the only files that know the SDK.

mod answers;
mod arguments;
mod coverage;
mod errors;
mod http;
mod page;
mod prompts;
mod protocol;
mod source;
mod stdio;
mod text;
mod tools;

pub use errors::CallError;
pub(crate) use http::router;
pub use page::Answer;
pub use source::{Refused, Source};
pub use stdio::{StdioError, serve_stdio};
pub use tools::call;
