//! The clusters that a command reads: the selected one, or all of an archive (`--cluster all`). Of
//! a cluster whose API server serves an archive, that is where the archive has it.
//!
//! An archive lists its clusters to users that it knows itself. Others, whom only a cluster knows,
//! name the clusters by the contexts of their kubeconfig. Users of a cluster whose API server
//! serves the archive ask that API server.

use serde::Deserialize;
use serde::de::IgnoredAny;
use tidings_history::Clusters;
use tidings_server::PAST_VERSION;

use super::archived::{self, Trouble};
use super::cluster::{ClusterFlags, CommandError, NamespaceFlags, tell};
use super::past::{self, Sought};

/// What a list of clusters is for; fits after "failed to".
const LIST: &str = "list the clusters of the archive";

/// The clusters of an archive, as the API server of its home cluster lists them.
#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    /// Whether it is the cluster of the API server itself.
    #[serde(default, rename = "isHome")]
    is_home: bool,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

/// The names of an archive's clusters, with the flags that select each.
///
/// If all clusters are selected, and the server does not list them, they are those of the archive
/// behind the selected API server, or those that the kubeconfig has contexts for: an archive that
/// lets users of its clusters in (`--cluster-access`) does not know them itself.
pub(crate) async fn clusters(
    flags: &ClusterFlags,
) -> Result<Vec<(String, ClusterFlags)>, CommandError> {
    let error = match listed(flags).await {
        Err(error) if error.is_refusal() || error.is_not_found() => error,
        listed => return listed,
    };
    if flags.is_of_all() {
        let known = flags.clusters_of_kubeconfig().await?;
        if !known.is_empty() {
            tell(
                "the clusters of the kubeconfig are read: the archive lists its clusters to its own users",
            );
            return Ok(known);
        }
        if let Some(behind) = behind(flags).await? {
            return Ok(behind);
        }
    }
    Err(match error {
        CommandError::Unauthorized(status) if flags.is_of_all() => {
            CommandError::UnknownToArchive(status)
        }
        error if error.is_not_found() => archived::no_archive("find clusters"),
        error => error,
    })
}

/// The clusters that an archive lists.
async fn listed(flags: &ClusterFlags) -> Result<Vec<(String, ClusterFlags)>, CommandError> {
    let root = flags.root().await?;
    let answer: Clusters = archived::get(&root.server().await?, "/clusters", LIST).await?;
    root.below(answer.clusters.into_iter().map(|cluster| cluster.name))
}

/// The clusters of the archive behind the API server of the selected cluster, if it has one that
/// answers: the home cluster, whose past events are read, and the others by `clusters/proxy`. A
/// user who may not list the clusters gets the home cluster, and is told so.
async fn behind(flags: &ClusterFlags) -> Result<Option<Vec<(String, ClusterFlags)>>, CommandError> {
    let home = flags.of_context_alone();
    let server = home.server().await?;
    match past::seek(&server).await {
        Ok(Sought::Found) => {}
        Ok(Sought::Absent) | Err(_) => return Ok(None),
        Ok(Sought::Unknown(what, why)) => {
            let why = format!("list the clusters of the archive: {what}: {why}");
            return Err(CommandError::Failed(why));
        }
    }
    let path = format!("/apis/{PAST_VERSION}/clusters");
    let listed: List = match archived::get(&server, &path, LIST).await {
        Ok(listed) => listed,
        Err(error) if error.is_forbidden() => {
            tell(&format!(
                "other clusters than this one are not shown: failed to {error}"
            ));
            // The name is only shown, and this is the one by default.
            let name = name_of_home(&home, server.context_namespace().ok()).await;
            let name = name.unwrap_or_else(|_| "home".to_owned());
            return Ok(Some(vec![(name, home.by(past::through))]));
        }
        Err(error) => return Err(error),
    };
    let address = home.config()?.cluster_url.to_string();
    let clusters = listed.items.into_iter().map(|item| {
        let name = item.metadata.name;
        let flags = if item.is_home {
            home.by(past::through)
        } else {
            home.at(proxied(&address, &name))
        };
        (name, flags)
    });
    Ok(Some(clusters.collect()))
}

