//! `?order=newest`: the events of a second are told backwards, on whichever pages they are.

use std::cmp::Reverse;

use serde_json::{Value, json};
use tidings_core::reading::Order;

use crate::support::{Server, event, events};

const SECONDS: [&str; 2] = ["2026-03-04T05:06:07", "2026-03-04T05:06:08"];
/// The clock of the second of these, as in names of client-go.
const CLOCK: u64 = 1_772_600_768_000_000_000;

/// The place of an event in the order of events.
fn order(event: &Value) -> Order<'_> {
    let metadata = &event["metadata"];
    let time = event["lastTimestamp"]
        .as_str()
        .or(event["eventTime"].as_str());
    let version = metadata["resourceVersion"].as_str().unwrap();
    let time = time.map(|time| time.parse().unwrap());
    Order::new(
        (time, time),
        version.parse().ok(),
        ("shop", metadata["name"].as_str().unwrap()),
    )
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    let names = items.map(|item| item["metadata"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The names of all pages after a token.
async fn pages(server: &Server, limit: usize, mut token: String) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let uri = format!("/api/v1/events?order=newest&limit={limit}&continue={token}");
        let page = server.get(&uri).await.expect(200);
        told.extend(names(&page));
        let Some(next) = page["metadata"]["continue"].as_str() else {
            return told;
        };
        assert!(names(&page).len() == limit && told.len() < 1000, "{token}");
        next.clone_into(&mut token);
    }
}

/// Whole seconds and microseconds, clocks in names of this second and of earlier ones, and none.
#[tokio::test]
async fn the_newest_of_a_second_are_told_backwards() {
    let server = Server::new();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..90 {
        let suffix = match random.u8(..3) {
            0 => format!("{:016x}", CLOCK + random.u64(..1_000_000)),
            1 => format!("{:016x}", CLOCK - random.u64(..4) * 1_000_000_000),
            _ => "created".to_owned(),
        };
        let mut event = event("shop", &format!("web-{number}.{suffix}"));
        let second = SECONDS[random.usize(..2)];
        if random.bool() {
            event["lastTimestamp"] = json!(format!("{second}Z"));
        } else {
            for old in ["firstTimestamp", "lastTimestamp", "count", "source"] {
                event.as_object_mut().unwrap().remove(old);
            }
            let micros = 252_000 + random.u32(..3000);
            event["eventTime"] = json!(format!("{second}.{micros:06}Z"));
            for (field, value) in [
                ("reportingComponent", "scheduler"),
                ("reportingInstance", "scheduler-1"),
                ("action", "Binding"),
            ] {
                event[field] = value.into();
            }
        }
        server.post(&events("shop"), &event).await.expect(201);
    }
    let all = server.get("/api/v1/events").await.expect(200);
    let mut all = all["items"].as_array().unwrap().clone();
    all.sort_by(|one, other| order(other).cmp(&order(one)));
    let name = |event: &Value| event["metadata"]["name"].as_str().unwrap().to_owned();
    let expected: Vec<String> = all.iter().map(name).collect();
    assert_eq!(expected.len(), 90);
    for limit in [1, 7, 44, 90, 500] {
        let told = pages(&server, limit, String::new()).await;
        assert_eq!(told, expected, "{limit}");
    }
    // A token of before names a place of the store: milliseconds and a revision.
    let place = |event: &Value| {
        let time = event["lastTimestamp"]
            .as_str()
            .or(event["eventTime"].as_str());
        let time: jiff::Timestamp = time.unwrap().parse().unwrap();
        let version = event["metadata"]["resourceVersion"].as_str().unwrap();
        (time.as_millisecond(), version.parse::<u64>().unwrap())
    };
    let mut places: Vec<_> = all.iter().map(place).collect();
    places.sort_by_key(|place| Reverse(*place));
    for after in [places[0], places[29], places[71]] {
        let token = format!("newest.{}.{}", after.0, after.1);
        let rest = all.iter().filter(|event| place(event) < after).map(name);
        assert_eq!(pages(&server, 9, token).await, rest.collect::<Vec<_>>());
    }
    for token in ["newest.1", "newest.1.2.3", "newest.1.x"] {
        let uri = format!("/api/v1/events?order=newest&limit=2&continue={token}");
        let status = server.get(&uri).await.expect(400);
        let why = status["message"].as_str().unwrap();
        assert!(why.starts_with("invalid continue token"), "{why}");
    }
}

/// The next page begins within a second, and what is newer is not in it.
#[tokio::test]
async fn what_is_written_between_two_pages_is_not_told() {
    let server = Server::new();
    let write = async |name: &str, second: &str| {
        let mut event = event("shop", name);
        event["lastTimestamp"] = json!(format!("{second}Z"));
        server.post(&events("shop"), &event).await.expect(201);
    };
    for name in ["a", "b", "c"] {
        write(name, SECONDS[0]).await;
    }
    let first = server.get("/api/v1/events?order=newest&limit=2").await;
    let first = first.expect(200);
    assert_eq!(names(&first), ["c", "b"]);
    write("d", SECONDS[1]).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(pages(&server, 2, token).await, ["a"]);
}

/// Their values do not fit into a page of the store, and the names have no clocks.
#[tokio::test]
async fn large_events_of_a_millisecond_are_told_backwards() {
    let server = Server::new();
    let mut expected = Vec::new();
    for number in 0..16 {
        let name = format!("e{number:02}");
        let mut event = event("shop", &name);
        for old in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            event.as_object_mut().unwrap().remove(old);
        }
        event["metadata"]["annotations"] = json!({"dump": "x".repeat(200_000)});
        event["eventTime"] = json!(format!("2026-03-04T05:06:07.252{:03}Z", 900 - number));
        for field in ["reportingComponent", "reportingInstance", "action"] {
            event[field] = "x".into();
        }
        server.post(&events("shop"), &event).await.expect(201);
        expected.push(name);
    }
    let list = server.get("/api/v1/events?order=newest&limit=16").await;
    assert_eq!(names(&list.expect(200)), expected);
}
