//! What is past, from the archive of the selected cluster. The archive is found in the cluster's
//! own API server, by its API group, and read with the same credentials.
//!
//! Events that both have are shown as the cluster has them. They are recognized by their uids,
//! because the archive gives them resourceVersions of its own.

use std::collections::HashSet;

use http::Request;
use http::uri::PathAndQuery;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tidings_cli::event::Event;
use tidings_history::timestamp;
use tidings_server::{PAST_GROUP, PAST_VERSION};

use super::archived;
use super::cluster::{ARCHIVE_USE, ClusterFlags, CommandError, Server, one_line, tell};
use super::gaps;
use super::reader::Reader;
use crate::clock;

/// Whether to read the cluster, its archive, or both.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct PastFlags {
    /// Read only the cluster, not its archive
    #[arg(long, conflicts_with = "archive")]
    live: bool,
    /// Read only the archive that the cluster's API server serves (pastevents)
    #[arg(long)]
    archive: bool,
}

impl PastFlags {
    /// Whether only the archive is read.
    pub(crate) fn is_archive_alone(&self) -> bool {
        self.archive
    }

    /// A reader of the cluster's archive; `None` if there is none, or it is not read. `is_asked`:
    /// whether more than the cluster has may be wanted.
    pub(crate) async fn reader(
        &self,
        cluster: &ClusterFlags,
        reader: &Reader,
        is_asked: bool,
    ) -> Result<Option<Reader>, CommandError> {
        let server = self.server(cluster, &reader.server, is_asked).await?;
        Ok(server.map(|server| Reader {
            server,
            rbac: ARCHIVE_USE,
            ..reader.clone()
        }))
    }

    /// A reader of the cluster's archive that takes the place of the cluster's reader; `None` if
    /// the cluster is read. An archive that refuses the user, or does not answer, is told and not
    /// read. One that does not follow the cluster is told, too.
    pub(crate) async fn instead(
        &self,
        cluster: &ClusterFlags,
        reader: &Reader,
        is_asked: bool,
    ) -> Result<Option<Reader>, CommandError> {
        let Some(archive) = self.reader(cluster, reader, is_asked).await? else {
            return Ok(None);
        };
        if !self.archive
            && let Err(error) = archive.list_nothing().await
            && tell_cluster_alone(&error)
        {
            return Ok(None);
        }
        tell_alone();
        let coverage = archived::coverage_of(&archive.server, &archive.namespace).await;
        if let Ok(coverage) = coverage
            && gaps::is_behind(&coverage, clock::now())
            && let Some(until) = coverage.followed.iter().map(|it| it.complete_until).min()
        {
            let until = gaps::moment(timestamp(until));
            tell(&format!(
                "the archive is complete only until {until}; --live reads what the cluster has"
            ));
        }
        Ok(Some(archive))
    }

    /// The cluster's archive, as a server of events; see [`reader`](Self::reader).
    pub(crate) async fn server(
        &self,
        cluster: &ClusterFlags,
        server: &Server,
        is_asked: bool,
    ) -> Result<Option<Server>, CommandError> {
        // A cluster of an archive is read there already.
        if self.live || !(is_asked || self.archive) || cluster.is_of_archive() {
            return Ok(None);
        }
        if !self.archive {
            return Ok(if cluster.is_of_capture() {
                None
            } else {
                find(server).await
            });
        }
        let sought = if cluster.is_of_capture() {
            Ok(Sought::Absent)
        } else {
            seek(server).await
        };
        match sought {
            Ok(Sought::Found) => Ok(Some(through(server))),
            Ok(Sought::Absent) => Err(CommandError::Failed(format!(
                "read the archive: the API server serves none ({PAST_GROUP})"
            ))),
            Ok(Sought::Unknown(what, why)) => Err(CommandError::Failed(format!(
                "read the archive: {what}: {why}"
            ))),
            Err(error) => Err(CommandError::request(
                "read the archive",
                ARCHIVE_USE,
                error,
            )),
        }
    }
}

