//! Authenticates a request of the timeline, and determines what it may see. This happens before the
//! request gets its place in flight, because a cluster may have to be asked. Meanwhile its head
//! counts towards the bound for requests whose credentials are being checked.
//!
//! The page itself is open to everyone. Paths below `/timeline/api`, and `/mcp`, accept the
//! credentials of any request of the server. Those below `/timeline/api` also accept the cookie of
//! a session, which stands for such credentials. Credentials are shown to the server or archive
//! itself and to at most one followed cluster: the one for which the session was begun, or the only
//! one that is requested. A user known only to a cluster sees only that cluster.
//!
//! A user whom the home cluster's API server names sees the home cluster alone, and of it what the
//! user may list as `pastevents`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::future::{join_all, select_all};
use http::header;
use http::request::Parts;
use tidings_core::filter::{Filter, Key};
use tokio::time::timeout;

use super::doors;
use super::query;
use super::sessions::Session;
use super::state::{Entrance, Timeline};
use super::visible::{Caller, Unasked, Visible};
use crate::api::access;
use crate::api::chain::{self, Entered};
use crate::api::server::ApiServer;
use crate::auth::User;
use crate::auth::attributes::Attributes;
use crate::auth::authenticator::KnownBy;
use crate::auth::front_proxy::Fronted;
use crate::auth::impersonation;
use crate::http::request::{RequestInfo, TIMELINE_API};
use crate::http::status::Status;

/// Maximum namespaces about which a cluster is asked, for a user who may not see all and names
/// none.
const NAMESPACES_MAX: usize = 100;
const OTHER_HOST: &str = "this is served at the address of its link, and at no other";

