//! The metrics of feeds, in Prometheus' text format. Values of labels are DNS labels and constants,
//! so nothing needs to be escaped.

use std::fmt::{Display, Write};

use crate::delivery::DeadCause;
use crate::feeds::Feeds;
use crate::status::{FeedStatus, SECONDS, State};

type Read = fn(&FeedStatus) -> f64;

/// The metrics with one value for each feed of a cluster.
const SINGLE: [(&str, &str, &str, Read); 11] = [
    (
        "delivered_total",
        "counter",
        "Versions that the receiver has, since the feed began.",
        |it| it.totals.delivered as f64,
    ),
    (
        "retried_total",
        "counter",
        "Requests that were sent again, since the start.",
        |it| it.retried as f64,
    ),
    (
        "skipped_total",
        "counter",
        "Versions that were not delivered because the backlog was beyond its bounds, since the feed began.",
        |it| it.totals.skipped as f64,
    ),
    (
        "gone_total",
        "counter",
        "Versions that expired or were deleted before they were delivered, since the feed began.",
        |it| it.totals.gone as f64,
    ),
    (
        "filtered_total",
        "counter",
        "Versions that the filter left out, since the feed began.",
        |it| it.totals.filtered as f64,
    ),
    (
        "replaced_total",
        "counter",
        "Versions that a later one of the same period replaced, since the feed began.",
        |it| it.totals.replaced as f64,
    ),
    (
        "history_total",
        "counter",
        "Versions of the history before the feed that were read, which are also delivered, dead or filtered.",
        |it| it.totals.history as f64,
    ),
    (
        "backlog_versions",
        "gauge",
        "Versions that are to be delivered.",
        |it| it.backlog_versions as f64,
    ),
    (
        "backlog_seconds",
        "gauge",
        "Age of the oldest version that is to be delivered.",
        |it| it.backlog_seconds,
    ),
    (
        "dead_letters",
        "gauge",
        "Dead letters of the feed, of all clusters.",
        |it| it.dead_letters.letters as f64,
    ),
    (
        "dead_letters_deleted_total",
        "counter",
        "Dead letters that were deleted to make room, of all clusters, since the start.",
        |it| it.dead_letters.deleted as f64,
    ),
];

/// The text of a page of metrics.
struct Page(String);

impl Page {
    fn metric(&mut self, (name, kind, help): (&str, &str, &str)) {
        let name = format!("tidings_feed_{name}");
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(
        &mut self,
        name: &str,
        of: &FeedStatus,
        label: Option<(&str, &str)>,
        value: impl Display,
    ) {
        let (cluster, feed) = (&of.cluster, &of.feed);
        let label = label.map(|(label, value)| format!(",{label}=\"{value}\""));
        let label = label.unwrap_or_default();
        let _ = writeln!(
            self.0,
            "tidings_feed_{name}{{cluster=\"{cluster}\",feed=\"{feed}\"{label}}} {value}"
        );
    }
}

impl Feeds {
    /// Returns the metrics of all feeds, in Prometheus' text format.
    pub async fn metrics(&self) -> String {
        let all = self.read().await;
        let mut page = Page(String::new());
        for (name, kind, help, value) in SINGLE {
            page.metric((name, kind, help));
            for (status, _) in &all {
                page.sample(name, status, None, value(status));
            }
        }
        let name = "dead_total";
        page.metric((
            name,
            "counter",
            "Versions that became dead letters, since the feed began.",
        ));
        for (status, _) in &all {
            for cause in DeadCause::ALL {
                let number = status.totals.dead.get(&cause).unwrap_or(&0);
                page.sample(name, status, Some(("cause", cause.name())), number);
            }
        }
        let name = "state";
        page.metric((name, "gauge", "Whether the feed is in this state: 0 or 1."));
        for (status, _) in &all {
            for state in State::ALL {
                let is = u8::from(state == status.state);
                page.sample(name, status, Some(("state", state.name())), is);
            }
        }
        let name = "request_seconds";
        page.metric((
            name,
            "histogram",
            "Time until a receiver answered, since the start.",
        ));
        for (status, shared) in &all {
            let took = shared.seconds();
            let bounds = SECONDS.iter().map(ToString::to_string);
            let mut total = 0;
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(took.counts) {
                total += count;
                page.sample(
                    "request_seconds_bucket",
                    status,
                    Some(("le", &bound)),
                    total,
                );
            }
            page.sample("request_seconds_sum", status, None, took.sum);
            page.sample("request_seconds_count", status, None, total);
        }
        page.0
    }
}
