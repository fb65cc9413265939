//! Events between lines of other kinds: lines that look like YAML, lines of other containers, and
//! strings of a collector's batch.

use serde_json::{Value, json};

use super::super::{Found, RECORD_BYTES_MAX};
use super::logs::{batch, prefixed};
use super::{check, event, found, line, list, pretty, value, yaml};

/// The names of the events that are read from a capture, sorted.
fn names(input: &str) -> Vec<String> {
    let found = found(input.as_bytes()).into_iter();
    let names = found.map(|found| match found {
        Found::Record(record) => match record.event {
            Ok(event) => event.name,
            Err(why) => format!("! {why}"),
        },
        other => format!("!! {other:?}"),
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn lines_that_look_like_yaml_hide_no_events() {
    /// More lines than a block of YAML may have between its own.
    const COUNT: usize = 30;
    /// Makes a text with an event of a name.
    type Make = fn(&str) -> String;
    let expected: Vec<_> = (10..10 + COUNT)
        .map(|number| format!("e{number}"))
        .collect();
    let before = [
        "",
        "Config: loaded\n",
        "INFO:     Started server process\n",
        "event: started\n",
        "reason: unknown\n",
        "kind: cluster\n",
        "Received:\n",
    ];
    let prefixes = [
        "I0101 got ",
        "event: ",
        "object: ",
        "message: ",
        "- ",
        "INFO:  got event ",
        "  got event: ",
    ];
    let quoted = |name: &str| Value::from(line(name)).to_string();
    let pretty = |name: &str| pretty(&value(name));
    let forms: [(&str, Make); 3] = [("line", line), ("quoted", quoted), ("pretty", pretty)];
    for before in before {
        for prefix in prefixes {
            for (form, make) in forms {
                // This may be YAML.
                let is_message = form == "quoted" && prefix == "message: ";
                let is_yaml = is_message || prefix == "- " || prefix.starts_with(' ');
                if before.starts_with("kind:") && is_yaml {
                    continue;
                }
                let lines = expected
                    .iter()
                    .map(|name| format!("{prefix}{}\n", make(name)));
                let text = before.to_owned() + &lines.collect::<String>();
                assert_eq!(names(&text), expected, "{form} from {text}");
                let lines = expected
                    .iter()
                    .map(|name| format!("{before}{prefix}{}\n", make(name)));
                let text: String = lines.collect();
                assert_eq!(names(&text), expected, "{form} from {text}");
            }
        }
    }
}

#[test]
fn json_in_a_log_between_lines_of_yaml_is_read() {
    let block = yaml(&list(&["a", "b"]));
    let lines: Vec<_> = block.split_inclusive('\n').collect();
    let quoted = Value::from(line("c")).to_string();
    for other in [
        format!("I0101 got {}\n", line("c")),
        format!("event: {}\n", line("c")),
        format!("I0101 \"y\" body={quoted}\n"),
    ] {
        for at in 1..lines.len() {
            let text = lines[..at].concat() + &other + &lines[at..].concat();
            assert_eq!(names(&text), ["a", "b", "c"], "from {text}");
        }
    }
    // The former state of an event is no event.
    let both = format!(
        "verb: UPDATED\nevent: {}\nold_event: {}\n",
        line("a"),
        line("b")
    );
    assert_eq!(names(&both.repeat(2)), ["a", "a"]);
    let router = json!({"verb": "UPDATED", "event": value("a"), "old_event": value("b")});
    let damaged = router.to_string().replacen('{', "{\"x\":y,", 1);
    let damaged = names(&damaged);
    assert_eq!(damaged, ["a"]);
    // A message may have JSON, and a field of another name stays.
    let mut one = value("a");
    one["message"] = "patched {\"a\": 1}".into();
    let text = yaml(&one).replace("\"patched {\\\"a\\\": 1}\"", "'patched {\"a\": 1}'");
    one["more"] = json!({"a": 1});
    assert_eq!(event((text + "more: {\"a\": 1}\n").as_bytes()), one);
}

#[test]
fn an_event_in_a_log_between_lines_of_an_object_is_read() {
    let (text, next) = (format!("router: {}\n", pretty(&value("a"))), line("b"));
    for text in [text, pretty(&list(&["a"])) + "\n"] {
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        let quoted = Value::from(line("c")).to_string();
        for other in [
            format!("I0101 got {}\n", line("c")),
            format!("I0101 \"y\" body={quoted}\n"),
        ] {
            for at in 1..lines.len() {
                let text = lines[..at].concat() + &other + &lines[at..].concat() + &next;
                assert_eq!(names(&text), ["a", "b", "c"], "from {text}");
            }
        }
    }
}

/// The rest of an event is missing, and the next one is behind a text.
#[test]
fn two_events_on_several_lines_do_not_become_one() {
    let (a, b) = (
        format!("router: {}\n", pretty(&value("a"))),
        pretty(&value("b")),
    );
    let lines: Vec<_> = a.split_inclusive('\n').collect();
    let of_line = line("a");
    let comma = of_line.find(",\"kind\"").expect("a key") + 1;
    let cuts = (2..lines.len()).map(|at| lines[..at].concat());
    for cut in cuts.chain([format!("{}\n", &of_line[..comma])]) {
        let with_event = format!("I0101 got {} and ", line("c"));
        for (prefix, read) in [
            ("router: ", &["b"] as &[&str]),
            ("I0101 x.go:1] got ", &["b"]),
            ("event: ", &["b"]),
            (&with_event, &["b", "c"]),
        ] {
            let text = format!("{cut}{prefix}{b}\n");
            let names = names(&text);
            assert!(
                names[0].starts_with("! not JSON") && names[1..] == *read,
                "{names:?} from {text}"
            );
        }
    }
}

/// The strings of an object are searched, however large it is, and though it has events.
#[test]
fn events_in_strings_are_read_from_large_objects() {
    let text = |name: &str| Value::from(line(name));
    let mixed = batch(&[value("a"), text("b"), value("c"), text("d")]).to_string();
    assert_eq!(names(&mixed), ["a", "b", "c", "d"]);
    let within = json!({"log": line("a"), "time": "t"});
    assert_eq!(names(&batch(&[within, value("b")]).to_string()), ["a", "b"]);

    // Larger than what is held in memory, as a collector's batch of 8,192 records may be.
    for (count, length) in [(200, 6_000), (1_000, 9_000)] {
        let mut long = value("a");
        long["message"] = "x".repeat(length).into();
        let long = Value::from(long.to_string());
        let records = batch(&vec![long; count]).to_string();
        assert_eq!(names(&records).len(), count);
        // The end of the batch is missing.
        let cut = names(&records[..records.len() - 1000]);
        assert_eq!(cut.len(), count);
        assert!(cut[0].starts_with('!') && cut[1] == "a", "{}", cut[0]);
    }
    let mut long = value("a");
    long["message"] = "x".repeat(RECORD_BYTES_MAX).into();
    let wrapped = json!({"log": long.to_string(), "more": "x"}).to_string();
    check(
        format!("{wrapped}\n{}", line("b")),
        &[
            &format!("1! longer than {RECORD_BYTES_MAX} bytes"),
            "2: n/b",
        ],
    );

    // Before a longer string, which is not held in memory.
    let wrapped = json!({"log": line("a"), "more": "x".repeat(RECORD_BYTES_MAX + (1 << 20))});
    assert_eq!(names(&format!("{wrapped}\n{}", line("b"))), ["a", "b"]);

    // A logger that keeps the line beside the object, and an event about an event.
    let beside = json!({"log": line("a"), "event": value("a")}).to_string();
    assert_eq!(names(&format!("{beside}\n").repeat(2)), ["a", "a"]);
    let noted = json!({"metadata": {"name": "a", "annotations": {"x": line("b")}}, "involvedObject": {"kind": "Pod"}, "message": line("c")});
    for text in [noted.to_string(), batch(&[noted]).to_string()] {
        assert_eq!(names(&text), ["a"], "from {text}");
    }
    // In colours.
    let coloured = line("a").replace(':', "\u{1b}[0m:\u{1b}[32m");
    check(
        json!({"log": coloured, "more": "x"}).to_string(),
        &["1: n/a"],
    );
    // The line that it wraps is cut, or has a bad character.
    let wrapped = json!({"log": line("a"), "more": "x"}).to_string();
    let cut = wrapped.find("Pulled").expect("a reason");
    check(&wrapped[..cut], &["1! not JSON: it ends within the event"]);
    let bad = [
        &wrapped.as_bytes()[..cut],
        b"\xff",
        &wrapped.as_bytes()[cut..],
    ]
    .concat();
    check(bad, &["1: n/a Repaired"]);
}

/// `kubectl logs --prefix` prints the lines of several containers in turn.
#[test]
fn lines_of_two_containers_become_no_event_that_never_was() {
    let a = list(&["a"]);
    let b: Value = serde_json::from_str(&a.to_string().replace("\"n\"", "\"m\"")).expect("JSON");
    let (pods, services) = (["[pod/a/x] ", "[pod/b/y] "], ["web-1  | ", "db-1   | "]);
    for form in [pretty, yaml] {
        for (a, b) in [(&a, &b), (&a["items"][0], &b["items"][0])] {
            for [one, two] in [pods, services] {
                let lines = |prefix: &str, value: &Value| -> Vec<String> {
                    let text = prefixed(&form(value), prefix);
                    text.split_inclusive('\n').map(str::to_owned).collect()
                };
                let (one, two) = (lines(one, a), lines(two, b));
                for at in 0..=one.len() {
                    for (from, to) in [(0, two.len()), (1, two.len()), (3, 8), (6, two.len())] {
                        let between = two[from..to].concat();
                        let text = one[..at].concat() + &between + &one[at..].concat();
                        for found in found(text.as_bytes()) {
                            let Found::Record(record) = found else {
                                continue;
                            };
                            let Ok(event) = record.event else { continue };
                            let body = Value::Object(event.body).to_string();
                            let is_mixed = body.contains("\"n\"") && body.contains("\"m\"");
                            assert!(!is_mixed, "{body} from {text}");
                        }
                    }
                }
            }
        }
    }
    // One after the other, of which the second is cut at its front.
    let tail = pretty(&list(&["c", "d"]));
    let tail: Vec<_> = tail.lines().skip(3).collect();
    let tail = prefixed(&tail.join("\n"), "[pod/b/y] ");
    for first in [pretty(&a), line("a"), "kubectl get events {}".to_owned()] {
        let text = prefixed(&first, "[pod/a/x] ") + &tail;
        let names = names(&text);
        assert_eq!(names[names.len() - 2..], ["c", "d"], "from {text}");
    }
}

/// Any text may look like the first line of a document.
#[test]
fn a_line_of_another_container_takes_nothing_from_an_event() {
    let all = list(&["a"]);
    for form in [pretty, yaml] {
        for value in [&all, &all["items"][0]] {
            let text = prefixed(&form(value), "[pod/a/x] ");
            let lines: Vec<_> = text.split_inclusive('\n').collect();
            for other in [
                "I0101 x.go:1] start cfg={",
                "main.main() {",
                "foo [",
                "Config: loaded",
                "starting",
            ] {
                let other = format!("[pod/b/y] {other}\n");
                let others = [(1, other.clone()), (2, format!("[pod/b/y] text\n{other}"))];
                for (first, other) in others {
                    for at in first..lines.len() {
                        let text = lines[..at].concat() + &other + &lines[at..].concat();
                        assert_eq!(names(&text), ["a"], "from {text}");
                        assert_eq!(event(text.as_bytes()), all["items"][0], "from {text}");
                    }
                }
            }
        }
    }
}
