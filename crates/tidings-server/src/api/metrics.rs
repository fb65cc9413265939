//! `/metrics`: the page of everything that is counted.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use tidings_store::Stats;

use super::discovery::build_info;
use crate::admission::{AdmissionCounts, LimitType};
use crate::api::server::ApiServer;
use crate::audit::AuditCounts;
use crate::auth::AccessCounters;
use crate::metrics::{Text, write_process};

/// GET of everything that is counted.
pub(crate) async fn metrics(State(server): State<Arc<ApiServer>>) -> Response {
    let stats = server.observed.stats(&*server.store).await.ok();
    let content_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    )];
    (content_type, page(&server, stats.as_ref())).into_response()
}

/// Everything in Prometheus' text form.
fn page(server: &ApiServer, stats: Option<&Stats>) -> String {
    let metrics = &server.metrics;
    let mut text = Text::default();
    metrics.write_requests(&mut text);
    let connections = server.connections.counts();
    metrics.connections.write(connections, &mut text);
    metrics.flow.write(&server.limits.now(), &mut text);
    metrics.write_answers(&mut text);
    if let Some(stats) = stats {
        write_store(stats, &mut text);
    }
    metrics.policy.write_access(&mut text);
    write_access(&server.access, &mut text);
    metrics.policy.write_admission(&mut text);
    write_admission(&server.admission_counts(), &mut text);
    if let Some(audit) = server.audit_counts() {
        write_audit(&audit, &mut text);
    }
    text.metric(
        "kubernetes_build_info",
        "gauge",
        "The server's version; always 1.",
    );
    let version = build_info();
    let labels: Vec<(&str, &str)> = version
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    text.sample("kubernetes_build_info", &labels, 1);
    write_process(&mut text);
    text.into_string()
}

fn write_store(stats: &Stats, text: &mut Text) {
    let events = [("resource", "events")];
    let events_of_core = [("group", ""), ("resource", "events")];
    for (name, labels) in [
        ("apiserver_storage_objects", &events[..]),
        ("apiserver_resource_objects", &events_of_core[..]),
    ] {
        text.metric(name, "gauge", "Events whose end is not yet written down.");
        text.sample(name, labels, stats.records);
    }
    let name = "apiserver_resource_size_estimate_bytes";
    text.metric(name, "gauge", "Bytes of these events, before compression.");
    text.sample(name, &events_of_core, stats.value_bytes);
    let name = "apiserver_storage_size_bytes";
    text.metric(name, "gauge", "Bytes the store takes on disk.");
    text.sample(name, &[("storage_cluster_id", "tidings")], stats.disk_bytes);
    text.single(
        "tidings_storage_expiry_lag_seconds",
        "gauge",
        "By how much the writing down of ends is behind the clock.",
        stats.expiry_lag_ms as f64 / 1e3,
    );
    text.single(
        "tidings_storage_expired_total",
        "counter",
        "Events whose end was written down since the start.",
        stats.expired,
    );
    text.single(
        "tidings_storage_watches",
        "gauge",
        "Watches of the store.",
        stats.watches,
    );
    text.single(
        "tidings_storage_list_snapshots",
        "gauge",
        "Snapshots of the store held for lists that are read page by page.",
        stats.list_snapshots,
    );
    text.single(
        "tidings_storage_changes_undone_total",
        "counter",
        "Changes taken back for pages of lists whose snapshot was not held.",
        stats.changes_undone,
    );
    text.single(
        "tidings_storage_revision",
        "gauge",
        "The revision of the latest change.",
        stats.revision,
    );
}

/// What a cluster was asked, and files that were replaced.
fn write_access(access: &AccessCounters, text: &mut Text) {
    for (name, help, answered, failed) in [
        (
            "apiserver_delegated_authn_request_total",
            "Tokens a cluster was asked about.",
            access.token_reviews.get(),
            access.token_review_failures.get(),
        ),
        (
            "apiserver_delegated_authz_request_total",
            "Permissions a cluster was asked about.",
            access.access_reviews.get(),
            access.access_review_failures.get(),
        ),
    ] {
        text.metric(name, "counter", help);
        text.sample(name, &[("code", "200")], answered);
        text.sample(name, &[("code", "<error>")], failed);
    }
    let name = "tidings_file_reloads_total";
    text.metric(
        name,
        "counter",
        "Replaced files of tokens, permissions and certificates, by what came of them.",
    );
    text.sample(name, &[("result", "success")], access.files_reloaded.get());
    text.sample(
        name,
        &[("result", "failure")],
        access.file_reload_failures.get(),
    );
}

fn write_admission(admission: &AdmissionCounts, text: &mut Text) {
    let name = "tidings_event_rate_limit_reached_total";
    text.metric(
        name,
        "counter",
        "Events that found a limit reached, in a dry run those let through.",
    );
    // Several limits may be of one type.
    for limit_type in LimitType::ALL {
        let of_type = |it: &&(LimitType, u64)| it.0 == limit_type;
        let mut counts = admission.rate_limited.iter().filter(of_type).peekable();
        if counts.peek().is_some() {
            let labels = [("type", limit_type.name())];
            text.sample(name, &labels, counts.map(|it| it.1).sum::<u64>());
        }
    }
    let name = "tidings_oversized_events_total";
    text.metric(name, "counter", "Events above the limit of their size.");
    text.sample(name, &[("outcome", "refused")], admission.oversized);
    text.sample(name, &[("outcome", "truncated")], admission.truncated);
}

fn write_audit(audit: &AuditCounts, text: &mut Text) {
    text.single(
        "apiserver_audit_event_total",
        "counter",
        "Entries for the audit log.",
        audit.offered,
    );
    let name = "apiserver_audit_error_total";
    text.metric(
        name,
        "counter",
        "Entries that are not in the audit log: dropped before a full queue, by whose they are, or not written to the file.",
    );
    text.sample(name, &[("plugin", "buffered")], audit.dropped);
    text.sample(name, &[("plugin", "refused")], audit.refused_dropped);
    text.sample(
        name,
        &[("plugin", "unauthenticated")],
        audit.unauthenticated_dropped,
    );
    text.sample(name, &[("plugin", "log")], audit.failed);
    text.single(
        "tidings_audit_truncated_total",
        "counter",
        "Entries for the audit log without the request's body, which was too long or could not be read.",
        audit.truncated,
    );
}
