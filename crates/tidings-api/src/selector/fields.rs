//! Field selectors (`k8s.io/apimachinery/pkg/fields`): terms joined by commas, compared exactly.

use std::collections::{BTreeMap, BTreeSet};

use k8s_pb::api::core::v1::Event;
use tidings_core::fields::Type;
use tidings_core::fields::core_v1::OBJECT_REFERENCE;

use crate::codec::Api;
use crate::codec::stored::{field, meta, reference, source};
use crate::codec::view::EventView;

/// A parsed field selector; an empty one matches everything. Terms are grouped by field, so that
/// each field is read once, however long the selector is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    fields: BTreeMap<EventField, Wanted>,
    /// Whether the selector matches nothing, because a field would need two values.
    nothing: bool,
}

/// The terms on one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    equal: Option<String>,
    unequal: BTreeSet<String>,
}

impl Wanted {
    fn accepts(&self, value: &str) -> bool {
        self.equal.as_ref().is_none_or(|equal| equal == value) && !self.unequal.contains(value)
    }
}

/// The fields that a selector can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventField {
    /// A text of the event, by field number.
    Own(usize),
    /// A text of an object in the event, by the numbers of object and field.
    Of(usize, usize),
    /// The component of the source, or else the reporting component.
    Source,
}

impl EventField {
    const NAME: Self = Self::Of(field::METADATA, meta::NAME);
    const NAMESPACE: Self = Self::Of(field::METADATA, meta::NAMESPACE);
    const SOURCE_COMPONENT: Self = Self::Of(field::SOURCE, source::COMPONENT);

    fn parse(api: Api, label: &str) -> Option<Self> {
        let number = |of: &Type, name: &str| Some(of.field(name)?.stored as usize);
        match label.split_once('.') {
            None if label == "source" && api != Api::Events => Some(Self::Source),
            None => match number(api.event(), label)? {
                own @ (field::REASON | field::TYPE | field::REPORTING_COMPONENT) => {
                    Some(Self::Own(own))
                }
                _ => None,
            },
            Some(("metadata", "name")) => Some(Self::NAME),
            Some(("metadata", "namespace")) => Some(Self::NAMESPACE),
            Some((object, name)) => {
                let object = number(api.event(), object)?;
                let name = number(&OBJECT_REFERENCE, name)?;
                (object == field::INVOLVED_OBJECT).then_some(Self::Of(object, name))
            }
        }
    }

    fn of<'a>(self, event: &impl EventView<'a>) -> Option<&'a str> {
        match self {
            Self::Own(number) => event.text(number),
            Self::Of(object, number) => event.text_of(object, number),
            Self::Source => match Self::SOURCE_COMPONENT.of(event)? {
                "" => event.text(field::REPORTING_COMPONENT),
                component => Some(component),
            },
        }
    }
}

/// A term whose field is not checked yet: label, whether it must be equal, and value.
pub(crate) type UncheckedTerm<'a> = (&'a str, bool, String);

impl FieldSelector {
    /// Reads a selector.
    ///
    /// # Errors
    ///
    /// A fragment that names the invalid term or field.
    pub fn parse(api: Api, text: &str) -> Result<Self, String> {
        Self::of(api, Self::terms(text)?)
    }

    /// Reads the terms of a selector, without checking that the fields exist.
    ///
    /// # Errors
    ///
    /// A fragment that says what cannot be read.
    pub fn terms(text: &str) -> Result<Vec<UncheckedTerm<'_>>, String> {
        let parts = split_unescaped(text).filter(|part| !part.is_empty());
        let mut parts: Vec<&str> = parts.collect();
        // The order decides which mistake is reported.
        parts.sort_unstable();
        let terms = parts.into_iter().map(|part| {
            let (label, equal, value) = split_operator(part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value = unescape(value).map_err(|why| format!("invalid field selector: {why}"))?;
            Ok((label, equal, value))
        });
        terms.collect()
    }

    /// Makes a selector from terms.
    ///
    /// # Errors
    ///
    /// A fragment that names an unknown field.
    pub fn of(api: Api, terms: Vec<UncheckedTerm<'_>>) -> Result<Self, String> {
        let mut selector = Self::default();
        for (label, equal, value) in terms {
            let field = EventField::parse(api, label)
                .ok_or_else(|| format!("field label not supported: {label}"))?;
            selector.add(field, equal, value);
        }
        Ok(selector)
    }

