//! Tests of watches with scripted answers of the server.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::cluster::{CommandError, Server};
use super::page::{EVENTS_MAX, Group, PAGE, Reader};
use super::watch::{FORBIDDEN_MAX, Notice, Watched};
use tidings_cli::event::Event;
use tidings_cli::filter::Filter;

/// The server's reaction to one request: an answer, or none.
type Answer = Option<(u16, String)>;

fn event(name: &str, revision: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": revision.to_string()}})
}

#[expect(clippy::unnecessary_wraps, reason = "an answer may also be none")]
fn list(revision: u64, events: &[Value]) -> Answer {
    let list = json!({"kind": "EventList", "metadata": {"resourceVersion": revision.to_string()}, "items": events});
    Some((200, list.to_string()))
}

#[expect(clippy::unnecessary_wraps, reason = "an answer may also be none")]
fn watch(changes: &[(&str, Value)]) -> Answer {
    let lines = changes
        .iter()
        .map(|(kind, object)| json!({"type": kind, "object": object}).to_string() + "\n");
    Some((200, lines.collect()))
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "x", "message": "said so"})
}

/// A reader of all events of a server.
pub(crate) fn reader<S>(service: S) -> Reader
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
{
    Reader {
        server: Server {
            client: Client::new(service, "default"),
            timeout: None,
        },
        group: Group::default(),
        namespace: String::new(),
        filter: Filter::default(),
        seen_before: None,
        events_max: EVENTS_MAX,
        rbac: "events",
    }
}

/// Returns what a watch after revision 5 passes on while the server gives these answers, and the
/// requests it makes. The watch ends with the script, by a 422.
async fn watched(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::new(Mutex::new(VecDeque::from(answers)));
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let revision = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="));
        log.lock()
            .unwrap()
            .push(revision.map_or("list".to_owned(), |revision| format!("watch {revision}")));
        let last = || Some((422, status(422).to_string()));
        let answer = script.lock().unwrap().pop_front().unwrap_or_else(last);
        std::future::ready(match answer {
            None => Err(std::io::Error::other("connection reset")),
            Some((code, body)) => Ok(http::Response::builder()
                .status(code)
                .body(Body::from(body.into_bytes()))
                .unwrap()),
        })
    });
    let reader = reader(service);
    let mut given = Vec::new();
    let ended = reader
        .watch("5", |watched| {
            given.push(match watched {
                Watched::Event(event) => event.name().to_owned(),
                Watched::Notice(Notice::Interrupted(_)) => "interrupted".to_owned(),
                Watched::Notice(Notice::Resumed) => "resumed".to_owned(),
                Watched::Notice(Notice::Relisted) => "relisted".to_owned(),
                Watched::Notice(Notice::NewHistory) => "new history".to_owned(),
            });
            Ok(ControlFlow::Continue(()))
        })
        .await;
    assert!(matches!(ended, Err(CommandError::Refused { .. })));
    let asked = asked.lock().unwrap().clone();
    (given, asked)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_what_it_saw_last() {
    let bookmark =
        json!({"metadata": {"resourceVersion": "9"}, "kind": "Event", "apiVersion": "v1"});
    let (given, asked) = watched(vec![
        watch(&[("ADDED", event("a", 6)), ("DELETED", event("old", 7))]),
        watch(&[("MODIFIED", event("a", 8)), ("BOOKMARK", bookmark)]),
        None,
        Some((503, status(503).to_string())),
        watch(&[("ADDED", event("b", 10))]),
    ])
    .await;
    assert_eq!(given, ["a", "a", "interrupted", "resumed", "b"]);
    assert_eq!(
        asked,
        [
            "watch 5", "watch 7", "watch 9", "watch 9", "watch 9", "watch 10"
        ]
    );
}

