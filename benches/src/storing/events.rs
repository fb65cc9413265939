//! The events that are stored: as varied as a cluster's, and so cheap to make that the time for it
//! does not count.
//!
//! A set of templates is encoded once: what the usual components say about the usual objects, with
//! many a name and number in the messages. An event is a template's bytes with the parts that
//! differ from event to event written over: names, uids, times. All of it follows from the event's
//! number, so nothing has to be kept to know any event again.

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_store::{Index, NewRecord, UnixMillis};

use super::encode::encode;

/// Number of events about each object.
pub(super) const EVENTS_PER_OBJECT: u64 = 20;

/// The time of the first event, in milliseconds since 1970.
pub(super) const START: i64 = 1_750_000_000_000;

/// Number of templates for the objects of one namespace and application.
const VARIANTS: usize = 68;

/// Placeholders in a template, each as long as what replaces it. Nothing else in a template looks
/// like them.
const SUFFIX: &[u8] = b"@name-suffix-16@";
const HASH: &[u8] = b"@set-hash@";
const TAIL: &[u8] = b"@tail";
const EVENT_UID: &[u8] = b"@uid-of-the-event-of-36-characters@@";
const OBJECT_UID: &[u8] = b"@uid-of-the-object-of-36-characters@";
const VERSION: &[u8] = b"@version";
const SECONDS: i64 = 2_012_345_678;

/// Component, whether it is a kubelet (and names host and container), type, reason, message. In
/// messages `%o` stands for the object, `%c` for a container, `%i` for an image, `%n` for a node,
/// `%s` for the namespace, `%d` for a number.
type Phrase = (&'static str, bool, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const PHRASES: &[Phrase] = &[
    ("default-scheduler", false, "Normal", "Scheduled", "Successfully assigned %s/%o to %n"),
    ("default-scheduler", false, "Warning", "FailedScheduling", "0/%d nodes are available: %d Insufficient memory, %d node(s) didn't match Pod's node affinity/selector."),
    ("kubelet", true, "Normal", "Pulling", "Pulling image \"%i\""),
    ("kubelet", true, "Normal", "Pulled", "Successfully pulled image \"%i\" in %d.%ds (%d.%ds including waiting)"),
    ("kubelet", true, "Normal", "Created", "Created container %c"),
    ("kubelet", true, "Normal", "Started", "Started container %c"),
    ("kubelet", true, "Normal", "Killing", "Container %c failed liveness probe, will be restarted"),
    ("kubelet", true, "Warning", "BackOff", "Back-off restarting failed container"),
    ("kubelet", true, "Warning", "Unhealthy", "Readiness probe failed: Get \"http://10.%d.%d.%d:%d/healthz\": dial tcp 10.%d.%d.%d:%d: connect: connection refused"),
    ("kubelet", true, "Warning", "Unhealthy", "Liveness probe failed: command \"pg_isready -U postgres -h 127.0.0.1 -p %d\" timed out"),
    ("kubelet", true, "Warning", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data-%d], unattached volumes=[config data-%d kube-api-access]: timed out waiting for the condition"),
    ("kubelet", true, "Warning", "Failed", "Failed to pull image \"%i\": rpc error: code = Unknown desc = Error response from daemon: manifest for %i not found: manifest unknown"),
    ("attachdetach-controller", false, "Normal", "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume \"pvc-%d-%d-%d\""),
    ("taint-eviction-controller", false, "Normal", "TaintManagerEviction", "Marking for deletion Pod %s/%o"),
];

const WORDS: &[&str] = &[
    "checkout", "cart", "billing", "search", "gateway", "ledger", "mailer", "catalog", "session",
    "reports",
];
const NAMESPACES: &[&str] = &[
    "default",
    "kube-system",
    "shop-prod",
    "shop-staging",
    "observability",
    "data",
];
const REGISTRIES: &[&str] = &["docker.io/library", "ghcr.io/shop", "registry.example/team"];

