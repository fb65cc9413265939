//! Changes that keep the API server from refusing an event.
//!
//! Texts are cut, names are made valid, and invalid labels and annotations are omitted.
//!
//! An event is never lost because a part of it is invalid, and the event shows what was omitted or
//! cut. The rules are those of [`validate`](crate::validate): lenient for events without an
//! `eventTime`, strict for those with one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::EventSource;
use crate::packed::floor_char_boundary;
use crate::validate::{
    ANNOTATIONS_BYTES_MAX, LABEL_BYTES_MAX, WORD_BYTES_MAX, check_label_value, check_qualified_name,
};

/// The end of a text that was cut.
pub const TRUNCATION_MARKER: &str = "…(truncated)";

/// The annotation that lists omitted labels and annotations. The API server would have refused the
/// event because of them.
pub const OMITTED_ANNOTATION: &str = "tidings/omitted";

/// Maximum length of the value of [`OMITTED_ANNOTATION`], in bytes.
const OMITTED_BYTES_MAX: usize = 1024;

/// The word for a missing text that the strict rules require.
const UNNAMED: &str = "unspecified";

/// Labels and annotations by name.
type Map = Arc<BTreeMap<String, String>>;

/// `text`, or [`UNNAMED`] if it is empty.
pub(crate) fn non_empty(text: &str) -> &str {
    if text.is_empty() { UNNAMED } else { text }
}

/// Makes a reporter valid under the strict rules. Its controller becomes a qualified name, and it
/// gets an instance. Its source component and host stay.
pub(crate) fn strict_source(source: &EventSource) -> EventSource {
    let controller = [source.reporting_controller(), source.source_component()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(UNNAMED);
    let instance = [
        source.reporting_instance(),
        source.source_host(),
        controller,
    ]
    .into_iter()
    .find(|name| !name.is_empty())
    .unwrap_or(UNNAMED);
    let instance = cut(instance, WORD_BYTES_MAX);
    if check_qualified_name(controller).is_empty() {
        source.reporting(controller, instance)
    } else {
        source.reporting(qualified(controller), instance)
    }
}

/// The qualified name that is closest to `name`: invalid characters become dashes.
fn qualified(name: &str) -> String {
    let mut valid: String = name
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => character,
            _ => '-',
        })
        .take(LABEL_BYTES_MAX)
        .collect();
    let ends = |character: char| !character.is_ascii_alphanumeric();
    valid.truncate(valid.trim_end_matches(ends).len());
    let valid = valid.trim_start_matches(ends);
    non_empty(valid).to_owned()
}

/// The text, cut and marked if it is longer than `bytes_max`.
pub(crate) fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let keep = floor_char_boundary(text, bytes_max.saturating_sub(TRUNCATION_MARKER.len()));
    Cow::Owned([text.get(..keep).unwrap_or_default(), TRUNCATION_MARKER].concat())
}

/// The labels and annotations that the API server accepts. If any are omitted,
/// [`OMITTED_ANNOTATION`] lists their keys.
pub(crate) fn accepted_metadata(
    labels: Option<&Map>,
    annotations: Option<&Map>,
) -> (Option<Map>, Option<Map>) {
    let labels = labels.filter(|map| !map.is_empty());
    let annotations = annotations.filter(|map| !map.is_empty());
    let bytes: usize = annotations
        .into_iter()
        .flat_map(|map| map.iter())
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes <= ANNOTATIONS_BYTES_MAX
        && labels.is_none_or(|map| map.iter().all(|(key, value)| is_label(key, value)))
        && annotations.is_none_or(|map| map.keys().all(|key| is_annotation_key(key)))
    {
        return (labels.cloned(), annotations.cloned());
    }

    let mut omitted = Vec::new();
    let mut kept_labels = BTreeMap::new();
    for (key, value) in labels.into_iter().flat_map(|map| map.iter()) {
        if is_label(key, value) {
            kept_labels.insert(key.clone(), value.clone());
        } else {
            omitted.push(format!("label {key:?}"));
        }
    }
    let mut kept = BTreeMap::new();
    let mut room = ANNOTATIONS_BYTES_MAX - OMITTED_ANNOTATION.len() - OMITTED_BYTES_MAX;
    for (key, value) in annotations.into_iter().flat_map(|map| map.iter()) {
        let size = key.len() + value.len();
        if is_annotation_key(key) && size <= room {
            room -= size;
            kept.insert(key.clone(), value.clone());
        } else {
            omitted.push(format!("annotation {key:?}"));
        }
    }
    let omitted = omitted.join(", ");
    let omitted = cut(&omitted, OMITTED_BYTES_MAX).into_owned();
    kept.insert(OMITTED_ANNOTATION.to_owned(), omitted);
    let kept_labels = (!kept_labels.is_empty()).then(|| Arc::new(kept_labels));
    (kept_labels, Some(Arc::new(kept)))
}