/// The flags for the archive of the selected cluster, if its API server has one that answers.
pub(crate) async fn archive_of(
    cluster: &ClusterFlags,
) -> Result<Option<ClusterFlags>, CommandError> {
    match seek(&cluster.server().await?).await {
        Ok(Sought::Found) => Ok(Some(cluster.by(through))),
        // An error of the server is left to the request for its coverage.
        Ok(Sought::Absent) | Err(_) => Ok(None),
        Ok(Sought::Unknown(what, why)) => {
            let why = format!("read the coverage of the archive: {what}: {why}");
            Err(CommandError::Failed(why))
        }
    }
}

/// Whether the API server of a cluster serves an archive.
pub(crate) enum Sought {
    Found,
    Absent,
    /// What is not known, and why.
    Unknown(&'static str, String),
}

/// Asks the API server of a cluster for the archive's API group.
///
/// # Errors
/// The server cannot be reached, or does not know the user: it cannot be asked for events, either.
pub(crate) async fn seek(server: &Server) -> kube::Result<Sought> {
    let ask = || async {
        let request = Request::get(format!("/apis/{PAST_VERSION}"))
            .header(http::header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        server.client.request::<Value>(request).await
    };
    let unknown = |what, message: &str| Ok(Sought::Unknown(what, one_line(message)));
    match server.in_time(ask()).await {
        Ok(_) => Ok(Sought::Found),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Sought::Absent),
        Err(kube::Error::Api(status)) if status.code >= 500 => unknown(
            "the archive of this cluster does not answer",
            &status.message,
        ),
        Err(kube::Error::Api(status)) if status.code != 401 => unknown(
            "whether this cluster has an archive is not known",
            &status.message,
        ),
        Err(error) => Err(error),
    }
}

/// The archive of a cluster, if its API server has one that answers. If that is not known, it is
/// told; an error of the server is left to the request for its events.
async fn find(server: &Server) -> Option<Server> {
    match seek(server).await {
        Ok(Sought::Found) => Some(through(server)),
        Ok(Sought::Unknown(what, why)) => {
            tell(&format!(
                "{what}, so only what the cluster has is shown: {why}"
            ));
            None
        }
        Ok(Sought::Absent) | Err(_) => None,
    }
}

/// The same server, on which requests for events, coverage, counts and the timeline's answers go to
/// the archive.
pub(crate) fn through(server: &Server) -> Server {
    let client = server.client.clone();
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        async move {
            let target = request.uri().path_and_query().map(PathAndQuery::as_str);
            if let Some(target) = target.and_then(rewritten) {
                *request.uri_mut() = target.parse()?;
            }
            client.send(request).await.map_err(tower::BoxError::from)
        }
    });
    Server {
        client: Client::new(service, namespace),
        timeout: server.timeout,
    }
}

/// The place in the API group of a request for events, coverage, counts or an answer of the
/// timeline; `None` for others.
fn rewritten(target: &str) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let mut query = query.to_owned();
    let mut given = form_urlencoded::parse(query.as_bytes());
    let namespace = given.find(|(name, _)| name == "namespace");
    // A segment of the path, whatever its text.
    let namespace = namespace.map(|(_, namespace)| {
        form_urlencoded::byte_serialize(namespace.as_bytes()).collect::<String>()
    });
    let below = match parts.as_slice() {
        ["api", "v1", rest @ ..] | ["apis", "events.k8s.io", "v1", rest @ ..] => match rest {
            ["events"] => "pastevents".to_owned(),
            ["namespaces", namespace, "events", rest @ ..] => {
                let place = ["namespaces", namespace, "pastevents"];
                [&place[..], rest].concat().join("/")
            }
            _ => return None,
        },
        ["coverage"] => match namespace {
            None => "coverage".to_owned(),
            Some(namespace) => {
                query.clear();
                format!("namespaces/{namespace}/coverage")
            }
        },
        ["counts"] => "counts".to_owned(),
        // The archive checks permissions by the path, and looks for causes in all that the path
        // allows. The namespace in the query is the event's, and its causes may be in others.
        ["timeline", "api", answer] => format!("timeline/{answer}"),
        ["namespaces", namespace, "timeline", "api", answer] => {
            format!("namespaces/{namespace}/timeline/{answer}")
        }
        _ => return None,
    };
    let question = if query.is_empty() { "" } else { "?" };
    Some(format!("/apis/{PAST_VERSION}/{below}{question}{query}"))
}

