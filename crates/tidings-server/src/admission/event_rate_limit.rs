//! EventRateLimit: token buckets for the server, each namespace, each user, each source and object.
//!
//! It follows `k8s.io/kubernetes/plugin/pkg/admission/eventratelimit`.
//!
//! A bucket is found by 128 bits of a hash with a random key. So memory does not depend on what
//! clients send, and no client can target another's bucket. The least recently used bucket is
//! evicted first; a bucket that is created again is full.

mod configuration;

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lru::LruCache;
use tidings_core::{Monotonic, TokenBucket, TokenRate, floor_char_boundary};

/// Default cache size, as in EventRateLimit.
const CACHE_SIZE: u32 = 4096;
/// Maximum bytes of a key in an answer.
const SAID_BYTES_MAX: usize = 1024;

/// The events that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitType {
    /// All events of the server.
    Server,
    /// The events of a namespace.
    Namespace,
    /// The events of a user.
    User,
    /// The events of a source about the same object.
    SourceAndObject,
}

impl LimitType {
    pub(crate) const ALL: [Self; 4] = [
        Self::Server,
        Self::Namespace,
        Self::User,
        Self::SourceAndObject,
    ];

    /// The type's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }
}

/// One limit: the type of its buckets, their rate and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLimit {
    /// The events that share a bucket.
    pub limit_type: LimitType,
    /// Maximum events per second, in the long run.
    pub qps: u32,
    /// Maximum events at once, which is the size of a bucket.
    pub burst: u32,
    /// Maximum buckets kept; the least recently used is evicted first. A bucket takes about 100
    /// bytes.
    pub cache_size: u32,
}

/// The rate limits of events. Default: no limits.
///
/// ```
/// use tidings_server::{EventRateLimitOptions, LimitType};
///
/// let options = EventRateLimitOptions::parse("
/// apiVersion: eventratelimit.admission.k8s.io/v1alpha1
/// kind: Configuration
/// limits:
/// - type: Namespace
///   qps: 50
///   burst: 100
///   cacheSize: 2000
/// ")?;
/// assert_eq!(options.limits[0].limit_type, LimitType::Namespace);
/// # Ok::<(), tidings_server::SettingsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRateLimitOptions {
    /// The limits; every event must stay within all of them.
    pub limits: Vec<EventLimit>,
}

/// The rate limits with their buckets.
pub(super) struct EventRateLimit {
    enforcers: Vec<Enforcer>,
    hashers: [RandomState; 2],
}

struct Enforcer {
    limit_type: LimitType,
    rate: TokenRate,
    buckets_max: usize,
    /// Bounded here and not by the map, which would allocate its maximum at once.
    buckets: Mutex<LruCache<[u64; 2], TokenBucket>>,
    reached: AtomicU64,
}

