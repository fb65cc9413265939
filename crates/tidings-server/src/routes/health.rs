//! `/livez`, `/readyz` and `/healthz` (`k8s.io/apiserver/pkg/server/healthz`). They are open to everybody, as a
//! kube-apiserver's are by default.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::error::Status;
use crate::query::Query;
use crate::server::ApiServer;

const CHECKS: [&str; 3] = ["ping", "store", "shutdown"];

/// What is wrong, if anything.
async fn failure(server: &ApiServer, path: &str, check: &str) -> Option<String> {
    match check {
        "store" => server
            .store
            .stats()
            .await
            .err()
            .map(|error| error.to_string()),
        // A server that is about to go is alive but takes no new work.
        "shutdown" if path.starts_with("/readyz") => server
            .is_stopping()
            .then(|| "process is shutting down".into()),
        _ => None,
    }
}

/// GET of all checks.
pub(crate) async fn all(State(server): State<Arc<ApiServer>>, request: Request) -> Response {
    let query = Query::parse(request.uri().query());
    let path = request.uri().path();
    let mut lines = Vec::new();
    let mut failed = false;
    for check in CHECKS {
        if query.values("exclude").any(|excluded| excluded == check) {
            lines.push(format!("[+]{check} excluded: ok\n"));
            continue;
        }
        if failure(&server, path, check).await.is_none() {
            lines.push(format!("[+]{check} ok\n"));
        } else {
            failed = true;
            // The reason is in the log, not told to strangers.
            lines.push(format!("[-]{check} failed: reason withheld\n"));
        }
    }
    let lines = lines.concat();
    let name = path.trim_start_matches('/').trim_end_matches('/');
    if failed {
        tracing::warn!(check = name, "health check failed");
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{lines}{name} check failed\n"),
        )
            .into_response();
    }
    if query.has("verbose") {
        format!("{lines}{name} check passed\n").into_response()
    } else {
        "ok".into_response()
    }
}

/// GET of one check.
pub(crate) async fn one(
    State(server): State<Arc<ApiServer>>,
    Path(check): Path<String>,
    request: Request,
) -> Result<Response, Status> {
    if !CHECKS.contains(&check.as_str()) {
        return Err(Status::no_such_path());
    }
    Ok(match failure(&server, request.uri().path(), &check).await {
        None => "ok".into_response(),
        Some(why) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {why}\n"),
        )
            .into_response(),
    })
}
