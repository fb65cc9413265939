//! Filters of events: the part that the server applies, and the part that the command applies.

use jiff::Timestamp;

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
    /// Selected types.
    pub types: Vec<String>,
    /// Selected reasons.
    pub reasons: Vec<String>,
    /// Selected reporting components.
    pub sources: Vec<String>,
    /// Selected objects.
    pub targets: Vec<Target>,
    /// Selects events last seen at this time or later.
    pub since: Option<Timestamp>,
    /// Selects events first seen at this time or earlier.
    pub until: Option<Timestamp>,
    /// Texts, in lower case, each of which must be in the message, the reason, the source or the
    /// object's name.
    pub texts: Vec<String>,
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
        let one_of = |accepted: &[String], value: &str| {
            accepted.is_empty() || accepted.iter().any(|accepted| accepted == value)
        };
        one_of(&self.types, event.event_type())
            && one_of(&self.reasons, event.reason())
            && one_of(&self.sources, event.component())
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
            && self.texts.iter().all(|text| contains(event, text))
    }

    /// The field selector that makes the server leave out most unselected events. A selector cannot
    /// express "or", so [`selects`](Self::selects) must still be applied to the result.
    pub fn field_selector(&self) -> String {
        let mut terms = Vec::new();
        let mut term = |field: &str, value: &str| {
            terms.push(format!("{field}={}", escape(value)));
        };
        for (field, accepted) in [
            ("type", &self.types),
            ("reason", &self.reasons),
            ("source", &self.sources),
        ] {
            if let [one] = accepted.as_slice() {
                term(field, one);
            }
        }
        if let [
            Target {
                named,
                kind,
                family: None,
            },
        ] = self.targets.as_slice()
        {
            if let Some(kind) = kind {
                term("involvedObject.kind", &kind.kind);
            }
            term("involvedObject.name", &named.name);
        }
        if !self.selectors.fields.is_empty() {
            terms.push(self.selectors.fields.clone());
        }
        terms.join(",")
    }

    /// Whether the [field selector](Self::field_selector) names one object.
    pub fn is_about_one_object(&self) -> bool {
        matches!(self.targets.as_slice(), [Target { family: None, .. }])
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

fn contains(event: &Event, text: &str) -> bool {
    [
        event.message(),
        event.reason(),
        &event.object(),
        event.component(),
    ]
    .iter()
    .any(|field| field.to_lowercase().contains(text))
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
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let all = Filter::default;
        for (filter, expected, selector) in [
            (all(), true, ""),
            (
                Filter {
                    types: words(&["Warning"]),
                    ..all()
                },
                true,
                "type=Warning",
            ),
            (
                Filter {
                    types: words(&["Normal"]),
                    ..all()
                },
                false,
                "type=Normal",
            ),
            (
                Filter {
                    types: words(&["Normal", "Warning"]),
                    ..all()
                },
                true,
                "",
            ),
            (
                Filter {
                    reasons: words(&["A=B,c\\d"]),
                    ..all()
                },
                false,
                "reason=A\\=B\\,c\\\\d",
            ),
            (
                Filter {
                    sources: words(&["kubelet"]),
                    ..all()
                },
                true,
                "source=kubelet",
            ),
            (
                Filter {
                    since: at("2026-03-04T05:06:00Z"),
                    ..all()
                },
                true,
                "",
            ),
            (
                Filter {
                    since: at("2026-03-04T05:06:01Z"),
                    ..all()
                },
                false,
                "",
            ),
            (
                Filter {
                    until: at("2026-03-04T05:00:00Z"),
                    ..all()
                },
                true,
                "",
            ),
            (
                Filter {
                    until: at("2026-03-04T04:59:59Z"),
                    ..all()
                },
                false,
                "",
            ),
            (
                Filter {
                    texts: words(&["back-off", "pod/web"]),
                    ..all()
                },
                true,
                "",
            ),
            (
                Filter {
                    texts: words(&["back-off", "pod/api"]),
                    ..all()
                },
                false,
                "",
            ),
            (
                Filter {
                    targets: vec![target("po/web")],
                    ..all()
                },
                true,
                "involvedObject.kind=Pod,involvedObject.name=web",
            ),
            (
                Filter {
                    targets: vec![target("pods.v1/web")],
                    ..all()
                },
                true,
                "involvedObject.kind=Pod,involvedObject.name=web",
            ),
            (
                Filter {
                    targets: vec![target("deploy/web")],
                    ..all()
                },
                false,
                "involvedObject.kind=Deployment,involvedObject.name=web",
            ),
            (
                Filter {
                    targets: vec![target("deploy/web"), target("pod/web")],
                    ..all()
                },
                true,
                "",
            ),
            (
                Filter {
                    types: words(&["Warning"]),
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
                Filter {
                    targets: vec![target("widgets.example.com/web")],
                    ..all()
                },
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