/// A restarted kube-apiserver refuses every user until it has read its roles.
#[tokio::test(start_paused = true)]
async fn what_was_allowed_before_may_be_forbidden_for_a_while() {
    let forbidden = || Some((403, status(403).to_string()));
    let (given, asked) = watched(vec![
        watch(&[("ADDED", event("a", 6))]),
        None,
        forbidden(),
        forbidden(),
        watch(&[("ADDED", event("b", 7))]),
    ])
    .await;
    assert_eq!(given, ["a", "interrupted", "resumed", "b"]);
    assert_eq!(asked.len(), 6);

    // A user who may list but not watch gets the error at once; a user who lost a permission, after
    // some minutes.
    let forever = || std::iter::repeat_with(forbidden).take(100);
    let (given, asked) = watched(forever().collect()).await;
    assert_eq!((given.len(), asked.len()), (0, 1));
    let (given, asked) = watched(std::iter::once(watch(&[])).chain(forever()).collect()).await;
    assert_eq!(given, ["interrupted"]);
    assert_eq!(asked.len(), 2 + FORBIDDEN_MAX as usize);
}

/// A server that does not support `order` answers by names. Its pages must not be as small as the
/// requested number.
#[tokio::test]
async fn the_last_few_of_a_server_without_their_order_cost_no_request_each() {
    const EVENTS: usize = 2_000;
    let limits = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&limits);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let number = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            let value = pairs.find_map(|(key, value)| (key == name).then_some(value));
            value.map_or(0, |value| value.parse::<usize>().unwrap())
        };
        let (limit, from) = (number("limit"), number("continue"));
        log.lock().unwrap().push(limit);
        let to = EVENTS.min(from + limit);
        let items: Vec<Value> = (from..to)
            .map(|index| {
                let mut event = event(&format!("event.{index}"), 5);
                // The last seen events are in the middle of the list.
                let second = (index + EVENTS / 2) % EVENTS;
                let (minute, second) = (second / 60, second % 60);
                event["lastTimestamp"] = json!(format!("2026-03-04T05:{minute:02}:{second:02}Z"));
                event
            })
            .collect();
        let next = if to < EVENTS {
            to.to_string()
        } else {
            String::new()
        };
        let list = json!({"kind": "EventList", "metadata": {"resourceVersion": "9", "continue": next}, "items": items});
        std::future::ready(Ok::<_, std::io::Error>(http::Response::new(Body::from(
            list.to_string().into_bytes(),
        ))))
    });
    let mut reader = reader(service);
    let listed = reader.list(Some(2)).await.unwrap();
    let names: Vec<_> = listed.events.iter().map(Event::name).collect();
    assert_eq!(names, ["event.998", "event.999"]);
    assert_eq!(*limits.lock().unwrap(), [22, PAGE, PAGE, PAGE, PAGE]);

    // Too many events to sort are refused as soon as they are too many.
    limits.lock().unwrap().clear();
    reader.events_max = 1_200;
    let refused = reader.list(None).await.err();
    assert!(matches!(
        refused,
        Some(CommandError::TooMany { max: 1_200 })
    ));
    assert_eq!(*limits.lock().unwrap(), [PAGE; 3]);
    assert!(reader.list(Some(2)).await.is_ok());
}

/// A page of a scan with the named events.
fn scanned_page(names: &[&str], next: &str) -> (u16, String) {
    let events: Vec<Value> = names.iter().map(|name| event(name, 5)).collect();
    let metadata = json!({"resourceVersion": "9", "continue": next, "remainingItemCount": 2});
    let list = json!({"kind": "EventList", "metadata": metadata, "items": events});
    (200, list.to_string())
}

fn forgotten() -> (u16, String) {
    (410, status(410).to_string())
}

