//! Conditions on events, as files state them: of retention rules, and of feeds (`match:`).
//!
//! ```
//! use tidings_api::conditions::Conditions;
//!
//! let conditions: Conditions = serde_saphyr::from_str("
//!   namespace: [kube-system, 'openshift-*']   # one, or several; * stands for any characters
//!   type: Warning
//!   kind: Pod
//!   reason: Failed*
//!   reportingController: kubelet              # or, without one, source.component
//!   source: {component: kubelet, host: 'edge-*'}
//!   message: '*connection refused*'
//!   cluster: prod                             # of an archive
//!   not:                                      # one, or several: no event that meets all of these
//!   - {reason: FailedMount, message: '*timeout*'}
//! ")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An event must meet each condition, by one of its patterns, and none of those in `not`. Values
//! are compared as they are written.
//!
//! A new condition is a new `Field`; the compiler asks for the rest.

use std::fmt;

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_saphyr::Spanned;
use tidings_core::filter::Pattern;

/// Maximum depth of `not` in each other.
const DEPTH_MAX: usize = 4;

/// Conditions on one event. The default are none, which every event meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    all: Vec<Condition>,
    /// Conditions of which an event must not meet all.
    not: Vec<Self>,
}

/// Conditions with a time, as a retention rule has them.
#[derive(Debug)]
pub struct TimedConditions {
    /// The conditions.
    pub conditions: Conditions,
    /// The text of `ttl`, with its line.
    pub ttl: Option<Spanned<String>>,
}

/// A condition on one field of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    field: Field,
    /// What is accepted, as it is written, at least one. One of them must match.
    patterns: Vec<(String, Pattern)>,
}

/// The fields that conditions can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Cluster,
    Namespace,
    Kind,
    Type,
    Reason,
    ReportingController,
    SourceComponent,
    SourceHost,
    Message,
}

impl Field {
    const ALL: [Self; 9] = [
        Self::Cluster,
        Self::Namespace,
        Self::Kind,
        Self::Type,
        Self::Reason,
        Self::ReportingController,
        Self::SourceComponent,
        Self::SourceHost,
        Self::Message,
    ];

    /// The field's name in a file.
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Kind => "kind",
            Self::Type => "type",
            Self::Reason => "reason",
            Self::ReportingController => "reportingController",
            Self::SourceComponent => "source.component",
            Self::SourceHost => "source.host",
            Self::Message => "message",
        }
    }

    /// The field's value in an event of a cluster.
    fn of<'a>(self, cluster: &'a str, event: &'a Event) -> &'a str {
        let source = event.source.as_ref();
        match self {
            Self::Cluster => Some(cluster),
            Self::Namespace => event.metadata.as_ref().map(ObjectMeta::namespace),
            Self::Kind => event.involved_object.as_ref().map(ObjectReference::kind),
            Self::Type => Some(event.r#type()),
            Self::Reason => Some(event.reason()),
            Self::ReportingController => match event.reporting_component() {
                "" => return Self::SourceComponent.of(cluster, event),
                controller => Some(controller),
            },
            Self::SourceComponent => source.map(EventSource::component),
            Self::SourceHost => source.map(EventSource::host),
            Self::Message => Some(event.message()),
        }
        .unwrap_or_default()
    }

    /// Checks that a pattern can match a value of the field.
    fn check(self, text: &str, pattern: &Pattern) -> Result<(), &'static str> {
        let is_namespace = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'*');
        match self {
            Self::Namespace if !text.bytes().all(is_namespace) => {
                Err("namespaces are of lower-case letters, digits and '-'; * stands for any")
            }
            Self::Type if !["Normal", "Warning"].iter().any(|it| pattern.matches(it)) => {
                Err("expected Normal or Warning")
            }
            Self::Cluster
            | Self::Namespace
            | Self::Kind
            | Self::Type
            | Self::Reason
            | Self::ReportingController
            | Self::SourceComponent
            | Self::SourceHost
            | Self::Message => Ok(()),
        }
    }
}

impl Condition {
    fn new(field: Field, texts: Vec<String>) -> Result<Self, String> {
        let name = field.name();
        if texts.is_empty() {
            return Err(format!("{name} is an empty list, which matches nothing"));
        }
        let mut patterns = Vec::with_capacity(texts.len());
        for text in texts {
            if text.is_empty() {
                return Err(format!("{name} is empty; leave it out to match everything"));
            }
            let pattern = Pattern::glob(&text);
            let checked = field.check(&text, &pattern);
            checked.map_err(|why| format!("{name} {text:?}: {why}"))?;
            patterns.push((text, pattern));
        }
        Ok(Self { field, patterns })
    }

    fn accepts(&self, value: &str) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|(_, pattern)| pattern.matches(value))
    }

    fn always_holds(&self) -> bool {
        self.patterns.iter().any(|(text, _)| text == "*")
    }

    /// Whether the condition holds for a cluster; `None` if it concerns another field.
    fn holds_for(&self, cluster: &str) -> Option<bool> {
        (self.field == Field::Cluster).then(|| self.accepts(cluster))
    }
}

impl Conditions {
    /// Whether an event of a cluster meets the conditions.
    pub fn match_event(&self, cluster: &str, event: &Event) -> bool {
        let holds = |condition: &Condition| condition.accepts(condition.field.of(cluster, event));
        self.all.iter().all(holds) && !self.not.iter().any(|not| not.match_event(cluster, event))
    }

    /// Whether every event of every cluster meets the conditions.
    pub fn match_everything(&self) -> bool {
        self.not.is_empty() && self.all.iter().all(Condition::always_holds)
    }

    /// Whether events of a cluster can meet the conditions.
    pub fn are_for(&self, cluster: &str) -> bool {
        let mut all = self.all.iter();
        all.all(|condition| condition.holds_for(cluster).unwrap_or(true))
            && !self.not.iter().any(|not| not.match_all_of(cluster))
    }

