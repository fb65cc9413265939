//! Lines of container logs and of collectors, and lines that were cut at their front.

use serde_json::{Value, json};

use super::super::RECORD_BYTES_MAX;
use super::{check, event, line, list, pretty, summary, value, yaml};

/// A container's line in a log of CRI, split into parts of a length.
fn cri(stream: &str, text: &str, part: usize) -> Vec<String> {
    let parts: Vec<_> = text.as_bytes().chunks(part).collect();
    let parts = parts.iter().enumerate().map(|(number, bytes)| {
        let tag = if number + 1 < parts.len() { "P" } else { "F" };
        let text = std::str::from_utf8(bytes).expect("ASCII");
        format!("2026-01-01T00:00:00.{number:09}Z {stream} {tag} {text}\n")
    });
    parts.collect()
}

/// The same in a log of Docker.
fn docker(stream: &str, text: &str, part: usize) -> Vec<String> {
    let text = format!("{text}\n");
    let parts = text.as_bytes().chunks(part).map(|bytes| {
        let text = std::str::from_utf8(bytes).expect("ASCII");
        let time = "2026-01-01T00:00:00.123456789Z";
        json!({"log": text, "stream": stream, "time": time}).to_string() + "\n"
    });
    parts
        // Docker writes its keys in this order.
        .inspect(|line| assert!(line.starts_with("{\"log\":"), "{line}"))
        .collect()
}

/// Runtimes split a line of more than 16 KiB. Each event is read once, at its first part.
#[test]
fn lines_that_container_runtimes_split_are_joined() {
    type Split = fn(&str, &str, usize) -> Vec<String>;
    let [long, other] = [("long", 50_000), ("other", 20_000)].map(|(name, length)| {
        let mut event = value(name);
        event["message"] = "x".repeat(length).into();
        event.to_string()
    });
    // Docker's parts are known by their length.
    for (split, lengths) in [(cri as Split, &[200, 16 << 10][..]), (docker, &[16 << 10])] {
        for part in lengths.iter().copied() {
            let parts = split("stdout", &long, part);
            let next = split("stdout", &line("next"), 1 << 20).concat();
            assert!(parts.len() > 2);
            let last = format!("{}: n/next", parts.len() + 1);
            check(parts.concat() + &next, &["1: n/long", &last]);

            // The lines of another stream are between the parts, whole and split.
            for length in [1 << 20, part] {
                let others = split("stderr", &other, length);
                for at in 1..parts.len().min(5) {
                    let (before, behind) = (parts[..at].concat(), parts[at..].concat());
                    let mixed = before + &others.concat() + &behind + &next;
                    let other = format!("{}: n/other", at + 1);
                    let last = format!("{}: n/next", parts.len() + others.len() + 1);
                    check(mixed, &["1: n/long", &other, &last]);
                }
                // The parts of both alternate, and the one or the other begins.
                let last = format!("{}: n/next", parts.len() + others.len() + 1);
                for (both, read) in [
                    ([&parts, &others], ["1: n/long", "2: n/other", &last]),
                    ([&others, &parts], ["1: n/other", "2: n/long", &last]),
                ] {
                    let longest = parts.len().max(others.len());
                    let mixed = (0..longest).flat_map(|at| both.map(|lines| lines.get(at)));
                    let mixed: Vec<_> = mixed.flatten().map(String::as_str).collect();
                    check(mixed.concat() + &next, &read);
                }
            }

            // The last part is missing: the file ends, or the log goes on without it.
            let cut = parts[..parts.len() - 1].concat();
            let said = "1! not JSON: ";
            for (text, read) in [
                (cut.clone(), None),
                (format!("{cut}starting\n{next}"), Some("n/next")),
                (cut + &next, Some("n/next")),
            ] {
                let found = summary(text.as_bytes());
                let event = found.get(1).and_then(|it| it.split(": ").nth(1));
                let count = 1 + usize::from(read.is_some());
                assert!(
                    found[0].starts_with(said) && event == read && found.len() == count,
                    "{found:?}"
                );
            }
        }
    }
    // A part of Docker's without JSON is one because of its length.
    let text = format!("{}{}", "x".repeat(16 << 10), line("a"));
    check(docker("stdout", &text, 16 << 10).concat(), &["1: n/a"]);
    // Other programs write whole lines without a line feed.
    let whole = |text: &str| json!({"log": text, "stream": "stdout"}).to_string();
    for before in ["starting", "starting {\"", "{"] {
        check(
            [before, &line("a"), before, &line("b")]
                .map(whole)
                .join("\n"),
            &["2: n/a", "4: n/b"],
        );
    }
    // What has other fields is no line of Docker.
    check(
        json!({"log": "text\n", "more": value("a")}).to_string(),
        &["1: n/a"],
    );
}