/// Returns what a scan after a key passes on, page by page with the totals, how it ends, and
/// whether its list can be continued. The server gives these answers, with this header about its
/// order.
async fn scanned(
    behind: Option<&str>,
    header: Option<&'static str>,
    answers: Vec<(u16, String)>,
) -> (
    Vec<String>,
    Vec<Option<u64>>,
    Result<(), CommandError>,
    bool,
) {
    let script = Mutex::new(VecDeque::from(answers));
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let (code, body) = script.lock().unwrap().pop_front().unwrap();
        let mut answer = http::Response::builder().status(code);
        if let Some(order) = header {
            answer = answer.header("tidings-order", order);
        }
        let answer = answer.body(Body::from(body.into_bytes())).unwrap();
        std::future::ready(Ok::<_, std::io::Error>(answer))
    });
    let (mut given, mut totals, mut is_by_key) = (Vec::new(), Vec::new(), true);
    let reader = reader(service);
    let scan = reader.scan(behind.map(str::to_owned), |page| {
        given.extend(page.events.iter().map(Event::key));
        totals.push(page.total);
        is_by_key = page.is_by_key;
        Ok(())
    });
    let ended = scan.await;
    (given, totals, ended, is_by_key)
}

/// The list's revision is forgotten after its first page, and then there is an event before the
/// returned ones.
#[tokio::test(start_paused = true)]
async fn a_scan_gives_out_every_event_once() {
    let answers = vec![
        scanned_page(&["b", "c"], "more"),
        forgotten(),
        scanned_page(&["a", "b", "c", "d"], "more"),
        forgotten(),
        scanned_page(&["a", "b", "c", "d"], "more"),
        scanned_page(&["e"], ""),
    ];
    let (given, totals, ended, is_by_key) = scanned(None, None, answers).await;
    ended.unwrap();
    assert_eq!(given, ["n/b", "n/c", "n/d", "n/e"]);
    assert_eq!(totals, [Some(4), Some(6), Some(6), None]);
    assert!(is_by_key);
}

/// A sealed archive lists by objects, and may have a name twice.
#[tokio::test(start_paused = true)]
async fn a_scan_gives_out_every_event_of_a_list_in_another_order() {
    for header in [None, Some("objects")] {
        let answers = vec![
            scanned_page(&["z", "a", "a"], "more"),
            scanned_page(&["a", "m"], ""),
        ];
        let (given, _, ended, is_by_key) = scanned(None, header, answers).await;
        ended.unwrap();
        assert_eq!(given, ["n/z", "n/a", "n/a", "n/a", "n/m"]);
        assert!(!is_by_key);
    }
}

/// In such a list it is unknown which events were returned already.
#[tokio::test(start_paused = true)]
async fn a_list_in_another_order_is_not_continued() {
    let by_object = Some("objects");
    for (behind, header, answers, code) in [
        // An export that is resumed begins after a key, too.
        (Some("n/b"), None, vec![scanned_page(&["z", "a"], "")], 2),
        (Some("n/b"), by_object, vec![scanned_page(&["c"], "")], 2),
        // The list is begun again.
        (
            None,
            by_object,
            vec![scanned_page(&["b"], "more"), forgotten()],
            1,
        ),
        (
            None,
            None,
            vec![
                scanned_page(&["b"], "more"),
                forgotten(),
                scanned_page(&["z", "a"], ""),
            ],
            1,
        ),
    ] {
        let (given, _, ended, _) = scanned(behind, header, answers).await;
        let code_of_it = ended.unwrap_err().exit_code();
        assert_eq!(code_of_it, code, "{behind:?} {header:?}");
        let expected: &[&str] = if behind.is_some() { &[] } else { &["n/b"] };
        assert_eq!(given, expected);
    }
}

/// The two forms of 410: as an answer, and within the stream.
#[tokio::test(start_paused = true)]
async fn what_the_server_forgot_is_found_in_a_new_list() {
    let relisted = || {
        list(
            9,
            &[event("before", 3), event("seen", 6), event("missed", 8)],
        )
    };
    for gone in [
        Some((410, status(410).to_string())),
        watch(&[("ERROR", status(410))]),
    ] {
        let (given, asked) = watched(vec![
            watch(&[("ADDED", event("seen", 6))]),
            gone,
            relisted(),
            watch(&[("ADDED", event("after", 10))]),
        ])
        .await;
        assert_eq!(given, ["seen", "relisted", "missed", "after"]);
        assert_eq!(asked, ["watch 5", "watch 6", "list", "watch 9", "watch 10"]);
    }
}

