//! Lists longer than a page of the store are complete and equal in every form, and bounded in
//! memory and time.

use std::time::Duration;

use futures::StreamExt;
use http::Method;
use k8s_pb::api::core::v1::{Event, EventList};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    ListMeta, ObjectMeta, PartialObjectMetadataList, Time,
};
use prost::Message;
use serde_json::Value;
use tidings_server::ApiOptions;
use tidings_store::{Index, NewRecord, UnixMillis};

use crate::backend;
use crate::support::{START, Server, request, timer};

const ALL: &str = "/api/v1/events";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A server with `count` events in two namespaces; those with odd numbers expire at `end`, if
/// given.
pub(crate) async fn server_with(options: ApiOptions, count: usize, end: Option<i64>) -> Server {
    let server = Server::with(options);
    server.create("shop", "web").await;
    let value = server
        .store
        .get("shop/web".into())
        .await
        .unwrap()
        .unwrap()
        .value;
    server.store.delete("shop/web".into(), None).await.unwrap();
    // Finds the name in the metadata; all names have the same length.
    let at = value
        .windows(4)
        .position(|window| window == b"\x03web")
        .unwrap();
    for n in 0..count {
        let name = format!("e{n:05}");
        let mut value = value.to_vec();
        value[at + 1..at + 4].copy_from_slice(&name.as_bytes()[3..6]);
        let record = NewRecord {
            expires_at: end.filter(|_| n % 2 == 1).map(UnixMillis),
            ..NewRecord::new(value)
        };
        let key = format!("shop/{name}");
        server.store.create(key.into(), record).await.unwrap();
    }
    server
}

fn json_names(list: &Value) -> Vec<String> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// The message in a protobuf envelope, whose lengths are checked.
fn open(body: &[u8]) -> &[u8] {
    let rest = body.strip_prefix(b"k8s\0\x0a").unwrap();
    let (type_len, rest) = rest.split_first().unwrap();
    let mut raw = rest[usize::from(*type_len)..]
        .strip_prefix(b"\x12")
        .unwrap();
    let len = prost::decode_length_delimiter(&mut raw).unwrap();
    let (raw, end) = raw.split_at(len);
    assert_eq!(end, b"\x1a\0\"\0");
    raw
}

fn protobuf_meta(meta: &ListMeta) -> (String, String, i64) {
    (
        meta.resource_version().to_owned(),
        meta.r#continue().to_owned(),
        meta.remaining_item_count.unwrap_or_default(),
    )
}

#[tokio::test]
async fn every_form_of_a_long_list_says_the_same() {
    let server = server_with(ApiOptions::default(), 1234, None).await;
    for (query, count, remaining) in [
        ("", 1234, 0),
        ("?limit=5000", 1234, 0),
        ("?limit=1233", 1233, 1),
        ("?limit=1000", 1000, 234),
        ("?limit=1100&fieldSelector=reason=BackOff", 1100, 0),
        ("?fieldSelector=reason=Other", 0, 0),
    ] {
        let uri = format!("{ALL}{query}");
        let list = server.get(&uri).await.expect(200);
        let names = json_names(&list);
        let meta = &list["metadata"];
        assert_eq!(names.len(), count, "{query}");
        assert_eq!(
            meta["remainingItemCount"].as_i64().unwrap_or(0),
            remaining,
            "{query}"
        );
        assert_eq!(
            meta.get("continue").is_some(),
            count > 0 && count < 1234,
            "{query}"
        );

        let pretty = server
            .get(&format!(
                "{uri}{}pretty=true",
                if query.is_empty() { "?" } else { "&" }
            ))
            .await;
        assert!(
            pretty.text().starts_with("{\n  \"kind\": \"EventList\",\n"),
            "{query}"
        );
        assert_eq!(pretty.expect(200), list, "{query}");

        let yaml = server.get_as(&uri, "application/yaml").await;
        assert_eq!(yaml.header("content-type"), "application/yaml");
        let read: Value = serde_saphyr::from_str(yaml.text()).unwrap();
        assert_eq!(read, list, "{query}");

        let protobuf = server.get_as(&uri, PROTOBUF).await;
        assert_eq!(protobuf.header("content-type"), PROTOBUF);
        let read = EventList::decode(open(&protobuf.body)).unwrap();
        let read_names: Vec<_> = read
            .items
            .iter()
            .map(|item| item.metadata.as_ref().unwrap().name())
            .collect();
        assert_eq!(read_names, names, "{query}");
        let expected = (
            meta["resourceVersion"].as_str().unwrap().to_owned(),
            meta["continue"].as_str().unwrap_or_default().to_owned(),
            remaining,
        );
        assert_eq!(protobuf_meta(&read.metadata.unwrap()), expected, "{query}");

        let other = server
            .get_as(&format!("/apis/events.k8s.io/v1/events{query}"), PROTOBUF)
            .await;
        let read = k8s_pb::api::events::v1::EventList::decode(open(&other.body)).unwrap();
        assert_eq!(read.items.len(), count);
        assert!(
            read.items
                .iter()
                .all(|item| item.note() == "Back-off restarting failed container")
        );

        let partial = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let answer = server.get_as(&uri, &format!("{PROTOBUF};{partial}")).await;
        let read = PartialObjectMetadataList::decode(open(&answer.body)).unwrap();
        assert_eq!(read.items.len(), count);
        assert_eq!(protobuf_meta(&read.metadata.unwrap()), expected, "{query}");

        let table = "application/yaml;as=Table;g=meta.k8s.io;v=v1";
        let answer = server.get_as(&uri, table).await;
        let table: Value = serde_saphyr::from_str(answer.text()).unwrap();
        assert_eq!(table["rows"].as_array().unwrap().len(), count);
        assert_eq!(table["metadata"], *meta, "{query}");
    }
}

