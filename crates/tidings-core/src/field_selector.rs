//! Field selectors for the events about an object: client-go's `tools/events.GetFieldSelector`.

use std::fmt::Write;

use crate::Reference;

/// The two API groups that serve events. They name the object of an event differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventApi {
    /// core/v1, which names the object `involvedObject`.
    Core,
    /// events.k8s.io/v1, which names the object `regarding`.
    Events,
}

impl EventApi {
    /// Group and version, as in an object's apiVersion.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Core => "v1",
            Self::Events => "events.k8s.io/v1",
        }
    }

    const fn object_field(self) -> &'static str {
        match self {
            Self::Core => "involvedObject",
            Self::Events => "regarding",
        }
    }
}

/// The field selector that finds events about an object, for a list or watch through `api`.
///
/// It names kind, name, apiVersion and uid of the reference, each unless empty, and nothing else.
/// An event about another part of the object or another resourceVersion of it is found, too.
/// Without the uid, events about a deleted object of the same name are found.
///
/// ```
/// use tidings_core::{EventApi, Reference, ReferenceFields, field_selector};
///
/// let pod = Reference::new(ReferenceFields { kind: "Pod", name: "web-0", api_version: "v1", ..Default::default() });
/// assert_eq!(
///     field_selector(EventApi::Core, &pod),
///     "involvedObject.apiVersion=v1,involvedObject.kind=Pod,involvedObject.name=web-0",
/// );
/// ```
pub fn field_selector(api: EventApi, regarding: &Reference) -> String {
    let mut selector = String::new();
    // The fields are in the order of their names, as in client-go.
    for (field, value) in [
        ("apiVersion", regarding.api_version()),
        ("kind", regarding.kind()),
        ("name", regarding.name()),
        ("uid", regarding.uid()),
    ] {
        if value.is_empty() {
            continue;
        }
        let comma = if selector.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(selector, "{comma}{}.{field}=", api.object_field());
        for character in value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                selector.push('\\');
            }
            selector.push(character);
        }
    }
    selector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReferenceFields;

    /// client-go `tools/events` TestGetFieldSelector, except its error: no unknown version can be
    /// passed.
    #[test]
    fn names_the_object_in_the_words_of_the_api() {
        let pod = ReferenceFields {
            kind: "Pod",
            api_version: "v1",
            name: "test-pod",
            uid: "9c118ca5",
            namespace: "default",
            field_path: "spec.containers{web}",
            resource_version: "7",
        };
        let cases = [
            (
                EventApi::Core,
                pod,
                "involvedObject.apiVersion=v1,involvedObject.kind=Pod,involvedObject.name=test-pod,involvedObject.uid=9c118ca5",
            ),
            (
                EventApi::Events,
                pod,
                "regarding.apiVersion=v1,regarding.kind=Pod,regarding.name=test-pod,regarding.uid=9c118ca5",
            ),
            (
                EventApi::Core,
                ReferenceFields {
                    kind: "Pod",
                    ..Default::default()
                },
                "involvedObject.kind=Pod",
            ),
            (EventApi::Events, ReferenceFields::default(), ""),
            (
                EventApi::Core,
                ReferenceFields {
                    name: r"a,b=c\d",
                    ..Default::default()
                },
                r"involvedObject.name=a\,b\=c\\d",
            ),
        ];
        for (api, regarding, expected) in cases {
            assert_eq!(field_selector(api, &Reference::new(regarding)), expected);
        }
        assert_eq!(EventApi::Events.api_version(), "events.k8s.io/v1");
    }
}
