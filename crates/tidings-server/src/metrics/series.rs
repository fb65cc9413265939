//! Counters and histograms, and Prometheus' text form of them.
//!
//! Names and values of labels are `&'static str`: what a client sends cannot become a label, so there is no series but of
//! what the program itself knows.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Counts up.
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

/// Counts values by size.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all.
    counts: Vec<AtomicU64>,
    /// Microseconds, or bytes.
    sum: AtomicU64,
    /// How much of the sum is one of what the bounds are in.
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

/// Counters that differ in their labels.
#[derive(Debug)]
pub(crate) struct Counters<const N: usize> {
    labels: [&'static str; N],
    values: RwLock<BTreeMap<[&'static str; N], Arc<Counter>>>,
}

impl<const N: usize> Counters<N> {
    pub(crate) fn new(labels: [&'static str; N]) -> Self {
        Self {
            labels,
            values: RwLock::default(),
        }
    }

    pub(crate) fn of(&self, values: [&'static str; N]) -> Arc<Counter> {
        get_or_insert(&self.values, values, Counter::default)
    }
}

/// Histograms that differ in their labels.
#[derive(Debug)]
pub(crate) struct Histograms<const N: usize> {
    labels: [&'static str; N],
    bounds: &'static [f64],
    parts: f64,
    values: RwLock<BTreeMap<[&'static str; N], Arc<Histogram>>>,
}

impl<const N: usize> Histograms<N> {
    /// Of durations, with bounds in seconds.
    pub(crate) fn new(labels: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self {
            labels,
            bounds,
            parts: 1e6,
            values: RwLock::default(),
        }
    }

    /// Of lengths, with bounds in bytes.
    pub(crate) fn of_bytes(labels: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self {
            parts: 1.0,
            ..Self::new(labels, bounds)
        }
    }

    pub(crate) fn of(&self, values: [&'static str; N]) -> Arc<Histogram> {
        get_or_insert(&self.values, values, || {
            Histogram::new(self.bounds, self.parts)
        })
    }
}

fn get_or_insert<K: Ord + Copy, V>(
    map: &RwLock<BTreeMap<K, Arc<V>>>,
    key: K,
    make: impl FnOnce() -> V,
) -> Arc<V> {
    if let Some(value) = map.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Arc::clone(value);
    }
    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(map.entry(key).or_insert_with(|| Arc::new(make())))
}

/// The text form (`text/plain; version=0.0.4`) being written. Writing to a `String` cannot fail.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// What comes before the samples of a metric.
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

    /// A metric without labels.
    pub(crate) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(crate) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
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

    pub(crate) fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        counters: &Counters<N>,
    ) {
        self.metric(name, "counter", help);
        let values = counters
            .values
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for (labels, counter) in values.iter() {
            self.sample(name, &pairs(counters.labels, *labels), counter.get());
        }
    }

    pub(crate) fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        histograms: &Histograms<N>,
    ) {
        self.metric(name, "histogram", help);
        let values = histograms
            .values
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for (labels, histogram) in values.iter() {
            self.histogram(name, &pairs(histograms.labels, *labels), histogram);
        }
    }
}

fn pairs<const N: usize>(
    names: [&'static str; N],
    values: [&'static str; N],
) -> Vec<(&'static str, &'static str)> {
    names.into_iter().zip(values).collect()
}
