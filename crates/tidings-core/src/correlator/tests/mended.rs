//! What the default options do better than client-go, what can be set, and values at the limits of
//! their types.

use std::hash::Hasher;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1;

use super::*;
use crate::OccurrenceKind::{Create, Patch};
use crate::validate::is_dns1123_subdomain;
use crate::{Deliverable, EventContext};

#[test]
fn what_was_lost_is_created_with_its_count() {
    let mut bench = Bench::new(CorrelatorOptions::default());
    let first = bench.correlate(&SAID, 0).unwrap();
    let second = bench.correlate(&SAID, 1).unwrap();
    assert_eq!(
        (first.kind(), second.kind()),
        (OccurrenceKind::Create, OccurrenceKind::Patch)
    );
    bench.correlator.lost(&first);
    let third = bench.correlate(&SAID, 2).unwrap();
    assert_eq!(
        third.kind(),
        OccurrenceKind::Patch,
        "the second may still be written"
    );
    bench.correlator.lost(&second);
    bench.correlator.lost(&third);
    let fourth = bench.correlate(&SAID, 3).unwrap();
    assert_eq!((fourth.kind(), fourth.count()), (OccurrenceKind::Create, 4));
    assert_eq!(fourth.name(), N0);
    bench.correlator.acknowledged(&fourth);
    let fifth = bench.correlate(&SAID, 4).unwrap();
    bench.correlator.lost(&fifth);
    let sixth = bench.correlate(&SAID, 5).unwrap();
    assert_eq!(
        sixth.kind(),
        OccurrenceKind::Patch,
        "what was written stays written"
    );
}