/// The stored bytes of an event last seen this number of seconds after 1970.
fn stored(name: &str, seen: u8, message: String) -> Vec<u8> {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectMeta::default()
        }),
        message: Some(message),
        last_timestamp: Some(Time {
            seconds: Some(seen.into()),
            nanos: None,
        }),
        ..Event::default()
    };
    let event = event.encode_to_vec();
    let mut value = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12".to_vec();
    prost::encode_length_delimiter(event.len(), &mut value).unwrap();
    value.extend(event);
    value.extend(b"\x1a\0\"\0");
    value
}

/// The first events are sent while others change; these are returned in their former state.
#[tokio::test]
async fn the_newest_are_of_one_moment_however_long_they_take() {
    const COUNT: u8 = 14;
    let key = |number: u8| format!("shop/e{number:02}");
    for accept in ["application/json", PROTOBUF] {
        let server = Server::new();
        let record = |number: u8, text: &str| {
            let value = stored(&format!("e{number:02}"), number, text.repeat(1_300_000));
            NewRecord::new(value).index(Index {
                last_seen: UnixMillis(i64::from(number) * 1000),
                ..Index::default()
            })
        };
        let mut revision = 0;
        for number in (0..COUNT).rev() {
            let created = server.store.create(key(number).into(), record(number, "a"));
            revision = created.await.unwrap();
        }
        let uri = "/api/v1/events?order=newest&limit=500";
        let answer = server
            .respond(request(Method::GET, uri, &[("accept", accept)], ""))
            .await;
        assert_eq!(answer.headers()["tidings-newest-first"], "true");
        // The last two events of the answer come after its first page.
        let updated = server
            .store
            .update(key(0).into(), record(99, "b"), revision);
        updated.await.unwrap();
        server.store.delete(key(1).into(), None).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
            .await
            .unwrap();
        let mut told: Vec<(String, u8)> = Vec::new();
        if accept == PROTOBUF {
            let list = EventList::decode(open(&body)).unwrap();
            for item in &list.items {
                let name = item.metadata.as_ref().unwrap().name();
                told.push((name.to_owned(), item.message().as_bytes()[0]));
            }
        } else {
            let list: Value = serde_json::from_slice(&body).unwrap();
            for (name, item) in json_names(&list)
                .into_iter()
                .zip(list["items"].as_array().unwrap())
            {
                told.push((name, item["message"].as_str().unwrap().as_bytes()[0]));
            }
        }
        let expected = (0..COUNT)
            .rev()
            .map(|number| (format!("e{number:02}"), b'a'));
        assert_eq!(told, expected.collect::<Vec<_>>(), "{accept}");
    }
}

/// The length is at the beginning of the list, and events expire meanwhile.
#[tokio::test]
async fn a_protobuf_list_stays_whole_though_events_end_meanwhile() {
    let server = server_with(ApiOptions::default(), 4000, Some(START + 1000)).await;
    let answer = server
        .respond(request(Method::GET, ALL, &[("accept", PROTOBUF)], ""))
        .await;
    server.clock.advance(2000);
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
        .await
        .unwrap();
    let list = EventList::decode(open(&body)).unwrap();
    assert!(
        (2000..4000).contains(&list.items.len()),
        "{}",
        list.items.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_given_up_at_the_deadline() {
    if !backend::time_may_stop() {
        return;
    }
    let mut options = ApiOptions::default();
    options.max_requests_inflight = 1;
    let server = server_with(options, 3000, None).await;
    let unread = server.respond(request(Method::GET, ALL, &[], "")).await;
    assert_eq!(unread.status(), 200);
    let asked = timer();
    assert_eq!(server.get(ALL).await.code, 429, "the list is not yet sent");
    // A quarter of the request's timeout.
    assert_eq!(asked.elapsed(), Duration::from_secs(15));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(server.get(ALL).await.code, 200);
    let chunks: Vec<_> = unread.into_body().into_data_stream().collect().await;
    assert!(
        chunks.last().unwrap().is_err(),
        "the answer is cut off, not ended"
    );

    // A client that reads, however slowly, gets the whole list.
    let answer = server.respond(request(Method::GET, ALL, &[], "")).await;
    let mut chunks = answer.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        body.extend(chunk.unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(json_names(&list).len(), 3000);
    tokio::task::yield_now().await;
    assert_eq!(server.get(ALL).await.code, 200, "the permit is back");
}