/// Random numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len() as u64) as usize).copied()
    }

    /// Fills `place` with lower-case letters and digits.
    pub(crate) fn letters(&mut self, place: &mut [u8]) {
        for byte in place {
            let at = self.below(27) as usize;
            *byte = b"bcdfghjklmnpqrstvwxz2456789"
                .get(at)
                .copied()
                .unwrap_or(b'x');
        }
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

/// A part of a template that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Suffix,
    Hash,
    Tail,
    EventUid,
    ObjectUid,
    Version,
    Seconds,
}

struct Template {
    namespace: &'static str,
    /// The part of the object's name that does not differ.
    prefix: String,
    /// The encoded event when it first happened, and when it repeated.
    first: Encoded,
    again: Encoded,
    reason: &'static str,
    event_type: &'static str,
}

struct Encoded {
    bytes: Vec<u8>,
    parts: Vec<(usize, Part)>,
}

/// An event as it is passed to a store.
pub(crate) struct NewEvent {
    /// The namespace and the name.
    pub(crate) key: Bytes,
    /// The encoded event.
    pub(crate) value: Bytes,
    /// The fields by which the event can be found.
    pub(crate) index: Index,
}

impl NewEvent {
    /// The event as clients send it.
    pub(crate) fn of(event: &Event, last_seen: UnixMillis) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (metadata, object) = (&event.metadata, &event.involved_object);
        let key = format!("{}/{}", text(&metadata.namespace), text(&metadata.name));
        Self {
            key: Bytes::from(key),
            value: encode(event).into(),
            index: Index {
                object_uid: text(&object.uid),
                object_kind: text(&object.kind),
                object_namespace: text(&object.namespace),
                object_name: text(&object.name),
                reason: text(&event.reason),
                event_type: text(&event.type_),
                last_seen,
            },
        }
    }

    /// The event as a record of our store.
    pub(crate) fn record(self, expires_at: UnixMillis) -> (Bytes, NewRecord) {
        let record = NewRecord {
            value: self.value,
            index: self.index,
            expires_at: Some(expires_at),
        };
        (self.key, record)
    }

    /// Number of bytes of key and value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// Makes a number of events, about a twentieth as many objects.
pub(super) struct Events {
    templates: Vec<Template>,
    objects: u64,
}

impl Events {
    /// Prepares to make `count` events.
    pub(super) fn new(count: u64) -> Self {
        let mut numbers = Numbers(7);
        let families = NAMESPACES
            .iter()
            .flat_map(|namespace| WORDS.iter().map(move |word| (*namespace, *word)));
        let families: Vec<_> = families.collect();
        let templates = (0..VARIANTS).flat_map(|_| families.iter().copied());
        Self {
            templates: templates
                .map(|(namespace, word)| Template::new(&mut numbers, namespace, word))
                .collect(),
            objects: (count / EVENTS_PER_OBJECT).max(1),
        }
    }

    /// Number of objects that the events are about.
    pub(super) fn objects(&self) -> u64 {
        self.objects
    }

    /// The uid of an object.
    pub(super) fn object_uid(object: u64) -> String {
        Numbers(object ^ 0x0b_1ec7).uid()
    }

    /// An event when it is first written.
    pub(super) fn first(&self, number: u64) -> NewEvent {
        self.event(number, false)
    }

    /// The same event with a higher count and a later time.
    pub(super) fn again(&self, number: u64) -> NewEvent {
        self.event(number, true)
    }

