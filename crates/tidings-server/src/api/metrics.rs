//! Assembles `/metrics`: the page of all metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use tidings_store::Stats;

use crate::api::documents::discovery::build_info;
use crate::api::server::ApiServer;
use crate::metrics::{Text, write_process};

/// GET /metrics
pub(crate) async fn metrics(State(server): State<Arc<ApiServer>>) -> Response {
    let stats = server.observed.stats(&*server.store).await.ok();
    answer(page(&server, stats.as_ref()))
}

/// The page as a response.
pub(crate) fn answer(page: Text) -> Response {
    let form = "text/plain; version=0.0.4; charset=utf-8";
    let content_type = [(header::CONTENT_TYPE, form)];
    (content_type, page.into_string()).into_response()
}

/// All metrics in Prometheus' text format; `stats` are the store's.
pub(crate) fn page(server: &ApiServer, stats: Option<&Stats>) -> Text {
    let metrics = &server.metrics;
    let mut text = Text::default();
    metrics.write_requests(&mut text);
    let connections = &server.connections;
    connections.metrics.write(connections.counts(), &mut text);
    server.limits.write(&mut text);
    metrics.write_answers(&mut text);
    if let Some(stats) = stats {
        write_store(stats, &mut text);
    }
    server.access.write(&mut text);
    server.admission.write(&mut text);
    if let Some(audit) = server.audit_counts() {
        audit.write(&mut text);
    }
    let name = "kubernetes_build_info";
    text.metric(name, "gauge", "The server's version; always 1.");
    let version = build_info();
    let version = version.each_ref();
    let labels = version.map(|(name, value)| (*name, value.as_str()));
    text.sample(name, &labels, 1);
    write_process(&mut text);
    text
}

fn write_store(stats: &Stats, text: &mut Text) {
    let events = [("resource", "events")];
    let events_of_core = [("group", ""), ("resource", "events")];
    for (name, labels) in [
        ("apiserver_storage_objects", &events[..]),
        ("apiserver_resource_objects", &events_of_core[..]),
    ] {
        text.metric(
            name,
            "gauge",
            "Stored events, including those whose expiry is not yet recorded.",
        );
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
        "Delay between the expiry of events and its recording.",
        stats.expiry_lag_ms as f64 / 1e3,
    );
    text.single(
        "tidings_storage_expired_total",
        "counter",
        "Events whose expiry was recorded since the start.",
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
        "Changes undone for pages of lists without a snapshot.",
        stats.changes_undone,
    );
    text.single(
        "tidings_storage_revision",
        "gauge",
        "The revision of the latest change.",
        stats.revision,
    );
}