/// In client-go, a past event that is recorded later sets the last time back, even before the first
/// time.
#[test]
fn the_last_time_does_not_go_back() {
    for (options, last) in [
        (CorrelatorOptions::client_go(), -9),
        (CorrelatorOptions::default(), 10),
    ] {
        let mut bench = Bench::new(options);
        bench.write(&SAID, 0);
        bench.write(&SAID, 10);
        let past = bench.event(&SAID, -9);
        let Correlated::Write(write) = bench.correlator.correlate(Now::at(at(11)), &past) else {
            unreachable!("a first budget is 25 events");
        };
        assert_eq!(write.last_timestamp(), Some(at(last)));
        let stored = write.as_create().to_wire().last_timestamp;
        assert_eq!(stored.map(|time| time.0), Some(at(last)));
        let body = String::from_utf8(write.patch_body()).expect("JSON is text");
        let expected = format!(r#""lastTimestamp":"{}""#, at(last));
        assert!(body.contains(&expected), "{body}");
        assert_eq!(write.first_timestamp(), Some(at(0)));
    }
}

#[test]
fn annotations_of_repeats_are_stored() {
    let said = |annotation| Said { annotation, ..SAID };
    let plain = r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:01Z","message":"m"}"#;
    let mut bench = Bench::new(CorrelatorOptions::client_go());
    bench.write(&said("1"), 0);
    bench.check(1, &said("2"), &format!("patch {N0} {plain}"));

    let mut bench = Bench::new(CorrelatorOptions::default());
    bench.write(&said("1"), 0);
    bench.check(1, &said("1"), &format!("patch {N0} {plain}"));
    // From the first repeat with other metadata on, all repeats send theirs, because the write
    // before may have failed.
    for (second, annotation) in [(2, "2"), (3, "2"), (4, "1")] {
        bench.check(second, &said(annotation), &format!(
            r#"patch {N0} {{"count":{},"lastTimestamp":"2024-01-01T00:00:0{second}Z","message":"m","metadata":{{"annotations":{{"a":"{annotation}"}}}}}}"#,
            second + 1
        ));
    }
    bench.check(
        5,
        &SAID,
        &format!(
            r#"patch {N0} {{"count":6,"lastTimestamp":"2024-01-01T00:00:05Z","message":"m"}}"#
        ),
    );
    // A repeat without metadata does not replace one that has some.
    let annotated = bench.correlate(&said("1"), 6).unwrap();
    let repeat = bench.correlate(&SAID, 6).unwrap();
    assert!(annotated.covers(&repeat) && !repeat.covers(&annotated));
    assert!(
        repeat.as_create().to_wire().metadata.annotations.is_some(),
        "those of the first"
    );
}

#[test]
fn combined_events_keep_what_client_go_drops() {
    let said = |message| Said {
        message,
        object: "2001:db8::1",
        annotation: "1",
        ..SAID
    };
    for options in both() {
        let client_go = options.client_go;
        let mut bench = Bench::new(options.aggregate_events(2));
        bench.correlate(&said("a"), 0);
        let combined = bench.correlate(&said("b"), 0).unwrap();
        assert!(combined.is_aggregate());
        let wire = combined.to_wire();
        assert_eq!(
            is_dns1123_subdomain(&combined.name()),
            !client_go,
            "{}",
            combined.name()
        );
        assert_eq!(wire.metadata.annotations.is_some(), !client_go);
        assert_eq!(wire.action.is_some(), !client_go);
        assert_eq!(
            wire.reporting_component.as_deref(),
            Some(if client_go { "" } else { "ctl" })
        );
        assert_eq!(
            wire.source.and_then(|source| source.component).as_deref(),
            Some("ctl")
        );
    }
}

#[test]
fn functions_of_the_users_group_and_name() {
    let options = CorrelatorOptions::default()
        .aggregate_events(2)
        .aggregate_key(|event| AggregateKey {
            group: event.reason().to_owned(),
            member: event.regarding().name().to_owned(),
        })
        .aggregate_message(|event| format!("and {} too", event.regarding().name()));
    let mut bench = Bench::new(options);
    let said = |object| Said { object, ..SAID };
    assert_eq!(bench.correlate(&said("a"), 0).unwrap().message(), "m");
    let combined = bench.correlate(&said("b"), 1).unwrap();
    assert_eq!((combined.message(), combined.count()), ("and b too", 1));
    let combined_name = combined.name().into_owned();
    let combined = bench.correlate(&said("c"), 2).unwrap();
    assert_eq!((combined.message(), combined.count()), ("and c too", 2));
    assert_eq!(
        combined.name(),
        combined_name,
        "its own, not one made for c"
    );

    let mut bench = Bench::new(CorrelatorOptions::default().without_aggregation());
    for index in 0..20 {
        let message = index.to_string();
        assert!(
            !bench
                .correlate(
                    &Said {
                        message: &message,
                        ..SAID
                    },
                    0
                )
                .unwrap()
                .is_aggregate()
        );
    }
}

fn counted(count: i32) -> Event {
    Event::from_wire(v1::Event {
        count: Some(count),
        ..v1::Event::default()
    })
}

#[test]
fn counts_end_where_they_must() {
    let now = Now::at(at(0));
    let count =
        |correlator: &mut Correlator, count| match correlator.correlate(now, &counted(count)) {
            Correlated::Write(occurrence) => (occurrence.count(), occurrence.kind()),
            Correlated::Filtered | Correlated::HeldBack { .. } => panic!("the first few pass"),
        };
    let mut bench = Bench::new(CorrelatorOptions::default());
    let expected = [
        (i32::MAX, (i32::MAX, Create)),
        (1, (i32::MAX, Patch)),
        (5, (i32::MAX, Patch)),
    ];
    for (given, expected) in expected {
        assert_eq!(count(&mut bench.correlator, given), expected);
    }
    let mut bench = Bench::new(CorrelatorOptions::default());
    for (given, expected) in [(-1, (1, Create)), (3, (4, Patch)), (0, (5, Patch))] {
        assert_eq!(count(&mut bench.correlator, given), expected);
    }
    let mut bench = Bench::new(CorrelatorOptions::client_go());
    let expected = [
        (i32::MAX, (i32::MAX, Patch)),
        (1, (i32::MIN, Create)),
        (1, (i32::MIN + 1, Create)),
    ];
    for (given, expected) in expected {
        assert_eq!(count(&mut bench.correlator, given), expected);
    }
}

#[test]
fn options_out_of_range_are_named() {
    let options = CorrelatorOptions::default;
    let cases = [
        (
            options().aggregate_events(0),
            "aggregate_events is 0: it must be at least 1",
        ),
        (
            options().spam_burst(0),
            "spam_burst is 0, so that no event would ever pass: it must be at least 1",
        ),
        (
            options().spam_qps(-1.),
            "spam_qps is -1: it must be a finite number of events a second, at least 0",
        ),
        (options().spam_qps(f32::NAN), "spam_qps is NaN: "),
        (options().spam_qps(f32::INFINITY), "spam_qps is inf: "),
    ];
    for (options, expected) in cases {
        let error = Correlator::new(options, Arc::new(NameStamps::new(1)))
            .err()
            .expect(expected);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let switched_off = options()
        .spam_burst(0)
        .without_spam_filter()
        .aggregate_events(0)
        .without_aggregation();
    assert_eq!(switched_off.validate(), Ok(()));
    assert_eq!(options().cache_entries_max(0).validate(), Ok(()));
    assert_eq!(
        CorrelatorOptions::client_go().spam_burst(0).validate(),
        Ok(())
    );
}

#[test]
fn what_is_forgotten_is_new_again_and_counted() {
    let mut bench = Bench::new(CorrelatorOptions::default().cache_entries_max(2));
    let said = |object| Said { object, ..SAID };
    for object in ["a", "b", "c", "a"] {
        let occurrence = bench.correlate(&said(object), 0).unwrap();
        assert_eq!(
            (occurrence.kind(), occurrence.count()),
            (OccurrenceKind::Create, 1)
        );
    }
    let stats = bench.correlator.stats();
    for cache in [stats.aggregate, stats.count, stats.spam] {
        assert_eq!(
            (cache.entries, cache.hits, cache.misses, cache.evictions),
            (2, 0, 4, 2)
        );
    }
    // The loss of an evicted occurrence does not affect the entry that took its place.
    let mut bench = Bench::new(CorrelatorOptions::default().cache_entries_max(1));
    let old = bench.correlate(&said("a"), 0).unwrap();
    bench.correlate(&said("b"), 1);
    let anew = bench.correlate(&said("a"), 2).unwrap();
    bench.correlator.lost(&old);
    let repeat = bench.correlate(&said("a"), 3).unwrap();
    assert_eq!(
        (anew.kind(), repeat.kind()),
        (OccurrenceKind::Create, OccurrenceKind::Patch)
    );
}

/// The properties that a delivery reads from a write, and its size.
#[test]
fn a_write_says_what_it_is_and_weighs() {
    struct Told;
    impl EventContext for Told {
        fn is_awaited(&self) -> bool {
            true
        }
        fn may_be_written(&self) -> bool {
            true
        }
    }

    let mut bench = Bench::new(CorrelatorOptions::default());
    let first = bench.correlate(&SAID, 0).unwrap();
    let repeat = bench.correlate(&SAID, 1).unwrap();
    let of_another = Said {
        object: "q",
        ..SAID
    };
    let other = bench.correlate(&of_another, 2).unwrap();
    let told = bench.event(&SAID, 3).with_context(Arc::new(Told));
    let Correlated::Write(told) = bench.correlator.correlate(Now::at(at(3)), &told) else {
        panic!("the first few pass");
    };
    let regarding = |occurrence: &Occurrence| {
        let mut state = std::hash::DefaultHasher::new();
        occurrence.hash_regarding(&mut state);
        state.finish()
    };
    // Columns: the write, and whether it concerns the first event's object, is a repeat, and is
    // waited for.
    for (write, same, is_repeat, awaited) in [
        (&first, true, false, false),
        (&repeat, true, true, false),
        (&other, false, false, false),
        (&told, true, true, true),
    ] {
        assert_eq!(Deliverable::same_object(write, &first), same);
        assert_eq!(regarding(write) == regarding(&first), same);
        assert_eq!(Deliverable::is_repeat(write), is_repeat);
        assert_eq!(Deliverable::may_be_written(write), awaited);
        assert_eq!(
            (write.is_awaited(), write.context().is_some()),
            (awaited, awaited)
        );
        assert_eq!(write.namespace(), "default");
        assert_eq!(write.kind() == Patch, is_repeat);
        assert_eq!(write.as_create().kind(), Create);
        // The key points to its own event, which may differ from the first of its kind.
        let apart = if is_repeat { first.event().size() } else { 0 };
        let size = size_of::<Occurrence>() + write.key().0.size() + apart;
        assert_eq!(Deliverable::size(write), size);
    }
    assert!(repeat.covers(&first) && !repeat.covers(&told));
    let json = first.create_body();
    let protobuf = first.create_body_protobuf();
    assert!(protobuf.starts_with(b"k8s\0") && protobuf.len() < json.len());
}

#[test]
fn budgets_are_shared_as_the_user_says() {
    let options = || CorrelatorOptions::default().spam_burst(1);
    let by_reason = options().spam_key(|event| event.reason().to_owned());
    for (options, passes) in [
        // Columns: options, and which of four events with other objects and reasons pass.
        (options(), [true, true, true, false]),
        (by_reason, [true, false, true, false]),
    ] {
        let mut bench = Bench::new(options);
        let events = [("a", "R"), ("b", "R"), ("a", "S"), ("a", "R")];
        let passed = events.map(|(object, reason)| {
            let said = Said {
                reason,
                object,
                ..SAID
            };
            bench.correlate(&said, 0).is_some()
        });
        assert_eq!(passed, passes);
    }
}

/// A clock that stops, steps back or leaps does no harm.
#[test]
fn any_clock_will_do() {
    for options in both() {
        let mut bench = Bench::new(options.aggregate_interval(Duration::from_secs(u64::MAX)));
        let event = bench.event(&SAID, 0);
        for wall in [
            Timestamp::MIN,
            Timestamp::MAX,
            Timestamp::UNIX_EPOCH,
            at(0) - SignedDuration::from_hours(1),
        ] {
            bench.correlator.correlate(Now::at(wall), &event);
        }
        assert!(
            matches!(bench.correlator.correlate(Now::at(at(0)), &event), Correlated::Write(occurrence) if occurrence.count() == 5)
        );
    }
}