/// If nothing changed in a quiet cluster, a forgotten revision is reported only after an
/// interruption.
#[tokio::test(start_paused = true)]
async fn a_new_list_without_news_is_told_after_an_interruption() {
    let gone = || Some((410, status(410).to_string()));
    let (given, _) = watched(vec![gone(), list(9, &[event("seen", 5)])]).await;
    assert!(given.is_empty(), "{given:?}");
    let answers = vec![
        None,
        gone(),
        list(9, &[event("seen", 5)]),
        None,
        watch(&[("ADDED", event("after", 10))]),
    ];
    let (given, _) = watched(answers).await;
    let expected = ["interrupted", "relisted", "interrupted", "resumed", "after"];
    assert_eq!(given, expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_counts_anew_is_told() {
    let (given, _) = watched(vec![
        Some((410, status(410).to_string())),
        list(2, &[event("one", 1), event("two", 2)]),
        watch(&[("ADDED", event("three", 3))]),
    ])
    .await;
    assert_eq!(given, ["new history", "one", "two", "three"]);
}

/// The other archive's revisions may be greater or less, and say nothing about the former
/// archive's.
#[tokio::test(start_paused = true)]
async fn another_archive_that_answers_is_told() {
    let [one, other] = [1_u64 << 62, (1 << 62) + (5 << 40)];
    for (former, now) in [(one, other), (other, one)] {
        let (given, asked) = watched(vec![
            watch(&[("ADDED", event("seen", former + 6))]),
            Some((410, status(410).to_string())),
            list(now + 2, &[event("seen", now + 1), event("missed", now + 2)]),
            watch(&[("ADDED", event("after", now + 3))]),
        ])
        .await;
        assert_eq!(given, ["seen", "new history", "seen", "missed", "after"]);
        assert_eq!(asked[3], format!("watch {}", now + 2));
    }
}

/// The list of a sealed archive has the revisions of the source, and its watch has others.
#[tokio::test(start_paused = true)]
async fn a_sealed_archive_that_forgot_shows_all_again() {
    let begun = 7_u64 << 24;
    let answers = [
        watch(&[("ADDED", event("seen", begun + 6))]),
        Some((410, status(410).to_string())),
        list(begun + 8, &[event("seen", 36), event("missed", 38)]),
        watch(&[("ADDED", event("after", begun + 9))]),
        Some((422, status(422).to_string())),
    ];
    let script = Mutex::new(VecDeque::from(answers));
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let answer = script.lock().unwrap().pop_front().unwrap();
        let (code, body) = answer.unwrap();
        let answer = http::Response::builder()
            .status(code)
            .header("tidings-order", "objects")
            .body(Body::from(body.into_bytes()))
            .unwrap();
        std::future::ready(Ok::<_, std::io::Error>(answer))
    });
    let mut given = Vec::new();
    let take = |watched: Watched| {
        given.push(match watched {
            Watched::Event(event) => event.name().to_owned(),
            Watched::Notice(notice) => format!("{notice:?}"),
        });
        Ok(ControlFlow::Continue(()))
    };
    let ended = reader(service).watch(&begun.to_string(), take).await;
    assert!(matches!(ended, Err(CommandError::Refused { .. })));
    assert_eq!(given, ["seen", "NewHistory", "seen", "missed", "after"]);
}

