//! How an event of any writer is read: when it happened, which of two comes first, what a warning
//! is, and which object it is about.
//!
//! The command, the server, the archive, the timeline and Parquet files read events by these rules
//! only. What is stored and sent does not change.

use jiff::Timestamp;

/// The times of an event, all of which may be missing. Go's zero time (year 1) is a missing time.
///
/// ```
/// use tidings_core::reading::EventTimes;
///
/// let times = EventTimes { first_timestamp: Some(10), last_timestamp: Some(70), ..Default::default() };
/// assert_eq!((times.first_seen(), times.last_seen()), (Some(10), Some(70)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTimes<T> {
    /// `series.lastObservedTime`
    pub last_observed_time: Option<T>,
    /// `lastTimestamp`
    pub last_timestamp: Option<T>,
    /// `eventTime`
    pub event_time: Option<T>,
    /// `firstTimestamp`
    pub first_timestamp: Option<T>,
    /// `metadata.creationTimestamp`
    pub creation_timestamp: Option<T>,
}

impl<T: Copy> EventTimes<T> {
    /// When the event last happened: the first that is set of `series.lastObservedTime`,
    /// `lastTimestamp`, `eventTime`, `firstTimestamp` and `metadata.creationTimestamp`, as in
    /// `kubectl events`.
    pub fn last_seen(&self) -> Option<T> {
        self.last_observed_time
            .or(self.last_timestamp)
            .or(self.event_time)
            .or(self.first_timestamp)
            .or(self.creation_timestamp)
    }

    /// When the event first happened: the first that is set of `firstTimestamp`, `eventTime` and
    /// `metadata.creationTimestamp`, as in `kubectl events`.
    pub fn first_seen(&self) -> Option<T> {
        self.first_timestamp
            .or(self.event_time)
            .or(self.creation_timestamp)
    }
}

/// Whether a time is set: Go's zero time, the beginning of the year 1, is not.
pub fn is_set(time: Timestamp) -> bool {
    const GOS_ZERO: i64 = -62_135_596_800;
    time.as_second() != GOS_ZERO || time.subsec_nanosecond() != 0
}

/// Whether an event of this type is a warning: of type `Warning`, and of no other.
///
/// Events of types that Kubernetes does not know, or of none, are neither warnings nor normal.
pub fn is_warning(event_type: &str) -> bool {
    event_type == "Warning"
}

/// The clock of a name that client-go made: `<object>.<nanoseconds since 1970, 16 hexadecimal
/// digits>`.
///
/// ```
/// use tidings_core::reading::name_clock;
///
/// assert_eq!(name_clock("web-0.17979cfe362a0000").unwrap().to_string(), "2023-11-14T22:13:20Z");
/// assert_eq!(name_clock("web-0.created"), None);
/// ```
pub fn name_clock(name: &str) -> Option<Timestamp> {
    let (_, digits) = name.rsplit_once('.')?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 16 || !digits.bytes().all(is_digit) {
        return None;
    }
    let nanoseconds = i64::from_str_radix(digits, 16).ok()?;
    Timestamp::from_nanosecond(nanoseconds.into()).ok()
}

/// The place of an event among others, earliest first.
///
/// Events are ordered by the second in which they were last seen. Within a second, some times have
/// a fraction (the scheduler's) and some have none (the kubelet's). So there the order is that of
/// the clocks in client-go's [names](name_clock). An event without such a name is placed by its
/// fraction; without one, it comes behind those that have any. Then the resourceVersion decides,
/// and last the namespace and the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order<'a> {
    /// An event without any time comes first.
    second: Option<i64>,
    within: i128,
    resource_version: Option<u64>,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Order<'a> {
    /// The place of the event `namespace/name` that was last seen then.
    pub fn new(
        last_seen: Option<Timestamp>,
        resource_version: Option<u64>,
        (namespace, name): (&'a str, &'a str),
    ) -> Self {
        let own = last_seen.filter(|time| time.subsec_nanosecond() != 0);
        let within = name_clock(name).or(own).map(Timestamp::as_nanosecond);
        Self {
            second: last_seen.map(|time| time.as_nanosecond().div_euclid(1_000_000_000) as i64),
            within: within.unwrap_or(i128::MAX),
            resource_version,
            namespace,
            name,
        }
    }
}

/// The namespace by which an object is known: empty for cluster-scoped kinds, whatever the event
/// says. Reporters disagree: for a Node some leave it empty, some write `default` or their own.
pub fn object_namespace<'a>(kind: &str, namespace: &'a str) -> &'a str {
    if is_cluster_scoped(kind) {
        ""
    } else {
        namespace
    }
}

/// Whether objects of a kind that every cluster has are in no namespace.
pub fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.binary_search(&kind).is_ok()
}

