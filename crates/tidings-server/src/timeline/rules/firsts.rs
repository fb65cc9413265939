//! The first warnings of a range: by when they began, whether in the range or before it.
//!
//! Events are added one after the other and not kept, so that more can be looked at than a picture
//! holds. What is known to mean nothing is left out: the warning of a kubelet that has just started
//! that it does not know the capacity of its disk yet, and that of a controller that the control
//! plane has no several zones.

use std::cmp::Ordering;

use foldhash::HashMap;
use serde::Serialize;

use super::seen::Seen;

/// Maximum of reasons of which the first warning is found.
const REASONS_MAX: usize = 5;
/// A kubelet's warning within this time of its start says nothing, in milliseconds.
const START: i64 = 1000;

/// The first warning of a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Earliest {
    /// Which of the clusters that were asked.
    #[serde(skip)]
    pub(crate) cluster: usize,
    /// Of the event.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) reason: String,
    /// Of its object.
    pub(crate) kind: String,
    pub(crate) object_namespace: String,
    pub(crate) object: String,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) count: u64,
}

/// The starts of kubelets, by cluster and node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts<'a>(HashMap<(usize, &'a str), Vec<i64>>);

impl<'a> Starts<'a> {
    pub(crate) fn of(events: &[Seen<'a>]) -> Self {
        let mut starts: HashMap<(usize, &str), Vec<i64>> = HashMap::default();
        for event in events {
            let brief = &event.brief;
            if brief.kind == "Node" && brief.reason == "Starting" {
                let of_node = starts.entry((event.cluster, brief.object)).or_default();
                of_node.extend([brief.first, brief.last]);
            }
        }
        Self(starts)
    }

    /// Whether an event is the warning of a kubelet that has just started, and not seen again.
    fn are_near(&self, event: &Seen<'_>) -> bool {
        let brief = &event.brief;
        let of_node = self.0.get(&(event.cluster, brief.object));
        let is_near = |at: i64| {
            let mut starts = of_node.into_iter().flatten();
            starts.any(|start| start.abs_diff(at) <= START.unsigned_abs())
        };
        is_near(brief.first) && is_near(brief.last)
    }
}

/// Whether a warning is known to mean nothing. Without the starts of kubelets, one that happened
/// once is taken to be of a start.
fn is_noise(event: &Seen<'_>, starts: Option<&Starts<'_>>) -> bool {
    match event.brief.reason {
        "ControlPlaneTopology" => true,
        "InvalidDiskCapacity" => match starts {
            Some(starts) => starts.are_near(event),
            None => event.brief.last.saturating_sub(event.brief.first) <= START,
        },
        _ => false,
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Firsts(Vec<Earliest>);

impl Firsts {
    /// Adds an event. `starts` are those of all events of the range, if all were read.
    pub(crate) fn add(&mut self, event: &Seen<'_>, starts: Option<&Starts<'_>>) {
        if !event.is_warning() || is_noise(event, starts) {
            return;
        }
        let brief = &event.brief;
        let other = self.0.iter().position(|one| one.reason == brief.reason);
        // What is left out here began after as many other reasons, and these only become earlier.
        let place = match other {
            Some(at) => at,
            None if self.0.len() < REASONS_MAX => self.0.len(),
            None => REASONS_MAX - 1,
        };
        if self.0.get(place).is_some_and(|one| !is_earlier(event, one)) {
            return;
        }
        if place < self.0.len() {
            self.0.remove(place);
        }
        let after = self.0.iter().position(|one| is_earlier(event, one));
        let first = Earliest {
            cluster: event.cluster,
            namespace: brief.namespace.to_owned(),
            name: brief.name.to_owned(),
            reason: brief.reason.to_owned(),
            kind: brief.kind.to_owned(),
            object_namespace: brief.object_namespace.to_owned(),
            object: brief.object.to_owned(),
            first: brief.first,
            last: brief.last,
            count: brief.count,
        };
        self.0.insert(after.unwrap_or(self.0.len()), first);
    }

    /// The earliest one first.
    pub(crate) fn found(self) -> Vec<Earliest> {
        self.0
    }
}

/// Whether an event comes before another. Of those that began at the same time the names decide, so
/// that the order of reading does not.
fn is_earlier(event: &Seen<'_>, other: &Earliest) -> bool {
    let brief = &event.brief;
    let order = brief.first.cmp(&other.first).then_with(|| {
        let event = (event.cluster, brief.namespace, brief.name, brief.reason);
        let (namespace, name) = (other.namespace.as_str(), other.name.as_str());
        event.cmp(&(other.cluster, namespace, name, other.reason.as_str()))
    });
    order == Ordering::Less
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cases::{Case, seen};
    use super::*;

    fn told(events: &[Seen<'_>], starts: Option<&Starts<'_>>) -> Vec<(String, String, i64)> {
        let mut firsts = Firsts::default();
        for event in events {
            firsts.add(event, starts);
        }
        let found = firsts.found().into_iter();
        let told = found.map(|first| (first.reason, first.object, first.first / 1000));
        told.collect()
    }

    #[test]
    fn the_noise_of_a_start_is_not_the_first_warning() {
        let cases = [
            Case::new("Node", "node-1", "Starting", 100),
            Case::new("Node", "node-1", "InvalidDiskCapacity", 101).warning(),
            Case::new("Node", "node-0", "ControlPlaneTopology", 50).warning(),
            Case::new("Pod", "web-0", "FailedScheduling", 300)
                .warning()
                .times(9, 110),
            Case::new("Pod", "web-1", "FailedScheduling", 105),
            Case::new("Pod", "web-2", "BackOff", 108).warning(),
        ];
        let events = seen(&cases);
        let first = |reason: &str, object: &str, at| (reason.to_owned(), object.to_owned(), at);
        let expected = [
            first("BackOff", "web-2", 108),
            first("FailedScheduling", "web-0", 110),
        ];
        assert_eq!(told(&events, Some(&Starts::of(&events))), expected);
        assert_eq!(told(&events, None), expected);
        // Of a node that did not start just then, or for longer than a start, it is one.
        for (case, at) in [
            (Case::new("Node", "node-2", "InvalidDiskCapacity", 101), 101),
            (Case::new("Node", "node-1", "InvalidDiskCapacity", 99), 99),
            (
                Case::new("Node", "node-1", "InvalidDiskCapacity", 700).times(3, 101),
                101,
            ),
        ] {
            let cases = [cases[0].clone(), case.warning()];
            let events = seen(&cases);
            let found = told(&events, Some(&Starts::of(&events)));
            let is_of_start = at == 99;
            assert_eq!(found.is_empty(), is_of_start, "{found:?}");
        }
    }

    proptest! {
        /// In whatever order the events come, the firsts are those of a scan of all.
        #[test]
        fn they_are_the_first_of_all(
            events in prop::collection::vec((0_usize..9, 0_i64..200, 0_i64..100, any::<bool>()), 0..80),
        ) {
            let cases: Vec<Case> = events
                .iter()
                .enumerate()
                .map(|(at, (reason, first, length, is_warning))| {
                    let (pod, reason) = (format!("web-{at:03}"), format!("R{reason}"));
                    let case = Case::new("Pod", &pod, &reason, first + length).times(2, *first);
                    if *is_warning { case.warning() } else { case }
                })
                .collect();
            let mut all: Vec<(i64, String, String)> = seen(&cases)
                .iter()
                .filter(|event| event.is_warning())
                .map(|event| {
                    let brief = &event.brief;
                    (brief.first / 1000, brief.object.to_owned(), brief.reason.to_owned())
                })
                .collect();
            all.sort();
            let mut expected: Vec<(String, String, i64)> = Vec::new();
            for (first, object, reason) in all {
                if expected.len() < REASONS_MAX && !expected.iter().any(|one| one.0 == reason) {
                    expected.push((reason, object, first));
                }
            }
            prop_assert_eq!(told(&seen(&cases), None), expected);
        }
    }
}
