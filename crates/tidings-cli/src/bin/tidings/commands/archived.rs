//! Requests to an archive for the coverage of its clusters, and the versions of an event.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use jiff::Timestamp;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidings_cli::event::Event;
use tidings_history::{Count, Counted, Counts, Coverage};

use super::cluster::{ClusterFlags, CommandError, Server};
use super::objects::segment;

/// Pauses between the looks for a new service account's token.
const TOKEN_PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(5),
];
/// Versions in a page.
const PAGE: usize = 500;

/// Requests a path; returns the JSON answer.
pub(crate) async fn get<T: DeserializeOwned>(
    server: &Server,
    path: &str,
    what: &str,
) -> Result<T, CommandError> {
    let ask = || async {
        let request = Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        server.client.request::<Value>(request).await
    };
    let answer = server.ask(ask).await;
    let answer = answer.map_err(|error| CommandError::request(what, "events", error))?;
    serde_json::from_value(answer).map_err(|error| CommandError::Unreadable {
        what: what.to_owned(),
        why: error.to_string(),
    })
}

/// The token of a service account, in the Secret of its name. The cluster writes it a moment after
/// the Secret was made, for which this waits.
pub(crate) async fn token_of(
    server: &Server,
    namespace: &str,
    account: &str,
) -> Result<String, CommandError> {
    let what = format!("read the token of the service account {namespace}:{account}");
    let path = format!(
        "/api/v1/namespaces/{}/secrets/{}",
        segment(namespace),
        segment(account)
    );
    for pause in TOKEN_PAUSES {
        let secret: Value = get(server, &path, &what).await?;
        let token = secret.pointer("/data/token").and_then(Value::as_str);
        let token = token.and_then(|token| STANDARD.decode(token).ok());
        let token = token.and_then(|token| String::from_utf8(token).ok());
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            return Ok(token);
        }
        tokio::time::sleep(pause).await;
    }
    let why = format!("{what}: its Secret has none yet; try again in a moment");
    Err(CommandError::Failed(why))
}

/// Passes the counts of a cluster to `take`, the latest hour first, and returns their unit. `None`
/// if the server has no counts, or refuses them to this user.
pub(crate) async fn counts(
    server: &Server,
    (since, until): (Timestamp, Timestamp),
    mut take: impl FnMut(Count),
) -> Result<Option<Counted>, CommandError> {
    let what = "count the events in the archive";
    let mut token = String::new();
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("since", &since.to_string());
        query.append_pair("until", &until.to_string());
        query.append_pair("continue", &token);
        let path = format!("/counts?{}", query.finish());
        let page: Counts = match get(server, &path, what).await {
            Ok(page) => page,
            Err(error) if error.is_not_found() || error.is_forbidden() => return Ok(None),
            Err(error) => return Err(error),
        };
        page.counts.into_iter().for_each(&mut take);
        match page.r#continue {
            Some(more) => token = more,
            None => return Ok(Some(page.counted)),
        }
    }
}

/// The error if the server does not have an archive's path; `what` fits after "failed to".
pub(crate) fn no_archive(what: &str) -> CommandError {
    CommandError::Failed(format!(
        "{what}: the server is no archive; tidings archive prints the path of a kubeconfig for one"
    ))
}

/// A page of an export with versions, as lines.
pub(crate) async fn export(server: &Server, from: &[(&str, &str)]) -> Result<String, CommandError> {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(from)
        .finish();
    let ask = || async {
        let request = Request::get(format!("/export?{query}"))
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        server.client.request_text(request).await
    };
    let answer = server.ask(ask).await;
    let what = "export from the archive";
    answer.map_err(|error| {
        let error = CommandError::request(what, "events", error);
        if error.is_not_found() {
            no_archive(what)
        } else {
            error
        }
    })
}

/// The coverage of a namespace, or of the whole cluster if `namespace` is empty, if the selected
/// cluster is one of an archive and the server returns it.
pub(crate) async fn coverage_if_archive(
    flags: &ClusterFlags,
    server: &Server,
    namespace: &str,
) -> Option<Coverage> {
    // Other servers are not asked for a path they do not have.
    let is_named = || {
        let config = flags.config();
        config.is_ok_and(|config| config.cluster_url.path().contains("/clusters/"))
    };
    if !flags.is_of_all() && (flags.is_of_capture() || !is_named()) {
        return None;
    }
    coverage_of(server, namespace).await.ok()
}

/// The coverage of an archive's cluster, or of one of its namespaces.
pub(crate) async fn coverage(
    flags: &ClusterFlags,
    namespace: Option<&str>,
) -> Result<Coverage, CommandError> {
    let server = flags.server().await?;
    coverage_of(&server, namespace.unwrap_or_default()).await
}

