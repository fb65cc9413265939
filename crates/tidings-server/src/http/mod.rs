//! What every request and answer has: options of the query, negotiation of forms, bodies, continue
//! tokens, and `Status`, the form of every error. No handler, no user.

pub(crate) mod body;
pub(crate) mod continuation;
pub(crate) mod negotiate;
pub(crate) mod present;
pub(crate) mod query;
pub(crate) mod request_kind;
pub(crate) mod status;
pub(crate) mod stored;
pub(crate) mod warnings;
