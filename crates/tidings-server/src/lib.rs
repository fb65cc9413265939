//! The Kubernetes API for Events over a [`tidings_store::Store`].

mod auth;
pub mod clock;
mod codec;
mod continuation;
mod encoded;
mod error;
mod limits;
mod negotiate;
mod patch;
mod query;
mod random;
mod routes;
mod rules;
mod selector;
mod serve;
mod server;
mod start;
mod table;
mod tls;

pub use auth::{Authenticator, Token, TokenFileError, User, parse_token_file};
pub use query::parse_go_duration;
pub use routes::router;
pub use serve::serve;
pub use server::{ApiOptions, ApiServer};
pub use start::{Running, StartError, StartOptions, start, start_with_store};
pub use tls::TlsError;
