//! The timeline's answers: views and pages, their bounds, sessions, and live changes.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, header};
use serde_json::{Value, json};
use tidings_server::{ApiOptions, timeline};
use tower::ServiceExt;

use crate::backend;
use crate::support::{Answer, START, Server, event, events, timer};

mod causes;
mod table;

const API: &str = "/timeline/api";
const MINUTE: i64 = 60_000;

/// An event about a pod, at a time after the start in milliseconds.
fn about(pod: &str, name: &str, reason: &str, kind: &str, after: i64) -> Value {
    let at = jiff::Timestamp::from_millisecond(START + after).unwrap();
    let mut event = event("shop", name);
    event["involvedObject"]["name"] = pod.into();
    event["reason"] = reason.into();
    event["type"] = kind.into();
    event["firstTimestamp"] = at.to_string().into();
    event["lastTimestamp"] = at.to_string().into();
    event["count"] = 1.into();
    event
}

async fn send(server: &Server, request: Request<Body>) -> Answer {
    send_to(timeline(server.api.clone()), request).await
}

async fn send_to(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Answer {
        code: parts.status,
        headers: parts.headers,
        body: body.to_vec(),
    }
}

fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.to_owned().into()).unwrap()
}

async fn get(server: &Server, path: &str) -> Value {
    let headers = [("authorization", "Bearer s3cret")];
    let request = request(Method::GET, &format!("{API}/{path}"), &headers, "");
    send(server, request).await.expect(200)
}

async fn create(server: &Server, event: &Value) {
    let namespace = event["metadata"]["namespace"].as_str().unwrap();
    server.post(&events(namespace), event).await.expect(201);
}

#[tokio::test]
async fn a_picture_has_lanes_marks_and_rates() {
    let server = Server::new();
    for (pod, name, reason, kind, after) in [
        ("web-5d4f8c7b9-x7k2p", "a", "Pulled", "Normal", -20 * MINUTE),
        (
            "web-5d4f8c7b9-x7k2p",
            "b",
            "BackOff",
            "Warning",
            -10 * MINUTE,
        ),
        ("db-0", "c", "Started", "Normal", -5 * MINUTE),
        ("db-0", "d", "Started", "Normal", -90 * MINUTE),
    ] {
        create(&server, &about(pod, name, reason, kind, after)).await;
    }
    let found = get(&server, "view").await;
    let lanes = found["lanes"].as_array().unwrap();
    let lanes: Vec<_> = lanes
        .iter()
        .map(|lane| {
            (
                lane["name"].as_str().unwrap(),
                &lane["events"],
                &lane["warnings"],
            )
        })
        .collect();
    let one = json!(1);
    let none = json!(0);
    assert_eq!(
        lanes,
        [
            // It has no events, and is known by its pod's name.
            ("web", &none, &none),
            ("web-5d4f8c7b9-x7k2p", &json!(2), &one),
            ("db-0", &one, &none)
        ]
    );
    assert_eq!(found["complete"], true);
    assert_eq!((&found["read"], &found["total"]), (&json!(3), &json!(3)));
    // A server's own events have no state of following.
    let own = json!([{"cluster": "", "live": true, "state": null}]);
    assert_eq!(found["following"], own);
    assert_eq!(found["marks"].as_array().unwrap().len(), 3);
    for mark in found["marks"].as_array().unwrap() {
        assert_eq!(mark[5], 1);
        let event = &found["events"][usize::try_from(mark[7].as_i64().unwrap()).unwrap()];
        assert_eq!(event["namespace"], "shop");
    }
    let series = found["rates"]["series"].as_array().unwrap();
    let sum = |series: &Value| -> u64 {
        let values = series["values"].as_array().unwrap();
        values.iter().filter_map(Value::as_u64).sum()
    };
    let sums: Vec<_> = series
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), sum(it)))
        .collect();
    assert_eq!(sums, [("Normal", 2), ("Warning", 1)]);
    // Only the requested events are shown.
    for (query, expected) in [
        ("filter=type:warning", 1),
        ("filter=object:db-0", 1),
        ("filter=object:d*+-object:db-1", 1),
        ("filter=-object:db-0", 2),
        ("filter=-type:Warning", 2),
        ("filter=namespace:s*", 3),
        ("filter=-namespace:shop", 0),
        ("filter=node:node-*", 3),
        ("filter=-node:node-*", 0),
        ("filter=object:db-0&kind=Node", 0),
        ("filter=object:node/db-0", 0),
        ("filter=object:pod/db-0&kind=pod", 1),
        ("filter=reason:Started&filter=reason:Pulled", 2),
        ("filter=reason:Pull*+reason:Start*", 2),
        ("filter=%22RESTARTING%20failed%22", 3),
        ("filter=restarting+nothing", 0),
        ("filter=restarting+pulled", 1),
        ("filter=source:kubelet", 3),
        ("filter=source:other", 0),
        ("namespace=shop", 3),
        ("namespace=other", 0),
        ("cluster=&by=reason", 3),
    ] {
        let found = get(&server, &format!("view?{query}")).await;
        assert_eq!(found["read"], expected, "{query}");
    }
    // The lanes after the first.
    let found = get(&server, "view?skip=1").await;
    assert_eq!(found["lanes"].as_array().unwrap().len(), 1);
    assert_eq!(found["lanes"][0]["name"], "db-0");
    assert_eq!(found["more"], json!({ "next": 2, "lanes": 0, "events": 2 }));
    let overview = get(&server, "overview").await;
    assert_eq!(overview["user"], "ann");
    assert_eq!(overview["clusters"][0]["to"], START - 5 * MINUTE);
    assert_eq!(overview["clusters"][0]["from"], START - 90 * MINUTE);
    assert_eq!(overview["clusters"][0]["events"], 4);
}

