//! `/livez`, `/readyz` and `/healthz` (`k8s.io/apiserver/pkg/server/healthz`). Open to all clients,
//! as kube-apiserver's are by default.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tidings_core::printable;
use tidings_core::validate::{bounded_text, go_quote};
use tidings_history::Following;

use crate::api::documents::not_found;
use crate::api::server::ApiServer;
use crate::auth::{ANONYMOUS, User};
use crate::http::params;
use crate::http::request::RequestInfo;

/// Maximum bytes of a cluster's problem in an answer. An object storage, or a proxy in front of it,
/// may answer with a whole page.
const PROBLEM_BYTES_MAX: usize = 4 << 10;

/// The checks of a path. A server that is shutting down is alive but not ready.
pub(crate) fn checks(path: &str) -> &'static [&'static str] {
    if path.starts_with("/readyz") {
        &["ping", "store", "shutdown"]
    } else {
        &["ping", "store"]
    }
}

/// Our name for a check of kube-apiserver.
pub(crate) fn our_name(check: &str) -> &str {
    match check {
        "etcd" => "store",
        "log" => "ping",
        other => other,
    }
}

/// Why a check fails; `None` if it passes.
pub(crate) async fn failure(server: &ApiServer, check: &str) -> Option<String> {
    match check {
        "store" => server.observed.stats(&*server.store).await.err(),
        "shutdown" => server
            .is_stopping()
            .then(|| "process is shutting down".into()),
        _ => None,
    }
}

/// GET of all checks.
pub(crate) async fn all(
    State(server): State<Arc<ApiServer>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    Extension(user): Extension<User>,
) -> Response {
    let following = server.followed.as_ref().map(|followed| {
        let now = followed.history.following();
        following_line(&followed.name, &now, &user)
    });
    let mut found = Vec::new();
    for check in checks(info.uri.path()) {
        found.push((*check, failure(&server, check).await));
    }
    report(&info, &found, following)
}

/// A line about the following of a cluster, and about its sealing if that fails. This is not a
/// check, because stored events are served in any case. Anonymous clients do not see the reason of
/// a problem.
pub(crate) fn following_line(name: &str, following: &Following, user: &User) -> String {
    let problem = problem_of(following);
    let sign = if problem.is_none() { '+' } else { '-' };
    let progress = following.since_progress.map_or_else(
        || "no progress yet".to_owned(),
        |since| format!("{} s since progress", since.as_secs()),
    );
    let why = match problem {
        Some(why) if user.name != ANONYMOUS => format!(": {why}"),
        Some(_) => ": reason withheld".to_owned(),
        None => String::new(),
    };
    let state = following.state;
    format!("[{sign}]cluster {name}: {progress}, {state}{why}\n")
}

/// What is wrong with the following or the sealing of a cluster, in one line of a bounded length.
pub(crate) fn problem_of(following: &Following) -> Option<String> {
    let problem = following.problem()?;
    Some(bounded_text(one_line(&problem), PROBLEM_BYTES_MAX))
}

/// A line about all clusters of an archive, without their names.
pub(crate) fn clusters_line(clusters: usize, failing: usize) -> String {
    match failing {
        0 => format!("[+]clusters: {clusters}\n"),
        _ => format!("[-]clusters: {failing} of {clusters} have problems\n"),
    }
}

/// A problem's text in one line, because it often contains another server's message.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    printable(&words).into_owned()
}

/// The answer to a GET of all checks: each with its failure, if any, and additional lines.
pub(crate) fn report(
    info: &RequestInfo,
    checks: &[(&str, Option<String>)],
    more: impl IntoIterator<Item = String>,
) -> Response {
    let (query, path) = (&info.query, info.uri.path());
    let mut excluded: BTreeSet<&str> = query.values(params::EXCLUDE).map(our_name).collect();
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for (check, failure) in checks {
        if excluded.remove(check) {
            lines.push(format!("[+]{check} excluded: ok\n"));
            continue;
        }
        match failure {
            None => lines.push(format!("[+]{check} ok\n")),
            Some(why) => {
                // The reason is only logged, as clients may be anonymous.
                lines.push(format!("[-]{check} failed: reason withheld\n"));
                failures.push(format!("{check}: {why}"));
            }
        }
    }
    lines.extend(more);
    if !excluded.is_empty() {
        let unknown: Vec<String> = excluded.iter().map(|name| go_quote(name)).collect();
        lines.push(format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(", ")
        ));
    }
    let lines = lines.concat();
    let name = path.trim_matches('/');
    if !failures.is_empty() {
        let failures = failures.join("; ");
        tracing::warn!(check = name, failures, "health check failed");
        return failed(format!("{lines}{name} check failed\n"));
    }
    if query.has(params::VERBOSE) {
        format!("{lines}{name} check passed\n").into_response()
    } else {
        "ok".into_response()
    }
}

/// GET of one check.
pub(crate) async fn one(
    State(server): State<Arc<ApiServer>>,
    Path(check): Path<String>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Response {
    let check = our_name(&check);
    if !checks(info.uri.path()).contains(&check) {
        return not_found();
    }
    report_one(failure(&server, check).await)
}

/// The answer to a GET of one check.
pub(crate) fn report_one(failure: Option<String>) -> Response {
    match failure {
        None => "ok".into_response(),
        Some(why) => failed(format!("internal server error: {}\n", one_line(&why))),
    }
}

fn failed(text: String) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_in_one_line_of_a_bounded_length() {
        let user = User::new("ann", "", []);
        let mut following = Following::new("watching");
        following.not_sealed = Some("<p>\nrefused".to_owned());
        let line = following_line("prod", &following, &user);
        let expected = "[-]cluster prod: no progress yet, watching: not sealed: <p> refused\n";
        assert_eq!(line, expected);
        following.not_sealed = Some("a\u{1b}[2J\u{9b}b\u{202e}".to_owned());
        let line = following_line("prod", &following, &user);
        assert!(line.ends_with("a\\u{1b}[2J\\u{9b}b\\u{202e}\n"), "{line}");
        following.not_sealed = Some("<p>\n".repeat(PROBLEM_BYTES_MAX));
        let line = following_line("prod", &following, &user);
        assert!(line.ends_with("…\n") && line.lines().count() == 1, "{line}");
        assert!(line.len() < PROBLEM_BYTES_MAX + 100, "{}", line.len());
    }
}
