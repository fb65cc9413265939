//! Reads what is typed as a filter, so that the page needs no second parser.

use std::sync::Arc;

use axum::Extension;
use axum::response::Response;
use serde_json::json;
use tidings_core::filter::Term;

use super::super::query;
use super::json::json;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// GET /timeline/api/filter
pub(in super::super) async fn filter(
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let filter = query::filter(&info.query)?;
    let terms: Vec<_> = filter.terms().iter().map(Term::to_string).collect();
    json(&json!({ "terms": terms }))
}
