//! The rules of client-go's correlator: its own tests by name, and cases that they leave out. Where
//! the default options agree, they are tested, too.

use super::*;

const N9: &str = "p.17a6101919d61a00";
const N25: &str = "p.17a6101cd382ba00";
const N5400: &str = "p.17a615004a79f000";

/// One event, recorded three times.
#[test]
fn repeats_patch_the_first() {
    for options in both() {
        let mut bench = Bench::new(options);
        bench.check(0, &SAID, &format!("create {N0} 1 0..0 m"));
        bench.check(
            5,
            &SAID,
            &format!(
                r#"patch {N0} {{"count":2,"lastTimestamp":"2024-01-01T00:00:05Z","message":"m"}}"#
            ),
        );
        bench.check(
            10,
            &SAID,
            &format!(
                r#"patch {N0} {{"count":3,"lastTimestamp":"2024-01-01T00:00:10Z","message":"m"}}"#
            ),
        );
    }
}

/// Twelve messages, then the first again: the tenth to twelfth are combined.
#[test]
fn similar_events_are_combined() {
    const COMBINED: &str = "(combined from similar events): ";
    let mut bench = Bench::new(CorrelatorOptions::client_go());
    for second in 0..13 {
        let message = format!("m{}", second % 12);
        let calls = bench.write(
            &Said {
                message: &message,
                ..SAID
            },
            second,
        );
        let expected = match second {
            0..9 => format!(
                "create p.{:x} 1 {second}..{second} {message}",
                at(second).as_nanosecond()
            ),
            9 => format!("create {N9} 1 9..9 {COMBINED}m9"),
            10 | 11 => format!(
                r#"patch {N9} {{"count":{},"lastTimestamp":"2024-01-01T00:00:{second}Z","message":"{COMBINED}{message}"}}"#,
                second - 8
            ),
            _ => format!(
                r#"patch {N0} {{"count":2,"lastTimestamp":"2024-01-01T00:00:12Z","message":"m0"}}"#
            ),
        };
        assert_eq!(calls, expected);
    }
}

/// For each combined event client-go drops a random member of a full group. In time this drops the
/// first members, whose events are then combined like any other. Our client-go rules drop a member
/// once it would more likely be gone than not. The default rules keep the first members.
#[test]
fn members_of_a_full_group_are_dropped_in_time() {
    for (options, combined) in both().into_iter().zip([[false, true, true], [false; 3]]) {
        let mut bench = Bench::new(options.aggregate_events(5).without_spam_filter());
        let mut say = |message: &str| {
            let occurrence = bench.correlate(&Said { message, ..SAID }, 0);
            occurrence.expect("nothing is filtered").is_aggregate()
        };
        let first = ["a", "b", "c", "d"];
        assert_eq!(first.map(&mut say), [false; 4]);
        let mut similar = (0..).map(|number| number.to_string());
        // After two drops each of five members is more likely present than not; after many more it
        // is not.
        similar
            .by_ref()
            .take(2)
            .for_each(|message| assert!(say(&message)));
        assert_eq!(say("a"), combined[0]);
        similar
            .by_ref()
            .take(20)
            .for_each(|message| assert!(say(&message)));
        assert_eq!([say("b"), say("c")], combined[1..]);
    }
}

/// 25 events pass at once, then one every 300 seconds.
#[test]
fn floods_are_filtered_and_counted() {
    for options in both() {
        let mut bench = Bench::new(options);
        let mut written = Vec::new();
        for second in (0..30).chain([299, 300, 301, 600]) {
            if bench.write(&SAID, second) != "-" {
                written.push((second, bench.stored[N0]));
            }
        }
        let mut expected: Vec<_> = (0..25).map(|second| (second, second as i32 + 1)).collect();
        expected.extend([(300, 32), (600, 34)]);
        assert_eq!(written, expected);
    }
}