impl EventRateLimit {
    pub(super) fn new(options: &EventRateLimitOptions) -> Self {
        let enforcer = |limit: &EventLimit| Enforcer {
            limit_type: limit.limit_type,
            // As upstream: whole numbers that fit are exact, others are rounded.
            rate: TokenRate::new(limit.qps as f32, limit.burst),
            buckets_max: limit.cache_size.max(1) as usize,
            buckets: Mutex::new(LruCache::unbounded()),
            reached: AtomicU64::new(0),
        };
        Self {
            enforcers: options.limits.iter().map(enforcer).collect(),
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    /// Takes a token from each of the event's buckets, even if one is empty. The error names the
    /// empty ones.
    pub(super) fn accept(&self, now: Monotonic, user: &str, event: &Event) -> Result<(), String> {
        let mut reached: Vec<String> = Vec::new();
        for enforcer in &self.enforcers {
            let key = key(enforcer.limit_type, user, event);
            let hash = self.hashers.each_ref().map(|hasher| hasher.hash_one(&key));
            if !enforcer.accept(now, hash) {
                enforcer.reached.fetch_add(1, Ordering::Relaxed);
                let text = enforcer.message(&key);
                if !reached.contains(&text) {
                    reached.push(text);
                }
            }
        }
        match reached.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    pub(super) fn counts(&self) -> Vec<(LimitType, u64)> {
        let count = |enforcer: &Enforcer| {
            let reached = enforcer.reached.load(Ordering::Relaxed);
            (enforcer.limit_type, reached)
        };
        self.enforcers.iter().map(count).collect()
    }
}

impl Enforcer {
    fn accept(&self, now: Monotonic, hash: [u64; 2]) -> bool {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.get_or_insert_mut(hash, || TokenBucket::full(self.rate, now));
        let accepted = bucket.take(self.rate, now);
        if buckets.len() > self.buckets_max {
            buckets.pop_lru();
        }
        accepted
    }

    fn message(&self, key: &[&str]) -> String {
        let mut text = format!("limit reached on type {} for key ", self.limit_type.name());
        for part in key {
            text.push_str(part);
        }
        text.truncate(floor_char_boundary(&text, SAID_BYTES_MAX));
        text
    }
}

/// The parts of an event's key for a limit. Upstream joins them to one text.
fn key<'a>(limit_type: LimitType, user: &'a str, event: &'a Event) -> Vec<&'a str> {
    match limit_type {
        LimitType::Server => Vec::new(),
        LimitType::Namespace => {
            let metadata = event.metadata.as_ref();
            vec![metadata.map(ObjectMeta::namespace).unwrap_or_default()]
        }
        LimitType::User => vec![user],
        LimitType::SourceAndObject => {
            let mut parts = Vec::with_capacity(7);
            let source = event.source.as_ref();
            parts.extend(source.map_or([""; 2], |source| [source.component(), source.host()]));
            if let Some(object) = &event.involved_object {
                parts.extend([
                    object.kind(),
                    object.namespace(),
                    object.name(),
                    object.uid(),
                    object.api_version(),
                ]);
            }
            parts
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::{EventSource, ObjectReference};

    use super::*;

    fn event(namespace: &str, component: &str, host: &str) -> Event {
        Event {
            metadata: Some(ObjectMeta {
                namespace: Some(namespace.into()),
                ..ObjectMeta::default()
            }),
            source: Some(EventSource {
                component: Some(component.into()),
                host: Some(host.into()),
            }),
            involved_object: Some(ObjectReference {
                kind: Some("Pod".into()),
                name: Some("web".into()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }

    fn limits(limits: &[(LimitType, u32, u32, u32)]) -> EventRateLimitOptions {
        let limit = |&(limit_type, qps, burst, cache_size)| EventLimit {
            limit_type,
            qps,
            burst,
            cache_size,
        };
        EventRateLimitOptions {
            limits: limits.iter().map(limit).collect(),
        }
    }

    /// Offers events at these seconds, by users and in namespaces, and returns which were accepted.
    fn offer(options: &EventRateLimitOptions, offered: &[(i64, &str, &str, &str)]) -> Vec<bool> {
        let limit = EventRateLimit::new(options);
        offered
            .iter()
            .map(|&(second, user, namespace, component)| {
                let now = Monotonic::from_nanos(second * 1_000_000_000);
                limit
                    .accept(now, user, &event(namespace, component, "h"))
                    .is_ok()
            })
            .collect()
    }

    /// TestEventRateLimiting of upstream: each type alone, and several together.
    #[test]
    fn each_type_has_its_own_buckets() {
        use LimitType::{Namespace, Server, SourceAndObject, User};
        for (options, offered, expected) in [
            (
                limits(&[(Server, 1, 2, 0)]),
                &[
                    (0, "a", "x", "c"),
                    (0, "b", "y", "d"),
                    (0, "c", "z", "e"),
                    (1, "a", "x", "c"),
                    (1, "a", "x", "c"),
                ][..],
                &[true, true, false, true, false][..],
            ),
            (
                limits(&[(Namespace, 1, 1, 10)]),
                &[(0, "a", "x", "c"), (0, "b", "y", "c"), (0, "c", "x", "d")],
                &[true, true, false],
            ),
            (
                limits(&[(User, 1, 1, 10)]),
                &[(0, "a", "x", "c"), (0, "b", "x", "c"), (0, "a", "y", "d")],
                &[true, true, false],
            ),
            (
                limits(&[(SourceAndObject, 1, 1, 10)]),
                &[(0, "a", "x", "c"), (0, "a", "x", "d"), (0, "b", "y", "c")],
                &[true, true, false],
            ),
            // A bucket that was evicted is full again.
            (
                limits(&[(Namespace, 1, 1, 1)]),
                &[(0, "a", "x", "c"), (0, "a", "y", "c"), (0, "a", "x", "c")],
                &[true, true, true],
            ),
            // A refusal by one limit still takes tokens of the others.
            (
                limits(&[(Namespace, 1, 1, 10), (Server, 1, 2, 0)]),
                &[(0, "a", "x", "c"), (0, "a", "x", "c"), (0, "a", "y", "c")],
                &[true, false, false],
            ),
        ] {
            assert_eq!(offer(&options, offered), expected, "{options:?}");
        }
    }

    #[test]
    fn parts_of_a_key_are_not_joined() {
        let options = limits(&[(LimitType::SourceAndObject, 1, 1, 10)]);
        let limit = EventRateLimit::new(&options);
        let accept =
            |component, host| limit.accept(Monotonic::ZERO, "a", &event("x", component, host));
        assert_eq!(accept("ab", "c"), Ok(()));
        assert_eq!(accept("a", "bc"), Ok(()));
        assert_eq!(
            accept("a", "bc").unwrap_err(),
            "limit reached on type SourceAndObject for key abcPodweb"
        );
    }

    #[test]
    fn long_keys_are_not_repeated_in_full() {
        let limit = EventRateLimit::new(&limits(&[(LimitType::User, 1, 1, 10)]));
        let user = "ü".repeat(5000);
        let accept = || limit.accept(Monotonic::ZERO, &user, &event("x", "c", "h"));
        assert_eq!(accept(), Ok(()));
        assert!(accept().unwrap_err().len() <= SAID_BYTES_MAX);
    }
}
