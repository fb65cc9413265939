//! Events between lines of other kinds, in the logs of programs.

use serde_json::{Value, json};

use super::super::Found;
use super::{event, found, line, list, pretty, value, yaml};

/// The names of the events, in order of the names.
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
        "kind: cluster\n",
        "Received:\n",
    ];
    let prefixes = [
        "I0101 got ",
        "event: ",
        "object: ",
        "message: ",
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
                if before.starts_with("kind:") && (is_message || prefix.starts_with(' ')) {
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