/// Events in the future count as seen now in the last hour, as in `tidings top`. A range with an
/// end selects by the events' own times.
#[tokio::test]
async fn what_a_clock_that_is_ahead_dated_happens_now() {
    let server = Server::new();
    create(&server, &about("web-0", "now", "Pulled", "Normal", -MINUTE)).await;
    let mut ahead = about("api-1", "ahead", "BackOff", "Warning", 70 * MINUTE);
    ahead["firstTimestamp"] = about("", "", "", "", 60 * MINUTE)["firstTimestamp"].clone();
    ahead["count"] = 40.into();
    create(&server, &ahead).await;
    let range = format!("from={}&to={}", START - 60 * MINUTE, START + 1);
    for (query, expected) in [("", 2), (range.as_str(), 1)] {
        let view = get(&server, &format!("view?{query}")).await;
        assert_eq!(view["lanes"].as_array().unwrap().len(), expected, "{view}");
        let list = get(&server, &format!("events?{query}")).await;
        assert_eq!(list["items"].as_array().unwrap().len(), expected, "{list}");
    }
    let view = get(&server, "view").await;
    let lane = &view["lanes"][0];
    assert_eq!(
        (&lane["name"], &lane["warnings"]),
        (&json!("api-1"), &json!(1))
    );
    assert_eq!(
        (&lane["first"], &lane["last"]),
        (&json!(START), &json!(START))
    );
    assert_eq!(view["total"], 2);
    let series = view["rates"]["series"].as_array().unwrap();
    let counted = series
        .iter()
        .flat_map(|one| one["values"].as_array().unwrap());
    // Each occurrence counts.
    assert_eq!(counted.filter_map(Value::as_u64).sum::<u64>(), 41);
    // The list shows the event's own time.
    let list = get(&server, "events").await;
    assert_eq!(list["items"][0]["last"], START + 70 * MINUTE);
    let object = get(&server, "object?kind=Pod&namespace=shop&name=api-1").await;
    assert_eq!(object["items"].as_array().unwrap().len(), 1);
}

