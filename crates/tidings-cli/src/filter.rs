//! Filters of events: the part that the server applies, and the part that the command applies.

use jiff::Timestamp;
use tidings_core::filter::{self, Fields, Key};

use crate::event::Event;
use crate::family::Family;
use crate::kinds::{Kind, Named};

/// An object whose events are selected.
#[derive(Clone, Debug)]
pub struct Target {
    /// The object as it was named on the command line.
    pub named: Named,
    /// The object's kind, if known.
    pub kind: Option<Kind>,
    /// The object's family, if its events are selected, too.
    pub family: Option<Family>,
}

impl Target {
    /// Whether the event is about the object. The version is never compared. The group is compared
    /// only if it was given, because the reporter may use another one.
    fn is_of(&self, event: &Event) -> bool {
        let own = event.object_name() == self.named.name
            && match (&self.kind, self.named.parts().1) {
                (Some(kind), None) => event.object_kind() == kind.kind,
                (Some(kind), Some(_)) => {
                    let group = event.object_group();
                    event.object_kind() == kind.kind && (group.is_empty() || group == kind.group)
                }
                (None, _) => self.named.may_be(event.object_kind(), event.object_group()),
            };
        own || self.family.as_ref().is_some_and(|family| family.has(event))
    }
}

/// A filter of events. The default selects all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The conditions on fields and texts.
    pub terms: filter::Filter,
    /// Selected objects.
    pub targets: Vec<Target>,
    /// Selects events last seen at this time or later.
    pub since: Option<Timestamp>,
    /// Selects events first seen at this time or earlier.
    pub until: Option<Timestamp>,
    /// A field selector and a label selector in Kubernetes' notation, which only the server
    /// applies.
    pub selectors: Selectors,
}

/// Selectors in Kubernetes' notation; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// A field selector of core/v1: `reason=BackOff,type!=Normal`.
    pub fields: String,
    /// A label selector: `app=web,tier in (front, back)`.
    pub labels: String,
}

impl Selectors {
    /// The field selector in the words of events.k8s.io/v1.
    pub fn fields_of_events_v1(&self) -> String {
        let terms = self.fields.split(',').map(|term| {
            if let Some(rest) = term.strip_prefix("involvedObject.") {
                format!("regarding.{rest}")
            } else if let Some(rest) = term.strip_prefix("reportingComponent") {
                format!("reportingController{rest}")
            } else {
                term.to_owned()
            }
        });
        terms.collect::<Vec<_>>().join(",")
    }
}

impl Filter {
    /// Whether the filter selects the event.
    pub fn selects(&self, event: &Event) -> bool {
        self.terms.selects(&fields(event))
            && (self.targets.is_empty() || self.targets.iter().any(|target| target.is_of(event)))
            && self
                .since
                .is_none_or(|since| event.last_seen() >= Some(since))
            && self.until.is_none_or(|until| {
                event
                    .first_seen()
                    .or(event.last_seen())
                    .is_some_and(|seen| seen <= until)
            })
    }

    /// The field selector that makes the server leave out most unselected events. A selector cannot
    /// express "or", so [`selects`](Self::selects) must still be applied to the result.
    pub fn field_selector(&self) -> String {
        let mut terms = Vec::new();
        for (field, key) in [
            ("type", Key::Type),
            ("reason", Key::Reason),
            ("source", Key::Source),
        ] {
            // Servers tell upper from lower case in types, and filters do not.
            let is_exact = |value: &str| key != Key::Type || matches!(value, "Normal" | "Warning");
            if let [one] = self.terms.only(key).as_slice()
                && is_exact(one)
            {
                terms.push(format!("{field}={}", escape(one)));
            }
            let excluded = self.terms.of(key).filter(|term| term.is_excluded());
            let excluded = excluded.filter_map(|term| term.pattern().exact());
            terms.extend(excluded.map(|value| format!("{field}!={}", escape(value))));
        }
        let mut term = |field: &str, value: &str| {
            terms.push(format!("{field}={}", escape(value)));
        };
        match (
            self.targets.as_slice(),
            self.terms.only(Key::Object).as_slice(),
        ) {
            (
                [
                    Target {
                        named,
                        kind,
                        family: None,
                    },
                ],
                _,
            ) => {
                if let Some(kind) = kind {
                    term("involvedObject.kind", &kind.kind);
                }
                term("involvedObject.name", &named.name);
            }
            // Kind and name are for no selector: kinds may be written in any case.
            ([], [name]) if !name.contains('/') => term("involvedObject.name", name),
            _ => {}
        }
        if !self.selectors.fields.is_empty() {
            terms.push(self.selectors.fields.clone());
        }
        terms.join(",")
    }

