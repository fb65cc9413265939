//! Watches in every form except plain JSON.

use axum::body::BodyDataStream;
use futures::StreamExt;
use http::Method;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{PartialObjectMetadata, Status, WatchEvent};
use prost::Message;
use serde_json::json;

use crate::support::{Server, request};

const SHOP: &str = "/api/v1/namespaces/shop/events";
const OTHER: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A protobuf watch whose frames are read one by one.
struct Frames {
    body: BodyDataStream,
    buffer: Vec<u8>,
}

impl Frames {
    async fn open(server: &Server, uri: &str, accept: &str) -> Self {
        let request = request(Method::GET, uri, &[("accept", accept)], "");
        let answer = server.respond(request).await;
        assert_eq!(
            answer.headers()["content-type"],
            "application/vnd.kubernetes.protobuf;stream=watch"
        );
        Self {
            body: answer.into_body().into_data_stream(),
            buffer: Vec::new(),
        }
    }

    /// The type of the next watch event, the apiVersion and kind of its object, and the object's
    /// message.
    async fn next(&mut self) -> Option<(String, String, Vec<u8>)> {
        loop {
            if let Some((len, rest)) = self.buffer.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*len) as usize;
                if rest.len() >= len {
                    let event = WatchEvent::decode(&rest[..len]).unwrap();
                    self.buffer.drain(..4 + len);
                    let object = event.object.unwrap().raw.unwrap();
                    let rest = object.strip_prefix(b"k8s\0\x0a").unwrap();
                    let (type_len, rest) = rest.split_first().unwrap();
                    let (type_meta, rest) = rest.split_at(usize::from(*type_len));
                    let type_meta = String::from_utf8_lossy(type_meta).into_owned();
                    let mut raw = rest.strip_prefix(b"\x12").unwrap();
                    let len = prost::decode_length_delimiter(&mut raw).unwrap();
                    let words: Vec<&str> = type_meta
                        .split(|character: char| character.is_control())
                        .filter(|word| !word.is_empty())
                        .collect();
                    return Some((event.r#type.unwrap(), words.join(" "), raw[..len].to_vec()));
                }
            }
            self.buffer.extend(self.body.next().await?.unwrap());
        }
    }

    async fn event(&mut self) -> (String, String, String) {
        let (kind, type_meta, object) = self.next().await.unwrap();
        assert_eq!(type_meta, "v1 Event");
        let metadata = Event::decode(&object[..]).unwrap().metadata.unwrap();
        (
            kind,
            metadata.name().to_owned(),
            metadata.resource_version().to_owned(),
        )
    }
}

fn told(kind: &str, name: &str, version: &str) -> (String, String, String) {
    (kind.into(), name.into(), version.into())
}

