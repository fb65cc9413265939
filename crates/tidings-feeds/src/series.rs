//! Metrics of events: how often they occurred, with bounded labels.
//!
//! Invariant: a cluster has at most [`SERIES_MAX`] series, and 501 of `other`, whatever its events
//! say. Labels have no names of objects, and no characters that the text format escapes.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::conditions::Condition;
use crate::encode::Facts;
use crate::encode::facts::{OTHER, label_value};
use crate::record::{Record, RecordBody};

/// Maximum series of a cluster. Events beyond have `other` as reason, and then as every label.
pub const SERIES_MAX: usize = 5000;
/// Maximum series of a cluster whose reason is `other`.
const OTHER_REASONS_MAX: usize = 500;
/// Maximum series of conditions of a cluster. Events beyond have `other` as namespace and kind.
const CONDITIONS_MAX: usize = 2000;

/// The labels of a series of events: namespace, kind, reason, type and controller.
type Labels = [Box<str>; 5];

/// The series of all clusters. Counters begin at 0 when the process starts.
#[derive(Clone, Debug, Default)]
pub struct Series {
    clusters: BTreeMap<String, Cluster>,
}

#[derive(Clone, Debug, Default)]
struct Cluster {
    events: BTreeMap<Labels, Counts>,
    conditions: BTreeMap<(Box<str>, Box<str>, Condition), u64>,
    /// Versions that have `other` because there are too many series.
    overflow: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    occurrences: u64,
    versions: u64,
}

impl Series {
    /// Counts the version of a record. Other records are not counted.
    pub fn count(&mut self, cluster: &str, record: &Record) {
        let (Facts::Event(facts), RecordBody::Version(version)) = (record.facts(), &record.body)
        else {
            return;
        };
        let event = facts.event();
        let namespace = event.metadata.as_ref().map_or("", |it| it.namespace());
        let [namespace, kind, reason, event_type, controller] = [
            namespace,
            facts.object.kind(),
            event.reason(),
            event.r#type(),
            facts.controller(),
        ]
        .map(label_value);
        if !self.clusters.contains_key(cluster) {
            self.clusters.insert(cluster.to_owned(), Cluster::default());
        }
        let Some(counted) = self.clusters.get_mut(cluster) else {
            return;
        };
        let labels = [namespace, kind, reason, event_type, controller];
        let counts = counted.counts(labels);
        counts.occurrences = counts.occurrences.saturating_add(version.occurrences);
        counts.versions += 1;
        if let Some(condition) = Condition::of(event) {
            let mut key = (namespace.into(), kind.into(), condition);
            let is_full = counted.conditions.len() >= CONDITIONS_MAX;
            if is_full && !counted.conditions.contains_key(&key) {
                key = (OTHER.into(), OTHER.into(), condition);
            }
            let count = counted.conditions.entry(key).or_default();
            *count = count.saturating_add(version.occurrences);
        }
    }

    /// Returns the metrics in Prometheus' text format.
    pub fn page(&self) -> String {
        let mut page = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, samples: &dyn Fn(&mut String)| {
            // Writing to a text cannot fail.
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
            samples(&mut page);
        };
        let by_labels = |name: &'static str, value: fn(&Counts) -> u64| {
            move |page: &mut String| {
                for (cluster, counted) in &self.clusters {
                    for ([namespace, kind, reason, event_type, controller], counts) in
                        &counted.events
                    {
                        let _ = writeln!(
                            page,
                            "{name}{{cluster=\"{cluster}\",namespace=\"{namespace}\",kind=\"{kind}\",\
                             reason=\"{reason}\",type=\"{event_type}\",controller=\"{controller}\"}} {}",
                            value(counts)
                        );
                    }
                }
            }
        };
        let by_cluster = |name: &'static str, value: fn(&Cluster) -> u64| {
            move |page: &mut String| {
                for (cluster, counted) in &self.clusters {
                    let _ = writeln!(page, "{name}{{cluster=\"{cluster}\"}} {}", value(counted));
                }
            }
        };
        let name = "kubernetes_events_total";
        let help = "Occurrences of events.";
        metric(name, "counter", help, &by_labels(name, |it| it.occurrences));
        let name = "kubernetes_event_versions_total";
        let help = "Versions of events: writes at their source.";
        metric(name, "counter", help, &by_labels(name, |it| it.versions));
        let name = "kubernetes_event_conditions_total";
        let help = "Occurrences of events that report a condition.";
        metric(name, "counter", help, &|page| {
            for (cluster, counted) in &self.clusters {
                for ((namespace, kind, condition), count) in &counted.conditions {
                    let condition = condition.name();
                    let _ = writeln!(
                        page,
                        "{name}{{cluster=\"{cluster}\",namespace=\"{namespace}\",kind=\"{kind}\",\
                         condition=\"{condition}\"}} {count}"
                    );
                }
            }
        });
        let name = "tidings_event_series";
        let help = "Series of events of a cluster.";
        metric(
            name,
            "gauge",
            help,
            &by_cluster(name, |it| it.events.len() as u64),
        );
        let name = "tidings_event_series_overflow_total";
        let help = "Versions that have other labels because there were too many series.";
        metric(name, "counter", help, &by_cluster(name, |it| it.overflow));
        page
    }
}

impl Cluster {
    /// Returns the counts of a series, or of one with fewer labels if there are too many.
    fn counts(&mut self, labels: [&str; 5]) -> &mut Counts {
        let [namespace, kind, _, event_type, controller] = labels;
        let other_reason = [namespace, kind, OTHER, event_type, controller];
        let has = |labels: [&str; 5]| self.events.contains_key(&labels.map(Box::from));
        let len = self.events.len();
        let (labels, is_overflow) = if len < SERIES_MAX || has(labels) {
            (labels, false)
        } else if len < SERIES_MAX + OTHER_REASONS_MAX || has(other_reason) {
            (other_reason, true)
        } else {
            ([OTHER; 5], true)
        };
        self.overflow += u64::from(is_overflow);
        self.events.entry(labels.map(Box::from)).or_default()
    }
}