/// Authenticates a request, and attaches the caller to it.
pub(super) async fn enter(
    State(timeline): State<Arc<Timeline>>,
    request: Request,
    next: Next,
) -> Response {
    if request.headers().len() > chain::HEADERS_MAX {
        // The chain behind refuses this first.
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(room) = chain::room_for_head(&parts) else {
        let request = Request::from_parts(parts, body);
        return chain::refuse_head(timeline.sources.root(), request);
    };
    // The chain, which comes after this, and the handler use the same RequestInfo.
    let info = RequestInfo::of(&parts.method, &parts.uri, &parts.headers);
    let info = Arc::new(info);
    parts.extensions.insert(Arc::clone(&info));
    let host = doors::host(&parts).unwrap_or_default();
    let id = doors::session(&parts.headers, host);
    if let Some(id) = id.map(|id| doors::Id(id.to_owned())) {
        parts.extensions.insert(id);
    }
    // The original head: with the session's credentials added, the request would look as if it had
    // sent them itself, but they are only for the session's own cluster.
    let answer = parts.uri.path().strip_prefix(TIMELINE_API);
    let again = (info.is_mcp() || matches!(answer, Some("live" | "export"))).then(|| {
        Arc::new(Entry {
            timeline: Arc::clone(&timeline),
            info: Arc::clone(&info),
            parts: parts.clone(),
        })
    });
    let caller = in_time(&timeline, &info, &mut parts).await;
    drop(room);
    if let Some(again) = again {
        parts.extensions.insert(again);
    }
    parts.headers.remove(header::AUTHORIZATION);
    parts.headers.remove(header::COOKIE);
    let user = match caller {
        Ok(Some(caller)) => {
            let user = caller.user.clone();
            parts.extensions.insert(Arc::new(caller));
            Ok(user)
        }
        Ok(None) => Ok(User::anonymous()),
        Err(status) => Err(status),
    };
    parts.extensions.insert(Entered(user));
    next.run(Request::from_parts(parts, body)).await
}

/// Request parts kept to authenticate a live stream or export again, and each read of a request of
/// the Model Context Protocol.
pub(crate) struct Entry {
    pub(super) timeline: Arc<Timeline>,
    info: Arc<RequestInfo>,
    pub(super) parts: Parts,
}

/// An extension of a read of the Model Context Protocol: the clusters that the address of the
/// request selects. Nothing of another one is shown.
#[derive(Clone)]
pub(super) struct Bound(Filter);

impl Entry {
    /// The clusters that the address selects, if it selects some.
    pub(super) fn bound(&self) -> Option<Bound> {
        let filter = query::filter(&self.info.query).ok()?;
        filter.has(Key::Cluster).then_some(Bound(filter))
    }

    /// Whether the caller may still see the same.
    pub(super) async fn is_same(&self, caller: &Caller) -> bool {
        let mut parts = self.parts.clone();
        let now = in_time(&self.timeline, &self.info, &mut parts).await;
        let Ok(Some(now)) = now else {
            return false;
        };
        let shown = |caller: &Caller| -> Vec<_> {
            let clusters = caller.clusters.iter();
            clusters
                .map(|visible| (visible.source.name.clone(), visible.namespaces.clone()))
                .collect()
        };
        now.user.name == caller.user.name && shown(&now) == shown(caller)
    }

    /// Resolves when nothing more may be sent to the caller: the session has ended, the caller's
    /// permissions have changed, or the server stops.
    pub(super) async fn refused(self: Arc<Self>, caller: Arc<Caller>, recheck: Duration) {
        let stopped = caller.clusters.iter().map(|it| it.source.server.stopped());
        let stopped = select_all(stopped.collect::<Vec<_>>());
        let other = async {
            loop {
                tokio::time::sleep(recheck).await;
                if !self.is_same(&caller).await {
                    return;
                }
            }
        };
        let over = async {
            match &caller.session {
                Some(session) => Arc::clone(session).over().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            () = other => {}
            _ = stopped => {}
        }
    }
}

/// Finds the caller, within the request's time: clusters may be slow, and so may stores that are
/// searched for namespaces.
async fn in_time(
    timeline: &Timeline,
    info: &RequestInfo,
    parts: &mut Parts,
) -> Result<Option<Caller>, Status> {
    let time = timeline.sources.root().options.request_timeout;
    let caller = timeout(time, entered(timeline, info, parts)).await;
    caller.unwrap_or_else(|_| Err(Status::timeout()))
}

/// The caller of the API; `None` for paths that are open to everyone.
async fn entered(
    timeline: &Timeline,
    info: &RequestInfo,
    parts: &mut Parts,
) -> Result<Option<Caller>, Status> {
    // Such requests get to the routes below the API group, and to no others.
    if let Some(Fronted(user)) = parts.extensions.get() {
        refuse_impersonation(parts)?;
        return of_home(timeline, info, user).await.map(Some);
    }
    let host = doors::host(parts).unwrap_or_default().to_owned();
    if let Entrance::Link { hosts } = &timeline.entrance {
        // A page under another host name that resolves to this address is a foreign page.
        if !hosts.contains(&host) {
            return Err(Status::misdirected(OTHER_HOST));
        }
        parts.headers.remove(header::AUTHORIZATION);
    }
    if info.is_mcp() {
        let is_of_page = parts.headers.contains_key(header::ORIGIN);
        let scheme = timeline.entrance.scheme();
        let is_of_own_page =
            doors::is_fixed(&host) && doors::is_of_own_page(&parts.headers, scheme, &host);
        if is_of_page && !is_of_own_page {
            return Err(Status::of_foreign_page());
        }
    } else if !parts.uri.path().starts_with(TIMELINE_API) {
        return Ok(None);
    }
    refuse_impersonation(parts)?;
    let filter = query::filter(&info.query)?;
    if info.is_mcp() && filter.clone().without(Key::Cluster) != Filter::default() {
        return Err(Status::bad_request(
            "the address of the Model Context Protocol takes cluster and nothing else",
        ));
    }
    let bound = parts.extensions.get::<Bound>().cloned();
    let bound = bound.map_or_else(Filter::default, |bound| bound.0);
    let session = if info.is_mcp() || parts.headers.contains_key(header::AUTHORIZATION) {
        None
    } else {
        session(timeline, parts, &host)
    };
    if let Some(session) = &session {
        if doors::is_of_foreign_page(&parts.headers) {
            return Err(Status::of_foreign_page());
        }
        let credentials = session.credentials.clone();
        parts.headers.insert(header::AUTHORIZATION, credentials);
    }
    // Credentials are shown to no cluster that the address does not select.
    let mut named = filter.only(Key::Cluster);
    if named.iter().any(|name| !bound.accepts(Key::Cluster, name)) {
        return Err(Status::bad_request(
            "the address selects clusters, and this is not one of them",
        ));
    }
    if named.is_empty() {
        named = bound.only(Key::Cluster);
    }
    let asked = match (&session, named.as_slice()) {
        (Some(session), _) => match &session.cluster {
            Some(cluster) => Asked::Cluster(cluster),
            None => Asked::Server,
        },
        (None, [only]) => Asked::ServerOr(only),
        (None, _) => Asked::ServerOrOnly,
    };
    let known = match known(timeline, parts, asked).await {
        Err(_) if session.is_none() && matches!(timeline.entrance, Entrance::Link { .. }) => {
            return Err(Status::open_the_link());
        }
        known => known?,
    };
    let (mut clusters, unasked) = visible(timeline, &known, &filter, &bound).await?;
    // An event's namespace is where it is, and its causes are anywhere.
    if parts.uri.path().strip_prefix(TIMELINE_API) == Some("event") {
        let requested = filter.clone().without(Key::Namespace);
        let (all, _) = visible(timeline, &known, &requested, &bound).await?;
        widen(&mut clusters, &all);
    }
    if clusters.is_empty() {
        return Err(nothing_seen(timeline, &known, &filter).await);
    }
    let mut filter = filter.without(Key::Cluster);
    if !filter.only(Key::Namespace).is_empty() {
        // These are read and no others.
        filter = filter.without(Key::Namespace);
    }
    Ok(Some(Caller {
        user: known.user,
        filter,
        clusters,
        unasked,
        session,
    }))
}

fn refuse_impersonation(parts: &Parts) -> Result<(), Status> {
    if impersonation::count_of(&parts.headers) > 0 {
        return Err(Status::bad_request(
            "the timeline is not shown on behalf of another user",
        ));
    }
    Ok(())
}

/// The caller of a request below the archive's API group: a user of the home cluster, who sees the
/// path's namespace, or all of them.
async fn of_home(timeline: &Timeline, info: &RequestInfo, user: &User) -> Result<Caller, Status> {
    let home = timeline.sources.home();
    let home =
        home.ok_or_else(|| Status::unavailable("the archive does not serve its own cluster yet"))?;
    let of_path = info.namespace.as_str();
    let asked = Attributes::list_past(of_path);
    access::require(&home.server, user, &asked).await?;
    if info.is_ambiguous {
        return Err(Status::no_such_path());
    }
    let filter = query::filter(&info.query)?;
    if !filter.accepts(Key::Cluster, &home.name) {
        return Err(Status::bad_request(
            "the cluster's API server shows its own cluster and no other",
        ));
    }
    let wanted = filter.only(Key::Namespace).into_iter().map(str::to_owned);
    let wanted: Vec<String> = wanted.collect();
    // An event's namespace is where it is, and its causes are anywhere.
    let is_event = info.name == "event";
    let namespaces = match of_path {
        "" => Some(wanted).filter(|wanted| !wanted.is_empty() && !is_event),
        only if wanted.iter().all(|wanted| wanted == only) => Some(vec![only.to_owned()]),
        _ => {
            let why = format!("the path is of namespace {of_path}, and another is requested");
            return Err(Status::bad_request(why));
        }
    };
    let mut filter = filter.without(Key::Cluster);
    // A condition that the path's namespace does not meet leaves nothing.
    if is_event || (of_path.is_empty() && namespaces.is_some()) {
        filter = filter.without(Key::Namespace);
    }
    let visible = Visible {
        source: home,
        namespaces,
    };
    Ok(Caller {
        user: user.clone(),
        filter,
        clusters: vec![visible],
        unasked: Unasked::default(),
        session: None,
    })
}

/// The Status for a user who may see nothing of what is requested. Only users whom the archive
/// itself knows, and who may read its clusters' names, learn whether a cluster exists.
async fn nothing_seen(timeline: &Timeline, known: &Known, filter: &Filter) -> Status {
    let (root, sources) = (timeline.sources.root(), timeline.sources.all());
    let is_there = |name: &str| sources.iter().any(|source| source.name == name);
    let named = filter.only(Key::Cluster);
    if let Some(name) = named.into_iter().find(|name| !is_there(name))
        && known.is_known_to(root)
        && access::may_list_clusters(root, &known.user).await
    {
        return Status::no_such_cluster(name);
    }
    access::forbidden_to_list(&known.user)
}

/// The session of the request's cookie.
fn session(timeline: &Timeline, parts: &Parts, host: &str) -> Option<Arc<Session>> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let doors::Id(id) = parts.extensions.get()?;
    timeline.sessions.find(id, host, now)
}

/// A user, and the server or cluster that authenticated it.
pub(super) struct Known {
    pub(super) user: User,
    by: KnownBy,
    /// The server that authenticated the user.
    server: Arc<ApiServer>,
    /// The cluster that authenticated the user, if it is not the server itself.
    pub(super) cluster: Option<String>,
}

impl Known {
    /// Whether another server knows the same user.
    pub(super) fn is_known_to(&self, server: &ApiServer) -> bool {
        match self.by {
            KnownBy::ClusterToken(_) => {
                Arc::ptr_eq(&self.server.authenticator, &server.authenticator)
            }
            // These enter by `of_home`.
            KnownBy::FrontProxy => false,
            KnownBy::Nothing | KnownBy::Certificate | KnownBy::OwnToken => true,
        }
    }
}

/// Who authenticates credentials.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    Server,
    /// This cluster, which also knows the server's own users.
    Cluster(&'a str),
    /// The server, or else this cluster.
    ServerOr(&'a str),
    /// The server, or else the only cluster. A user who is known by a token of the home cluster is
    /// one of that cluster.
    ServerOrOnly,
}

/// Finds the user of a request's credentials.
///
/// # Errors
/// 401 for an unknown user, 503 if the credentials cannot be checked.
pub(super) async fn known(
    timeline: &Timeline,
    parts: &Parts,
    asked: Asked<'_>,
) -> Result<Known, Status> {
    let root = timeline.sources.root();
    let mut of_server = Err(Status::unauthorized());
    if !matches!(asked, Asked::Cluster(_)) {
        let found = access::identify(root, parts).await;
        of_server = found.map(|(user, by)| Known {
            user,
            by,
            server: Arc::clone(root),
            cluster: None,
        });
        // A user of a cluster that reviews tokens for the server may also be a user of the named
        // cluster, which must authenticate the user itself.
        let is_of_cluster = |known: &Known| matches!(known.by, KnownBy::ClusterToken(_));
        if of_server.as_ref().is_ok_and(|known| !is_of_cluster(known)) {
            return of_server;
        }
    }
    let (sources, home) = (timeline.sources.all(), timeline.sources.home());
    let source = match (asked, sources.as_slice()) {
        (Asked::Cluster(name) | Asked::ServerOr(name), all) => {
            all.iter().find(|source| source.name == name)
        }
        (Asked::ServerOrOnly, [only]) => Some(only),
        // The home cluster has reviewed the token already, for the server.
        (Asked::ServerOrOnly, _) => home.as_ref().filter(|_| of_server.is_ok()),
        (Asked::Server, _) => None,
    };
    let other = source.filter(|it| !Arc::ptr_eq(&it.server.authenticator, &root.authenticator));
    let Some(source) = other else {
        return of_server;
    };
    match access::identify(&source.server, parts).await {
        Ok((user, by)) => Ok(Known {
            user,
            by,
            server: Arc::clone(&source.server),
            cluster: Some(source.name.clone()),
        }),
        Err(status) => of_server.map_err(|_| status),
    }
}

/// The requested clusters and namespaces that a user may see, of the clusters that `bound` accepts,
/// and the clusters of which that could not be found out entirely.
///
/// # Errors
/// Some could not be asked, and the user may see nothing of the others.
pub(super) async fn visible(
    timeline: &Timeline,
    known: &Known,
    filter: &Filter,
    bound: &Filter,
) -> Result<(Vec<Visible>, Unasked), Status> {
    let mut sources = timeline.sources.all();
    sources.retain(|source| {
        let is_accepted = |by: &Filter| by.accepts(Key::Cluster, &source.name);
        is_accepted(filter) && is_accepted(bound) && known.is_known_to(&source.server)
    });
    let found = sources.into_iter().map(|source| async {
        let wanted = filter.only(Key::Namespace);
        let found = namespaces(&source.server, &known.user, &wanted).await;
        (source, found)
    });
    let named = filter.only(Key::Cluster);
    let (mut seen, mut unasked, mut failure) = (Vec::new(), Unasked::default(), None);
    for (source, (namespaces, failed)) in join_all(found).await {
        if let Some(status) = failed {
            let is_known = namespaces.is_some() || named.contains(&&*source.name);
            unasked.add(&source.name, is_known);
            failure.get_or_insert(status);
        }
        seen.extend(namespaces.map(|namespaces| Visible { source, namespaces }));
    }
    match failure {
        Some(status) if seen.is_empty() => Err(status.about_clusters(&unasked)),
        _ => Ok((seen, unasked)),
    }
}

/// Adds all other namespaces that a user may see to the requested ones.
fn widen(clusters: &mut [Visible], all: &[Visible]) {
    for cluster in clusters {
        let mut whole = all
            .iter()
            .filter(|one| one.source.name == cluster.source.name);
        let Some(whole) = whole.next() else { continue };
        match (&mut cluster.namespaces, &whole.namespaces) {
            (Some(shown), Some(more)) => {
                shown.extend_from_slice(more);
                shown.sort_unstable();
                shown.dedup();
            }
            (shown, _) => *shown = None,
        }
    }
}

/// The requested namespaces that a user may see, as far as that can be found out, and the failure
/// of what cannot. `Some(None)` means all namespaces, and `None` means nothing at all.
async fn namespaces(
    server: &ApiServer,
    user: &User,
    wanted: &[&str],
) -> (Option<Option<Vec<String>>>, Option<Status>) {
    let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    let mut failure = match access::may_list(server, user, "").await {
        Ok(true) => return (Some(Some(wanted).filter(|wanted| !wanted.is_empty())), None),
        Ok(false) => None,
        Err(status) => Some(status),
    };
    let mut candidates = wanted;
    if candidates.is_empty() {
        candidates = server.authorizer.namespaces(user);
        if failure.is_none() && server.authorizer.asks_cluster(user) {
            match crate::api::read::stored_namespaces(server, NAMESPACES_MAX).await {
                Ok(stored) => candidates.extend(stored),
                Err(status) => failure = Some(status),
            }
            candidates.sort_unstable();
            candidates.dedup();
        }
    }
    let asked = candidates.into_iter().map(|namespace| async {
        let may = access::may_list(server, user, &namespace).await;
        (namespace, may)
    });
    let mut allowed = Vec::new();
    for (namespace, may) in join_all(asked).await {
        match may {
            Ok(true) => allowed.push(namespace),
            Ok(false) => {}
            Err(status) => failure = failure.or(Some(status)),
        }
    }
    allowed.sort_unstable();
    ((!allowed.is_empty()).then_some(Some(allowed)), failure)
}