/// What the answers say equals what a scan of all events says.
#[tokio::test]
async fn what_is_said_is_of_the_whole_range() {
    let server = Server::new();
    let since = |mut event: Value, first: i64, count: i64| {
        let first = jiff::Timestamp::from_millisecond(START + first).unwrap();
        event["firstTimestamp"] = first.to_string().into();
        event["count"] = count.into();
        event
    };
    // Its last 100 events are of the last minutes, and the warnings before.
    for at in 0..250 {
        let kind = if at < 150 { "Warning" } else { "Normal" };
        let event = about(
            "web-0",
            &format!("e{at}"),
            "Probed",
            kind,
            (at - 250) * 10_000,
        );
        create(&server, &event).await;
    }
    // Since before the range, and until before its end.
    let held = about("db-0", "held", "FailedMount", "Warning", -10 * MINUTE);
    create(&server, &since(held, -300 * MINUTE, 30)).await;
    let disk = about(
        "db-0",
        "disk",
        "InvalidDiskCapacity",
        "Warning",
        -50 * MINUTE,
    );
    create(&server, &disk).await;

    let view = get(&server, "view").await;
    let firsts = view["firsts"]["warnings"].as_array().unwrap().iter();
    let firsts = firsts.map(|first| {
        let reason = first["reason"].as_str().unwrap();
        (reason, first["first"].as_i64().unwrap() - START)
    });
    assert_eq!(view["firsts"]["exact"], true);
    assert_eq!(
        firsts.collect::<Vec<_>>(),
        [
            ("FailedMount", -300 * MINUTE),
            ("InvalidDiskCapacity", -50 * MINUTE),
            ("Probed", -2_500_000),
        ]
    );
    // Of the 30 occurrences, which are ten minutes apart, five are within the hour.
    let series = view["rates"]["series"].as_array().unwrap().iter();
    let sums: Vec<(&str, u64)> = series
        .map(|one| {
            let values = one["values"].as_array().unwrap().iter();
            (
                one["name"].as_str().unwrap(),
                values.filter_map(Value::as_u64).sum(),
            )
        })
        .collect();
    assert_eq!(sums, [("Warning", 156), ("Normal", 100)]);
    assert_eq!(view["rates"]["estimated"], true);
    assert_eq!(view["counted"], "occurrences");
    // Each event once, where it was last seen.
    let once = get(&server, "view?count=events").await;
    let values = once["rates"]["series"][0]["values"].as_array().unwrap();
    let sum = values.iter().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(
        (&once["rates"]["series"][0]["name"], sum),
        (&json!("Warning"), 152)
    );
    assert_eq!(once["rates"]["estimated"], false);
    assert_eq!(once["counted"], "events");
    let mark = view["marks"].as_array().unwrap().iter();
    let mut held =
        mark.filter(|mark| view["reasons"][mark[6].as_u64().unwrap() as usize] == "FailedMount");
    assert_eq!(held.next().unwrap()[1], START - 300 * MINUTE);

    let object = get(&server, "object?kind=Pod&namespace=shop&name=web-0").await;
    let sentence = object["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with(
            "web-0: 150 warnings and 100 other events in 41 min 30 s, about every 10 s"
        ),
        "{sentence}"
    );
    assert_eq!(object["items"].as_array().unwrap().len(), 100);
    let summary = &object["summary"];
    assert_eq!(
        (
            &summary["first"],
            &summary["occurrences"],
            &summary["complete"]
        ),
        (&json!(START - 2_500_000), &json!(250), &json!(true))
    );
    let overview = get(&server, "overview").await;
    assert_eq!(overview["clusters"][0]["from"], START - 300 * MINUTE);
    assert_eq!(overview["clusters"][0]["fromIsExact"], true);
}

