//! Events of real clusters, and records made of them.

use std::sync::LazyLock;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use proptest::prelude::*;
use tidings_api::codec::json::Reading;
use tidings_api::codec::{self, Api};
use tidings_feeds::encode::{Answer, Verdict};
use tidings_feeds::{Record, Source};
use tidings_history::{Cause, Gap, Skip, Version};
use tidings_store::UnixMillis;

/// A container that is restarted, as kubelet reports it.
pub(crate) const BACK_OFF: &str = r#"{"apiVersion":"v1","count":7,"eventTime":null,"firstTimestamp":"2021-06-21T02:29:23Z","involvedObject":{"apiVersion":"v1","fieldPath":"spec.containers{storage-provisioner}","kind":"Pod","name":"storage-provisioner","namespace":"kube-system","resourceVersion":"488","uid":"8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52"},"kind":"Event","lastTimestamp":"2021-06-21T02:31:23Z","message":"Back-off restarting \"failed\" container","metadata":{"creationTimestamp":"2021-06-21T02:29:23Z","name":"storage-provisioner.168a78018af09212","namespace":"kube-system","resourceVersion":"1179","uid":"e7ea77f9-1e5c-41eb-94e3-fceebd328bfa"},"reason":"BackOff","reportingComponent":"","reportingInstance":"","source":{"component":"kubelet","host":"minikube"},"type":"Warning"}"#;
/// A series of events.k8s.io, as the scheduler reports it.
pub(crate) const SERIES: &str = r#"{"metadata":{"name":"coredns-789f8477df-knmwr.1887024c74597238","namespace":"kube-system","uid":"45e43204-21e0-414c-b55a-a850e3045809","resourceVersion":"2375","creationTimestamp":"2026-01-02T19:58:26Z"},"involvedObject":{"kind":"Pod","namespace":"kube-system","name":"coredns-789f8477df-knmwr","uid":"3032ab28-3ae1-44a6-9fb6-28f57a24e176","apiVersion":"v1","resourceVersion":"537"},"reason":"FailedScheduling","message":"no nodes available to schedule pods","source":{},"firstTimestamp":null,"lastTimestamp":null,"type":"Warning","eventTime":"2026-01-02T19:58:26.158993Z","series":{"count":26,"lastObservedTime":"2026-01-02T20:02:20.396050Z"},"action":"Scheduling","reportingComponent":"default-scheduler","reportingInstance":"default-scheduler-ip-172-16-123-141.ec2.internal"}"#;
/// An event about a node, whose namespace is the default one.
pub(crate) const NODE: &str = r#"{"metadata":{"name":"worker-1.17979cfe362a0000","namespace":"default","uid":"0b1c2d3e-0000-4000-8000-000000000001","resourceVersion":"90","creationTimestamp":"2026-01-02T19:58:30Z"},"involvedObject":{"kind":"Node","name":"worker-1","uid":"worker-1"},"reason":"NodeReady","message":"Node worker-1 status is now: NodeReady","source":{"component":"kubelet","host":"worker-1"},"firstTimestamp":"2026-01-02T19:58:30Z","lastTimestamp":"2026-01-02T19:58:30Z","count":1,"type":"Normal","eventTime":null,"reportingComponent":"","reportingInstance":""}"#;

pub(crate) fn source() -> Source {
    Source {
        cluster: "prod".into(),
        uid: "c1d2e3f4".into(),
    }
}

/// Makes the record of an event that was observed a second after it was last seen.
pub(crate) fn record(event: &str) -> Record {
    let mut from = serde_json::Deserializer::from_str(event);
    let (_, mut event) = codec::read_event(Api::Core, &mut from, &mut Reading::default()).unwrap();
    let metadata = event.metadata.clone().unwrap_or_default();
    let seen = codec::last_seen(&event).map_or(0, Timestamp::as_millisecond);
    let version = Version {
        uid: metadata.uid().into(),
        epoch: 0,
        number: metadata.resource_version().parse().unwrap_or(1),
        observed_at: UnixMillis(seen + 1000),
        event: codec::encode_stored(&mut event),
    };
    Record::version(version, 2).unwrap()
}

/// Returns a record of each kind.
pub(crate) fn records() -> Vec<Record> {
    let (from, to) = (UnixMillis(1_767_384_000_000), UnixMillis(1_767_384_600_000));
    vec![
        record(BACK_OFF),
        record(SERIES),
        record(NODE),
        Record::gap(Gap::new(from, to, Cause::Compacted)),
        Record::skip(
            "shop",
            Skip {
                from,
                to,
                versions: 47,
            },
        ),
        Record::test(to, "a test of the feed".into()),
    ]
}

/// Generates the record of an event with hostile texts.
pub(crate) fn hostile() -> impl Strategy<Value = Record> {
    let text = || {
        prop_oneof![
            any::<String>(),
            "[\"\\\\\n\r\u{0}<>&'{}$`\u{2028}\u{202e}]{0,20}"
        ]
    };
    (text(), text(), text(), text(), 0..32_768_usize).prop_map(
        |(name, reason, message, kind, len)| {
            let message = message.repeat(len / (message.len() + 1));
            record(
            &serde_json::json!({
                "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "5"},
                "involvedObject": {"kind": kind, "name": name, "namespace": name},
                "reason": reason, "type": kind, "message": message,
                "source": {"component": reason, "host": name},
                "lastTimestamp": "2026-01-02T19:58:30Z",
            })
            .to_string(),
        )
        },
    )
}

pub(crate) fn answer(status: u16, body: &str) -> Answer<'_> {
    static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
    Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: &NO_HEADERS,
        body: body.as_bytes(),
    }
}

/// Returns the kind of a verdict.
pub(crate) fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Delivered => "delivered",
        Verdict::Items(_) => "items",
        Verdict::PartlyRejected(..) => "partly rejected",
        Verdict::Retry(_) => "retry",
        Verdict::Busy(_) => "busy",
        Verdict::TooLarge => "too large",
        Verdict::Rejected(_) => "rejected",
        Verdict::Refused(_) => "refused",
    }
}