fn is_label(key: &str, value: &str) -> bool {
    check_qualified_name(key).is_empty() && check_label_value(value).is_empty()
}

/// Keys of annotations may be written in any case.
fn is_annotation_key(key: &str) -> bool {
    check_qualified_name(&key.to_lowercase()).is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::validate::{
        EventFields, MetadataFields, NameRule, RequestVersion, validate_create, validate_metadata,
    };
    use crate::{
        ClusterScopedNamespace, Event, EventType, NameStamps, NewEvent, Reference, ReferenceFields,
        TEXT_BYTES_MAX,
    };

    /// The API server's complaints about an event.
    fn complaints(event: &Event) -> Vec<String> {
        let regarding = event.regarding().fields();
        let name = event.name();
        let source = event.source();
        let fields = EventFields {
            metadata: MetadataFields {
                name: &name,
                namespace: event.namespace(),
                labels: event.labels(),
                annotations: event.annotations(),
                ..MetadataFields::default()
            },
            involved_object: [
                regarding.kind,
                regarding.namespace,
                regarding.name,
                regarding.uid,
                regarding.api_version,
                regarding.resource_version,
                regarding.field_path,
            ],
            reason: event.reason(),
            message: event.message(),
            action: event.action(),
            event_type: event.event_type(),
            event_time: event.event_time(),
            reporting_controller: source.reporting_controller(),
            reporting_instance: source.reporting_instance(),
            ..EventFields::default()
        };
        let mut errors = validate_create(&fields, RequestVersion::CoreV1);
        errors.append(validate_metadata(&fields.metadata, NameRule::PathSegment));
        errors
            .iter()
            .map(|error| format!("{}: {error}", error.field))
            .collect()
    }

    fn map(entries: &[(&str, &str)]) -> Map {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Arc::new(entries.iter().map(owned).collect())
    }

    fn policies() -> [ClusterScopedNamespace; 5] {
        let fixed = |namespace| ClusterScopedNamespace::fixed(namespace).unwrap();
        [
            ClusterScopedNamespace::Default,
            ClusterScopedNamespace::KubeSystem,
            fixed("default"),
            fixed("kube-system"),
            fixed("events"),
        ]
    }

    #[test]
    fn a_namespace_no_event_can_lie_in_is_refused() {
        for namespace in ["", "Upper", "a.b", "-a", &"a".repeat(64)] {
            let error = ClusterScopedNamespace::fixed(namespace).unwrap_err();
            assert!(
                error.to_string().contains(&format!("{namespace:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn where_events_about_a_node_go() {
        let node = Reference::new(ReferenceFields {
            kind: "Node",
            name: "n",
            ..Default::default()
        });
        let at = "2024-01-01T00:00:00Z".parse().unwrap();
        let expected = [
            // Each row: the event's namespace, the namespace of involvedObject, whether there is an
            // eventTime.
            ("default", "", false),
            ("kube-system", "", true),
            ("default", "", false),
            ("kube-system", "", true),
            ("events", "events", false),
        ];
        for (policy, expected) in policies().iter().zip(expected) {
            let event = Event::new(
                &NewEvent {
                    source: &EventSource::component("kube-proxy").host("n"),
                    regarding: &node,
                    related: None,
                    event_type: EventType::Normal,
                    reason: "Starting",
                    action: "",
                    message: &"",
                    annotations: None,
                    labels: None,
                    cluster_scoped_namespace: policy,
                    text_bytes_max: TEXT_BYTES_MAX,
                },
                &NameStamps::new(1),
                at,
            );
            let strict = event.event_time().is_some();
            assert_eq!(
                (event.namespace(), event.regarding().namespace(), strict),
                expected
            );
            assert_eq!(event.action(), if strict { "Starting" } else { "" });
        }
    }

    #[test]
    fn metadata_is_left_out_only_where_it_would_be_refused() {
        let good = map(&[("example.com/Key", "any text: <&>"), ("plain", "")]);
        let (labels, annotations) = accepted_metadata(Some(&map(&[("a", "b")])), Some(&good));
        assert_eq!(labels, Some(map(&[("a", "b")])));
        assert!(Arc::ptr_eq(&annotations.unwrap(), &good));

        let (labels, annotations) = accepted_metadata(
            Some(&map(&[("a", "b"), ("bad key", "b"), ("c", "bad value")])),
            Some(&map(&[("plain", "p"), ("a/b/c", "q")])),
        );
        assert_eq!(labels, Some(map(&[("a", "b")])));
        let omitted = r#"label "bad key", label "c", annotation "a/b/c""#;
        assert_eq!(
            annotations,
            Some(map(&[("plain", "p"), (OMITTED_ANNOTATION, omitted)]))
        );

        let huge = "x".repeat(ANNOTATIONS_BYTES_MAX);
        let (_, annotations) =
            accepted_metadata(None, Some(&map(&[("a", "1"), ("b", &huge), ("c", "3")])));
        let omitted = r#"annotation "b""#;
        assert_eq!(
            annotations,
            Some(map(&[
                ("a", "1"),
                ("c", "3"),
                (OMITTED_ANNOTATION, omitted)
            ]))
        );
        assert_eq!(accepted_metadata(None, Some(&Map::default())), (None, None));
    }

    /// Annotations of given lengths under keys of one letter, and which of them are kept.
    #[test]
    fn annotations_are_kept_as_far_as_there_is_room() {
        const ROOM: usize = ANNOTATIONS_BYTES_MAX - OMITTED_ANNOTATION.len() - OMITTED_BYTES_MAX;
        let rows: [(&[usize], &[&str]); 7] = [
            (&[ANNOTATIONS_BYTES_MAX], &["a"]),
            (&[ANNOTATIONS_BYTES_MAX - 10, 10], &["a", "b"]),
            (&[ANNOTATIONS_BYTES_MAX + 1], &[]),
            (&[ANNOTATIONS_BYTES_MAX, 2], &["b"]),
            (&[ROOM, 2, ANNOTATIONS_BYTES_MAX], &["a"]),
            (&[ROOM + 1, 2, ANNOTATIONS_BYTES_MAX], &["b"]),
            (&[ROOM / 2, ROOM / 2 + 2, ROOM / 2, 2_000], &["a", "c"]),
        ];
        for (sizes, kept) in rows {
            let given: BTreeMap<_, _> = ('a'..)
                .zip(sizes)
                .map(|(key, size)| (key.to_string(), "x".repeat(size - 1)))
                .collect();
            let (_, annotations) = accepted_metadata(None, Some(&Arc::new(given)));
            let annotations = annotations.expect("some, or what was omitted");
            let bytes = annotations
                .iter()
                .map(|(key, value)| key.len() + value.len());
            assert!(bytes.sum::<usize>() <= ANNOTATIONS_BYTES_MAX);
            let mut keys: Vec<_> = annotations.keys().map(String::as_str).collect();
            keys.retain(|key| *key != OMITTED_ANNOTATION);
            assert_eq!(keys, kept, "{sizes:?}");
            assert_eq!(
                keys.len() < sizes.len(),
                annotations.contains_key(OMITTED_ANNOTATION)
            );
        }
    }

    #[test]
    fn a_reporter_gets_a_name_the_strict_rules_take() {
        let long = "a".repeat(LABEL_BYTES_MAX + 1);
        for (component, host, controller, instance) in [
            ("example.com/ctl", "node-1", "example.com/ctl", "node-1"),
            (
                "Kube_proxy.v1 (main)",
                "",
                "Kube_proxy.v1--main",
                "Kube_proxy.v1 (main)",
            ),
            ("-a/b/c-", "n", "a-b-c", "n"),
            (&long, "n", &long[1..], "n"),
            ("é", "n", "unspecified", "n"),
            ("", "n", "unspecified", "n"),
            ("", "", "unspecified", "unspecified"),
        ] {
            let source = EventSource::component(component).host(host);
            let strict = strict_source(&source);
            assert_eq!(strict.reporting_controller(), controller);
            assert_eq!(strict.reporting_instance(), instance);
            let said = (strict.source_component(), strict.source_host());
            assert_eq!(said, (component, host), "what it reports stays");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["", "\\PC{0,8}", "[a-zA-Z./_-]{0,80}", "[é]{100,700}"]
    }

    proptest! {
        /// The server accepts any event about an object with a name and a namespace that it knows.
        #[test]
        fn every_event_is_accepted(
            namespaced in any::<bool>(),
            policy in 0_usize..5,
            (name, reason, action, message) in (text(), text(), text(), text()),
            (component, host) in (text(), text()),
            labels in prop::collection::btree_map(text(), text(), 0..4),
            annotations in prop::collection::btree_map(text(), text(), 0..4),
        ) {
            let regarding = Reference::new(ReferenceFields {
                name: &name,
                namespace: if namespaced { "default" } else { "" },
                ..Default::default()
            });
            let event = Event::new(
                &NewEvent {
                    source: &EventSource::component(component).host(host),
                    regarding: &regarding,
                    related: None,
                    event_type: EventType::Warning,
                    reason: &reason,
                    action: &action,
                    message: &message,
                    annotations: Some(&Arc::new(annotations)),
                    labels: Some(&Arc::new(labels)),
                    cluster_scoped_namespace: &policies()[policy],
                    text_bytes_max: TEXT_BYTES_MAX,
                },
                &NameStamps::new(1),
                "2024-01-01T00:00:00Z".parse().unwrap(),
            );
            prop_assert_eq!(complaints(&event), Vec::<String>::new());
            let combined = event.combined(
                event.event_name().clone(),
                &"m".repeat(2000),
                "2024-01-01T00:10:00Z".parse().unwrap(),
                true,
            );
            prop_assert_eq!(complaints(&combined), Vec::<String>::new());
        }
    }
}
