//! The checks before a request is served: authentication, impersonation, authorization.

use std::sync::Arc;

use axum::extract::Request;
use http::{header, request};
use tokio::time::timeout;

use crate::api::request::{Call, Preauthorized};
use crate::api::server::ApiServer;
use crate::auth::attempts::{Attempt, Permission};
use crate::auth::attributes::Attributes;
use crate::auth::authenticator::{KnownBy, Refusal};
use crate::auth::decision::Decision;
use crate::auth::impersonation;
use crate::auth::{ANONYMOUS, Identity, ReviewError, User, forbidden};
use crate::clock;
use crate::flow::connections::Visitor;
use crate::http::request::{OfCluster, RequestInfo};
use crate::http::status::Status;
use crate::http::stored::Key;
use tidings_api::codec::Api;

/// Finds the user of a request, and removes the credentials from it. The identity is also returned
/// with an error, as far as it is known.
///
/// # Errors
/// 401 for an unknown user, 503 if the credentials cannot be checked, and the errors of
/// impersonation.
pub(in crate::api) async fn authenticate(
    server: &ApiServer,
    parts: &mut request::Parts,
) -> (Identity, Result<User, Status>) {
    let mut identity = Identity::default();
    let found = identify(server, parts).await;
    // The token is no longer needed, and now it cannot get into a log.
    parts.headers.remove(header::AUTHORIZATION);
    let user = match found {
        Ok((user, known_by)) => {
            // A token is sent on only to the cluster that knew it.
            if server.passes_through() {
                parts.extensions.insert(known_by);
            }
            identity.user.insert(user).clone()
        }
        Err(status) => {
            let status = match parts.extensions.get() {
                Some(OfCluster) => status.at_cluster(),
                None => status,
            };
            return (identity, Err(status));
        }
    };
    let impersonated = impersonated(server, &user, &parts.headers);
    let impersonated = timeout(server.options.request_timeout, impersonated).await;
    match impersonated.unwrap_or_else(|_| Err(Status::timeout())) {
        Ok(None) => (identity, Ok(user)),
        Ok(Some(impersonated)) => {
            identity.impersonated = Some(impersonated.clone());
            (identity, Ok(impersonated))
        }
        Err(status) => (identity, Err(status)),
    }
}

/// Finds the user of a request by its credentials, and records it for the connection.
///
/// # Errors
/// 401 for an unknown user, 503 if the credentials cannot be checked.
pub(crate) async fn identify(
    server: &ApiServer,
    parts: &request::Parts,
) -> Result<(User, KnownBy), Status> {
    let (user, known_by) = find(server, parts).await?;
    if user.name != ANONYMOUS
        && let Some(visitor) = parts.extensions.get::<Arc<Visitor>>()
    {
        visitor.authenticate();
    }
    Ok((user, known_by))
}

async fn find(server: &ApiServer, parts: &request::Parts) -> Result<(User, KnownBy), Status> {
    let began = clock::monotonic();
    let found = server
        .authenticator
        .authenticate(parts, server.clock.now(), began, &server.access)
        .await;
    let took = clock::monotonic().saturating_duration_since(began);
    let attempt = match &found {
        Ok((user, _)) => Attempt::Success(&user.name),
        Err(Refusal::Unauthorized(_)) => Attempt::Failure,
        Err(Refusal::Unchecked) => Attempt::Error,
    };
    server.access.attempts.authenticated(attempt, took);
    found.map_err(|refusal| match refusal {
        Refusal::Unauthorized(why) => {
            if let Some(visitor) = parts.extensions.get::<Arc<Visitor>>() {
                visitor.forget();
            }
            let why = why.map(|why| format!("the client certificate is not accepted: {why}"));
            let warnings = extra_space_warning(&parts.headers).into_iter().chain(why);
            Status::unauthorized().warning(&warnings.collect::<Vec<_>>())
        }
        Refusal::Unchecked => Status::cannot_check(),
    })
}

/// The warning for a token after two spaces, which is ignored and easily overlooked.
fn extra_space_warning(headers: &http::HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let start = value.get(..b"bearer  ".len())?;
    start.eq_ignore_ascii_case(b"bearer  ").then(|| {
        "the provided Authorization header contains extra space before the bearer token, and is ignored"
            .to_owned()
    })
}

async fn impersonated(
    server: &ApiServer,
    user: &User,
    headers: &http::HeaderMap,
) -> Result<Option<User>, Status> {
    let Some(asked) = impersonation::asked(headers)? else {
        return Ok(None);
    };
    for needed in &asked.needed {
        require(server, user, needed).await?;
    }
    // The cluster or server that knows the acting user decides about the impersonated user, too.
    let acting = asked.user.beside(user);
    let (user, acting_as) = (&user.name, &acting.name);
    tracing::debug!(user, acting_as, "impersonating");
    Ok(Some(acting))
}