    fn add(&mut self, field: EventField, equal: bool, value: String) {
        let wanted = self.fields.entry(field).or_default();
        if !equal {
            wanted.unequal.insert(value);
        } else if *wanted.equal.get_or_insert_with(|| value.clone()) != value {
            self.nothing = true;
        }
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether the selector matches an event.
    pub fn matches(&self, event: &Event) -> bool {
        self.matches_view(&event) == Some(true)
    }

    /// Whether the selector matches an event, decoded or stored. `None` if its stored bytes are not
    /// in the usual form.
    pub(super) fn matches_view<'a>(&self, event: &impl EventView<'a>) -> Option<bool> {
        for (field, wanted) in &self.fields {
            if !wanted.accepts(field.of(event)?) {
                return Some(false);
            }
        }
        Some(!self.nothing)
    }

    /// Adds the condition that the event has this name.
    pub fn require_name(&mut self, name: &str) {
        self.add(EventField::NAME, true, name.into());
    }

    /// The value that the selector requires of a field, if it does.
    fn required(&self, field: EventField) -> Option<&str> {
        self.fields.get(&field)?.equal.as_deref()
    }

    /// The value that the selector requires of a field of the involved object, if it does.
    fn required_of_object(&self, number: usize) -> Option<&str> {
        self.required(EventField::Of(field::INVOLVED_OBJECT, number))
    }

    /// The name that an event must have, if the selector has one.
    pub fn name(&self) -> Option<&str> {
        self.required(EventField::NAME)
    }

    /// The namespace that an event must have, if the selector has one.
    pub fn namespace(&self) -> Option<&str> {
        self.required(EventField::NAMESPACE)
    }

    /// The objects that an event must be about, by uid or by name.
    pub fn object(&self) -> Option<SelectedObject<'_>> {
        let uid = self.required_of_object(reference::UID);
        let by_uid = uid.filter(|uid| !uid.is_empty()).map(SelectedObject::Uid);
        by_uid.or_else(|| self.object_by_name())
    }

    /// Like [`object`](Self::object), but only if the selector has no other condition. Then all
    /// events about the object are selected.
    pub fn only_object(&self) -> Option<SelectedObject<'_>> {
        let object = self.object()?;
        let parts: &[usize] = match object {
            SelectedObject::Uid(_) => &[reference::UID],
            SelectedObject::Name { .. } => {
                &[reference::KIND, reference::NAME, reference::NAMESPACE]
            }
        };
        let is_whole = self.fields.iter().all(|(field, wanted)| match field {
            EventField::Of(field::INVOLVED_OBJECT, part) => {
                parts.contains(part) && wanted.unequal.is_empty()
            }
            _ => false,
        });
        Some(object).filter(|_| is_whole && !self.nothing)
    }

    /// The objects that an event must be about, by name, for a store that does not find uids.
    pub fn object_by_name(&self) -> Option<SelectedObject<'_>> {
        let name = self.required_of_object(reference::NAME);
        Some(SelectedObject::Name {
            name: name.filter(|name| !name.is_empty())?,
            kind: self.required_of_object(reference::KIND),
            namespace: self.required_of_object(reference::NAMESPACE),
        })
    }
}

/// The objects that a field selector selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedObject<'a> {
    /// The object with this uid.
    Uid(&'a str),
    /// Objects with this name.
    Name {
        /// The name, never empty.
        name: &'a str,
        /// The kind of the objects, if the selector has it.
        kind: Option<&'a str>,
        /// The namespace of the objects, if the selector has it.
        namespace: Option<&'a str>,
    },
}

/// Splits a text at unescaped commas.
fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |character: char| {
        let was_escaped = is_escaped;
        is_escaped = character == '\\' && !was_escaped;
        character == ',' && !was_escaped
    })
}

/// Splits a term at the first of `=`, `==` and `!=`.
fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    let (label, value) = term.split_once('=')?;
    Some(match label.strip_suffix('!') {
        Some(label) => (label, false, value),
        None => (label, true, value.strip_prefix('=').unwrap_or(value)),
    })
}