#[tokio::test]
async fn in_protobuf() {
    let server = Server::new();
    server.create("shop", "before").await;
    let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = Frames::open(&server, &format!("{SHOP}?{query}"), PROTOBUF).await;
    assert_eq!(watch.event().await, told("ADDED", "before", "2"));
    let (kind, _, object) = watch.next().await.unwrap();
    let bookmark = Event::decode(&object[..]).unwrap().metadata.unwrap();
    assert_eq!(
        (kind.as_str(), bookmark.resource_version()),
        ("BOOKMARK", "2")
    );
    assert_eq!(bookmark.annotations["k8s.io/initial-events-end"], "true");

    let mut other = Frames::open(
        &server,
        &format!("{OTHER}?watch=true&resourceVersion=2"),
        PROTOBUF,
    )
    .await;
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{PROTOBUF}");
    let mut metadata = Frames::open(
        &server,
        &format!("{SHOP}?watch=true&resourceVersion=2"),
        &partial,
    )
    .await;

    server.create("shop", "a").await;
    server
        .patch("merge", &format!("{SHOP}/a"), &json!({"count": 8}))
        .await
        .expect(200);
    server.delete(&format!("{SHOP}/a")).await.expect(200);
    for (kind, version) in [("ADDED", "3"), ("MODIFIED", "4"), ("DELETED", "5")] {
        assert_eq!(watch.event().await, told(kind, "a", version));

        let (found, type_meta, object) = other.next().await.unwrap();
        assert_eq!(
            (found.as_str(), type_meta.as_str()),
            (kind, "events.k8s.io/v1 Event")
        );
        let event = k8s_pb::api::events::v1::Event::decode(&object[..]).unwrap();
        assert_eq!(event.note(), "Back-off restarting failed container");
        assert_eq!(event.regarding.unwrap().name(), "web");
        assert_eq!(event.metadata.unwrap().resource_version(), version);

        let (found, type_meta, object) = metadata.next().await.unwrap();
        assert_eq!(
            (found.as_str(), type_meta.as_str()),
            (kind, "meta.k8s.io/v1 PartialObjectMetadata")
        );
        let partial = PartialObjectMetadata::decode(&object[..]).unwrap();
        assert_eq!(partial.metadata.unwrap().resource_version(), version);
    }

    server.store.compact(4).await.unwrap();
    let mut late = Frames::open(
        &server,
        &format!("{SHOP}?watch=true&resourceVersion=2"),
        PROTOBUF,
    )
    .await;
    let (kind, type_meta, object) = late.next().await.unwrap();
    assert_eq!((kind.as_str(), type_meta.as_str()), ("ERROR", "v1 Status"));
    let status = Status::decode(&object[..]).unwrap();
    assert_eq!((status.code(), status.reason()), (410, "Expired"));
    assert!(late.next().await.is_none());
}

#[tokio::test]
async fn as_partial_metadata_and_as_tables_with_objects() {
    let server = Server::new();
    let start = "watch=true&resourceVersion=1";
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut metadata = server.watch_as(&format!("{SHOP}?{start}"), partial).await;
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut tables = Vec::new();
    // Two watches of each kind: shared encodings must not be mixed up.
    for (path, include) in [
        (SHOP, "Object"),
        (OTHER, "Object"),
        (SHOP, "None"),
        (SHOP, "Metadata"),
    ] {
        for _ in 0..2 {
            let uri = format!("{path}?{start}&includeObject={include}");
            tables.push((path, include, server.watch_as(&uri, table).await));
        }
    }
    server.create("shop", "a").await;
    server.create("shop", "b").await;
    server.delete(&format!("{SHOP}/a")).await.expect(200);
    for (kind, name, version) in [
        ("ADDED", "a", "2"),
        ("ADDED", "b", "3"),
        ("DELETED", "a", "4"),
    ] {
        let event = metadata.next().await.unwrap();
        assert_eq!(event["type"], kind);
        let object = &event["object"];
        assert_eq!(
            (
                &object["kind"],
                &object["apiVersion"],
                &object["metadata"]["name"]
            ),
            (
                &json!("PartialObjectMetadata"),
                &json!("meta.k8s.io/v1"),
                &json!(name)
            )
        );
        assert!(object.get("reason").is_none());
        for (path, include, watch) in &mut tables {
            let event = watch.next().await.unwrap();
            let object = &event["object"];
            assert_eq!(event["type"], kind);
            assert_eq!(object["metadata"]["resourceVersion"], version);
            assert_eq!(object["columnDefinitions"].is_array(), version == "2");
            let row = &object["rows"][0];
            assert_eq!(row["cells"][9], name);
            match *include {
                "None" => assert!(row["object"].is_null()),
                "Metadata" => assert_eq!(row["object"]["kind"], "PartialObjectMetadata"),
                _ => {
                    let text = if *path == SHOP { "message" } else { "note" };
                    assert_eq!(row["object"][text], "Back-off restarting failed container");
                }
            }
        }
    }
    let refused = server
        .get_as(&format!("{SHOP}?watch=true"), "application/yaml")
        .await;
    assert_eq!(refused.code, 406, "no server streams YAML");
}