/// While the forgotten changes are listed again, the server may fail in all the ways in which it
/// may during a watch.
#[tokio::test(start_paused = true)]
async fn what_passes_ends_no_watch_that_catches_up_either() {
    let busy = || Some((429, status(429).to_string()));
    let (given, asked) = watched(vec![
        watch(&[("ERROR", status(410))]),
        None,
        Some((401, status(401).to_string())),
        Some((500, status(500).to_string())),
        busy(),
        Some((200, "no JSON".to_owned())),
        busy(),
        busy(),
        list(9, &[event("seen", 5), event("missed", 8)]),
        watch(&[("ADDED", event("after", 10))]),
    ])
    .await;
    assert_eq!(given, ["interrupted", "relisted", "missed", "after"]);
    let lists = ["list"; 8];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    assert_eq!(asked[0], "watch 5");
    assert_eq!(asked[1..9], lists);
    assert_eq!(asked[9..], ["watch 9", "watch 10"]);
}

/// A reader of a server that lists the last seen events first and gives these answers; the header
/// says which kind of server it is.
fn newest_first(header: &'static str, pages: Vec<Value>) -> (Reader, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let script = Mutex::new(VecDeque::from(pages));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let token = pairs.find_map(|(key, value)| (key == "continue").then(|| value.into_owned()));
        log.lock().unwrap().push(token.unwrap_or_default());
        let page = script.lock().unwrap().pop_front().unwrap();
        std::future::ready(Ok::<_, std::io::Error>(
            http::Response::builder()
                .header("tidings-newest-first", header)
                .body(Body::from(page.to_string().into_bytes()))
                .unwrap(),
        ))
    });
    (reader(service), asked)
}

/// A page of such a server: events by name, resourceVersion and the minute in which they were last
/// seen.
fn seen_last(revision: u64, events: &[(&str, u64, u32)], next: &str) -> Value {
    let events = events.iter().map(|(name, version, minute)| {
        let mut event = event(name, *version);
        event["lastTimestamp"] = json!(format!("2026-03-04T05:{minute:02}:00Z"));
        event
    });
    json!({
        "metadata": {"resourceVersion": revision.to_string(), "continue": next},
        "kind": "EventList",
        "items": events.collect::<Vec<_>>(),
    })
}