/// The kinds of `k8s.io/api` without namespaces, sorted.
const CLUSTER_SCOPED: [&str; 26] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// The uid that distinguishes an object from another one of the same kind, namespace and name;
/// empty if the event has none. The kubelet writes a Node's name in its place.
pub fn object_uid<'a>(name: &str, uid: &'a str) -> &'a str {
    if uid == name { "" } else { uid }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        format!("2026-11-28T13:42:{text}Z").parse().unwrap()
    }

    /// Each row is in its order: name, seconds, resourceVersion.
    #[test]
    fn a_second_is_told_forwards() {
        let tables: &[&[(&str, &str, u64)]] = &[
            // The scheduler writes microseconds, the kubelet seconds; the names have the clocks.
            &[
                ("fast-0.18a2000000000001", "56.252501", 9),
                ("fast-0.18a2000000000002", "56", 3),
                ("fast-0.18a2000000000003", "56", 2),
                ("fast-0.18a2000000000004", "56", 1),
                ("fast-0.18a2000000000000", "57", 0),
            ],
            // Without clocks: whole seconds come behind fractions, by their resourceVersion.
            &[
                ("a", "56.1", 9),
                ("b", "56.252501", 3),
                ("d", "56", 4),
                ("c", "56", 5),
                ("e", "57.000001", 1),
            ],
            // A repeat that began earlier comes before what began within the second.
            &[
                ("p.18a2000000000001", "56", 9),
                ("p.18a2000000000009", "56.9", 1),
            ],
            // Equal in everything else: by name.
            &[("a", "56", 1), ("b", "56", 1)],
        ];
        for table in tables {
            let order = |(name, at, version): &(&'static str, &str, u64)| {
                Order::new(Some(time(at)), Some(*version), ("shop", name))
            };
            let mut sorted = table.to_vec();
            sorted.reverse();
            sorted.sort_by_key(order);
            assert_eq!(sorted, *table);
        }
        let none = Order::new(None, Some(9), ("", "x"));
        assert!(none < Order::new(Some(time("00")), None, ("", "x")));
    }

    #[test]
    fn clocks_are_found_in_names_of_client_go_only() {
        let cases = [
            ("web-0.17979cfe362a0000", Some(1_700_000_000_000_000_000)),
            ("a.b.c.18a2000000000001", Some(0x18a2_0000_0000_0001)),
            ("web-0.178959f726d80ec", None),
            ("web-0.17979CFE362A0000", None),
            ("web-0.ffffffffffffffff", None),
            ("web-0.+7979cfe362a0000", None),
            ("17979cfe362a0000", None),
            ("", None),
        ];
        for (name, clock) in cases {
            let found = name_clock(name).map(Timestamp::as_nanosecond);
            assert_eq!(found, clock, "{name}");
        }
    }

    #[test]
    fn times_are_taken_in_kubectls_order() {
        let all = EventTimes {
            last_observed_time: Some(5),
            last_timestamp: Some(4),
            event_time: Some(3),
            first_timestamp: Some(2),
            creation_timestamp: Some(1),
        };
        let mut times = all;
        let mut seen = Vec::new();
        for clear in [
            |times: &mut EventTimes<i32>| times.last_observed_time = None,
            |times: &mut EventTimes<i32>| times.last_timestamp = None,
            |times: &mut EventTimes<i32>| times.first_timestamp = None,
            |times: &mut EventTimes<i32>| times.event_time = None,
            |times: &mut EventTimes<i32>| times.creation_timestamp = None,
        ] {
            seen.push((times.first_seen(), times.last_seen()));
            clear(&mut times);
        }
        let expected = [(2, 5), (2, 4), (2, 3), (3, 3), (1, 1)];
        assert_eq!(
            seen,
            expected.map(|(first, last)| (Some(first), Some(last)))
        );
        assert_eq!((times.first_seen(), times.last_seen()), (None, None));
        assert!(!is_set("0001-01-01T00:00:00Z".parse().unwrap()));
        assert!(is_set("0001-01-01T00:00:01Z".parse().unwrap()));
    }

    #[test]
    fn an_object_is_the_same_for_every_reporter() {
        assert!(CLUSTER_SCOPED.is_sorted());
        for namespace in ["", "default", "openshift-machine-config-operator"] {
            assert_eq!(object_namespace("Node", namespace), "");
            assert_eq!(object_namespace("Pod", namespace), namespace);
        }
        assert_eq!(object_uid("worker-7", "worker-7"), "");
        assert_eq!(object_uid("worker-7", "1111"), "1111");
        for (event_type, warning) in [
            ("Warning", true),
            ("Normal", false),
            ("Error", false),
            ("", false),
        ] {
            assert_eq!(is_warning(event_type), warning, "{event_type:?}");
        }
    }
}