/// More events than are read of a namespace: the oldest one is searched for.
#[tokio::test]
async fn the_oldest_of_many_events_is_found() {
    let mut options = ApiOptions::default();
    options.event_ttl = std::time::Duration::from_secs(86_400 * 30);
    let server = Server::with(options);
    for at in 0..2001 {
        let after = -at * 10 * MINUTE;
        let event = about("web-0", &format!("e{at}"), "Probed", "Normal", after);
        create(&server, &event).await;
    }
    let overview = get(&server, "overview?namespace=shop").await;
    let cluster = &overview["clusters"][0];
    assert_eq!(cluster["from"], START - 20_000 * MINUTE);
    assert_eq!(cluster["fromIsExact"], false);
}

/// Objects are distinguished as in `tidings top` and `describe`.
#[tokio::test]
async fn pods_of_one_name_have_a_lane_each() {
    let server = Server::new();
    for (name, uid) in [("a", "aaaa"), ("b", "aaaa"), ("c", "bbbb")] {
        let mut event = about("redis-0", name, "Started", "Normal", -MINUTE);
        event["involvedObject"]["uid"] = uid.into();
        create(&server, &event).await;
    }
    let found = get(&server, "view").await;
    let lanes = found["lanes"].as_array().unwrap().iter();
    let lanes = lanes.map(|lane| {
        (
            lane["uid"].as_str().unwrap(),
            &lane["events"],
            &lane["apart"],
        )
    });
    let (is, one, two) = (json!(true), json!(1), json!(2));
    assert_eq!(
        lanes.collect::<Vec<_>>(),
        [("aaaa", &two, &is), ("bbbb", &one, &is)]
    );
}

#[tokio::test]
async fn a_picture_of_more_than_is_read_is_of_all_its_parts_with_the_warnings_first() {
    let mut options = ApiOptions::default();
    options.timeline.read_limit = 400;
    options.event_ttl = std::time::Duration::from_secs(86_400 * 30);
    let server = Server::with(options);
    // A thousand events in a day, of which a few are warnings, and a flood in the last hour.
    for at in 0..1000 {
        let after = match at % 2 {
            0 => -at * 86_400,
            _ => -at * 3600,
        };
        let kind = if at % 50 == 0 { "Warning" } else { "Normal" };
        let reason = if at % 50 == 0 { "BackOff" } else { "Pulled" };
        let name = format!("e{at}");
        create(
            &server,
            &about(&format!("web-{}", at % 20), &name, reason, kind, after),
        )
        .await;
    }
    // One change, in the flood.
    let change = about("node-1", "change", "NodeNotReady", "Normal", -30 * MINUTE);
    create(&server, &change).await;
    let range = format!("from={}&to={}", START - 86_400_000, START + 1);
    let found = get(&server, &format!("view?{range}")).await;
    assert_eq!(found["complete"], false);
    let read = found["read"].as_u64().unwrap();
    assert!((200..=500).contains(&read), "{read}");
    // The total comes from the store's counts by hour.
    let total = found["total"].as_u64().unwrap();
    assert!((950..=1050).contains(&total), "{total}");
    let mut warnings = 0;
    let mut hours = std::collections::BTreeSet::new();
    for mark in found["marks"].as_array().unwrap() {
        if mark[3] == 1 {
            warnings += mark[5].as_u64().unwrap();
        }
        hours.insert((mark[2].as_i64().unwrap() - START + 86_400_000) / 3_600_000);
    }
    assert_eq!(warnings, 20);
    assert!(hours.len() > 20, "{hours:?}");
    let lanes = found["lanes"].as_array().unwrap();
    assert!(
        lanes.iter().any(|lane| lane["name"] == "node-1"),
        "a change is read"
    );
    // The first warning is that of all, though few events are read.
    assert_eq!(found["firsts"]["exact"], true);
    let firsts = found["firsts"]["warnings"].as_array().unwrap();
    assert_eq!((firsts.len(), &firsts[0]["name"]), (1, &json!("e950")));
    // By less than the hour, and as many as there are.
    let rates = &found["rates"];
    assert_eq!(
        (&rates["step"], &rates["estimated"]),
        (&json!(900_000), &json!(true))
    );
    let values = rates["series"].as_array().unwrap().iter();
    let values = values.flat_map(|one| one["values"].as_array().unwrap());
    assert_eq!(values.filter_map(Value::as_u64).sum::<u64>(), total);
    let series = found["rates"]["series"].as_array().unwrap();
    let names: Vec<_> = series
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Normal", "Warning"]);
    // Maximum length of any answer.
    let huge = get(&server, "view?from=-99999999999999999&to=99999999999999999").await;
    assert!(huge["marks"].as_array().unwrap().len() <= 2000);
    assert!(huge["lanes"].as_array().unwrap().len() <= 300);
}

