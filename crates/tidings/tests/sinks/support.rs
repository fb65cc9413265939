//! Writes used by the tests of sinks.

use std::sync::Arc;

use jiff::Timestamp;
use tidings::advanced::{ClusterScopedNamespace, CorrelatorOptions};
use tidings::{Event, EventSource, EventType, Occurrence, Reference, ReferenceFields};
use tidings_core::{Correlated, Correlator, NameStamps, NewEvent, Now, TEXT_BYTES_MAX};

/// The first and the second state of one event about a pod, a second apart.
pub(crate) fn occurrences(namespace: &str, pod: &str) -> (Occurrence, Occurrence) {
    let [first, second] = states(CorrelatorOptions::default(), namespace, pod);
    (first, second)
}

/// The first states of one event about a pod, a second apart.
pub(crate) fn states<const N: usize>(
    options: CorrelatorOptions,
    namespace: &str,
    pod: &str,
) -> [Occurrence; N] {
    let names = Arc::new(NameStamps::new(1));
    let mut correlator = Correlator::new(options, Arc::clone(&names)).unwrap();
    let pod = Reference::new(ReferenceFields {
        api_version: "v1",
        kind: "Pod",
        namespace,
        name: pod,
        uid: "u",
        ..ReferenceFields::default()
    });
    let mut next = |second: i64| {
        let at = Timestamp::from_second(1_704_067_200 + second).unwrap();
        let new = NewEvent {
            source: &EventSource::component("ctl"),
            regarding: &pod,
            related: None,
            event_type: EventType::Warning,
            reason: "BackOff",
            action: "",
            message: &"back-off restarting failed container",
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        let event = Event::new(&new, &names, at);
        let Correlated::Write(occurrence) = correlator.correlate(Now::at(at), &event) else {
            panic!("two events are no flood");
        };
        correlator.acknowledged(&occurrence);
        occurrence
    };
    let mut second = 0;
    std::array::from_fn(|_| {
        second += 1;
        next(second - 1)
    })
}
