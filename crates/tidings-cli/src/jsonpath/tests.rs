//! Tests of templates: the cases that kubectl documents, and errors of invalid templates.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Path, Template};

fn list() -> Value {
    json!({
        "kind": "List",
        "items": [
            {
                "metadata": {"name": "web.1", "labels": {"app.kubernetes.io/name": "web", "tier": "front"}},
                "type": "Warning", "reason": "BackOff", "count": 7, "series": null,
            },
            {"metadata": {"name": "web.2"}, "type": "Normal", "reason": "Pulled", "count": 1},
            {"metadata": {"name": "db.1"}, "type": "Warning", "reason": "Failed", "count": 12, "related": {"name": "n"}},
        ],
    })
}

#[test]
fn what_kubectl_documents() {
    for (template, expected) in [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("{@.kind}", "List"),
        ("{['kind']}", "List"),
        ("kind: {.kind}!", "kind: List!"),
        ("{.items[0].reason}", "BackOff"),
        ("{.items[-1].reason}", "Failed"),
        ("{.items[*].reason}", "BackOff Pulled Failed"),
        ("{.items..name}", "web.1 web.2 db.1 n"),
        ("{..reason}", "BackOff Pulled Failed"),
        ("{.items[0:2].reason}", "BackOff Pulled"),
        ("{.items[1:].reason}", "Pulled Failed"),
        ("{.items[-2:].reason}", "Pulled Failed"),
        ("{.items[::2].reason}", "BackOff Failed"),
        ("{.items[0,2].reason}", "BackOff Failed"),
        ("{.items[1:1].reason}", ""),
        ("{.items[7:7].reason}", ""),
        ("{.items[0].series[0]}", ""),
        ("{.items[0].nothing[0]}", ""),
        (r#"{.items[?(@.nothing[0]=="x")].reason}"#, ""),
        ("{.items[?(@.type[0])].reason}", "BackOff Pulled Failed"),
        ("{.items[0]['reason','type']}", "BackOff Warning"),
        (
            "{.items[*]['metadata.name', 'count']}",
            "web.1 7 web.2 1 db.1 12",
        ),
        (
            r"{.items[0].metadata.labels.app\.kubernetes\.io/name}",
            "web",
        ),
        (
            r"{.items[0].metadata.labels['app\.kubernetes\.io/name']}",
            "web",
        ),
        (r#"{.items[?(@.type=="Warning")].reason}"#, "BackOff Failed"),
        ("{.items[?(@.type!='Warning')].reason}", "Pulled"),
        ("{.items[?(@.count > 6)].reason}", "BackOff Failed"),
        ("{.items[?( @.count >= 12 )].reason}", "Failed"),
        ("{.items[?(@.count<=1)].reason}", "Pulled"),
        ("{.items[?(@.count<7.5)].reason}", "BackOff Pulled"),
        ("{.items[?(@.related)].reason}", "Failed"),
        ("{.items[?(@.related.name=='n')].count}", "12"),
        (
            r#"{range .items[*]}{.reason}={.count}{"\n"}{end}"#,
            "BackOff=7\nPulled=1\nFailed=12\n",
        ),
        (
            "{range .items[*]}[{.metadata.name}, {.type}] {end}",
            "[web.1, Warning] [web.2, Normal] [db.1, Warning] ",
        ),
        (
            "{range .items[*]}{range .metadata.labels.*}{@} {end}{end}",
            "web front ",
        ),
        ("{.items[2].related}", r#"{"name":"n"}"#),
        ("{.items[0].series}", ""),
        ("{.nothing.there}", ""),
        ("{.items[0].count.of}", ""),
        ("{'quoted'}", "quoted"),
        ("{.kind}{.kind}", "ListList"),
        ("", ""),
        ("{}", ""),
    ] {
        let parsed: Template = template.parse().unwrap();
        let rendered = parsed.render(&list());
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }
}

/// kubectl 1.32 fails for the same indexes.
#[test]
fn an_index_that_is_not_there_is_an_error() {
    let out = |index: i64| format!("array index out of bounds: index {index}, length 3");
    for (template, expected) in [
        ("{.items[3].reason}", out(3)),
        ("{.items[-4].reason}", out(-1)),
        ("{.items[0,7].reason}", out(7)),
        ("{.items[0:4].reason}", out(3)),
        ("{.items[5:9].reason}", out(5)),
        ("{.items[:-7].reason}", out(-5)),
        ("{..items[7]}", out(7)),
        ("{.kind}{range .items[7]}{.x}{end}", out(7)),
        (
            "{range .items[*]}{.type[0]}{end}",
            "a string is no array".to_owned(),
        ),
        ("{.items[0][0]}", "an object is no array".to_owned()),
        ("{.items[0].count[0:1]}", "a number is no array".to_owned()),
        ("{.kind[?(@.a)]}", "a string is no array".to_owned()),
        (
            r#"{.items[?(@.type[0]=="x")].reason}"#,
            "a string is no array".to_owned(),
        ),
        (
            "{.items[2:1].reason}",
            "starting index 2 is greater than ending index 1".to_owned(),
        ),
    ] {
        let parsed: Template = template.parse().unwrap();
        let error = parsed.render(&list()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{template}");
    }
    let empty: Template = "{.items[0].reason}".parse().unwrap();
    let error = empty.render(&json!({"items": []})).unwrap_err();
    assert!(error.to_string().ends_with("index 0, length 0"), "{error}");
}

#[test]
fn what_is_wrong_is_said() {
    for (template, complaint) in [
        ("{.kind", "{ without } at the end of \"{.kind\""),
        (
            "{kind}",
            "expected a path such as .metadata.name, quoted text, range or end at \"kind}\"",
        ),
        ("{range .items[*]}x", "{range …} without a following {end}"),
        ("{end}", "{end} without {range …} before it"),
        ("{.items[x]}", "expected an index"),
        ("{.items[0}", "expected \",\" or \"]\""),
        ("{.items[::0]}", "a slice's step must be above zero"),
        ("{.items[99999999999999999999]}", "expected a whole number"),
        (
            "{.items[?(@.a==)]}",
            "expected a path such as @.type, a number",
        ),
        ("{.items[?(@.a=='b]}", "a quote that is not closed"),
        ("{..}", "expected a field's name"),
    ] {
        let error = template.parse::<Template>().unwrap_err();
        assert!(error.contains(complaint), "{template}: {error}");
    }
    let deep = format!("{}{}", "{range .a}".repeat(100), "{end}".repeat(100));
    assert!(deep.parse::<Template>().unwrap_err().contains("too deep"));
}

#[test]
fn the_paths_of_columns_may_leave_out_braces_and_dot() {
    for text in [
        "metadata.name",
        ".metadata.name",
        "{.metadata.name}",
        "{metadata.name}",
    ] {
        let path: Path = text.parse().unwrap();
        let item = &list()["items"][0];
        assert_eq!(path.find(item, item).unwrap(), [&json!("web.1")], "{text}");
    }
    for text in ["{.a", ".a}", "", ".a b"] {
        assert!(text.parse::<Path>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(
        text in r#"(\{|\}|\[|\]|\(|\)|\.|\*|\?|@|\$|'|"|\\|,|:|-|==|<|range |end|a|items|0|9| |é)*"#,
    ) {
        if let Ok(template) = text.parse::<Template>() {
            let _ = template.render(&list());
        }
        let _ = text.parse::<Path>();
    }
}