    /// Whether the [field selector](Self::field_selector) names one object.
    pub fn is_about_one_object(&self) -> bool {
        match self.targets.as_slice() {
            [] => self.terms.only(Key::Object).len() == 1,
            [Target { family: None, .. }] => true,
            _ => false,
        }
    }
}

/// The fields of an event that terms are compared with. Clusters are chosen before events are read.
fn fields(event: &Event) -> Fields<'_> {
    Fields {
        cluster: event.cluster(),
        namespace: event.namespace(),
        kind: event.object_kind(),
        object: event.object_name(),
        reason: event.reason(),
        event_type: event.event_type(),
        source: event.component(),
        host: event.host(),
        message: event.message(),
    }
}

/// Escapes a value for a selector (`fields.EscapeValue`).
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Event {
        Event::new(json!({
            "metadata": {"name": "web.1", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "apiVersion": "v1"},
            "reason": "BackOff", "message": "Back-off restarting failed container", "type": "Warning",
            "source": {"component": "kubelet"},
            "firstTimestamp": "2026-03-04T05:00:00Z", "lastTimestamp": "2026-03-04T05:06:00Z", "count": 7,
        }))
    }

    fn target(text: &str) -> Target {
        let named: Named = text.parse().unwrap();
        Target {
            kind: named.built_in(),
            named,
            family: None,
        }
    }

    #[test]
    fn what_is_wanted() {
        let terms = |text: &str| text.parse().unwrap();
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let all = Filter::default;
        let of_terms = |text| Filter {
            terms: terms(text),
            ..all()
        };
        let since = |text| Filter {
            since: at(text),
            ..all()
        };
        let until = |text| Filter {
            until: at(text),
            ..all()
        };
        let of_targets = |texts: &[&str]| Filter {
            targets: texts.iter().map(|text| target(text)).collect(),
            ..all()
        };
        for (filter, expected, selector) in [
            (all(), true, ""),
            (of_terms("type:warning"), true, "type=Warning"),
            (of_terms("type:Normal"), false, "type=Normal"),
            (of_terms("type:Normal type:Warning"), true, ""),
            (of_terms("reason:A=B,c\\d"), false, "reason=A\\=B\\,c\\\\d"),
            (
                of_terms("source:kubelet -reason:Pulled -reason:Failed*"),
                true,
                "reason!=Pulled,source=kubelet",
            ),
            (since("2026-03-04T05:06:00Z"), true, ""),
            (since("2026-03-04T05:06:01Z"), false, ""),
            (until("2026-03-04T05:00:00Z"), true, ""),
            (until("2026-03-04T04:59:59Z"), false, ""),
            (of_terms("back-off pod/web"), true, ""),
            (of_terms("back-off pod/api"), false, ""),
            (of_terms("object:pod/web namespace:shop"), true, ""),
            (
                of_terms("name:web -name:api"),
                true,
                "involvedObject.name=web",
            ),
            (
                of_targets(&["po/web"]),
                true,
                "involvedObject.kind=Pod,involvedObject.name=web",
            ),
            (
                of_targets(&["pods.v1/web"]),
                true,
                "involvedObject.kind=Pod,involvedObject.name=web",
            ),
            (
                of_targets(&["deploy/web"]),
                false,
                "involvedObject.kind=Deployment,involvedObject.name=web",
            ),
            (of_targets(&["deploy/web", "pod/web"]), true, ""),
            (
                Filter {
                    terms: terms("type:warning"),
                    selectors: Selectors {
                        fields: "involvedObject.uid=1,reportingComponent!=a\\,b".to_owned(),
                        labels: "app=web".to_owned(),
                    },
                    ..all()
                },
                true,
                "type=Warning,involvedObject.uid=1,reportingComponent!=a\\,b",
            ),
            (
                of_targets(&["widgets.example.com/web"]),
                false,
                "involvedObject.name=web",
            ),
        ] {
            assert_eq!(filter.selects(&event()), expected, "{filter:?}");
            assert_eq!(filter.field_selector(), selector, "{filter:?}");
        }
    }

    #[test]
    fn a_field_selector_is_translated_for_the_other_group() {
        let selectors = Selectors {
            fields: "involvedObject.kind=Pod,type!=Normal,reportingComponent=kubelet".to_owned(),
            ..Selectors::default()
        };
        assert_eq!(
            selectors.fields_of_events_v1(),
            "regarding.kind=Pod,type!=Normal,reportingController=kubelet"
        );
    }

    #[test]
    fn an_event_that_says_no_time_is_in_no_span() {
        let at = Some("2026-03-04T05:06:00Z".parse().unwrap());
        let timeless = Event::new(json!({"reason": "x"}));
        for filter in [
            Filter {
                since: at,
                ..Filter::default()
            },
            Filter {
                until: at,
                ..Filter::default()
            },
        ] {
            assert!(!filter.selects(&timeless));
        }
        assert!(Filter::default().selects(&timeless));
    }
}
