//! The rules by example, and what holds for any name.

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

/// Metadata with `size` owners, each a controller, labels and finalizers, all of them invalid.
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
            // One for each label and finalizer, and one for each controller but the first.
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