/// A joined line may be longer than what is held in memory.
#[test]
fn a_joined_line_is_not_bounded_but_what_is_held_back_is() {
    let filler = "x".repeat(RECORD_BYTES_MAX / 8);
    let mut item = value("a");
    item["message"] = filler.clone().into();
    let list = json!({"items": vec![item; 20]}).to_string();
    let found = summary(cri("stdout", &list, 16 << 10).concat().as_bytes());
    assert_eq!((found.len(), &*found[19]), (20, "1 event 20: n/a"));

    // While the line of one stream is open, the other one writes more than is held back.
    let open = cri("stdout", &line("open"), 200);
    let other = cri("stderr", &filler, 1 << 30).concat().repeat(9);
    let behind = open[1..].concat() + &cri("stderr", &line("b"), 1 << 20).concat();
    let found = summary((open[0].clone() + &other + &behind).as_bytes());
    let last = format!("{}: n/b", open.len() + 10);
    assert!(
        found.len() == 2 && found[0].starts_with("1! not JSON: ") && found[1] == last,
        "{found:?}"
    );
}

/// A text with a prefix before each line.
pub(super) fn prefixed(text: &str, prefix: &str) -> String {
    let lines = text.lines().map(|line| format!("{prefix}{line}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// As kubectl, runtimes and Docker Compose put them before each line.
#[test]
fn prefixes_of_all_lines_are_seen_through() {
    let events = list(&["a", "b"]);
    let prefixes = [
        "[pod/router-0/app] ",
        "[pod/router-0/app] 2026-01-01T00:00:00.1Z ",
        "2026-01-01T00:00:00.123456789Z ",
        "2026-01-01T00:00:00+01:00 ",
        "2026-01-01T00:00:00.1Z stdout F ",
        "router-1  | ",
    ];
    for text in [
        pretty(&events),
        yaml(&events),
        events.to_string(),
        line("a") + "\n" + &line("b"),
    ] {
        let expected = summary(text.as_bytes());
        assert_eq!(expected.len(), 2);
        for prefix in prefixes {
            let lines = prefixed(&text, prefix);
            assert_eq!(summary(lines.as_bytes()), expected, "from {lines}");
        }
        let lines = text
            .lines()
            .map(|line| docker("stdout", line, 1 << 20).concat());
        let lines: String = lines.collect();
        assert_eq!(summary(lines.as_bytes()), expected, "from {lines}");
        // In colours.
        let lines = text.lines().map(|line| {
            let line = format!(
                "\u{1b}[1;39m{}\u{1b}[0m",
                line.replace(": ", ":\u{1b}[39m ")
            );
            docker("stdout", &line, 1 << 20).concat()
        });
        let lines: String = lines.collect();
        assert_eq!(summary(lines.as_bytes()), expected, "from {lines}");
        // The events of several containers, one after the other.
        let both = prefixed(&text, "[pod/a/x] ") + &prefixed(&text, "[pod/b/y] ");
        assert_eq!(summary(both.as_bytes()).len(), 4, "from {both}");
    }
    // Events behind an unknown prefix are not read, which is said; those beside them are.
    let newer = json!({"kind": "List", "items": [{"note": "x", "regarding": {"kind": "Pod"}}, {"regarding": {"kind": "Pod"}}]});
    let tabbed = pretty(&events).replace("  ", "\t");
    let java = pretty(&events).replace("\": ", "\" : ");
    for text in [
        pretty(&events),
        yaml(&events),
        yaml(&newer),
        pretty(&newer),
        tabbed,
        java,
    ] {
        let lines = prefixed(&text, "router ");
        let found = summary(format!("{lines}{}\n", line("c")).as_bytes());
        let why = "! its lines begin with other text";
        assert!(
            found.len() == 3
                && found[..2].iter().all(|it| it.ends_with(why))
                && found[2].ends_with(": n/c"),
            "{found:?} from {lines}"
        );
    }
    // A comment is no event, nor is a word of prose.
    for text in ["# The field involvedObject:\n", "#   regarding:\n"] {
        check(format!("{text}{}", line("a")), &["2: n/a"]);
        check(format!("{}\n{text}", line("a")), &["1: n/a"]);
    }
    check("It has an involvedObject:\n", &["= text of something else"]);
}

/// An object as a collector of OpenTelemetry writes it.
fn attributes(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(items) => {
            let values: Vec<_> = items.iter().map(attributes).collect();
            json!({"arrayValue": {"values": values}})
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let values = fields.map(|(key, value)| json!({"key": key, "value": attributes(value)}));
            json!({"kvlistValue": {"values": values.collect::<Vec<_>>()}})
        }
    }
}

/// A batch of log records with these bodies, as a collector's exporter of files writes it.
pub(super) fn batch(bodies: &[Value]) -> Value {
    let records = bodies.iter();
    let records =
        records.map(|body| json!({"observedTimeUnixNano": "1", "body": attributes(body)}));
    let scopes = json!([{"scope": {}, "logRecords": records.collect::<Vec<_>>()}]);
    json!({"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": scopes}]})
}