#[tokio::test]
async fn the_first_warning_of_a_reason_or_an_object_is_that_of_all() {
    let mut options = ApiOptions::default();
    options.timeline.read_limit = 40;
    options.event_ttl = std::time::Duration::from_secs(86_400 * 30);
    let server = Server::with(options);
    for at in 0..600 {
        let kind = if at % 2 == 0 { "Warning" } else { "Normal" };
        let reason = if at % 2 == 0 { "BackOff" } else { "Pulled" };
        let pod = format!("web-{}", at % 3);
        let event = about(&pod, &format!("e{at:03}"), reason, kind, -at * 120_000);
        create(&server, &event).await;
    }
    let range = format!("from={}&to={}", START - 86_400_000, START + 1);
    for (filter, exact, first) in [
        ("reason:BackOff", true, json!("e598")),
        ("object:web-1", true, json!("e598")),
        ("object:Pod/web-0", true, json!("e594")),
        // As a rule, a reason is of one type: no warning is looked for.
        ("reason:Pulled", false, Value::Null),
    ] {
        let found = get(&server, &format!("view?{range}&filter={filter}")).await;
        assert_eq!(found["complete"], false, "{filter}");
        let firsts = &found["firsts"];
        assert_eq!(
            (&firsts["exact"], &firsts["warnings"][0]["name"]),
            (&json!(exact), &first),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn a_quiet_object_does_not_vanish_behind_a_chatty_one() {
    let mut options = ApiOptions::default();
    options.timeline.read_limit = 200;
    let server = Server::with(options);
    // Before each burst of one pod another pod says one thing.
    for burst in 0..32 {
        let at = -burst * 3_600_000 / 33 - 1000;
        for number in 0..20 {
            let name = format!("chatty-{burst}-{number}");
            create(
                &server,
                &about("loud-0", &name, "Probed", "Normal", at - number * 50),
            )
            .await;
        }
        let pod = format!("quiet-{burst}");
        create(&server, &about(&pod, &pod, "Deployed", "Normal", at - 5000)).await;
    }
    let found = get(&server, "view").await;
    assert_eq!(
        (&found["complete"], &found["read"]),
        (&json!(true), &json!(672))
    );
    // The quiet ones are a family by their names.
    let lanes = found["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 34);
    assert_eq!(
        (&lanes[0]["name"], &lanes[0]["events"]),
        (&json!("loud-0"), &json!(640))
    );
    let marks = found["marks"].as_array().unwrap().iter();
    assert_eq!(
        marks.map(|mark| mark[5].as_u64().unwrap()).sum::<u64>(),
        672
    );
    let values = found["rates"]["series"][0]["values"]
        .as_array()
        .unwrap()
        .iter();
    assert_eq!(values.filter_map(Value::as_u64).sum::<u64>(), 672);
}

#[tokio::test]
async fn large_events_are_a_few_to_an_answer() {
    const BYTES_MAX: usize = 10 << 20;
    let server = Server::new();
    let message = "m".repeat(1_400_000);
    let names: Vec<String> = (0..20).map(|at| format!("e{at}")).collect();
    for (at, name) in (0..).zip(&names) {
        let mut event = about("web-0", name, "Pulled", "Normal", -at * 1000);
        event["message"] = message.clone().into();
        create(&server, &event).await;
    }
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in &names {
        let page = get(&server, &format!("events?limit=500&continue={token}")).await;
        assert!(page.to_string().len() < BYTES_MAX);
        let items = page["items"].as_array().unwrap().iter();
        found.extend(items.map(|item| item["name"].as_str().unwrap().to_owned()));
        match page["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(found, names);
    for path in [
        "object?kind=Pod&namespace=shop&name=web-0",
        "event?namespace=shop&name=e0",
    ] {
        let answer = get(&server, path).await;
        assert!(answer.to_string().len() < 2 * BYTES_MAX, "{path}");
    }
}

#[tokio::test]
async fn pages_have_every_event_once_and_in_order() {
    let server = Server::new();
    for at in 0..40 {
        // Ten events in each second.
        let after = -(at / 10) * MINUTE;
        let event = about("web-0", &format!("e{at}"), "Pulled", "Normal", after);
        create(&server, &event).await;
    }
    for limit in [1, 3, 7, 10, 40, 100] {
        let mut names = Vec::new();
        let mut before = i64::MAX;
        let mut token = String::new();
        for _ in 0..=40 {
            let page = get(&server, &format!("events?limit={limit}&continue={token}")).await;
            assert_eq!(page["complete"], true);
            for item in page["items"].as_array().unwrap() {
                let last = item["last"].as_i64().unwrap();
                assert!(last <= before);
                before = last;
                names.push(item["name"].as_str().unwrap().to_owned());
            }
            match page["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(names.len(), 40, "{limit}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 40, "{limit}");
    }
}

#[tokio::test]
async fn an_object_is_shown_as_it_was_in_the_range_whatever_came_later() {
    let server = Server::new();
    let created = |name: &str, after: i64| {
        let mut event = about("report", name, "SuccessfulCreate", "Normal", after);
        event["involvedObject"]["kind"] = "CronJob".into();
        event["message"] = format!("Created job report-{name}").into();
        event
    };
    for at in 0..3 {
        let event = created(&format!("e{at}"), (at - 600) * MINUTE);
        create(&server, &event).await;
    }
    for at in 0..500 {
        let event = created(&format!("later{at}"), (at - 501) * MINUTE);
        create(&server, &event).await;
    }
    // An event that began in the range, and was seen again just now.
    let mut again = created("again", -599 * MINUTE);
    let now = jiff::Timestamp::from_millisecond(START).unwrap();
    again["lastTimestamp"] = now.to_string().into();
    create(&server, &again).await;
    let range = format!("from={}&to={}", START - 601 * MINUTE, START - 590 * MINUTE);
    let path = format!("object?kind=CronJob&namespace=shop&name=report&{range}");
    let found = get(&server, &path).await;
    let items = found["items"].as_array().unwrap().iter();
    let names: Vec<_> = items.map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["again", "e2", "e1", "e0"]);
    let job = json!({
        "kind": "Job",
        "namespace": "shop",
        "name": "report-e1",
        "relation": "owned",
    });
    let family = found["family"].as_array().unwrap();
    assert!(family.contains(&job), "{family:?}");
}

#[tokio::test]
async fn exports_are_read_by_others() {
    let server = Server::new();
    create(
        &server,
        &about("web-0", "a", "Pulled", "Normal", -2 * MINUTE),
    )
    .await;
    create(&server, &about("web-1", "b", "Pulled", "Normal", -MINUTE)).await;
    let headers = [("authorization", "Bearer s3cret")];
    let lines = request(Method::GET, &format!("{API}/export"), &headers, "");
    let lines = send(&server, lines).await;
    let names: Vec<_> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["b", "a"]);
    let trace = get(&server, "export?format=perfetto").await;
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = events.iter().filter(|event| event["ph"] == "X");
    assert_eq!(slices.count(), 2);
}

/// Reads the lines of a stream up to one with this prefix.
async fn read_until(body: &mut axum::body::BodyDataStream, start: &str) -> Option<Value> {
    let mut text = String::new();
    while let Some(chunk) = body.next().await {
        text += std::str::from_utf8(&chunk.unwrap()).unwrap();
        if let Some(message) = text
            .split("\n\n")
            .find(|message| message.starts_with(start))
            && text.ends_with("\n\n")
        {
            let data = message
                .split_once("data: ")
                .map_or("null", |(_, data)| data);
            return Some(serde_json::from_str(data).unwrap());
        }
    }
    None
}

#[tokio::test]
async fn changes_are_sent_as_they_happen() {
    let server = Server::new();
    let position = get(&server, "view").await["position"].clone();
    let position = position.as_str().unwrap();
    let live = |query: String| {
        let headers = [("authorization", "Bearer s3cret")];
        let path = format!("{API}/live?{query}");
        timeline(server.api.clone()).oneshot(request(Method::GET, &path, &headers, ""))
    };
    let query = format!("position={position}&filter=reason:Pulled");
    let response = live(query.clone()).await.unwrap();
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        "text/event-stream"
    );
    let mut body = response.into_body().into_data_stream();
    create(&server, &about("web-0", "a", "BackOff", "Warning", 0)).await;
    create(&server, &about("web-0", "b", "Pulled", "Normal", 0)).await;
    let change = read_until(&mut body, "event: change").await.unwrap();
    assert_eq!(change["items"].as_array().unwrap().len(), 1);
    assert_eq!(change["items"][0]["name"], "b");
    // From the message's position on, no change is missed or repeated.
    let next = change["position"].as_str().unwrap();
    let mut again = live(format!("position={next}"))
        .await
        .unwrap()
        .into_body()
        .into_data_stream();
    server
        .delete("/api/v1/namespaces/shop/events/b")
        .await
        .expect(200);
    let gone = read_until(&mut again, "event: change").await.unwrap();
    assert_eq!(
        (&gone["gone"], gone["items"].as_array().unwrap().len()),
        (&json!(1), 0)
    );
    // Events of a flood that are not shown are counted.
    for at in 0..150 {
        let name = format!("flood{at}");
        create(&server, &about("web-0", &name, "Pulled", "Normal", 0)).await;
    }
    let mut counted = 0;
    while counted < 150 {
        let change = read_until(&mut again, "event: change").await.unwrap();
        let items = change["items"].as_array().unwrap().len();
        assert!(items <= 100);
        counted += items as u64 + change["more"].as_u64().unwrap();
    }
    assert_eq!(counted, 150);
    // A stream cannot continue at a compacted position.
    server.store.compact(server.store.revision()).await.unwrap();
    let mut late = live(query).await.unwrap().into_body().into_data_stream();
    assert!(read_until(&mut late, "event: restart").await.is_some());
    // Streams end with the server.
    server.api.stop();
    assert_eq!(read_until(&mut body, "event: never").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_login_whose_body_does_not_come_is_answered_all_the_same() {
    if !backend::time_may_stop() {
        return;
    }
    let server = Server::new();
    let headers = [
        ("host", "events.example"),
        ("origin", "https://events.example"),
    ];
    let mut login = request(Method::POST, "/timeline/login", &headers, "");
    *login.body_mut() = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let asked = timer();
    let answer = send(&server, login).await;
    assert_eq!(answer.code, 504);
    let time = ApiOptions::default().read_header_timeout;
    assert_eq!(asked.elapsed().as_secs(), time.as_secs());
}

#[tokio::test]
async fn a_browser_logs_in_and_out() {
    let server = Server::new();
    // One router, because it has the sessions.
    let router = timeline(server.api.clone());
    let host = ("host", "events.example:6443");
    let origin = ("origin", "https://events.example:6443");
    let json = ("content-type", "application/json");
    let login = |headers: &[(&'static str, &'static str)], body: &'static str| {
        let request = request(Method::POST, "/timeline/login", headers, body);
        send_to(router.clone(), request)
    };
    let good = r#"{"token":"s3cret"}"#;
    for (headers, body, code) in [
        (vec![host, origin, json], r#"{"token":"wrong"}"#, 401),
        (vec![host, origin, json], r#"{"token":""}"#, 401),
        (vec![host, origin, json], r#"{"token":"a\nb"}"#, 401),
        (vec![host, origin, json], "s3cret", 400),
        // The request is made by a page of another host, or has no Origin.
        (vec![host, json], good, 403),
        (
            vec![host, ("origin", "https://evil.example"), json],
            good,
            403,
        ),
        (vec![host, ("origin", "null"), json], good, 403),
        (vec![origin, json], good, 400),
    ] {
        let answer = login(&headers, body).await;
        assert_eq!(answer.code, code, "{headers:?} {body}");
        assert_eq!(answer.header("set-cookie"), "");
        assert!(!answer.text().contains("s3cret"));
    }
    let form = ("content-type", "application/x-www-form-urlencoded");
    let answer = login(&[host, origin, form], "token=s3cret").await;
    assert_eq!(answer.code, 204);
    let answer = login(&[host, origin, json], good).await;
    assert_eq!(answer.code, 204);
    let cookie = answer.header("set-cookie").to_owned();
    let (session, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(
        attributes,
        "Path=/timeline; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    );
    assert!(!cookie.contains("s3cret"));
    let ask = |headers: &[(&str, &str)]| {
        let request = request(Method::GET, "/timeline/api/overview", headers, "");
        let answer = send_to(router.clone(), request);
        async { answer.await.code.as_u16() }
    };
    let shown = ("cookie", session);
    assert_eq!(ask(&[host, shown]).await, 200);
    assert_eq!(ask(&[host]).await, 401);
    assert_eq!(ask(&[("host", "evil.example:6443"), shown]).await, 401);
    assert_eq!(
        ask(&[host, shown, ("sec-fetch-site", "cross-site")]).await,
        403
    );
    assert_eq!(
        ask(&[host, shown, ("sec-fetch-site", "same-origin")]).await,
        200
    );
    // No impersonation header of a session's request is used or ignored.
    for name in ["impersonate-user", "impersonate-group", "impersonate-uid"] {
        assert_eq!(ask(&[host, shown, (name, "bob")]).await, 400, "{name}");
    }
    // Credentials of the request take precedence over the session.
    assert_eq!(
        ask(&[host, shown, ("authorization", "Bearer wrong")]).await,
        401
    );
    // The rest of the server does not accept sessions.
    let api = request(Method::GET, "/api/v1/events", &[host, shown], "");
    assert_eq!(server.send(api).await.code, 401);
    let logout = request(Method::POST, "/timeline/logout", &[host, origin, shown], "");
    let answer = send_to(router.clone(), logout).await;
    assert_eq!(answer.code, 204);
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(ask(&[host, shown]).await, 401);
    // The page is for all clients, and its files do not depend on a session.
    let page = send_to(
        router.clone(),
        request(Method::GET, "/timeline", &[host], ""),
    )
    .await;
    assert_eq!(page.code, 200);
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
}

#[tokio::test]
async fn a_session_has_an_end() {
    let server = Server::new();
    let host = ("host", "a");
    let headers = [
        host,
        ("origin", "https://a"),
        ("content-type", "application/json"),
    ];
    // One router, because it has the sessions.
    let router = timeline(server.api.clone());
    let body = r#"{"token":"s3cret"}"#;
    let login = request(Method::POST, "/timeline/login", &headers, body);
    let answer = router.clone().oneshot(login).await.unwrap();
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    let (session, _) = cookie.split_once(';').unwrap();
    let ask = async || {
        let headers = [host, ("cookie", session)];
        let request = request(Method::GET, "/timeline/api/overview", &headers, "");
        router
            .clone()
            .oneshot(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(ask().await, 200);
    server.clock.advance(12 * 3_600_000 - 1);
    assert_eq!(ask().await, 200);
    server.clock.advance(1);
    assert_eq!(ask().await, 401);
}