    fn event(&self, number: u64, again: bool) -> NewEvent {
        let object = number % self.objects;
        // An object keeps its namespace and application. Its events use different templates of
        // these.
        let families = (self.templates.len() / VARIANTS) as u64;
        let mut numbers = Numbers(object);
        let family = numbers.below(families);
        let mut of_event = Numbers(number ^ 0xe5e5_0000_0000);
        let at = of_event.below(VARIANTS as u64) * families + family;
        let template = self.templates.get(at as usize);
        let Some(template) = template.or(self.templates.first()) else {
            return NewEvent {
                key: Bytes::new(),
                value: Bytes::new(),
                index: Index::default(),
            };
        };
        let millis = START + number.cast_signed() + if again { 600_000 } else { 0 };
        let mut hash = [0; HASH.len()];
        let mut tail = [0; TAIL.len()];
        numbers.letters(&mut hash);
        numbers.letters(&mut tail);
        let nanos = (START + number.cast_signed()) * 1_000_000;
        let suffix = format!("{:016x}", nanos + of_event.below(1_000_000).cast_signed());
        let event_uid = of_event.uid();
        let object_uid = Self::object_uid(object);
        let version = format!("{:08}", 10_000_000 + of_event.below(80_000_000));
        let seconds = varint(millis / 1000);

        let encoded = if again {
            &template.again
        } else {
            &template.first
        };
        let mut value = encoded.bytes.clone();
        for (at, part) in &encoded.parts {
            let text: &[u8] = match part {
                Part::Suffix => suffix.as_bytes(),
                Part::Hash => &hash,
                Part::Tail => &tail,
                Part::EventUid => event_uid.as_bytes(),
                Part::ObjectUid => object_uid.as_bytes(),
                Part::Version => version.as_bytes(),
                Part::Seconds => &seconds,
            };
            if let Some(place) = value.get_mut(*at..at + text.len()) {
                place.copy_from_slice(text);
            }
        }
        let name = format!(
            "{}-{}-{}",
            template.prefix,
            String::from_utf8_lossy(&hash),
            String::from_utf8_lossy(&tail)
        );
        NewEvent {
            key: format!("{}/{name}.{suffix}", template.namespace).into(),
            value: value.into(),
            index: Index {
                object_uid,
                object_kind: "Pod".to_owned(),
                object_namespace: template.namespace.to_owned(),
                object_name: name,
                reason: template.reason.to_owned(),
                event_type: template.event_type.to_owned(),
                last_seen: UnixMillis(millis),
            },
        }
    }
}

impl Template {
    fn new(numbers: &mut Numbers, namespace: &'static str, word: &'static str) -> Self {
        let (component, kubelet, type_, reason, phrase) = numbers.one_of(PHRASES).unwrap_or((
            "kubelet",
            true,
            "Normal",
            "Started",
            "Started container %c",
        ));
        let ours = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = format!("{word}-{}-{}", ours(HASH), ours(TAIL));
        let container = numbers.one_of(WORDS).unwrap_or("web");
        let node = format!(
            "ip-10-0-{}-{}.internal",
            numbers.below(16),
            numbers.below(250)
        );
        let image = format!(
            "{}/{word}:v{}.{}.{}",
            numbers.one_of(REGISTRIES).unwrap_or("localhost"),
            numbers.below(4),
            numbers.below(40),
            numbers.below(20)
        );
        let mut message = String::new();
        let mut rest = phrase;
        while let Some((before, after)) = rest.split_once('%') {
            message.push_str(before);
            let number = numbers.below(250).to_string();
            let (placeholder, behind) = after.split_at_checked(1).unwrap_or_default();
            message.push_str(match placeholder {
                "o" => &name,
                "c" => container,
                "i" => &image,
                "n" => &node,
                "s" => namespace,
                _ => &number,
            });
            rest = behind;
        }
        message.push_str(rest);
        let time = Timestamp::from_second(SECONDS).ok().map(Time);
        let mut event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{}", ours(SUFFIX))),
                namespace: Some(namespace.to_owned()),
                uid: Some(ours(EVENT_UID)),
                creation_timestamp: time.clone(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                kind: Some("Pod".to_owned()),
                namespace: Some(namespace.to_owned()),
                name: Some(name),
                uid: Some(ours(OBJECT_UID)),
                api_version: Some("v1".to_owned()),
                resource_version: Some(ours(VERSION)),
                field_path: kubelet.then(|| format!("spec.containers{{{container}}}")),
            },
            reason: Some(reason.to_owned()),
            message: Some(message),
            source: Some(EventSource {
                component: Some(component.to_owned()),
                host: kubelet.then(|| node.clone()),
            }),
            first_timestamp: time.clone(),
            last_timestamp: time,
            count: Some(1),
            type_: Some(type_.to_owned()),
            reporting_component: Some(component.to_owned()),
            reporting_instance: kubelet.then(|| node.clone()),
            ..Event::default()
        };
        let first = Encoded::new(&event);
        event.count = Some(2 + numbers.below(40) as i32);
        Self {
            namespace,
            prefix: word.to_owned(),
            first,
            again: Encoded::new(&event),
            reason,
            event_type: type_,
        }
    }
}

