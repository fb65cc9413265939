//! Metrics of each followed cluster. The number of series is bounded, as the number of clusters is.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidings_store::UnixMillis;

use super::clusters::Served;
use crate::api::followed::{Asked, Following};
use crate::metrics::Text;

/// Appends the metrics of these clusters.
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
        "Time since the archive was last known to be complete; missing if it never was.",
        &|it| it.since_progress.map(|since| boxed(since.as_secs_f64())),
    );
    write(
        "tidings_archive_following_well",
        "gauge",
        "Whether the cluster is followed without problems: 0 or 1.",
        &|it| Some(boxed(u8::from(it.why.is_none()))),
    );
    write(
        "tidings_archive_events",
        "gauge",
        "Kept events of the cluster.",
        &|it| Some(boxed(it.events)),
    );
    write(
        "tidings_archive_versions",
        "gauge",
        "Kept versions of these events.",
        &|it| Some(boxed(it.versions)),
    );
    write(
        "tidings_archive_stored_bytes",
        "gauge",
        "Bytes of these events and versions on disk.",
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
        "Periods in which versions of the cluster's events may be missing.",
        &|it| Some(boxed(it.gaps)),
    );
    let seconds = |at: UnixMillis| boxed(at.0 as f64 / 1000.0);
    write(
        "tidings_archive_covered_since_seconds",
        "gauge",
        "Unix time since when the cluster is followed.",
        &|it| it.covered_since.map(seconds),
    );
    write(
        "tidings_archive_complete_until_seconds",
        "gauge",
        "Unix time up to when nothing is missing, except in gaps.",
        &|it| it.complete_until.map(seconds),
    );
    if all
        .iter()
        .any(|(_, following)| following.unsealed.is_some())
    {
        write(
            "tidings_objects_waiting_versions",
            "gauge",
            "Versions that wait to be sealed into the object storage.",
            &|it| it.unsealed.map(boxed),
        );
    }
    if all
        .iter()
        .any(|(_, following)| following.since_answer.is_some())
    {
        write(
            "tidings_objects_seconds_since_answer",
            "gauge",
            "Time since the archive that follows the cluster said last what waits to be sealed.",
            &|it| it.since_answer.map(|since| boxed(since.as_secs_f64())),
        );
    }
    let name = "tidings_archive_state";
    text.metric(
        name,
        "gauge",
        "The current activity of the following; always 1.",
    );
    for (cluster, following) in &all {
        text.sample(name, &[("cluster", cluster), ("state", following.state)], 1);
    }
    write_asked(clusters, text);
    let name = "tidings_archive_requests_total";
    text.metric(name, "counter", "Requests for the events of the cluster.");
    for served in clusters {
        let requests = served.requests.load(Ordering::Relaxed);
        text.sample(name, &[("cluster", &served.name)], requests);
    }
}

/// What was asked of object storages, where there are any.
fn write_asked(clusters: &[Arc<Served>], text: &mut Text) {
    let of = |served: &Arc<Served>| {
        let followed = served.server.followed.as_ref()?;
        Some((served.name.clone(), followed.past.asked()?))
    };
    let all: Vec<(String, Asked)> = clusters.iter().filter_map(of).collect();
    if all.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "tidings_objects_requests_total",
            "Requests to the object storage for the cluster.",
            (|asked| asked.requests) as fn(&Asked) -> u64,
        ),
        (
            "tidings_objects_failed_requests_total",
            "Requests to the object storage that were not answered as they should be.",
            |asked| asked.failed,
        ),
        (
            "tidings_objects_read_bytes_total",
            "Bytes of files that were read from the object storage.",
            |asked| asked.bytes,
        ),
    ] {
        text.metric(name, "counter", help);
        for (cluster, asked) in &all {
            text.sample(name, &[("cluster", cluster)], value(asked));
        }
    }
}

type Value = Option<Box<dyn Display>>;

fn boxed(value: impl Display + 'static) -> Box<dyn Display> {
    Box::new(value)
}
