//! The events that are stored: as varied as a cluster's, and so cheap to make that the time for it
//! does not count.
//!
//! A set of templates is encoded once: what the usual components say about the usual objects, with
//! many a name and number in the messages. An event is a template's bytes with the parts that
//! differ from event to event written over: names, uids, times. All of it follows from the event's
//! number, so nothing has to be kept to know any event again.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_api::codec::json::Reading;
use tidings_api::codec::{Api, encode_stored, read_event};
use tidings_store::{Index, NewRecord, UnixMillis};

use crate::{Failure, Numbers};

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
const MARKS: [&[u8]; 6] = [SUFFIX, HASH, TAIL, EVENT_UID, OBJECT_UID, VERSION];
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

struct Template {
    namespace: &'static str,
    /// The part of the object's name that does not differ.
    word: &'static str,
    /// The encoded event when it first happened, and when it repeated.
    first: Encoded,
    again: Encoded,
    reason: &'static str,
    event_type: &'static str,
}

struct Encoded {
    bytes: Vec<u8>,
    /// The places of the placeholders, with their numbers.
    parts: Vec<(usize, usize)>,
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
    /// An event of core/v1 as clients send it, encoded as our server stores it.
    pub(crate) fn of(event: &Value, last_seen: UnixMillis) -> Result<Self, Failure> {
        let (_, mut event) = read_event(Api::Core, event, &mut Reading::default())?;
        let value = encode_stored(&mut event);
        let metadata = event.metadata.as_ref().ok_or("an event without metadata")?;
        let object = event.involved_object.clone().unwrap_or_default();
        Ok(Self {
            key: format!("{}/{}", metadata.namespace(), metadata.name()).into(),
            value,
            index: Index {
                object_uid: object.uid().to_owned(),
                object_kind: object.kind().to_owned(),
                object_namespace: object.namespace().to_owned(),
                object_name: object.name().to_owned(),
                reason: event.reason().to_owned(),
                event_type: event.r#type().to_owned(),
                last_seen,
            },
        })
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
        let namespaces = NAMESPACES.iter();
        let families = namespaces.flat_map(|space| WORDS.iter().map(move |word| (*space, *word)));
        let families: Vec<_> = families.collect();
        let templates = (0..VARIANTS).flat_map(|_| families.iter());
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

    /// An event when it is first written, or again, with a higher count and a later time.
    pub(super) fn event(&self, number: u64, again: bool) -> NewEvent {
        let object = number % self.objects;
        // An object keeps its namespace and application. Its events use different templates of
        // these.
        let families = (self.templates.len() / VARIANTS) as u64;
        let mut numbers = Numbers(object);
        let family = numbers.below(families);
        let mut of_event = Numbers(number ^ 0xe5e5_0000_0000);
        let at = of_event.below(VARIANTS as u64) * families + family;
        let template = &self.templates[at as usize];
        let millis = START + number.cast_signed() + if again { 600_000 } else { 0 };
        let (hash, tail): ([u8; HASH.len()], [u8; TAIL.len()]) =
            (numbers.letters(), numbers.letters());
        let nanos = (START + number.cast_signed()) * 1_000_000;
        let suffix = format!("{:016x}", nanos + of_event.below(1_000_000).cast_signed());
        let (event_uid, object_uid) = (of_event.uid(), Self::object_uid(object));
        let version = format!("{:08}", 10_000_000 + of_event.below(80_000_000));
        let seconds = varint(millis / 1000);
        let (of_event, of_object) = (event_uid.as_bytes(), object_uid.as_bytes());
        let (suffix_bytes, version) = (suffix.as_bytes(), version.as_bytes());
        let texts = [
            suffix_bytes,
            &hash,
            &tail,
            of_event,
            of_object,
            version,
            &seconds,
        ];

        let encoded = if again {
            &template.again
        } else {
            &template.first
        };
        let mut value = encoded.bytes.clone();
        for (at, part) in &encoded.parts {
            let text = texts[*part];
            value[*at..at + text.len()].copy_from_slice(text);
        }
        let [hash, tail] = [&hash[..], &tail].map(String::from_utf8_lossy);
        let name = format!("{}-{hash}-{tail}", template.word);
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
        let (component, is_kubelet, event_type, reason, phrase) = numbers.one_of(PHRASES);
        let [suffix, hash, tail, event_uid, object_uid, version] =
            MARKS.map(|mark| String::from_utf8_lossy(mark));
        let name = format!("{word}-{hash}-{tail}");
        let container = numbers.one_of(WORDS);
        let node = format!(
            "ip-10-0-{}-{}.internal",
            numbers.below(16),
            numbers.below(250)
        );
        let (registry, major) = (numbers.one_of(REGISTRIES), numbers.below(4));
        let (minor, patch) = (numbers.below(40), numbers.below(20));
        let image = format!("{registry}/{word}:v{major}.{minor}.{patch}");
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
        let time = Timestamp::from_second(SECONDS)
            .unwrap_or_default()
            .to_string();
        let mut event = json!({
            "metadata": {
                "name": format!("{name}.{suffix}"), "namespace": namespace, "uid": event_uid,
                "creationTimestamp": time,
            },
            "involvedObject": {
                "kind": "Pod", "namespace": namespace, "name": name, "uid": object_uid,
                "apiVersion": "v1", "resourceVersion": version,
            },
            "reason": reason, "message": message, "source": {"component": component},
            "firstTimestamp": time, "lastTimestamp": time, "count": 1, "type": event_type,
            "reportingComponent": component,
        });
        if is_kubelet {
            let path = format!("spec.containers{{{container}}}");
            event["involvedObject"]["fieldPath"] = path.into();
            event["source"]["host"] = node.clone().into();
            event["reportingInstance"] = node.into();
        }
        let first = Encoded::new(&event);
        event["count"] = (2 + numbers.below(40)).into();
        Self {
            namespace,
            word,
            first,
            again: Encoded::new(&event),
            reason,
            event_type,
        }
    }
}

impl Encoded {
    fn new(event: &Value) -> Self {
        let encoded = NewEvent::of(event, UnixMillis(0));
        let bytes = encoded
            .unwrap_or_else(|error| unreachable!("{error}"))
            .value
            .to_vec();
        let seconds = varint(SECONDS);
        let mut parts = Vec::new();
        for (part, mark) in MARKS.into_iter().chain([&seconds[..]]).enumerate() {
            let places = bytes.windows(mark.len()).enumerate();
            let places = places.filter(|(_, window)| *window == mark);
            parts.extend(places.map(|(at, _)| (at, part)));
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

    use tidings_api::codec::decode_stored;

    use super::*;

    #[test]
    fn events_are_whole_different_and_say_what_they_are_found_by() {
        let events = Events::new(2000);
        let mut keys = HashSet::new();
        for number in 0..2000 {
            let (first, again) = (events.event(number, false), events.event(number, true));
            assert_eq!(first.key, again.key);
            assert!(keys.insert(first.key.clone()));
            let event = decode_stored(&first.value, 1).unwrap();
            let metadata = event.metadata.unwrap();
            let key = format!("{}/{}", metadata.namespace(), metadata.name());
            assert_eq!(first.key, key);
            let object = event.involved_object.unwrap();
            assert_eq!(object.uid(), first.index.object_uid);
            assert_eq!(object.name(), first.index.object_name);
            assert_eq!(object.namespace(), first.index.object_namespace);
            assert_eq!(object.uid(), Events::object_uid(number % events.objects()));
            let repeated = decode_stored(&again.value, 1).unwrap();
            assert!(repeated.count > event.count);
            assert!(
                repeated.last_timestamp.unwrap().seconds > event.last_timestamp.unwrap().seconds
            );
            assert_eq!(repeated.message, event.message);
            for mark in MARKS {
                let left = first.value.windows(mark.len()).any(|it| it == mark);
                assert!(!left, "a part was not written over");
            }
        }
        let objects: HashSet<_> = (0..2000)
            .map(|at| events.event(at, false).index.object_uid)
            .collect();
        assert_eq!(objects.len(), 100);
    }
}
