//! Counters, gauges and histograms, and Prometheus' text format.
//!
//! Names and values of labels are `&'static str`, so nothing that a client sends can become a
//! label.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

/// A value that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A distribution of values.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// A count for each bound, and one for values above all bounds.
    counts: Vec<AtomicU64>,
    /// The sum of all values, in microseconds or bytes.
    sum: AtomicU64,
    /// Number of units of `sum` in one unit of the bounds.
    parts: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64], parts: f64) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            parts,
        }
    }

    fn observe(&self, value: f64, parts: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(parts, Ordering::Relaxed);
    }

    pub(crate) fn observe_duration(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.observe(duration.as_secs_f64(), micros);
    }

    pub(crate) fn observe_bytes(&self, bytes: u64) {
        self.observe(bytes as f64, bytes);
    }
}

/// A value that increases and decreases.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

/// Names and values of labels, in the order in which they are written.
pub(crate) trait Labels: Copy + Ord {
    fn pairs(&self) -> Vec<(&'static str, &'static str)>;
}

impl<const N: usize> Labels for [(&'static str, &'static str); N] {
    fn pairs(&self) -> Vec<(&'static str, &'static str)> {
        self.to_vec()
    }
}

/// The value of a series.
pub(crate) trait Value {
    const KIND: &'static str;
    /// A new value of the same kind.
    fn empty(&self) -> Self;
    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text);
}

impl Value for Counter {
    const KIND: &'static str = "counter";

    fn empty(&self) -> Self {
        Self::default()
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, self.get());
    }
}

impl Value for Gauge {
    const KIND: &'static str = "gauge";

    fn empty(&self) -> Self {
        Self::default()
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, self.0.load(Ordering::Relaxed));
    }
}

impl Value for Histogram {
    const KIND: &'static str = "histogram";

    fn empty(&self) -> Self {
        Self::new(self.bounds, self.parts)
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.histogram(name, labels, self);
    }
}

/// A metric: one value for each combination of labels.
#[derive(Debug)]
pub(crate) struct Family<L, V> {
    name: &'static str,
    help: &'static str,
    empty: V,
    values: RwLock<BTreeMap<L, Arc<V>>>,
}

pub(crate) type Counters<L> = Family<L, Counter>;
pub(crate) type Histograms<L> = Family<L, Histogram>;

/// A label's name and value.
pub(crate) type Label = (&'static str, &'static str);

impl<L, V> Family<L, V> {
    fn of_values(name: &'static str, help: &'static str, empty: V) -> Self {
        Self {
            name,
            help,
            empty,
            values: RwLock::default(),
        }
    }
}

impl<L, V: Default> Family<L, V> {
    /// A metric of counters or gauges.
    pub(crate) fn new(name: &'static str, help: &'static str) -> Self {
        Self::of_values(name, help, V::default())
    }
}

impl<L> Histograms<L> {
    /// A metric of durations, with bounds in seconds.
    pub(crate) fn of_durations(
        name: &'static str,
        help: &'static str,
        bounds: &'static [f64],
    ) -> Self {
        Self::of_values(name, help, Histogram::new(bounds, 1e6))
    }

    /// A metric of lengths, with bounds in bytes.
    pub(crate) fn of_bytes(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Self {
        Self::of_values(name, help, Histogram::new(bounds, 1.0))
    }
}

impl<L: Labels, V: Value> Family<L, V> {
    pub(crate) fn of(&self, labels: L) -> Arc<V> {
        let values = self.values.read();
        if let Some(value) = values.get(&labels) {
            return Arc::clone(value);
        }
        drop(values);
        let mut values = self.values.write();
        let value = values.entry(labels);
        Arc::clone(value.or_insert_with(|| Arc::new(self.empty.empty())))
    }
}

/// The text form (`text/plain; version=0.0.4`) being written. Writing to a `String` cannot fail.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Appends metrics that are in the text format already.
    pub(crate) fn append(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Appends the HELP and TYPE lines of a metric.
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "{name}");
        self.labels(labels, None);
        let _ = writeln!(self.0, " {value}");
    }

    fn labels(&mut self, labels: &[(&str, &str)], bound: Option<&str>) {
        if labels.is_empty() && bound.is_none() {
            return;
        }
        let all = labels
            .iter()
            .copied()
            .chain(bound.map(|bound| ("le", bound)));
        for (index, (name, value)) in all.enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        self.0.push('}');
    }

    /// Appends a metric without labels.
    pub(crate) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut total = 0;
        let bounds = histogram.bounds.iter().map(ToString::to_string);
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&histogram.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = write!(self.0, "{name}_bucket");
            self.labels(labels, Some(&bound));
            let _ = writeln!(self.0, " {total}");
        }
        let sum = histogram.sum.load(Ordering::Relaxed) as f64 / histogram.parts;
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    /// Appends a metric with all its series.
    pub(crate) fn family<L: Labels, V: Value>(&mut self, family: &Family<L, V>) {
        self.metric(family.name, V::KIND, family.help);
        let values = family.values.read();
        for (labels, value) in values.iter() {
            value.write(family.name, &labels.pairs(), self);
        }
    }
}