/// Tells that the archive refused the user or did not answer. Returns whether it was so.
fn tell_cluster_alone(error: &CommandError) -> bool {
    let is_cluster_alone = error.is_forbidden() || error.may_pass();
    if is_cluster_alone {
        tell(&format!("only what the cluster has is shown: {error}"));
    }
    is_cluster_alone
}

/// Lists an archive's events, to be added to those of its cluster. They are listed before the
/// cluster's, because events expire there meanwhile. After a refusal, which is told, there are
/// none.
///
/// # Errors
/// The errors of the archive, except for a refusal.
pub(crate) async fn list(
    reader: &Reader,
    limit: Option<usize>,
) -> Result<Vec<Event>, CommandError> {
    match reader.list(limit).await {
        Ok(listed) => Ok(listed.events),
        Err(error) if tell_cluster_alone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Adds an archive's events to those of its cluster, except for those that the cluster has, too.
pub(crate) fn add(past: Vec<Event>, events: &mut Vec<Event>) {
    let added = join(events, past);
    if added > 0 {
        tell(&format!(
            "{added} of the events are from the archive of this cluster"
        ));
    }
}

/// Joins what is past to what is live; returns the number of added events.
fn join(live: &mut Vec<Event>, past: Vec<Event>) -> usize {
    let known: HashSet<String> = live.iter().map(|event| event.uid().to_owned()).collect();
    let before = live.len();
    let is_new = |event: &Event| event.uid().is_empty() || !known.contains(event.uid());
    live.extend(past.into_iter().filter(is_new));
    live.len() - before
}

/// Says that only the archive is read.
pub(crate) fn tell_alone() {
    tell("these are from the archive of this cluster");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_go_to_the_archives_group() {
        for (target, expected) in [
            ("/api/v1/events?limit=5", Some("pastevents?limit=5")),
            (
                "/api/v1/namespaces/shop/events",
                Some("namespaces/shop/pastevents"),
            ),
            (
                "/apis/events.k8s.io/v1/namespaces/shop/events/web.1/versions?limit=1",
                Some("namespaces/shop/pastevents/web.1/versions?limit=1"),
            ),
            ("/coverage", Some("coverage")),
            ("/coverage?rules=x", Some("coverage?rules=x")),
            ("/coverage?namespace=shop", Some("namespaces/shop/coverage")),
            (
                "/coverage?namespace=a%2F..%2F..",
                Some("namespaces/a%2F..%2F../coverage"),
            ),
            ("/counts?since=x&until=y", Some("counts?since=x&until=y")),
            (
                "/timeline/api/top?by=reason",
                Some("timeline/top?by=reason"),
            ),
            (
                "/timeline/api/event?namespace=shop&name=a",
                Some("timeline/event?namespace=shop&name=a"),
            ),
            (
                "/namespaces/shop/timeline/api/event?namespace=shop&name=a",
                Some("namespaces/shop/timeline/event?namespace=shop&name=a"),
            ),
            (
                "/timeline/api/top?namespace=a%2F..%2F..",
                Some("timeline/top?namespace=a%2F..%2F.."),
            ),
            // The rest is asked of the cluster.
            ("/version", None),
            ("/api/v1/namespaces/shop/pods/web", None),
            ("/api/v1/namespaces/shop", None),
            ("/apis/apps/v1/deployments", None),
        ] {
            let expected = expected.map(|below| format!("/apis/{PAST_VERSION}/{below}"));
            assert_eq!(rewritten(target), expected, "{target}");
        }
    }

    #[test]
    fn what_both_have_is_shown_once_as_the_cluster_has_it() {
        let event = |uid: &str, version: &str| {
            Event::new(json!({"metadata": {"name": uid, "uid": uid, "resourceVersion": version}}))
        };
        let mut live = vec![event("a", "7"), event("b", "8")];
        let past = vec![event("b", "1000"), event("c", "1001"), event("c", "1001")];
        // The archive itself has no doubles.
        assert_eq!(join(&mut live, past), 2);
        let versions: Vec<_> = live.iter().map(|event| event.revision().unwrap()).collect();
        assert_eq!(versions, [7, 8, 1001, 1001]);
    }
}