/// Undoes the escapes `\\`, `\,` and `\=`. A bare comma or equals sign, or another escape, is an
/// error.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                let number = u32::from(character);
                return Err(format!("unescaped character in value: {number}"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::{EventSource, ObjectReference};
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::codec::stored::StoredEvent;

    fn event() -> Event {
        Event {
            metadata: Some(ObjectMeta {
                name: Some("web.1".into()),
                namespace: Some("shop".into()),
                ..Default::default()
            }),
            involved_object: Some(ObjectReference {
                kind: Some("Pod".into()),
                namespace: Some("shop".into()),
                name: Some("web".into()),
                uid: Some("u1".into()),
                field_path: Some("spec.containers{a,b}".into()),
                ..Default::default()
            }),
            reason: Some("BackOff".into()),
            reporting_component: Some("kubelet".into()),
            source: Some(EventSource::default()),
            ..Default::default()
        }
    }

    #[test]
    fn terms() {
        for (selector, matches) in [
            ("", true),
            ("reason=BackOff", true),
            ("reason==BackOff,type=", true),
            ("reason!=BackOff", false),
            ("reason=backoff", false),
            ("involvedObject.kind=Pod,involvedObject.name=web", true),
            ("involvedObject.uid!=u1", false),
            (r"involvedObject.fieldPath=spec.containers{a\,b}", true),
            ("source=kubelet", true),
            ("metadata.name=web.1,metadata.namespace=shop", true),
            ("metadata.namespace!=shop", false),
            ("reason=BackOff,reason=Killing", false),
            ("reason=BackOff,reason=BackOff,reason!=Killing", true),
            ("reason!=Killing,reason!=BackOff", false),
        ] {
            let selector = FieldSelector::parse(Api::Core, selector).unwrap();
            assert_eq!(selector.matches(&event()), matches, "{selector:?}");
            let bytes = crate::codec::encode_stored(&mut event());
            let stored = StoredEvent::open(&bytes, 1).unwrap();
            let found = selector.matches_view(&stored);
            assert_eq!(found, Some(matches), "{selector:?}");
        }
        let text = "regarding.name=web,reportingController=kubelet";
        let selector = FieldSelector::parse(Api::Events, text).unwrap();
        assert!(selector.matches(&event()));
    }

    #[test]
    fn a_long_selector_is_short_to_match() {
        let terms: Vec<String> = (0..5000).map(|number| format!("type!={number}")).collect();
        let selector = FieldSelector::parse(Api::Core, &terms.join(",")).unwrap();
        assert_eq!(selector.fields.len(), 1);
    }

    #[test]
    fn what_is_not_accepted() {
        #[rustfmt::skip]
        let table = [
            (Api::Core, "regarding.name=x", "field label not supported: regarding.name"),
            (
                Api::Events,
                "involvedObject.name=x",
                "field label not supported: involvedObject.name",
            ),
            (Api::Events, "source=x", "field label not supported: source"),
            (Api::Core, "reason", "invalid selector: 'reason'; can't understand 'reason'"),
            (Api::Core, "reason=a=b", "invalid field selector: unescaped character in value: 61"),
            (Api::Core, r"reason=\x", r"invalid field selector: invalid escape sequence: \x"),
        ];
        for (api, selector, error) in table {
            assert_eq!(FieldSelector::parse(api, selector).unwrap_err(), error);
        }
    }

    #[test]
    fn what_names_an_object_is_found_by_index() {
        let parse = |text: &str| {
            let selector = FieldSelector::parse(Api::Core, text).unwrap();
            let regarding = text.replace("involvedObject", "regarding");
            let also = FieldSelector::parse(Api::Events, &regarding).unwrap();
            assert_eq!(selector.object(), also.object());
            selector
        };
        let named = |kind: Option<&'static str>, namespace: Option<&'static str>| {
            Some(SelectedObject::Name {
                name: "web",
                kind,
                namespace,
            })
        };
        let uid = Some(SelectedObject::Uid("u1"));
        #[rustfmt::skip]
        let table = [
            // Each row: the selector, its object, and whether nothing else has to be compared.
            ("involvedObject.uid=u1", uid, true),
            ("involvedObject.name=web,involvedObject.uid=u1", uid, false),
            (
                "involvedObject.name=web,involvedObject.namespace=shop,involvedObject.uid=u1",
                uid,
                false,
            ),
            ("involvedObject.name=web", named(None, None), true),
            ("involvedObject.name=web,involvedObject.uid=", named(None, None), false),
            // The selector of kubectl events --for.
            ("involvedObject.kind=Pod,involvedObject.name=web", named(Some("Pod"), None), true),
            // The selector of kubectl describe, for an object without a uid.
            ("involvedObject.name=web,involvedObject.namespace=shop,involvedObject.kind=Pod",
                named(Some("Pod"), Some("shop")), true),
            ("involvedObject.name=web,reason=BackOff", named(None, None), false),
            ("involvedObject.name=web,involvedObject.kind!=Pod", named(None, None), false),
            ("involvedObject.name=web,involvedObject.name=zoo", named(None, None), false),
            ("involvedObject.name!=web,involvedObject.kind=Pod", None, false),
            ("involvedObject.name=", None, false),
            ("involvedObject.kind=Pod,involvedObject.namespace=shop", None, false),
            ("involvedObject.kind=Pod", None, false),
            ("involvedObject.uid!=u1", None, false),
            ("", None, false),
        ];
        for (selector, object, is_only) in table {
            let found = parse(selector);
            assert_eq!(found.object(), object, "{selector}");
            assert_eq!(found.only_object().is_some(), is_only, "{selector}");
        }
    }
}