/// Refuses requests that the user is not allowed to make.
///
/// # Errors
/// 403 if the request is not allowed, 503 if that cannot be checked.
pub(in crate::api) async fn authorize(
    server: &ApiServer,
    user: &User,
    info: &RequestInfo,
) -> Result<(), Status> {
    // A user who may list all events, or those of a namespace, needs no other permission to read an
    // archive.
    let asked = match info.asked_namespace() {
        Some(namespace) => Attributes::list_events(namespace),
        None => Attributes::of(info),
    };
    let began = clock::monotonic();
    let mut decision = decide(server, user, &asked).await;
    let is_allowed = |decision: &Result<Decision, _>| {
        let decision = decision.as_ref();
        decision.is_ok_and(|decision| decision.allowed)
    };
    if info.is_versions() && !is_allowed(&decision) {
        // A user who may list an event may read its earlier versions, too.
        let listed = decide(server, user, &Attributes::list_named(info)).await;
        if is_allowed(&listed) {
            decision = listed;
        }
    }
    let took = clock::monotonic().saturating_duration_since(began);
    // Counted once for each request, as in kube-apiserver: additional questions, such as those of
    // impersonation, are not counted.
    let permission = match &decision {
        Ok(decision) if decision.allowed => Permission::Allowed,
        Ok(decision) if decision.denied => Permission::Denied,
        Ok(_) => Permission::NoOpinion,
        Err(_) => Permission::Error,
    };
    server.access.attempts.authorized(permission, took);
    allow(user, &asked, decision)
}

/// Asks a cluster early about the create that a PUT or apply may become. Otherwise the request
/// would ask while it holds a place in flight, and a slow cluster would soon block all places.
pub(in crate::api) async fn preauthorize_create(
    server: &ApiServer,
    info: &RequestInfo,
    user: &User,
    request: &mut Request,
) {
    let (api, key) = (Api::of_group(&info.group), Key::of(info));
    let asked = Attributes::create_event(api, &key.namespace, &key.name);
    if !server.authorizer.leaves_to_cluster(user, &asked) {
        return;
    }
    // A read error is reported when the request reads the event again.
    if let Ok(None) = server.store.get(key.bytes()).await {
        let decision = decide(server, user, &asked).await;
        request.extensions_mut().insert(Preauthorized(decision));
    }
}

/// Checks the permission to create for a PUT or an apply of an event that does not exist, because
/// it creates the event.
///
/// # Errors
/// 403 if the user may not create it.
pub(in crate::api) async fn require_create(server: &ApiServer, call: &Call) -> Result<(), Status> {
    let asked = Attributes::create_event(call.api, &call.info.namespace, &call.info.name);
    let decision = match &call.preauthorized {
        Some(Preauthorized(decision)) => decision.clone(),
        // No cluster has to be asked, or the event existed a moment ago.
        None => decide(server, &call.user, &asked).await,
    };
    allow(&call.user, &asked, decision)
}

/// Checks a permission of a user.
///
/// # Errors
/// 403 without it; 503 if that cannot be checked.
pub(crate) async fn require(
    server: &ApiServer,
    user: &User,
    asked: &Attributes<'_>,
) -> Result<(), Status> {
    allow(user, asked, decide(server, user, asked).await)
}

/// Whether a user may list the events of a namespace, or all events if `namespace` is empty.
///
/// # Errors
/// 503 if that cannot be checked.
pub(crate) async fn may_list(
    server: &ApiServer,
    user: &User,
    namespace: &str,
) -> Result<bool, Status> {
    let asked = Attributes::list_events(namespace);
    match decide(server, user, &asked).await {
        Ok(decision) => Ok(decision.allowed),
        Err(_) => Err(Status::cannot_check()),
    }
}

/// Whether a user may read the names of an archive's clusters. Without an answer, it may not.
pub(crate) async fn may_list_clusters(server: &ApiServer, user: &User) -> bool {
    let asked = Attributes::Path {
        verb: "get".into(),
        path: "/clusters".into(),
    };
    let decision = decide(server, user, &asked).await;
    decision.is_ok_and(|decision| decision.allowed)
}

/// The Status for a user who may not list events.
pub(crate) fn forbidden_to_list(user: &User) -> Status {
    forbidden(&user.name, &Attributes::list_events(""), "")
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
            let (user, reason) = (&user.name, &decision.reason);
            tracing::debug!(user, ?asked, reason, "forbidden");
            Err(forbidden(user, asked, reason))
        }
        Err(_) => Err(Status::cannot_check()),
    }
}