/// An event whose first occurrence was filtered. client-go patches an event that does not exist.
/// The default has a budget for each reason; when that is used up, it later creates the event with
/// its true count.
#[test]
fn what_was_filtered_at_first_is_created_later() {
    let other = Said {
        reason: "B",
        message: "b",
        ..SAID
    };
    let mut bench = Bench::new(CorrelatorOptions::client_go());
    for second in 0..25 {
        assert_ne!(bench.write(&SAID, second), "-");
    }
    bench.check(25, &other, "-");
    bench.check(300, &other, &format!(r#"patch {N25} {{"count":2,"lastTimestamp":"2024-01-01T00:05:00Z","message":"b"}} | create {N25} 2 25..300 b"#));
    bench.check(
        600,
        &other,
        &format!(
            r#"patch {N25} {{"count":3,"lastTimestamp":"2024-01-01T00:10:00Z","message":"b"}}"#
        ),
    );

    let mut bench = Bench::new(CorrelatorOptions::default());
    for second in 0..25 {
        assert_ne!(bench.write(&SAID, second), "-");
    }
    bench.check(25, &other, &format!("create {N25} 1 25..25 b"));

    let mut bench = Bench::new(CorrelatorOptions::default().spam_key_by_object());
    for second in 0..25 {
        assert_ne!(bench.write(&SAID, second), "-");
    }
    bench.check(25, &other, "-");
    bench.check(300, &other, &format!("create {N25} 2 25..300 b"));
    bench.check(
        600,
        &other,
        &format!(
            r#"patch {N25} {{"count":3,"lastTimestamp":"2024-01-01T00:10:00Z","message":"b"}}"#
        ),
    );
}

/// The window moves with every event, and ends after more than 600 seconds, not after exactly 600.
#[test]
fn the_window_slides() {
    for (gap, combined) in [(600, true), (601, false)] {
        for options in both() {
            let client_go = options.client_go;
            let mut bench = Bench::new(options);
            let mut calls = Vec::new();
            for index in 0..11 {
                let message = format!("m{index}");
                calls.push(bench.write(
                    &Said {
                        message: &message,
                        ..SAID
                    },
                    index * gap,
                ));
            }
            let expected = if combined {
                // client-go takes the time as the name; the default takes one that no other event
                // has.
                let name = if client_go {
                    N5400
                } else {
                    "p.17a615004a79f001"
                };
                [
                    format!("create {name} 1 5400..5400 (combined from similar events): m9"),
                    format!(
                        r#"patch {name} {{"count":2,"lastTimestamp":"2024-01-01T01:40:00Z","message":"(combined from similar events): m10"}}"#
                    ),
                ]
            } else {
                [9, 10].map(|index| {
                    let second = index * gap;
                    format!(
                        "create p.{:x} 1 {second}..{second} m{index}",
                        at(second).as_nanosecond()
                    )
                })
            };
            assert_eq!(calls[9..], expected);
        }
    }
}

/// An event that expired at the server keeps its name when it is created again. client-go's
/// TestUpdateExpiredEvent.
#[test]
fn what_expired_is_created_with_its_count() {
    for options in both() {
        let mut bench = Bench::new(options);
        bench.write(&SAID, 0);
        bench.write(&SAID, 60);
        bench.stored.clear();
        bench.check(3700, &SAID, &format!(r#"patch {N0} {{"count":3,"lastTimestamp":"2024-01-01T01:01:40Z","message":"m"}} | create {N0} 3 0..3700 m"#));
        bench.check(
            3760,
            &SAID,
            &format!(
                r#"patch {N0} {{"count":4,"lastTimestamp":"2024-01-01T01:02:40Z","message":"m"}}"#
            ),
        );
    }
}

/// client-go counts an event only when the one before was written. Here several writes may be in
/// flight; a late answer does not undo a count.
#[test]
fn a_late_answer_takes_no_count_back() {
    for options in both() {
        let mut bench = Bench::new(options);
        let first = bench.correlate(&SAID, 0).unwrap();
        let second = bench.correlate(&SAID, 1).unwrap();
        bench.correlator.acknowledged(&first);
        let third = bench.correlate(&SAID, 2).unwrap();
        bench.correlator.acknowledged(&third);
        bench.correlator.acknowledged(&second);
        let fourth = bench.correlate(&SAID, 3).unwrap();
        let counts = [first, second, third, fourth].map(|occurrence| occurrence.count());
        assert_eq!(counts, [1, 2, 3, 4]);
    }
}

fn said<'a>(reason: &'a str, message: &'a str) -> Said<'a> {
    Said {
        reason,
        message,
        ..SAID
    }
}

/// client-go's TestEventAggregatorByReasonFunc and TestEventAggregatorByReasonMessageFunc.
#[test]
fn events_of_one_reason_are_similar() {
    let options = CorrelatorOptions::client_go().aggregate_events(2);
    let mut bench = Bench::new(options);
    bench.correlate(&said("end-of-world", "it was fun"), 0);
    let second = bench
        .correlate(&said("end-of-world", "it was awful"), 0)
        .unwrap();
    assert!(second.is_aggregate() && second.message().starts_with(COMBINED_MESSAGE_PREFIX));
    let third = bench
        .correlate(&said("nevermind", "it was a bug"), 0)
        .unwrap();
    assert!(!third.is_aggregate());
}

/// Columns: name, earlier events, the event, seconds between them, its count (`None`: filtered),
/// whether it is combined.
type Row<'a> = (&'a str, &'a [Said<'a>], Said<'a>, i64, Option<i32>, bool);

fn check(rows: &[Row<'_>]) {
    for &(name, earlier, said, gap, count, combined) in rows {
        for options in both() {
            let mut bench = Bench::new(options);
            let mut second = 0;
            for earlier in earlier {
                bench.write(earlier, second);
                second += gap;
            }
            let occurrence = bench.correlate(&said, second);
            let found = occurrence.as_ref().map(|occurrence| {
                let repeated = occurrence.first_timestamp() != occurrence.last_timestamp();
                (occurrence.count(), occurrence.is_aggregate(), repeated)
            });
            let expected = count.map(|count| (count, combined, count > 1));
            assert_eq!(found, expected, "{name}");
        }
    }
}

/// client-go's TestEventCorrelator, row by row: earlier events, then one more, some seconds apart.
#[test]
fn events_are_counted_combined_and_filtered() {
    let duplicate = vec![said("duplicate", "me again"); 30];
    let numbered = |prefix: &'static str, count: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("{prefix}-{number}"))
            .collect()
    };
    let (reasons, objects) = (numbered("reason", 30), numbered("pod", 30));
    let unique: Vec<_> = reasons
        .iter()
        .zip(&objects)
        .map(|(reason, object)| Said {
            reason,
            object,
            ..SAID
        })
        .collect();
    let messages = numbered("similar message", 10);
    let similar: Vec<_> = messages
        .iter()
        .map(|message| said("similar", message))
        .collect();
    let container = |field_path| Said {
        field_path,
        ..said("similar", "similar message")
    };

    check(&[
        (
            "create-a-single-event",
            &[][..],
            said("first", "i am first"),
            15,
            Some(1),
            false,
        ),
        (
            "the-same-event-should-just-count",
            &duplicate[..1],
            duplicate[0],
            15,
            Some(2),
            false,
        ),
        (
            "…-even-if-more-than-aggregate",
            &duplicate[..10],
            duplicate[0],
            90,
            Some(11),
            false,
        ),
        (
            "the-same-event-is-spam-if-happens-too-frequently",
            &duplicate[..26],
            duplicate[0],
            3,
            None,
            false,
        ),
        (
            "create-many-unique-events",
            &unique[..],
            said("unique", "snowflake"),
            15,
            Some(1),
            false,
        ),
        (
            "similar-events-should-aggregate-event",
            &similar[..9],
            said("similar", "one more"),
            15,
            Some(1),
            true,
        ),
        (
            "similar-events-many-times-should-count-the-aggregate",
            &similar[..],
            said("similar", "one more"),
            15,
            Some(2),
            true,
        ),
        (
            "events-from-different-containers-do-not-aggregate",
            &[container("container2")],
            container("container1"),
            15,
            Some(1),
            false,
        ),
        (
            "similar-events-whose-interval-is-greater-…-do-not-aggregate",
            &similar[..9],
            said("similar", "one more"),
            1800,
            Some(1),
            false,
        ),
    ]);
}

/// client-go's TestEventSpamFilter, and the default, which has a budget for each reason.
#[test]
fn budgets_are_shared_by_key() {
    let by_reason = |event: &Event| format!("{:?} {}", event.regarding(), event.reason());
    let client_go = CorrelatorOptions::client_go;
    let rows = [
        (client_go(), "duplicate", "me again", false),
        (
            client_go().spam_key(by_reason),
            "duplicate",
            "me again",
            true,
        ),
        (
            client_go().spam_key(by_reason),
            "original",
            "me again",
            false,
        ),
        (
            client_go().without_spam_filter(),
            "original",
            "me again",
            true,
        ),
        (CorrelatorOptions::default(), "duplicate", "me again", true),
        (CorrelatorOptions::default(), "original", "me again", false),
    ];
    for (options, reason, message, passes) in rows {
        let mut bench = Bench::new(options.spam_burst(1));
        bench.write(
            &Said {
                reason: "original",
                message: "i am first",
                ..SAID
            },
            0,
        );
        let occurrence = bench.correlate(
            &Said {
                reason,
                message,
                ..SAID
            },
            1,
        );
        assert_eq!(occurrence.is_some(), passes, "{reason} {message}");
    }
}
