//! What every request passes before it is served: whose it is, whom it wants to act as, and whether that is allowed.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header;

use crate::auth::attributes::Attributes;
use crate::auth::authenticator::Refusal;
use crate::auth::authorizer::Decision;
use crate::auth::impersonation;
use crate::auth::{ReviewError, User};
use crate::clock;
use crate::codec::Api;
use crate::error::Status;
use crate::server::ApiServer;

/// Finds out whose request it is, and leaves the [`User`] in it.
pub(super) async fn authenticate(
    State(server): State<Arc<ApiServer>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let began = clock::monotonic();
    let found = server
        .authenticator
        .authenticate(&parts, server.clock.now(), began, &server.access)
        .await;
    let took = clock::monotonic().saturating_duration_since(began);
    server.metrics.authenticated(&found, took);
    let user = match found {
        Ok(user) => user,
        Err(Refusal::Unauthorized) => {
            let warnings: Vec<String> = spaced(&parts.headers).into_iter().collect();
            return Status::unauthorized().warning(&warnings).into_response();
        }
        Err(Refusal::Unchecked) => return Status::cannot_check().into_response(),
    };
    // It has served its purpose, and cannot end in a log from here on.
    parts.headers.remove(header::AUTHORIZATION);
    let user = match impersonate(&server, user, &parts.headers).await {
        Ok(user) => user,
        Err(status) => return status.into_response(),
    };
    parts.extensions.insert(user);
    next.run(Request::from_parts(parts, body)).await
}

/// Two spaces before a token make it none, which is easily overlooked.
fn spaced(headers: &http::HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let start = value.get(..b"bearer  ".len())?;
    start.eq_ignore_ascii_case(b"bearer  ").then(|| {
        "the provided Authorization header contains extra space before the bearer token, and is ignored"
            .to_owned()
    })
}

async fn impersonate(
    server: &ApiServer,
    user: User,
    headers: &http::HeaderMap,
) -> Result<User, Status> {
    let Some(asked) = impersonation::asked(headers)? else {
        return Ok(user);
    };
    for needed in &asked.needed {
        require(server, &user, needed).await?;
    }
    tracing::debug!(
        user = user.name,
        acting_as = asked.user.name,
        "impersonating"
    );
    Ok(asked.user)
}

/// Lets pass what the user may do.
pub(super) async fn authorize(
    State(server): State<Arc<ApiServer>>,
    request: Request,
    next: Next,
) -> Response {
    // No request gets here without one.
    let Some(user) = request.extensions().get::<User>().cloned() else {
        return Status::unauthorized().into_response();
    };
    let uri = request.uri().clone();
    let asked = Attributes::of(request.method(), uri.path(), uri.query());
    let began = clock::monotonic();
    let decision = decide(&server, &user, &asked).await;
    let took = clock::monotonic().saturating_duration_since(began);
    // Once for each request, as kube-apiserver does: not for what is asked besides, of impersonation say.
    server.metrics.authorized(&decision, took);
    match allow(&user, &asked, decision) {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_response(),
    }
}

/// A PUT or an apply of an event that is not there creates it, which takes more than the permission to change it.
///
/// # Errors
/// 403 if the user may not create it.
pub(super) async fn require_create(
    server: &ApiServer,
    user: &User,
    api: Api,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    require(
        server,
        user,
        &Attributes::create_event(api, namespace, name),
    )
    .await
}

async fn require(server: &ApiServer, user: &User, asked: &Attributes<'_>) -> Result<(), Status> {
    allow(user, asked, decide(server, user, asked).await)
}

async fn decide(
    server: &ApiServer,
    user: &User,
    asked: &Attributes<'_>,
) -> Result<Decision, ReviewError> {
    let now = clock::monotonic();
    server
        .authorizer
        .authorize(user, asked, now, &server.access)
        .await
}

fn allow(
    user: &User,
    asked: &Attributes<'_>,
    decision: Result<Decision, ReviewError>,
) -> Result<(), Status> {
    match decision {
        Ok(decision) if decision.allowed => Ok(()),
        Ok(decision) => {
            tracing::debug!(
                user = user.name,
                ?asked,
                reason = decision.reason,
                "forbidden"
            );
            Err(Status::forbidden(&user.name, asked, &decision.reason))
        }
        Err(_) => Err(Status::cannot_check()),
    }
}