/// The coverage of an archive's cluster, with what rules of retention would end. The server
/// examines a bounded number of events in each request.
pub(crate) async fn outlook(flags: &ClusterFlags, rules: &str) -> Result<Coverage, CommandError> {
    let server = flags.server().await?;
    let mut coverage = coverage_by(&server, &[("rules", rules)]).await?;
    let mut more = coverage.would_end_continue.take();
    while let Some(place) = more {
        let page = coverage_by(&server, &[("rules", rules), ("continue", place.as_str())]).await?;
        let (Some(found), Some(further)) = (&mut coverage.would_end, page.would_end) else {
            return Err(CommandError::Unreadable {
                what: "examine the rules of retention".to_owned(),
                why: "the cluster is not followed any more".to_owned(),
            });
        };
        found.add_all(further);
        more = page.would_end_continue.filter(|next| *next != place);
    }
    Ok(coverage)
}

/// The coverage that a server returns, of the whole cluster if `namespace` is empty.
pub(crate) async fn coverage_of(
    server: &Server,
    namespace: &str,
) -> Result<Coverage, CommandError> {
    match namespace {
        "" => coverage_by(server, &[]).await,
        namespace => coverage_by(server, &[("namespace", namespace)]).await,
    }
}

async fn coverage_by(server: &Server, query: &[(&str, &str)]) -> Result<Coverage, CommandError> {
    const WHAT: &str = "read the coverage of the archive";
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    let question = if query.is_empty() { "" } else { "?" };
    let path = format!("/coverage{question}{query}");
    let coverage: Coverage = get(server, &path, WHAT).await?;
    if coverage.cluster.is_empty() {
        return Err(CommandError::Unreadable {
            what: WHAT.to_owned(),
            why: "it names no cluster".to_owned(),
        });
    }
    Ok(coverage)
}

/// What keeps clusters of an archive from being followed as configured.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The cluster. `None` if this user learns only how many clusters have problems, because it has
    /// no credentials.
    pub(crate) cluster: Option<String>,
    /// The message of the archive's health check.
    pub(crate) what: String,
}

/// What is wrong with the clusters of an archive. Empty if this user may not read it.
pub(crate) async fn troubles(flags: &ClusterFlags) -> Vec<Trouble> {
    let health = health(flags).await.unwrap_or_default();
    troubles_in(&health)
}

async fn health(flags: &ClusterFlags) -> Result<String, CommandError> {
    let server = flags.root().await?.server().await?;
    let ask = || async {
        let request = Request::get("/readyz?verbose")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        server.client.request_text(request).await
    };
    let answer = server.ask(ask).await;
    answer.map_err(|error| CommandError::request("read the health of the archive", "events", error))
}

fn troubles_in(health: &str) -> Vec<Trouble> {
    let lines = health.lines().filter_map(|line| line.strip_prefix("[-]"));
    let trouble = |line: &str| {
        let (cluster, what) = match line.strip_prefix("cluster ") {
            Some(line) => {
                let (cluster, what) = line.split_once(": ")?;
                (Some(cluster.to_owned()), what)
            }
            None => (None, line.strip_prefix("clusters: ")?),
        };
        let what = what.to_owned();
        Some(Trouble { cluster, what })
    };
    lines.filter_map(trouble).collect()
}

/// All versions of an event that an archive has, the latest first.
pub(crate) async fn versions(
    server: &Server,
    namespace: &str,
    name: &str,
) -> Result<Vec<Event>, CommandError> {
    let what = format!("read the versions of {namespace}/{name} in the archive");
    let (namespace, event) = (segment(namespace), segment(name));
    let mut versions = Vec::new();
    let mut token = String::new();
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &PAGE.to_string());
        if !token.is_empty() {
            query.append_pair("continue", &token);
        }
        let query = query.finish();
        let path = format!("/api/v1/namespaces/{namespace}/events/{event}/versions?{query}");
        let page: ObjectList<Value> = match get(server, &path, &what).await {
            Ok(page) => page,
            Err(error) if error.is_not_found() && !error.is_about(name) => {
                return Err(no_archive(&what));
            }
            Err(error) => return Err(error),
        };
        versions.extend(page.items.into_iter().map(Event::new));
        token = page.metadata.continue_.unwrap_or_default();
        if token.is_empty() {
            return Ok(versions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_health_check_names_the_clusters_in_trouble() {
        let health = "[+]ping ok\n[-]store failed: reason withheld\n\
                      [+]cluster well: 3 s since progress, watching\n\
                      [-]cluster away: 24 s since progress, unreachable: refused: why\n\
                      [-]cluster clusters: refused\n\
                      readyz check passed\n";
        let trouble = |cluster: Option<&str>, what: &str| Trouble {
            cluster: cluster.map(str::to_owned),
            what: what.to_owned(),
        };
        let away = trouble(
            Some("away"),
            "24 s since progress, unreachable: refused: why",
        );
        let expected = [away, trouble(Some("clusters"), "refused")];
        assert_eq!(troubles_in(health), expected);
        assert_eq!(
            troubles_in("[-]clusters: 1 of 2 have problems\n"),
            [trouble(None, "1 of 2 have problems")]
        );
        assert!(troubles_in("[+]clusters: 2\nok").is_empty());
    }
}
