//! Metrics of each followed cluster. The number of series is bounded, because the number of
//! clusters is.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidings_history::{Following, ObjectRequests};
use tidings_store::UnixMillis;

use super::clusters::{Clusters, Served};
use crate::metrics::Text;

/// A metric with at most one value for each cluster.
struct Measure {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Following) -> Value,
}

/// Metrics about the following of a cluster, also of a missing one.
const FOLLOWING: &[Measure] = &[
    Measure {
        name: "tidings_archive_seconds_since_progress",
        kind: "gauge",
        help: "Time since anything was heard of the cluster, or, if it is sealed, since it was complete; missing if it is \
             not followed.",
        value: |it| it.since_progress.map(|since| boxed(since.as_secs_f64())),
    },
    Measure {
        name: "tidings_archive_following_well",
        kind: "gauge",
        help: "Whether the cluster is followed without problems: 0 or 1.",
        value: |it| Some(boxed(u8::from(it.why.is_none()))),
    },
];

/// Metrics about what is kept of a cluster.
const KEPT: &[Measure] = &[
    Measure {
        name: "tidings_archive_events",
        kind: "gauge",
        help: "Kept events of the cluster, including expired ones until their space is released.",
        value: |it| Some(boxed(it.events)),
    },
    Measure {
        name: "tidings_archive_versions",
        kind: "gauge",
        help: "Versions of the cluster's events that were kept, also those whose time is over.",
        value: |it| Some(boxed(it.versions)),
    },
    Measure {
        name: "tidings_archive_stored_bytes",
        kind: "gauge",
        help: "Bytes of everything kept of the cluster, including expired events until their space is released.",
        value: |it| Some(boxed(it.stored_bytes)),
    },
    Measure {
        name: "tidings_archive_received_total",
        kind: "counter",
        help: "Changes received from the cluster since the start.",
        value: |it| Some(boxed(it.received)),
    },
    Measure {
        name: "tidings_archive_gaps",
        kind: "gauge",
        help: "Periods in which versions of the cluster's events may be missing.",
        value: |it| Some(boxed(it.gaps)),
    },
    Measure {
        name: "tidings_archive_covered_since_seconds",
        kind: "gauge",
        help: "Unix time since when the cluster is followed.",
        value: |it| it.covered_since.map(seconds),
    },
    Measure {
        name: "tidings_archive_kept_since_seconds",
        kind: "gauge",
        help: "Unix time about when the oldest event that is kept was last seen, not before the cluster was followed.",
        value: |it| it.kept_since.map(seconds),
    },
    Measure {
        name: "tidings_archive_quota_bytes",
        kind: "gauge",
        help: "Bytes that the cluster may take now, by its own quota and the quota of all clusters together.",
        value: |it| it.quota_bytes.map(boxed),
    },
    Measure {
        name: "tidings_archive_quota_deleted_total",
        kind: "counter",
        help: "Events of the cluster that were deleted to keep its quota, since its folder was made.",
        value: |it| it.taken.map(|taken| boxed(taken.by_quota)),
    },
    Measure {
        name: "tidings_archive_rules_ended_total",
        kind: "counter",
        help: "Events of the cluster that ended at once as rules of retention were changed, since its folder was made.",
        value: |it| it.taken.map(|taken| boxed(taken.by_rules)),
    },
    Measure {
        name: "tidings_archive_rules_held_events",
        kind: "gauge",
        help: "Events of the cluster that changed rules of retention will end when they come into force; 0 if no rules wait.",
        value: |it| {
            it.taken?;
            Some(boxed(it.held_rules.map_or(0, |held| held.ended)))
        },
    },
    Measure {
        name: "tidings_archive_clock_ahead_seconds",
        kind: "gauge",
        help: "By how much the clock is ahead of what the followed clusters say in their answers, if by more than five minutes.",
        value: |it| it.clock_ahead.map(|ahead| boxed(ahead.as_secs_f64())),
    },
    Measure {
        name: "tidings_archive_complete_until_seconds",
        kind: "gauge",
        help: "Unix time up to when nothing is missing, except in gaps.",
        value: |it| it.complete_until.map(seconds),
    },
];