/// A server that searches an archive ends a page early if it found little.
#[tokio::test]
async fn a_short_page_is_not_the_last_one() {
    let pages = vec![
        seen_last(9, &[("a", 5, 30)], "more"),
        seen_last(9, &[], "further"),
        seen_last(9, &[("b", 4, 20), ("c", 3, 10)], ""),
    ];
    let (reader, asked) = newest_first("sealed", pages);
    let listed = reader.list(Some(10)).await.unwrap();
    let names: Vec<_> = listed.events.iter().map(Event::name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(*asked.lock().unwrap(), ["", "more", "further"]);
}

/// The archive's list is numbered by manifests, and its events by their sources.
#[tokio::test]
async fn what_was_sealed_again_while_pages_were_read_is_found() {
    let revision = 1_u64 << 40;
    for (header, expected) in [("sealed", vec!["a", "b", "c"]), ("true", vec!["a", "c"])] {
        let pages = vec![
            seen_last(revision, &[("a", 70, 30)], "more"),
            seen_last(revision, &[("c", 50, 10)], ""),
            seen_last(revision, &[("b", 71, 31), ("a", 70, 30)], ""),
        ];
        let (mut reader, _) = newest_first(header, pages);
        reader.filter.since = Some("2026-03-04T05:00:00Z".parse().unwrap());
        let listed = reader.list(None).await.unwrap();
        let mut names: Vec<_> = listed.events.iter().map(Event::name).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{header}");
    }
}

/// What is seen again while pages are read is passed once, too.
#[tokio::test]
async fn a_scan_since_a_time_passes_every_event_once() {
    let pages = vec![
        seen_last(60, &[("a", 55, 30), ("b", 54, 29)], "more"),
        // It was on the next page before.
        seen_last(62, &[("c", 50, 10)], ""),
        seen_last(62, &[("d", 62, 32), ("a", 61, 31)], "again"),
        seen_last(62, &[("b", 54, 29)], "not asked for"),
    ];
    let (reader, asked) = newest_first("true", pages);
    let since = "2026-03-04T05:00:00Z".parse().unwrap();
    let mut names = Vec::new();
    let scan = reader.scan_since(since, |event| names.push(event.name().to_owned()));
    assert!(scan.await.unwrap());
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(*asked.lock().unwrap(), ["", "more", "", "again"]);
}

#[tokio::test]
async fn whether_there_are_older_events_is_looked_for_beyond_empty_pages() {
    let before = "2026-03-04T05:00:00Z".parse().unwrap();
    for (last, expected) in [(&[("a", 5, 3)][..], true), (&[][..], false)] {
        let pages = vec![seen_last(9, &[], "more"), seen_last(9, last, "")];
        let (mut reader, _) = newest_first("sealed", pages);
        reader.filter.since = Some(before);
        assert_eq!(reader.has_older(before).await.unwrap(), Some(expected));
    }
}

/// An event seen again while a list is read comes with the following watch.
#[tokio::test(start_paused = true)]
async fn what_is_written_after_a_list_is_left_to_its_watch() {
    let listed = seen_last(10, &[("b", 10, 31)], "");
    let watched = json!({"type": "MODIFIED", "object": listed["items"][0]});
    let pages = vec![
        seen_last(9, &[("a", 5, 30)], ""),
        seen_last(10, &[("b", 10, 31), ("a", 5, 30)], ""),
        watched,
    ];
    let (mut reader, _) = newest_first("true", pages);
    reader.filter.since = Some("2026-03-04T05:00:00Z".parse().unwrap());
    let mut listed = reader.list(None).await.unwrap();
    listed.leave_to_watch();
    let names = listed.events.iter().map(|event| event.name().to_owned());
    let mut names: Vec<_> = names.collect();
    let watch = reader.watch(&listed.revision, |watched| match watched {
        Watched::Event(event) => {
            names.push(event.name().to_owned());
            Ok(ControlFlow::Break(()))
        }
        Watched::Notice(_) => Ok(ControlFlow::Continue(())),
    });
    watch.await.unwrap();
    assert_eq!(names, ["a", "b"]);
}

/// The server sorts by the bare time: 26.25 comes before 26. The names contain the clocks, by which
/// the event without a fraction is the later one.
#[tokio::test]
async fn the_last_few_are_those_of_the_order_in_which_events_are_told() {
    let event = |name: &str, time: &str| {
        let mut event = event(name, 5);
        event["lastTimestamp"] = json!(format!("2026-03-04T05:06:{time}Z"));
        event
    };
    let page = |events: Vec<Value>, next: &str| json!({"metadata": {"resourceVersion": "9", "continue": next}, "kind": "EventList", "items": events});
    let pages = || {
        let fractions = (1..=3).map(|number| {
            let name = format!("web-{number}.18998b05f21bb40{number}");
            event(&name, &format!("26.25{}", 4 - number))
        });
        vec![
            page(
                vec![event("late", "27")]
                    .into_iter()
                    .chain(fractions)
                    .collect(),
                "more",
            ),
            page(
                vec![
                    event("web-4.18998b05f21bb404", "26"),
                    event("web-5.18998b05f21bb405", "26"),
                    event("old", "25"),
                ],
                "further",
            ),
        ]
    };
    for since in [None, Some("2026-03-04T05:00:00Z")] {
        let mut pages = pages();
        // Events seen meanwhile are requested, too.
        pages.push(page(Vec::new(), ""));
        let (mut reader, asked) = newest_first("true", pages);
        reader.filter.since = since.map(|since| since.parse().unwrap());
        let mut listed = reader.list(Some(3)).await.unwrap().events;
        tidings_cli::event::sort(&mut listed);
        let names: Vec<_> = listed.iter().map(Event::name).collect();
        assert_eq!(
            names,
            ["web-4.18998b05f21bb404", "web-5.18998b05f21bb405", "late"]
        );
        assert_eq!(asked.lock().unwrap()[..2], ["", "more"]);
    }
}
