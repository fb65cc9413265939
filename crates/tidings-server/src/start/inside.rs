//! Sources of events for the Model Context Protocol within this process. Nothing listens: only who
//! has the source reads it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use tidings_store::memory::MemoryStore;

use super::StartError;
use crate::api::random;
use crate::api::server::ApiOptions;
use crate::api::server::ApiServer;
use crate::api::server::FollowedCluster;
use crate::archive::Clusters;
use crate::auth::{self, Authenticator, MASTERS, Token, User};
use crate::clock::SystemClock;
use crate::mcp::Source;
use crate::timeline::{Entrance, Reads, Timeline};

/// The user that reads within this process.
const USER: &str = "timeline";

/// The events of followed clusters.
///
/// # Errors
/// [`StartError`] says which cluster was wrong.
pub fn source_of_clusters(
    clusters: Vec<FollowedCluster>,
    options: ApiOptions,
) -> Result<Arc<dyn Source>, StartError> {
    let (clusters, credentials) = closed(clusters, options)?;
    let timeline = Timeline::of_archive(clusters, Entrance::Login);
    Ok(source(timeline, credentials))
}

/// The events of a server, as the user of a token sees them.
///
/// # Errors
/// [`StartError`]: the token cannot be sent in a header.
pub fn source_of_server(
    server: &Arc<ApiServer>,
    token: &str,
) -> Result<Arc<dyn Source>, StartError> {
    let timeline = Timeline::of_server(Arc::clone(server), Entrance::Login);
    Ok(source(timeline, bearer(token)?))
}

fn source(timeline: Timeline, credentials: HeaderValue) -> Arc<dyn Source> {
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, credentials)]);
    Arc::new(Reads::new(Arc::new(timeline), &headers))
}

/// Followed clusters that only this process can read, and its credentials for them.
pub(super) fn closed(
    clusters: Vec<FollowedCluster>,
    options: ApiOptions,
) -> Result<(Arc<Clusters>, HeaderValue), StartError> {
    // Only this process knows the token.
    let token = random::token()?;
    let user = User::new(USER, "", [MASTERS.to_owned()]);
    let credentials = bearer(&token)?;
    let authenticator = Authenticator::new(vec![Token { token, user }]);
    // The root has no events of its own.
    let store = Arc::new(MemoryStore::default());
    let server = ApiServer::new(store, Arc::new(SystemClock), authenticator, options);
    let all = Arc::new(Clusters::new(Arc::new(server), None, None));
    let names = clusters.iter().map(|cluster| cluster.name.clone());
    all.set_order(names.collect());
    for cluster in clusters {
        all.add(cluster)?;
    }
    Ok((all, credentials))
}

pub(super) fn bearer(token: &str) -> Result<HeaderValue, StartError> {
    auth::bearer(token).map_err(|_| StartError::Options {
        why: "the token has characters that no header can have",
    })
}
