//! Webhooks: CloudEvents in JSON, one or a batch in a request, or a body by a template.
//!
//! The header `Idempotency-Key` has the record's id, or that of the first and the last record of a
//! batch.

mod template;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Map, Value, json};
use tidings_api::codec::{self, Api};
use tidings_history::timestamp;

use super::{Answer, Encoded, Encoder, RECORDS_MAX, Verdict, judge_failure};
use crate::record::{Record, RecordBody, Source};

pub use template::{Template, TemplateError};

/// The header by which a receiver recognizes a request that comes twice.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The encoder for webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Webhook {
    /// Each request has a batch of CloudEvents.
    #[default]
    Batch,
    /// Each request has a single CloudEvent.
    Single,
    /// Each request has the body that a template makes of a record.
    Template(Template),
}

impl Webhook {
    fn is_batch(&self) -> bool {
        matches!(self, Self::Batch)
    }
}

impl Encoder for Webhook {
    fn records_max(&self) -> usize {
        if self.is_batch() { RECORDS_MAX } else { 1 }
    }

    fn encode(&self, source: &Source, records: &[Record]) -> Encoded {
        let (mut body, mut unencodable) = (Vec::new(), Vec::new());
        for (at, record) in records.iter().enumerate() {
            match self {
                Self::Batch => {
                    body.push(if at == 0 { b'[' } else { b',' });
                    write(source, record, &mut body);
                }
                Self::Single => write(source, record, &mut body),
                Self::Template(template) => match template.render(source, record) {
                    Ok(rendered) => body.extend(rendered),
                    Err(why) => unencodable.push((at, why)),
                },
            }
        }
        if self.is_batch() {
            body.push(b']');
        }
        let media = match self {
            Self::Batch => "application/cloudevents-batch+json",
            Self::Single => "application/cloudevents+json",
            Self::Template(_) => "application/json",
        };
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static(media))];
        let ids = (records.first(), records.last());
        if let (Some(first), Some(last)) = ids {
            let key = if self.is_batch() {
                format!("{}/{}..{}", source.uid, first.id, last.id)
            } else {
                format!("{}/{}", source.uid, first.id)
            };
            // The uid of an event may have any characters.
            let key = key.replace(|c: char| !c.is_ascii_graphic(), "_");
            headers.extend(HeaderValue::try_from(key).map(|key| (IDEMPOTENCY_KEY, key)));
        }
        Encoded {
            method: Method::POST,
            path: String::new(),
            headers,
            body: body.into(),
            unencodable,
        }
    }

    fn judge(&self, answer: &Answer<'_>, _: &[Record]) -> Verdict {
        if answer.status.is_success() {
            Verdict::Delivered
        } else {
            judge_failure(answer)
        }
    }
}

/// Appends the CloudEvent of a record.
fn write(source: &Source, record: &Record, out: &mut Vec<u8>) {
    let mut event = Map::new();
    let mut data = Vec::new();
    let kind = match &record.body {
        RecordBody::Version(found) => {
            let object = &found.event.involved_object;
            let object = object.as_ref();
            let subject = format!(
                "{}/{}/{}",
                object.map_or("", |it| it.kind()),
                object.map_or("", |it| it.namespace()),
                object.map_or("", |it| it.name())
            );
            event.insert("subject".to_owned(), subject.into());
            let at = timestamp(found.version.observed_at).to_string();
            event.insert("time".to_owned(), at.into());
            // CloudEvents' integers have 32 bits.
            let occurrences = i32::try_from(found.occurrences).unwrap_or(i32::MAX);
            event.insert("occurrences".to_owned(), occurrences.into());
            codec::write_event(Api::Core, &found.event, true, &mut data);
            "dev.tidings.event.v1"
        }
        RecordBody::Gap(gap) => {
            // Writing texts and times as JSON cannot fail.
            data = serde_json::to_vec(gap).unwrap_or_default();
            "dev.tidings.gap.v1"
        }
        RecordBody::Skip(skip) => {
            let skip = json!({
                "from": timestamp(skip.from), "to": timestamp(skip.to), "versions": skip.versions,
            });
            data = skip.to_string().into_bytes();
            "dev.tidings.skip.v1"
        }
        RecordBody::Test { text, .. } => {
            data = json!({"message": text}).to_string().into_bytes();
            "dev.tidings.test.v1"
        }
    };
    for (name, value) in [
        ("specversion", Value::from("1.0")),
        ("type", kind.into()),
        ("source", format!("/clusters/{}", source.cluster).into()),
        ("id", record.id.as_str().into()),
        ("datacontenttype", "application/json".into()),
    ] {
        event.insert(name.to_owned(), value);
    }
    if !source.uid.is_empty() {
        event.insert("clusteruid".to_owned(), source.uid.as_str().into());
    }
    let head = Value::Object(event).to_string();
    out.extend_from_slice(head.trim_end_matches('}').as_bytes());
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(&data);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use tidings_history::{Skip, Version};
    use tidings_store::UnixMillis;

    use super::*;
    use crate::testing::event;

    #[test]
    fn records_are_cloud_events() {
        let source = Source {
            cluster: "prod".to_owned(),
            uid: "kube-system-uid".to_owned(),
        };
        let version = Version {
            uid: "u-1".into(),
            epoch: 2,
            number: 7,
            observed_at: UnixMillis(1500),
            event: event("web-0", 3),
        };
        let skip = Skip {
            from: UnixMillis(0),
            to: UnixMillis(1000),
            versions: 47,
        };
        let records = [
            Record::version(version, 2).unwrap(),
            Record::skip("hook", skip),
        ];
        assert_eq!(Webhook::default().records_max(), RECORDS_MAX);
        let batch = Webhook::default().encode(&source, &records);
        let found: Value = serde_json::from_slice(&batch.body).unwrap();
        assert_eq!(found[0]["id"], "u-1/2/7");
        assert_eq!(found[0]["subject"], "Pod/shop/web-0");
        assert_eq!(found[0]["time"], "1970-01-01T00:00:01.5Z");
        assert_eq!(found[0]["occurrences"], 2);
        assert_eq!(found[0]["clusteruid"], "kube-system-uid");
        assert_eq!(found[0]["data"]["metadata"]["resourceVersion"], "7");
        assert_eq!(found[1]["type"], "dev.tidings.skip.v1");
        assert_eq!(found[1]["data"]["versions"], 47);
        let key = "kube-system-uid/u-1/2/7..skip/hook/0/1000/47";
        assert_eq!(batch.headers[1].1, key);
        let single = Webhook::Single.encode(&source, &records[..1]);
        let one: Value = serde_json::from_slice(&single.body).unwrap();
        assert_eq!(
            (&one, &single.headers[1].1),
            (&found[0], &"kube-system-uid/u-1/2/7".try_into().unwrap())
        );
    }
}