/// The k8sobjects receiver of OpenTelemetry's collector.
#[test]
fn events_in_attributes_of_open_telemetry_are_read() {
    let logs = batch;
    let mut a = value("a");
    a["count"] = 7.into();
    a["eventTime"] = Value::Null;
    a["metadata"]["labels"] = json!({"list": "[1]"});
    let watched = json!({"type": "ADDED", "object": a});
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "involvedObject"}});
    for text in [
        logs(std::slice::from_ref(&watched)).to_string(),
        logs(std::slice::from_ref(&a)).to_string(),
        pretty(&logs(std::slice::from_ref(&a))),
    ] {
        assert_eq!(event(text.as_bytes()), a, "from {text}");
    }
    let two = logs(&[watched, pod, value("b")]).to_string();
    let both = ["1: n/a", "1 event 2: n/b"];
    check(&two, &both);
    check(
        format!("{two}\n{}", line("c")),
        &["1: n/a", "1 event 2: n/b", "2: n/c"],
    );
    let cut = two.find("stringValue\":\"b\"").expect("the second name");
    check(
        &two[..cut],
        &["1: n/a", "1 event 2! not JSON: it ends within the event"],
    );
    // As deep as JSON is read, and deeper.
    for (depth, is_read) in [(20, true), (40, false)] {
        let mut deep = value("a");
        for _ in 0..depth {
            deep["more"] = json!({"a": deep["more"]});
        }
        let found = summary(logs(&[deep]).to_string().as_bytes());
        assert_eq!(
            (found.len(), found[0] == "1: n/a"),
            (1, is_read),
            "{found:?}"
        );
    }
}

/// The front of a file is missing, as in the last bytes of a log.
#[test]
fn a_line_whose_beginning_is_missing_is_said() {
    let headless = "1! its beginning is missing";
    let next = format!("{}\n{}\n", line("b"), line("c"));
    let nested = json!({"type": "ADDED", "object": value("a")}).to_string();
    for text in [line("a"), nested.clone()] {
        for from in 1..text.len() {
            let rest = &text[from..];
            // The event itself may be whole.
            let first = if rest.contains("{\"apiVersion\":\"v1\",\"involved") {
                "1: n/a"
            } else {
                headless
            };
            check(format!("{rest}\n{next}"), &[first, "2: n/b", "3: n/c"]);
        }
    }
    // In a list, behind a prefix, and in lines that are not the event's.
    let all = list(&["a", "b", "c"]).to_string();
    let (begin, end) = (all.find("volvedObject"), all.find("},{"));
    for from in begin.expect("a reference")..end.expect("two events") {
        check(
            &all[from..],
            &[headless, "1 event 2: n/b", "1 event 3: n/c"],
        );
    }
    let cri = "2026-01-01T00:00:00.1Z stdout F ";
    check(
        format!("{cri}{}\n{cri}{}\n", &line("a")[70..], line("b")),
        &[headless, "2: n/b"],
    );
    let docker = docker("stdout", &line("a"), 1 << 20).concat();
    check(
        format!("{}{}", &docker[70..], line("b")),
        &[headless, "2: n/b"],
    );
    // Alone, it is an event if it has what only events have.
    let (reference, reason) = (line("a").find("lastTime"), line("a").find("Pulled"));
    check(&line("a")[reference.expect("a time")..], &[headless]);
    check(
        &line("a")[reason.expect("a reason")..],
        &["= text of something else"],
    );
    // Words of events are no keys of events.
    for rest in [
        "ing\",\"msg\":\"no lastTimestamp in regarding\"}\n",
        "\"eventTime\",\"level\":\"info\",\"involvedObject \":1}\n",
    ] {
        check(rest, &["= text of something else"]);
    }
    check(r#"g":"{\"eventTime\":null}"}"#, &[headless]);
    // The line behind is looked at from its beginning.
    let flow = "regarding: {name: p}\nmetadata: {name: a}\nnote: x\n";
    let read = summary(flow.as_bytes())[0].replace("1: ", "2: ");
    check(format!("\"a\":{{}}}}\n{flow}"), &[headless, &read]);
    // Other text costs nothing.
    for other in [
        "a \"quoted\" {text}",
        "\"a\",1",
        "}{",
        "]",
        "W0101 x.go:1] \"y\" {}",
    ] {
        let found = summary(format!("{other}\n{next}").as_bytes());
        let is_rest = other == "]";
        assert_eq!(
            found.len(),
            2 + usize::from(is_rest),
            "{found:?} from {other}"
        );
    }
}
