//! How an event of any writer is read: when it happened, which of two comes first, what a warning
//! is, and which object it is about.
//!
//! The command, the server, the archive, the timeline and Parquet files read events by these rules
//! only. What is stored and sent does not change.

use jiff::{SignedDuration, Timestamp};

/// The times of an event, all of which may be missing. Go's zero time (year 1) is a missing time.
///
/// ```
/// use tidings_core::reading::EventTimes;
///
/// let times = EventTimes { first_timestamp: Some(10), last_timestamp: Some(70),
/// ..Default::default() }; assert_eq!((times.first_seen(), times.last_seen()), (Some(10),
/// Some(70)));
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

    /// [First](Self::first_seen) and [last](Self::last_seen) seen.
    pub fn seen(&self) -> (Option<T>, Option<T>) {
        (self.first_seen(), self.last_seen())
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

/// Maximum distance of a believed clock from the time in which its event was seen.
pub const CLOCK_DISTANCE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The clock of a [name](name_clock), if it is near the event's times: at most
/// [`CLOCK_DISTANCE_MAX`] before it was first seen or after it was last seen.
///
/// Other programs may end their names with 16 digits that are no clock, such as a hash.
pub fn believed_clock(
    name: &str,
    (first_seen, last_seen): (Option<Timestamp>, Option<Timestamp>),
) -> Option<Timestamp> {
    let last = last_seen?;
    let first = first_seen.unwrap_or(last).min(last);
    name_clock(name).filter(|clock| {
        first.duration_since(*clock) <= CLOCK_DISTANCE_MAX
            && clock.duration_since(last) <= CLOCK_DISTANCE_MAX
    })
}

/// The place of an event among others, earliest first.
///
/// Events are ordered by the second in which they were last seen. Within a second, some times have
/// a fraction (the scheduler's) and some have none (the kubelet's). So there the order is that of
/// the clocks in client-go's names, if they can be [believed](believed_clock). An event without
/// such a clock is placed by its fraction; without one, it comes behind those that have any. Then
/// the resourceVersion decides, and last the namespace and the name.
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
    /// The place of the event `namespace/name` that was [first and last seen](EventTimes::seen)
    /// then.
    pub fn new(
        seen: (Option<Timestamp>, Option<Timestamp>),
        resource_version: Option<u64>,
        (namespace, name): (&'a str, &'a str),
    ) -> Self {
        let (_, last_seen) = seen;
        let own = last_seen.filter(|time| time.subsec_nanosecond() != 0);
        let clock = believed_clock(name, seen);
        let within = clock.or(own).map(Timestamp::as_nanosecond);
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

    /// The clock of a name, in nanoseconds from 13:42:56 on.
    fn clock(nanoseconds: i128) -> String {
        format!("{:016x}", time("56").as_nanosecond() + nanoseconds)
    }

    /// Each row is in its order: name, its clock in nanoseconds, seconds, resourceVersion.
    #[test]
    fn a_second_is_told_forwards() {
        const DAY: i128 = 24 * 3600 * 1_000_000_000;
        type Row = (&'static str, Option<i128>, &'static str, u64);
        let tables: &[&[Row]] = &[
            // The scheduler writes microseconds, the kubelet seconds; the names have the clocks.
            &[
                ("fast-0", Some(1), "56.252501", 9),
                ("fast-0", Some(2), "56", 3),
                ("fast-0", Some(3), "56", 2),
                ("fast-0", Some(4), "56", 1),
                ("fast-0", Some(0), "57", 0),
            ],
            // Without clocks: whole seconds come behind fractions, by their resourceVersion.
            &[
                ("a", None, "56.1", 9),
                ("b", None, "56.252501", 3),
                ("d", None, "56", 4),
                ("c", None, "56", 5),
                ("e", None, "57.000001", 1),
            ],
            // A repeat that began earlier comes before what began within the second.
            &[("p", Some(1), "56", 9), ("p", Some(9), "56.9", 1)],
            // Digits that are no clock of these days decide nothing.
            &[
                ("at most a day before", Some(-DAY), "56", 9),
                ("a fraction", Some(-2 * DAY), "56.1", 7),
                ("a fraction", Some(2 * DAY), "56.3", 8),
                ("a day before and more", Some(-DAY - 1), "56", 2),
                ("years behind", Some(3000 * DAY), "56", 3),
                ("a day behind and more", Some(DAY + 1), "56", 4),
            ],
            // Equal in everything else: by name.
            &[("a", None, "56", 1), ("b", None, "56", 1)],
        ];
        for table in tables {
            let named = |(name, nanoseconds, at, version): &Row| {
                let name = match nanoseconds {
                    Some(nanoseconds) => format!("{name}.{}", clock(*nanoseconds)),
                    None => (*name).to_owned(),
                };
                (name, time(at), *version)
            };
            let expected: Vec<_> = table.iter().map(named).collect();
            let mut sorted = expected.clone();
            sorted.reverse();
            let order = |one: &(String, Timestamp, u64), other: &(String, Timestamp, u64)| {
                let [one, other] = [one, other].map(|(name, at, version)| {
                    Order::new((Some(*at), Some(*at)), Some(*version), ("shop", name))
                });
                one.cmp(&other)
            };
            sorted.sort_by(order);
            assert_eq!(sorted, expected);
        }
        let none = Order::new((None, None), Some(9), ("", "x"));
        let seen = (None, Some(time("00")));
        assert!(none < Order::new(seen, None, ("", "x")));
    }

    #[test]
    fn a_clock_is_believed_near_the_times_of_its_event() {
        const HOUR: i128 = 3600 * 1_000_000_000;
        let (first, last) = (time("56"), time("56") + SignedDuration::from_hours(72));
        for (first, last, hours, is_believed) in [
            (Some(first), Some(last), 0, true),
            (Some(first), Some(last), -24, true),
            (Some(first), Some(last), -25, false),
            // It began and ended around this time.
            (Some(first), Some(last), 36, true),
            (Some(first), Some(last), 96, true),
            (Some(first), Some(last), 97, false),
            (None, Some(last), 36, false),
            (None, Some(last), 48, true),
            // The first time is after the last.
            (Some(last), Some(first), 25, false),
            (Some(first), None, 0, false),
            (None, None, 0, false),
        ] {
            let name = format!("web-0.{}", clock(hours * HOUR));
            let clock = believed_clock(&name, (first, last));
            assert_eq!(clock.is_some(), is_believed, "{first:?} {last:?} {hours}");
        }
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