impl Encoded {
    fn new(event: &Event) -> Self {
        let bytes = encode(event);
        let seconds = varint(SECONDS);
        let kinds: [(&[u8], Part); 7] = [
            (SUFFIX, Part::Suffix),
            (HASH, Part::Hash),
            (TAIL, Part::Tail),
            (EVENT_UID, Part::EventUid),
            (OBJECT_UID, Part::ObjectUid),
            (VERSION, Part::Version),
            (&seconds, Part::Seconds),
        ];
        let mut parts = Vec::new();
        for (mark, part) in kinds {
            let places = bytes.windows(mark.len()).enumerate();
            parts.extend(
                places
                    .filter(|(_, window)| *window == mark)
                    .map(|(at, _)| (at, part)),
            );
        }
        Self { bytes, parts }
    }
}

/// Seconds since 1970 in protobuf's encoding: five bytes for any time from 1978 until long after
/// 2100.
fn varint(number: i64) -> [u8; 5] {
    let mut bytes = [0; 5];
    let mut rest = number.cast_unsigned();
    for byte in &mut bytes {
        *byte = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    if let Some(last) = bytes.last_mut() {
        *last &= 0x7f;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::runtime::Unknown;
    use prost::Message;

    use super::*;

    fn decode(value: &[u8]) -> Event {
        let envelope = Unknown::decode(value.strip_prefix(b"k8s\0").unwrap()).unwrap();
        Event::decode(envelope.raw.unwrap().as_slice()).unwrap()
    }

    #[test]
    fn events_are_whole_different_and_say_what_they_are_found_by() {
        let events = Events::new(2000);
        let mut keys = HashSet::new();
        for number in 0..2000 {
            let (first, again) = (events.first(number), events.again(number));
            assert_eq!(first.key, again.key);
            assert!(keys.insert(first.key.clone()));
            let event = decode(&first.value);
            let metadata = event.metadata.unwrap();
            let key = format!("{}/{}", metadata.namespace(), metadata.name());
            assert_eq!(first.key, key);
            let object = event.involved_object.unwrap();
            assert_eq!(object.uid(), first.index.object_uid);
            assert_eq!(object.name(), first.index.object_name);
            assert_eq!(object.namespace(), first.index.object_namespace);
            assert_eq!(object.uid(), Events::object_uid(number % events.objects()));
            let repeated = decode(&again.value);
            assert!(repeated.count > event.count);
            assert!(
                repeated.last_timestamp.unwrap().seconds > event.last_timestamp.unwrap().seconds
            );
            assert_eq!(repeated.message, event.message);
            for mark in [SUFFIX, HASH, TAIL, EVENT_UID, OBJECT_UID, VERSION] {
                let left = first.value.windows(mark.len()).any(|it| it == mark);
                assert!(!left, "a part was not written over");
            }
        }
        let objects: HashSet<_> = (0..2000)
            .map(|at| events.first(at).index.object_uid)
            .collect();
        assert_eq!(objects.len(), 100);
    }
}