    /// Whether every event of a cluster meets the conditions.
    pub fn match_all_of(&self, cluster: &str) -> bool {
        let mut all = self.all.iter();
        all.all(|condition| {
            let holds = condition.holds_for(cluster);
            holds.unwrap_or_else(|| condition.always_holds())
        }) && !self.not.iter().any(|not| not.are_for(cluster))
    }
}

/// The conditions as members of a map, each followed by a comma: `type: Warning, `.
impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Condition { field, patterns } in &self.all {
            let texts: Vec<&str> = patterns.iter().map(|(text, _)| text.as_str()).collect();
            match texts.as_slice() {
                [text] => write!(out, "{}: {text}, ", field.name())?,
                texts => write!(out, "{}: [{}], ", field.name(), texts.join(", "))?,
            }
        }
        for not in &self.not {
            let not = not.to_string();
            write!(out, "not: {{{}}}, ", not.trim_end_matches(", "))?;
        }
        Ok(())
    }
}

/// The keys of a map with conditions.
enum Key {
    Field(Field),
    Source,
    Not,
    Ttl,
}

/// A seed for keys, values and maps, which knows where it is.
#[derive(Clone, Copy)]
struct Place {
    /// Whether a `ttl` is accepted.
    has_ttl: bool,
    /// Whether the map is that of `source`.
    is_source: bool,
    depth: usize,
}

struct KeySeed(Place);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Key, D::Error> {
        from.deserialize_identifier(self)
    }
}

/// The names of keys in `source`, and elsewhere.
const SOURCE_KEYS: &[&str] = &["component", "host"];
const KEYS: &[&str] = &[
    "cluster",
    "namespace",
    "kind",
    "type",
    "reason",
    "reportingController",
    "source",
    "message",
    "not",
    "ttl",
];

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a condition")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        let Place {
            has_ttl, is_source, ..
        } = self.0;
        let prefix = if is_source { "source." } else { "" };
        let mut fields = Field::ALL.into_iter();
        let field = fields.find(|field| field.name().strip_prefix(prefix) == Some(name));
        match (field, name) {
            (Some(field), _) if !name.contains('.') => Ok(Key::Field(field)),
            (_, "source") if !is_source => Ok(Key::Source),
            (_, "not") if !is_source => Ok(Key::Not),
            (_, "ttl") if has_ttl => Ok(Key::Ttl),
            _ if is_source => Err(E::unknown_field(name, SOURCE_KEYS)),
            _ => {
                let len = KEYS.len() - usize::from(!has_ttl);
                Err(E::unknown_field(name, &KEYS[..len]))
            }
        }
    }
}

/// The value of a condition.
struct ConditionSeed(Field);

impl<'de> DeserializeSeed<'de> for ConditionSeed {
    type Value = Condition;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Condition, D::Error> {
        let texts = match OneOrMore::deserialize(from)? {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        };
        Condition::new(self.0, texts).map_err(D::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

struct MapSeed(Place);

impl<'de> DeserializeSeed<'de> for MapSeed {
    type Value = TimedConditions;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<TimedConditions, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MapSeed {
    type Value = TimedConditions;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map of conditions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TimedConditions, A::Error> {
        let (mut conditions, mut ttl) = (Conditions::default(), None);
        while let Some(key) = map.next_key_seed(KeySeed(self.0))? {
            match key {
                Key::Field(field) => conditions
                    .all
                    .push(map.next_value_seed(ConditionSeed(field))?),
                Key::Source => {
                    let place = Place {
                        has_ttl: false,
                        is_source: true,
                        ..self.0
                    };
                    let source = map.next_value_seed(MapSeed(place))?;
                    conditions.all.extend(source.conditions.all);
                }
                Key::Not => conditions.not = map.next_value_seed(NotSeed(self.0.depth + 1))?,
                Key::Ttl => ttl = map.next_value()?,
            }
        }
        Ok(TimedConditions { conditions, ttl })
    }
}

/// One map of conditions, or several, of which an event must not meet one.
struct NotSeed(usize);

impl<'de> DeserializeSeed<'de> for NotSeed {
    type Value = Vec<Conditions>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Conditions>, D::Error> {
        if self.0 > DEPTH_MAX {
            return Err(D::Error::custom(format_args!(
                "not stands in not more than {DEPTH_MAX} times"
            )));
        }
        from.deserialize_any(self)
    }
}

impl NotSeed {
    fn map(&self) -> MapSeed {
        MapSeed(Place {
            has_ttl: false,
            is_source: false,
            depth: self.0,
        })
    }
}

fn not_all<E: Error>(found: TimedConditions) -> Result<Conditions, E> {
    if found.conditions == Conditions::default() {
        return Err(E::custom("not without a condition leaves out everything"));
    }
    Ok(found.conditions)
}

impl<'de> Visitor<'de> for NotSeed {
    type Value = Vec<Conditions>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map of conditions, or a list of such maps")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Conditions>, A::Error> {
        Ok(vec![not_all(self.map().visit_map(map)?)?])
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(
        self,
        mut list: A,
    ) -> Result<Vec<Conditions>, A::Error> {
        let mut all = Vec::new();
        while let Some(found) = list.next_element_seed(self.map())? {
            all.push(not_all(found)?);
        }
        Ok(all)
    }
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let place = Place {
            has_ttl: false,
            is_source: false,
            depth: 0,
        };
        Ok(MapSeed(place).deserialize(from)?.conditions)
    }
}

impl<'de> Deserialize<'de> for TimedConditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        MapSeed(Place {
            has_ttl: true,
            is_source: false,
            depth: 0,
        })
        .deserialize(from)
    }
}