/// The name that the archive gives its home cluster, as its coverage of a namespace says.
async fn name_of_home(
    home: &ClusterFlags,
    namespace: Option<String>,
) -> Result<String, CommandError> {
    let archive = home.by(past::through);
    let coverage = archived::coverage(&archive, namespace.as_deref()).await?;
    Ok(coverage.cluster)
}

/// The flags for everything that an archive serves of the selected cluster: with the archive behind
/// the cluster's API server, if it has one, below `clusters/proxy`. `namespace`: one that the user
/// may read.
///
/// # Errors
/// It is not known whether there is an archive, or what it calls the cluster.
pub(crate) async fn whole(
    flags: &ClusterFlags,
    namespace: Option<&str>,
) -> Result<ClusterFlags, CommandError> {
    if flags.cluster_of_archive()?.is_some() {
        return Ok(flags.clone());
    }
    let server = flags.server().await?;
    match past::seek(&server).await {
        Ok(Sought::Found) => {}
        // The first request fails like this one, and its error is printed.
        Ok(Sought::Absent) | Err(_) => return Ok(flags.clone()),
        Ok(Sought::Unknown(what, why)) => {
            let why = format!("find the cluster's archive: {what}: {why}");
            return Err(CommandError::Failed(why));
        }
    }
    let namespace = namespace.map(str::to_owned);
    let namespace = namespace.or_else(|| server.context_namespace().ok());
    let name = name_of_home(flags, namespace).await?;
    let address = flags.config()?.cluster_url.to_string();
    Ok(flags.at(proxied(&address, &name)))
}

/// The address of a cluster of the archive behind the API server at an address.
fn proxied(address: &str, name: &str) -> String {
    let address = address.trim_end_matches('/');
    format!("{address}/apis/{PAST_VERSION}/clusters/{name}/proxy")
}

/// Whether the selected address is that of one cluster of the archive behind an API server.
pub(crate) fn is_proxied(flags: &ClusterFlags) -> Result<bool, CommandError> {
    if flags.is_of_all() {
        return Ok(false);
    }
    let address = flags.config()?.cluster_url.to_string();
    Ok(address.contains(&format!("/apis/{PAST_VERSION}/clusters/")))
}

/// The clusters to read: the selected one without a name, or all clusters of an archive with their
/// names. Of all clusters, those that cannot be read are named on standard error and left out: an
/// archive may follow clusters that do not know each other's users.
///
/// # Errors
/// The error of the first cluster if none of all can be read.
pub(crate) async fn sources(
    flags: &ClusterFlags,
    namespaces: &NamespaceFlags,
) -> Result<Vec<(Option<String>, ClusterFlags)>, CommandError> {
    if !flags.is_of_all() {
        return Ok(vec![(None, flags.clone())]);
    }
    let clusters = clusters(flags).await?;
    // A cluster that could not be opened is not among them.
    for Trouble { cluster, what } in archived::troubles(flags).await {
        let cluster = cluster.filter(|name| clusters.iter().all(|(known, _)| known != name));
        if let Some(name) = cluster {
            tell(&format!("cluster {name} is not shown: {what}"));
        }
    }
    let tried = clusters
        .iter()
        .map(|(_, flags)| try_to_list(flags, namespaces));
    let tried = futures::future::join_all(tried).await;
    let (mut readable, mut first) = (Vec::new(), None);
    for ((name, flags), tried) in clusters.into_iter().zip(tried) {
        match tried {
            Ok(()) => readable.push((Some(name), flags)),
            Err(error) => {
                tell(&format!("cluster {name} is not shown: failed to {error}"));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if readable.is_empty() => Err(error),
        _ => Ok(readable),
    }
}

/// Requests one event of a cluster, to find out whether the cluster's events can be read.
async fn try_to_list(
    flags: &ClusterFlags,
    namespaces: &NamespaceFlags,
) -> Result<(), CommandError> {
    let server = flags.server().await?;
    let below = match namespaces.name() {
        _ if namespaces.all_namespaces => String::new(),
        Some(name) => format!("/namespaces/{name}"),
        None => format!("/namespaces/{}", server.context_namespace()?),
    };
    let path = format!("/api/v1{below}/events?limit=1");
    archived::get::<IgnoredAny>(&server, &path, "read its events").await?;
    Ok(())
}
