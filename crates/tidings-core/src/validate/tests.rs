//! Tests of the rules by example, and of properties that hold for any name.

use super::*;

const NOW: Option<Timestamp> = Some(Timestamp::UNIX_EPOCH);

fn event<'a>(namespace: &'a str, involved: &'a str) -> EventFields<'a> {
    EventFields {
        metadata: MetadataFields {
            name: "web.1",
            namespace,
            ..Default::default()
        },
        involved_object: ["Pod", involved, "web", "", "", "", ""],
        ..Default::default()
    }
}

fn strict<'a>() -> EventFields<'a> {
    EventFields {
        event_time: NOW,
        event_type: "Normal",
        reason: "Started",
        action: "Start",
        reporting_controller: "example.com/controller",
        reporting_instance: "controller-0",
        ..event("shop", "shop")
    }
}

#[track_caller]
fn check(errors: &[FieldError], expected: &[(&str, Cause)]) {
    let found: Vec<_> = errors
        .iter()
        .map(|error| (error.field.as_str(), error.cause))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_old_style_event_lies_in_its_objects_namespace() {
    let mismatch = [("involvedObject.namespace", Cause::Invalid)];
    for (namespace, involved, expected) in [
        ("default", "", &[][..]),
        ("shop", "shop", &[]),
        ("shop", "", &mismatch),
        ("kube-system", "", &mismatch),
        ("shop", "bank", &mismatch),
    ] {
        check(
            &validate_create(&event(namespace, involved), RequestVersion::CoreV1),
            expected,
        );
    }
}

#[test]
fn a_new_style_event_may_lie_elsewhere_but_says_who_reports() {
    let ok = EventFields { ..strict() };
    check(&validate_create(&ok, RequestVersion::EventsV1), &[]);
    let elsewhere = EventFields {
        involved_object: ["Pod", "bank", "web", "", "", "", ""],
        ..strict()
    };
    check(&validate_create(&elsewhere, RequestVersion::EventsV1), &[]);

    let anonymous = EventFields {
        event_time: NOW,
        ..event("kube-system", "")
    };
    check(
        &validate_create(&anonymous, RequestVersion::CoreV1),
        &[
            ("reportingComponent", Cause::Required),
            ("reportingComponent", Cause::Invalid),
            ("reportingComponent", Cause::Invalid),
            ("reportingInstance", Cause::Required),
            ("action", Cause::Required),
            ("reason", Cause::Required),
        ],
    );
}

#[test]
fn lengths_are_counted_in_bytes() {
    let message = "é".repeat(513);
    let word = "x".repeat(129);
    let long = EventFields {
        message: &message,
        action: &word,
        ..strict()
    };
    let errors = validate_create(&long, RequestVersion::EventsV1);
    check(
        &errors,
        &[("action", Cause::Invalid), ("message", Cause::Invalid)],
    );
    assert_eq!(
        errors[1].to_string(),
        "Invalid value: \"\": can have at most 1024 characters"
    );
    let without_time = EventFields {
        message: &message,
        ..event("shop", "shop")
    };
    check(&validate_create(&without_time, RequestVersion::CoreV1), &[]);
}

#[test]
fn events_k8s_io_refuses_the_deprecated_fields() {
    let deprecated = EventFields {
        first_timestamp: NOW,
        last_timestamp: NOW,
        count: 1,
        source: ["kubelet", ""],
        event_type: "Info",
        series: Some((1, None)),
        ..strict()
    };
    check(
        &validate_create(&deprecated, RequestVersion::EventsV1),
        &[
            ("series.count", Cause::Invalid),
            ("series.lastObservedTime", Cause::Required),
            ("type", Cause::Invalid),
            ("firstTimestamp", Cause::Invalid),
            ("lastTimestamp", Cause::Invalid),
            ("count", Cause::Invalid),
            ("source", Cause::Invalid),
        ],
    );
    check(&validate_create(&deprecated, RequestVersion::CoreV1), &[]);
}

#[test]
fn events_k8s_io_changes_only_the_series() {
    let old = strict();
    let series = EventFields {
        series: Some((2, NOW)),
        ..strict()
    };
    check(
        &validate_update(&series, &old, RequestVersion::EventsV1),
        &[],
    );
    let rewritten = EventFields {
        reason: "Stopped",
        message: "other",
        ..strict()
    };
    check(
        &validate_update(&rewritten, &old, RequestVersion::EventsV1),
        &[
            ("reason", Cause::Invalid),
            ("message", Cause::Invalid),
            ("reason", Cause::Invalid),
        ],
    );
    check(
        &validate_update(&rewritten, &old, RequestVersion::CoreV1),
        &[],
    );
}

#[test]
fn names() {
    for (rule, good, bad) in [
        (
            check_path_segment_name as fn(&str) -> Vec<String>,
            &["a", "A.b", "..."][..],
            &[".", "..", "a/b", "50%"][..],
        ),
        (
            check_dns1123_label,
            &["a", "0-a"],
            &["", "-a", "a-", "A", "a.b", "é"],
        ),
        (
            check_dns1123_subdomain,
            &["a", "a.b-c.0"],
            &["", "a..b", ".a", "A", "a.-b"],
        ),
        (
            check_qualified_name,
            &["a", "A_b.c", "example.com/x"],
            &["", "/", "/a", "a/", "a/b/c", "_a", "A.com/x"],
        ),
        (
            check_label_value,
            &["", "a", "A_b.c-0"],
            &["-a", "a-", "a b", "é"],
        ),
    ] {
        for name in good {
            assert!(rule(name).is_empty(), "{name:?}: {:?}", rule(name));
        }
        for name in bad {
            assert!(!rule(name).is_empty(), "{name:?}");
        }
    }
}

/// Kubernetes counts bytes everywhere, and calls those of names characters.
#[test]
fn what_is_too_long() {
    let long = "a".repeat(300);
    let prefixed = format!("{long}/a");
    for (rule, name, expected) in [
        (
            check_dns1123_label as fn(&str) -> Vec<String>,
            &long,
            "must be no more than 63 characters",
        ),
        (
            check_dns1123_subdomain,
            &long,
            "must be no more than 253 characters",
        ),
        (
            check_qualified_name,
            &long,
            "name part must be no more than 63 bytes",
        ),
        (
            check_qualified_name,
            &prefixed,
            "prefix part must be no more than 253 bytes",
        ),
        (check_label_value, &long, "must be no more than 63 bytes"),
    ] {
        assert_eq!(rule(name), [expected]);
    }
    assert_eq!(check_dns1123_label("a.b"), ["must not contain dots"]);
}

#[test]
fn metadata_rules() {
    let labels = BTreeMap::from([("a b".to_owned(), "-".to_owned())]);
    let annotations = BTreeMap::from([("Key".to_owned(), "x".repeat(ANNOTATIONS_BYTES_MAX))]);
    let finalizers = ["my own".to_owned()];
    let metadata = MetadataFields {
        namespace: "a.b",
        generation: -1,
        labels: Some(&labels),
        annotations: Some(&annotations),
        owner_references: vec![
            (["v1", "Event", "x", "u"], [Some(true), None]),
            (["", "Pod", "", "u"], [Some(true), Some(false)]),
        ],
        finalizers: &finalizers,
        ..Default::default()
    };
    check(
        &validate_metadata(&metadata, NameRule::PathSegment),
        &[
            ("metadata.name", Cause::Required),
            ("metadata.namespace", Cause::Invalid),
            ("metadata.generation", Cause::Invalid),
            ("metadata.labels", Cause::Invalid),
            ("metadata.labels", Cause::Invalid),
            ("metadata.annotations", Cause::TooLong),
            ("metadata.ownerReferences", Cause::Invalid),
            ("metadata.ownerReferences.apiVersion", Cause::Invalid),
            ("metadata.ownerReferences.name", Cause::Invalid),
            ("metadata.ownerReferences", Cause::Invalid),
            ("metadata.finalizers", Cause::Invalid),
        ],
    );
}

#[test]
fn metadata_that_may_not_change() {
    let time = |seconds| Timestamp::from_second(seconds).ok();
    let finalizers = ["a.com/x".to_owned(), "b.com/y".to_owned()];
    let old = MetadataFields {
        name: "a",
        namespace: "shop",
        uid: "1",
        finalizers: &finalizers[..1],
        deletion: (time(1), Some(0)),
        ..Default::default()
    };
    check(&validate_metadata_update(&old, &old), &[]);
    let labels = BTreeMap::from([("a b".to_owned(), String::new())]);
    let new = MetadataFields {
        uid: "2",
        finalizers: &finalizers,
        labels: Some(&labels),
        deletion: (time(2), None),
        ..old.clone()
    };
    check(
        &validate_metadata_update(&new, &old),
        &[
            ("metadata.finalizers", Cause::Forbidden),
            ("metadata.uid", Cause::Invalid),
            ("metadata.deletionTimestamp", Cause::Invalid),
            ("metadata.deletionGracePeriodSeconds", Cause::Invalid),
            ("metadata.labels", Cause::Invalid),
        ],
    );
}

/// Checks metadata with `size` owners, labels and finalizers, all invalid. Each owner is a
/// controller.
fn wrong(size: usize, check: impl FnOnce(&MetadataFields<'_>)) {
    let names: Vec<String> = (0..size).map(|number| format!("-{number}")).collect();
    let labels = names
        .iter()
        .map(|name| (name.clone(), String::new()))
        .collect();
    check(&MetadataFields {
        name: "web.1",
        namespace: "shop",
        labels: Some(&labels),
        owner_references: names
            .iter()
            .map(|name| (["v1", "Pod", "web", name.as_str()], [Some(true), None]))
            .collect(),
        finalizers: &names,
        ..MetadataFields::default()
    });
}

#[test]
fn errors_take_bounded_memory_and_all_of_them_count() {
    for size in [1, 10, 1000, 4000] {
        wrong(size, |metadata| {
            let errors = validate_metadata(metadata, NameRule::PathSegment);
            // There is one error for each label and finalizer, and one for each controller but the
            // first.
            assert_eq!(errors.len() + errors.more(), 3 * size - 1);
            assert_eq!(errors.more() > 0, size > 100, "{size}");
            let bytes: usize = errors.iter().map(|error| error.to_string().len()).sum();
            assert!(
                bytes < 3 * FieldErrors::BYTES_MAX,
                "{bytes} bytes of {size}"
            );
        });
    }
}

#[test]
fn what_is_refused_is_shown_whole_unless_it_is_long() {
    wrong(2, |metadata| {
        let errors = validate_metadata(metadata, NameRule::PathSegment);
        let controllers = &errors[2];
        assert_eq!(
            controllers.value,
            "[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"-0\",\"controller\":true},\
             {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"web\",\"uid\":\"-1\",\"controller\":true}]"
        );
    });
    let name = "a/".repeat(1_000_000);
    let metadata = MetadataFields {
        name: &name,
        namespace: "shop",
        ..MetadataFields::default()
    };
    let errors = validate_metadata(&metadata, NameRule::PathSegment);
    assert!(errors[0].value.len() <= 16 * 1024 && errors[0].value.ends_with('…'));
}

#[test]
fn long_texts_are_compared_to_their_ends() {
    let long = "x".repeat(100_000);
    let [before, after] = ["a", "b"].map(|end| format!("{long}{end}"));
    let old = EventFields {
        reason: &before,
        ..strict()
    };
    let new = EventFields {
        reason: &after,
        ..strict()
    };
    let errors = validate_update(&new, &old, RequestVersion::EventsV1);
    let changed = errors
        .iter()
        .filter(|error| error.detail == "field is immutable");
    assert_eq!(changed.count(), 2, "reason is checked twice");
}

#[test]
fn the_beginning_of_a_name_is_no_name_yet() {
    use NameRule::{Dns1123Subdomain, PathSegment};
    for (rule, base, accepted) in [
        (PathSegment, "web-", true),
        (PathSegment, ".", true),
        (PathSegment, "..", true),
        (PathSegment, "a/", false),
        (PathSegment, "a%", false),
        (Dns1123Subdomain, "web", true),
        (Dns1123Subdomain, "web-", true),
        (Dns1123Subdomain, "a.-", true),
        (Dns1123Subdomain, "Web-", false),
        (Dns1123Subdomain, "-", false),
        (Dns1123Subdomain, ".", false),
    ] {
        let metadata = MetadataFields {
            generate_name: base,
            ..event("shop", "shop").metadata
        };
        let refused = [("metadata.generateName", Cause::Invalid)];
        let expected = if accepted { &[][..] } else { &refused };
        check(&validate_metadata(&metadata, rule), expected);
    }
}

#[test]
fn owners_have_a_version() {
    for (api_version, accepted) in [
        ("v1", true),
        ("apps/v1", true),
        ("a/b/c", false),
        ("apps/", false),
    ] {
        let metadata = MetadataFields {
            owner_references: vec![([api_version, "Pod", "web", "u"], [None, None])],
            ..event("shop", "shop").metadata
        };
        let refused = [("metadata.ownerReferences.apiVersion", Cause::Invalid)];
        let expected = if accepted { &[][..] } else { &refused };
        check(
            &validate_metadata(&metadata, NameRule::PathSegment),
            expected,
        );
    }
}

#[test]
fn annotations_may_fill_their_bound() {
    for (key, size, accepted) in [
        ("a", ANNOTATIONS_BYTES_MAX - 1, true),
        ("a", ANNOTATIONS_BYTES_MAX, false),
        ("aaa", ANNOTATIONS_BYTES_MAX - 3, true),
        ("aaa", ANNOTATIONS_BYTES_MAX - 2, false),
    ] {
        let annotations = BTreeMap::from([(key.to_owned(), "x".repeat(size))]);
        let metadata = MetadataFields {
            annotations: Some(&annotations),
            ..event("shop", "shop").metadata
        };
        let errors = validate_metadata(&metadata, NameRule::PathSegment);
        assert_eq!(errors.is_empty(), accepted, "{key} and {size} bytes");
    }
}

#[test]
fn finalizers_are_qualified_and_do_not_contradict_each_other() {
    let both = [("metadata.finalizers", Cause::Invalid)];
    for (finalizers, of_any_object, of_events_v1) in [
        (&["a.com/x", "kubernetes"][..], &[][..], &[][..]),
        (&["orphan"], &[], &[]),
        (&["foregroundDeletion"], &[], &[]),
        (&["orphan", "foregroundDeletion"], &both, &[]),
        (&["a.com/x", "mine"], &[], &["metadata.finalizers[1]"]),
    ] {
        let finalizers: Vec<String> = finalizers.iter().map(|&name| name.to_owned()).collect();
        let new = EventFields {
            metadata: MetadataFields {
                finalizers: &finalizers,
                ..event("shop", "shop").metadata
            },
            ..strict()
        };
        check(
            &validate_metadata(&new.metadata, NameRule::PathSegment),
            of_any_object,
        );
        let errors = validate_update(&new, &new, RequestVersion::EventsV1);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, of_events_v1, "{finalizers:?}");
    }
}

#[test]
fn only_a_series_that_changes_is_looked_at() {
    let with = |series| EventFields { series, ..strict() };
    let (bad, good) = (with(Some((1, NOW))), with(Some((2, NOW))));
    let update = |new, old| validate_update(new, old, RequestVersion::EventsV1).len();
    assert_eq!((update(&bad, &bad), update(&bad, &good)), (0, 1));
    assert_eq!((update(&good, &bad), update(&good, &good)), (0, 0));
}

/// Each value is printed as Go does: text in quotes, structures as JSON.
#[test]
fn what_may_not_change_is_shown() {
    let old = strict();
    let new = EventFields {
        involved_object: ["Node", "shop", "<n>", "u", "v1", "7", "spec"],
        related: Some(["Pod", "", "", "", "", "", ""]),
        reason: "Stopped",
        source: ["c", "\"h\""],
        first_timestamp: NOW,
        event_time: Timestamp::from_microsecond(1_500_000).ok(),
        count: 3,
        ..strict()
    };
    let errors = validate_update(&new, &old, RequestVersion::EventsV1);
    let shown = |field: &str| {
        let error = errors.iter().find(|error| error.field == field);
        error.map_or("not refused", |error| error.value.as_str())
    };
    for (field, expected) in [
        (
            "involvedObject",
            r#"{"Kind":"Node","Namespace":"shop","Name":"\u003cn\u003e","UID":"u","APIVersion":"v1","ResourceVersion":"7","FieldPath":"spec"}"#,
        ),
        (
            "related",
            r#"{"Kind":"Pod","Namespace":"","Name":"","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}"#,
        ),
        ("reason", r#""Stopped""#),
        ("source", r#"{"Component":"c","Host":"\"h\""}"#),
        ("firstTimestamp", r#""1970-01-01T00:00:00Z""#),
        ("eventTime", r#""1970-01-01T00:00:01.500000Z""#),
        ("count", "3"),
        ("message", "not refused"),
    ] {
        assert_eq!(shown(field), expected, "{field}");
    }
    let gone = validate_update(&old, &new, RequestVersion::EventsV1);
    for field in ["related", "firstTimestamp"] {
        let error = gone.iter().find(|error| error.field == field);
        assert_eq!(error.map(|error| error.value.as_str()), Some("null"));
    }
}

#[test]
fn a_name_with_two_slashes_is_refused_as_a_whole() {
    let complaints = check_qualified_name("a/b/c");
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("a valid label key must consist of"));
    assert!(complaints[0].ends_with("prefix and '/' (e.g. 'example.com/MyName')"));
}

#[test]
fn errors_of_two_lists_add_up() {
    let text = "x".repeat(FieldErrors::BYTES_MAX / 2);
    let error = || FieldError::required(text.clone(), "d");
    let mut many = FieldErrors::default();
    many.extend((0..5).map(|_| error()));
    assert_eq!((many.len(), many.more()), (2, 3));
    let mut errors = FieldErrors::from(error());
    assert_eq!((errors.len(), errors.more()), (1, 0));
    errors.append(many.clone());
    assert_eq!((errors.len(), errors.more()), (2, 1 + 3));
    errors.append(many);
    assert_eq!((errors.len(), errors.more()), (2, 4 + 2 + 3));
}

#[test]
fn causes_have_kubernetes_names() {
    use Cause::{Forbidden, Invalid, NotSupported, Required, TooLong};
    for (cause, reason, message) in [
        (Required, "FieldValueRequired", "Required value: d"),
        (Invalid, "FieldValueInvalid", "Invalid value: v: d"),
        (Forbidden, "FieldValueForbidden", "Forbidden: d"),
        (TooLong, "FieldValueTooLong", "Too long: d"),
        (
            NotSupported,
            "FieldValueNotSupported",
            "Unsupported value: v: d",
        ),
    ] {
        let error = FieldError::new("f", cause, "v", "d");
        assert_eq!(
            (cause.reason(), error.to_string().as_str()),
            (reason, message)
        );
    }
}
