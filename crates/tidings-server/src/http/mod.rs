//! The HTTP side of requests and answers.
//!
//! It has RequestInfo, query, negotiation, bodies, gzip, continue tokens, and `Status`, the form of
//! every error. Nothing here knows handlers or users.

pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod continuation;
pub(crate) mod duration;
pub(crate) mod list_options;
pub(crate) mod moment;
pub(crate) mod negotiate;
pub(crate) mod params;
pub(crate) mod present;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod stored;
pub(crate) mod warnings;