/// Metrics about the sealing of a followed cluster.
const SEALING: &[Measure] = &[
    Measure {
        name: "tidings_objects_waiting_versions",
        kind: "gauge",
        help: "Versions that wait to be sealed into the object storage.",
        value: |it| it.pending.map(boxed),
    },
    Measure {
        name: "tidings_objects_sealing_fails",
        kind: "gauge",
        help: "Whether the last attempt to seal what waits failed: 0 or 1.",
        value: |it| it.pending.map(|_| boxed(u8::from(it.not_sealed.is_some()))),
    },
    Measure {
        name: "tidings_objects_data_folder_older",
        kind: "gauge",
        help: "Whether the data folder is older than what it sealed, so that nothing more is: 0 or 1.",
        value: |it| it.pending.map(|_| boxed(u8::from(it.is_older_than_sealed))),
    },
    Measure {
        name: "tidings_objects_manifest_bytes",
        kind: "gauge",
        help: "Bytes of the newest manifest; none is written that has more than 67108864.",
        value: |it| (it.manifest_bytes > 0).then(|| boxed(it.manifest_bytes)),
    },
];

/// Metrics of a sealed archive that asks another one for pending versions.
const ANSWERS: &[Measure] = &[Measure {
    name: "tidings_objects_seconds_since_answer",
    kind: "gauge",
    help: "Time since the archive that follows the cluster said last what waits to be sealed.",
    value: |it| it.since_answer.map(|since| boxed(since.as_secs_f64())),
}];

/// Appends the metrics of all clusters. A missing cluster has only those about its following.
pub(super) fn write(clusters: &Clusters, text: &mut Text) {
    write_following(&clusters.followings(), text);
    let clusters = clusters.all();
    let of = |served: &Arc<Served>| {
        let followed = served.server.followed.as_ref();
        followed.map(|followed| (served.name.clone(), followed.history.following()))
    };
    let all: Vec<(String, Following)> = clusters.iter().filter_map(of).collect();
    write_each(&all, KEPT, text);
    if all.iter().any(|(_, following)| following.pending.is_some()) {
        write_each(&all, SEALING, text);
    }
    if all
        .iter()
        .any(|(_, following)| following.since_answer.is_some())
    {
        write_each(&all, ANSWERS, text);
    }
    write_labelled(&all, text);
    write_certificates(&clusters, text);
    write_asked(&clusters, text);
    let name = "tidings_archive_requests_total";
    text.metric(name, "counter", "Requests for the events of the cluster.");
    for served in clusters {
        let requests = served.requests.load(Ordering::Relaxed);
        text.sample(name, &[("cluster", &served.name)], requests);
    }
}

/// Appends the metrics with a second label besides the cluster.
fn write_labelled(all: &[(String, Following)], text: &mut Text) {
    let name = "tidings_archive_events_not_kept_total";
    text.metric(
        name,
        "counter",
        "Versions of events that could not be kept since the start.",
    );
    for (cluster, following) in all {
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
    for (cluster, following) in all {
        for (rule, number) in &following.ended_by_rule {
            text.sample(name, &[("cluster", cluster), ("rule", rule)], number);
        }
    }
}

/// Appends when the client certificates of the clusters end.
fn write_certificates(clusters: &[Arc<Served>], text: &mut Text) {
    let name = "tidings_archive_client_certificate_expires_seconds";
    text.metric(
        name,
        "gauge",
        "Unix time at which the client certificate ends by which the cluster is followed.",
    );
    for served in clusters {
        let followed = served.server.followed.as_ref();
        if let Some(at) = followed.and_then(|followed| followed.client_certificate_ends) {
            text.sample(name, &[("cluster", &served.name)], at.as_second());
        }
    }
}

/// Appends the metrics about the following of clusters.
fn write_following(all: &[(String, Following)], text: &mut Text) {
    write_each(all, FOLLOWING, text);
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

/// Appends metrics, each with a value for the clusters that have one.
fn write_each(all: &[(String, Following)], measures: &[Measure], text: &mut Text) {
    for measure in measures {
        text.metric(measure.name, measure.kind, measure.help);
        for (cluster, following) in all {
            if let Some(value) = (measure.value)(following) {
                text.sample(measure.name, &[("cluster", cluster)], value);
            }
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

/// Unix time in seconds.
fn seconds(at: UnixMillis) -> Box<dyn Display> {
    boxed(at.0 as f64 / 1000.0)
}
