//! Hostile input for the timeline's paths of a server.

use http::Method;

use super::kind::{Kind, few, kind, large};
use super::script::{Act, Ask, JSON, Script, large_events};

/// The timeline's kinds of answers, except the live stream, which does not end.
const ANSWERS: [&str; 6] = ["overview", "view", "events", "object", "event", "export"];

pub(super) const TIMELINE: &[Kind] = &[
    kind("timeline: unknown query parameters", 15_000, |n, _| {
        every_answer(&"a=b&".repeat(n))
    }),
    kind("timeline: too many values of a filter", 5_000, |n, _| {
        every_answer(&"namespace=a&".repeat(n))
    }),
    kind("timeline: a long value of a filter", 60_000, |n, _| {
        every_answer(&format!("reason={}", "a".repeat(n)))
    }),
    kind("timeline: digits of a time", 60_000, |n, _| {
        every_answer(&format!("from={}", "1".repeat(n)))
    }),
    kind("timeline: values of every filter", 49, |n, ns| {
        let filters = ["namespace", "kind", "object", "reason", "type", "source"];
        let values = filters.map(|filter| {
            let values = (0..n).map(|i| format!("{filter}={i}{}&", "v".repeat(150)));
            values.collect::<String>()
        });
        let texts = format!("text={}&", "m".repeat(500)).repeat(4);
        let query = values.concat() + &texts + "namespace=" + ns;
        every_answer(&query).after(few(ns, 200))
    }),
    kind("timeline: long paths", 60_000, |n, _| {
        let long = "a".repeat(n);
        let paths = ["", "/", "/assets/", "/api/", "/login/"];
        let ask = |path| Ask::get(format!("/timeline{path}{long}")).without_token();
        paths.map(ask).to_vec().into()
    }),
    kind("timeline: cookies", 90_000, |n, _| {
        let view = Ask::get("/timeline/api/view").without_token();
        view.header("cookie", "a=b;".repeat(n)).into()
    }),
    kind("timeline: a long cookie", 380_000, |n, _| {
        let view = Ask::get("/timeline/api/view").without_token();
        let cookie = format!("tidings-timeline={}", "a".repeat(n));
        view.header("cookie", cookie).into()
    }),
    kind("timeline: a login with a long token", 3_000_000, |n, _| {
        login(JSON, format!("{{\"token\":\"{}\"}}", "t".repeat(n)))
    }),
    kind("timeline: a nested login", 60_000, |n, _| {
        login(JSON, "[".repeat(n))
    }),
    kind("timeline: a login with many fields", 8_000, |n, _| {
        login("application/x-www-form-urlencoded", "token=a&".repeat(n))
    }),
    kind("timeline: the code of a link", 60_000, |n, _| {
        Ask::get(format!("/timeline/enter?code={}", "a".repeat(n)))
            .without_token()
            .into()
    }),
    kind("timeline: reads with a body", 3_000_000, |n, _| {
        let asks = ANSWERS.map(|answer| asked(answer, "").body(JSON, "a".repeat(n)));
        asks.to_vec().into()
    }),
    kind("timeline: writes to what is read", 3_000_000, |n, _| {
        let ask = |answer| Ask::new(Method::POST, format!("/timeline/api/{answer}"));
        let asks = ANSWERS.map(|answer| ask(answer).body(JSON, "a".repeat(n)));
        asks.to_vec().into()
    }),
    kind("timeline: positions of live changes", 6_000, |n, ns| {
        let target = format!("/timeline/api/live?position={}", "judge=1,".repeat(n));
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: {ns}\r\nauthorization: Bearer admin-token\r\n\r\n"
        );
        Act::Bytes(None, request.into_bytes()).into()
    }),
    Kind {
        // The namespaces of other rounds would be counted too.
        alone: true,
        ..kind("timeline: events in as many namespaces", 1_600, |n, ns| {
            let events = (0..n).map(|i| Ask::event(&format!("{ns}-{i}"), "", ""));
            every_answer("").after(events)
        })
    },
    kind("timeline: events of as many objects", 1_600, |n, ns| {
        let events = (0..n).map(|i| {
            let (kind, name) = match i % 3 {
                0 => ("Pod", format!("web{}-5d4f8c7b9-x7k2p", i / 3)),
                1 => ("ReplicaSet", format!("web{}-5d4f8c7b9", i / 3)),
                _ => ("Deployment", format!("web{}", i / 3)),
            };
            about(ns, i, kind, &name)
        });
        every_answer(&format!("namespace={ns}&by=reason")).after(events)
    }),
    kind("timeline: events of one object", 1_600, |n, ns| {
        let of = |answer, query: &str| asked(answer, &format!("namespace={ns}&{query}"));
        Script::from(vec![
            of("view", ""),
            of("events", "limit=500"),
            of("object", "kind=Pod&name=web"),
            of("event", "name=few.0"),
        ])
        .after(few(ns, n))
    }),
    kind("timeline: a name with many parts", 60_000, |n, ns| {
        let event = about(
            ns,
            0,
            "PersistentVolumeClaim",
            &format!("{}0", "a-".repeat(n)),
        );
        every_answer(&format!("namespace={ns}")).after([event])
    }),
    large("timeline: a picture of large events", 40, |n, ns| {
        of_large(n, ns, "view", "")
    }),
    large("timeline: texts of large events", 40, |n, ns| {
        let texts = format!("text={}&", "a".repeat(500)).repeat(4);
        of_large(n, ns, "view", &texts)
    }),
    large("timeline: a page of large events", 40, |n, ns| {
        of_large(n, ns, "events", "limit=500")
    }),
    large("timeline: an object with large events", 40, |n, ns| {
        of_large(n, ns, "object", "kind=Pod&name=web")
    }),
    large("timeline: an event beside large events", 40, |n, ns| {
        of_large(n, ns, "event", "name=large.0")
    }),
    large("timeline: an export of large events", 40, |n, ns| {
        of_large(n, ns, "export", "format=jsonl")
    }),
    large(
        "timeline: an export of large events as a trace",
        40,
        |n, ns| of_large(n, ns, "export", "format=perfetto"),
    ),
];

fn asked(answer: &str, query: &str) -> Ask {
    Ask::get(format!("/timeline/api/{answer}?{query}"))
}

fn every_answer(query: &str) -> Script {
    ANSWERS.map(|answer| asked(answer, query)).to_vec().into()
}

/// Sends a login, with the origin of the server's own page.
fn login(content_type: &str, body: String) -> Script {
    let login = Ask::new(Method::POST, "https://a/timeline/login").without_token();
    let login = login.header("origin", "https://a");
    login.body(content_type, body).into()
}

/// Creates the event of this number about an object, with a reason that no other has.
fn about(namespace: &str, number: usize, kind: &str, object: &str) -> Ask {
    let body = format!(
        "{{\"metadata\":{{\"name\":\"object.{number}\",\"namespace\":\"{namespace}\"}},\
         \"involvedObject\":{{\"kind\":\"{kind}\",\"namespace\":\"{namespace}\",\"name\":\"{object}\"}},\
         \"reason\":\"Reason{number}\",\"type\":\"Normal\"}}"
    );
    Ask::create(namespace, JSON, body)
}

fn of_large(count: usize, namespace: &str, answer: &str, query: &str) -> Script {
    let query = format!("namespace={namespace}&{query}");
    Script::from(asked(answer, &query)).after(large_events(namespace, count))
}
