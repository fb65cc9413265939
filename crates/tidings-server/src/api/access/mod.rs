//! Authentication, impersonation and authorization of requests, and reviews of oneself.
//!
//! Invariant: only these functions make a `User` of a request's credentials.
//!
//! From outside: [`authenticate`] and [`authorize`] for the chain, [`may_list`] for pages of
//! several namespaces, and the handlers of reviews.

mod checks;
pub(super) mod review;

pub(super) use checks::{authenticate, authorize, preauthorize_create, require_create};
pub(crate) use checks::{forbidden_to_list, identify, may_list, may_list_clusters, require};
