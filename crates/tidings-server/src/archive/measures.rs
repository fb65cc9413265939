//! What is counted for each followed cluster, as metrics: a bounded number of series, as the number
//! of clusters is.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::clusters::Served;
use crate::api::followed::Following;
use crate::metrics::Text;

/// Appends the figures of these clusters.
pub(super) fn write(clusters: &[Arc<Served>], text: &mut Text) {
    let of = |served: &Arc<Served>| {
        let followed = served.server.followed.as_ref();
        followed.map(|followed| (served.name.clone(), followed.past.following()))
    };
    let all: Vec<(String, Following)> = clusters.iter().filter_map(of).collect();
    let mut write = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Following) -> Value| {
        text.metric(name, kind, help);
        for (cluster, following) in &all {
            if let Some(value) = value(following) {
                text.sample(name, &[("cluster", cluster)], value);
            }
        }
    };
    write(
        "tidings_archive_seconds_since_progress",
        "gauge",
        "Time since it was last known that nothing of the cluster is missed; none before the first time.",
        &|it| it.since_progress.map(|since| boxed(since.as_secs_f64())),
    );
    write(
        "tidings_archive_following_well",
        "gauge",
        "Whether the cluster is followed as it should be: 0 or 1.",
        &|it| Some(boxed(u8::from(it.why.is_none()))),
    );
    write(
        "tidings_archive_events",
        "gauge",
        "Events of the cluster that are kept.",
        &|it| Some(boxed(it.events)),
    );
    write(
        "tidings_archive_versions",
        "gauge",
        "Versions of these events that are kept.",
        &|it| Some(boxed(it.versions)),
    );
    write(
        "tidings_archive_stored_bytes",
        "gauge",
        "Bytes that they take on disk.",
        &|it| Some(boxed(it.stored_bytes)),
    );
    write(
        "tidings_archive_received_total",
        "counter",
        "Changes received from the cluster since the start.",
        &|it| Some(boxed(it.received)),
    );
    write(
        "tidings_archive_gaps",
        "gauge",
        "Spans of time in which versions of the cluster's events may be missing.",
        &|it| Some(boxed(it.gaps)),
    );
    let name = "tidings_archive_state";
    text.metric(
        name,
        "gauge",
        "What the following of the cluster is doing; always 1.",
    );
    for (cluster, following) in &all {
        text.sample(name, &[("cluster", cluster), ("state", following.state)], 1);
    }
    let name = "tidings_archive_requests_total";
    text.metric(name, "counter", "Requests for the events of the cluster.");
    for served in clusters {
        let requests = served.requests.load(Ordering::Relaxed);
        text.sample(name, &[("cluster", &served.name)], requests);
    }
}

type Value = Option<Box<dyn Display>>;

fn boxed(value: impl Display + 'static) -> Box<dyn Display> {
    Box::new(value)
}
