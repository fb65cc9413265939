//! Metrics of each followed cluster. The number of series is bounded, because the number of
//! clusters is.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidings_history::{Following, ObjectRequests};
use tidings_store::UnixMillis;

use super::clusters::{Clusters, Served};
use crate::metrics::Text;

/// Appends the metrics of all clusters. A missing cluster has only those about its following.
pub(super) fn write(clusters: &Clusters, text: &mut Text) {
    write_following(&clusters.followings(), text);
    let clusters = clusters.all();
    let of = |served: &Arc<Served>| {
        let followed = served.server.followed.as_ref();
        followed.map(|followed| (served.name.clone(), followed.history.following()))
    };
    let all: Vec<(String, Following)> = clusters.iter().filter_map(of).collect();
    let mut write = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Following) -> Value| {
        write_each(&all, (name, kind, help), value, text);
    };
    write(
        "tidings_archive_events",
        "gauge",
        "Kept events of the cluster, including expired ones until their space is released.",
        &|it| Some(boxed(it.events)),
    );
    write(
        "tidings_archive_versions",
        "gauge",
        "Versions of the cluster's events that were kept, also those whose time is over.",
        &|it| Some(boxed(it.versions)),
    );
    write(
        "tidings_archive_stored_bytes",
        "gauge",
        "Bytes of everything kept of the cluster, including expired events until their space is released.",
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
        "tidings_archive_kept_since_seconds",
        "gauge",
        "Unix time about when the oldest event that is kept was last seen, not before the cluster was followed.",
        &|it| it.kept_since.map(seconds),
    );
    write(
        "tidings_archive_quota_bytes",
        "gauge",
        "Bytes that the cluster may take now, by its own quota and the quota of all clusters together.",
        &|it| it.quota_bytes.map(boxed),
    );
    write(
        "tidings_archive_quota_deleted_total",
        "counter",
        "Events of the cluster that were deleted to keep its quota, since its folder was made.",
        &|it| it.taken.map(|taken| boxed(taken.by_quota)),
    );
    write(
        "tidings_archive_rules_ended_total",
        "counter",
        "Events of the cluster that ended at once as rules of retention were changed, since its folder was made.",
        &|it| it.taken.map(|taken| boxed(taken.by_rules)),
    );
    write(
        "tidings_archive_clock_ahead_seconds",
        "gauge",
        "By how much the clock is ahead of what the followed clusters say in their answers, if by more than five minutes.",
        &|it| it.clock_ahead.map(|ahead| boxed(ahead.as_secs_f64())),
    );
    write(
        "tidings_archive_complete_until_seconds",
        "gauge",
        "Unix time up to when nothing is missing, except in gaps.",
        &|it| it.complete_until.map(seconds),
    );
    if all.iter().any(|(_, following)| following.pending.is_some()) {
        write(
            "tidings_objects_waiting_versions",
            "gauge",
            "Versions that wait to be sealed into the object storage.",
            &|it| it.pending.map(boxed),
        );
        write(
            "tidings_objects_sealing_fails",
            "gauge",
            "Whether the last attempt to seal what waits failed: 0 or 1.",
            &|it| it.pending.map(|_| boxed(u8::from(it.not_sealed.is_some()))),
        );
        write(
            "tidings_objects_data_folder_older",
            "gauge",
            "Whether the data folder is older than what it sealed, so that nothing more is: 0 or 1.",
            &|it| it.pending.map(|_| boxed(u8::from(it.is_older_than_sealed))),
        );
        write(
            "tidings_objects_manifest_bytes",
            "gauge",
            "Bytes of the newest manifest; none is written that has more than 67108864.",
            &|it| (it.manifest_bytes > 0).then(|| boxed(it.manifest_bytes)),
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
    let name = "tidings_archive_events_not_kept_total";
    text.metric(
        name,
        "counter",
        "Versions of events that could not be kept since the start.",
    );
    for (cluster, following) in &all {
        for (cause, number) in &following.not_kept {
            text.sample(name, &[("cluster", cluster), ("cause", cause)], number);
        }
    }
    let name = "tidings_archive_rule_ended_total";
    text.metric(
        name,
        "counter",
        "Events of tidings_archive_rules_ended_total by the rule that ended them.",
    );
    for (cluster, following) in &all {
        for (rule, number) in &following.ended_by_rule {
            text.sample(name, &[("cluster", cluster), ("rule", rule)], number);
        }
    }
    let name = "tidings_archive_client_certificate_expires_seconds";
    text.metric(
        name,
        "gauge",
        "Unix time at which the client certificate ends by which the cluster is followed.",
    );
    for served in &clusters {
        let followed = served.server.followed.as_ref();
        if let Some(at) = followed.and_then(|followed| followed.client_certificate_ends) {
            text.sample(name, &[("cluster", &served.name)], at.as_second());
        }
    }
    write_asked(&clusters, text);
    let name = "tidings_archive_requests_total";
    text.metric(name, "counter", "Requests for the events of the cluster.");
    for served in clusters {
        let requests = served.requests.load(Ordering::Relaxed);
        text.sample(name, &[("cluster", &served.name)], requests);
    }
}

/// Appends the metrics about the following of clusters.
fn write_following(all: &[(String, Following)], text: &mut Text) {
    write_each(
        all,
        (
            "tidings_archive_seconds_since_progress",
            "gauge",
            "Time since anything was heard of the cluster, or, if it is sealed, since it was complete; missing if it is \
             not followed.",
        ),
        &|it| it.since_progress.map(|since| boxed(since.as_secs_f64())),
        text,
    );
    write_each(
        all,
        (
            "tidings_archive_following_well",
            "gauge",
            "Whether the cluster is followed without problems: 0 or 1.",
        ),
        &|it| Some(boxed(u8::from(it.why.is_none()))),
        text,
    );
    let name = "tidings_archive_state";
    text.metric(
        name,
        "gauge",
        "The current activity of the following; always 1.",
    );
    for (cluster, following) in all {
        text.sample(name, &[("cluster", cluster), ("state", following.state)], 1);
    }
}

/// Appends a metric with a value for each cluster that has one.
fn write_each(
    all: &[(String, Following)],
    (name, kind, help): (&str, &str, &str),
    value: &dyn Fn(&Following) -> Value,
    text: &mut Text,
) {
    text.metric(name, kind, help);
    for (cluster, following) in all {
        if let Some(value) = value(following) {
            text.sample(name, &[("cluster", cluster)], value);
        }
    }
}

/// Appends metrics of requests to object storages, for clusters that have one.
fn write_asked(clusters: &[Arc<Served>], text: &mut Text) {
    let of = |served: &Arc<Served>| {
        let followed = served.server.followed.as_ref()?;
        Some((served.name.clone(), followed.history.requests()?))
    };
    let all: Vec<(String, ObjectRequests)> = clusters.iter().filter_map(of).collect();
    if all.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "tidings_objects_requests_total",
            "Requests to the object storage for the cluster.",
            (|asked| asked.requests) as fn(&ObjectRequests) -> u64,
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
