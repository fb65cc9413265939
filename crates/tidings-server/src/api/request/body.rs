//! Reads the event in a request's body, and encodes answers in the requested form.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ListMeta, PartialObjectMetadata};
use tidings_core::validate::go_quote;

use super::call::Call;
use super::decoding::{enveloped, not_json, yaml_value};
use crate::http::negotiate::{Form, Media, Shape, body_media};
use crate::http::present::present;
use crate::http::status::Status;
use crate::http::warnings::warn;
use tidings_api::codec::json::{Reading, TypeMeta, replace_what_is_no_text};
use tidings_api::codec::{self, Api};
use tidings_api::field_validation::FieldValidation;
use tidings_api::table::{IncludeObject, Rows};

/// The event of a request, and warnings for the client.
pub(crate) struct Sent {
    pub(crate) event: Event,
    pub(crate) warnings: Vec<String>,
}

/// Reads the event in a request's body.
///
/// # Errors
/// 415 for an unknown encoding; 400 if the body is not an event of the request's version or, with
/// `fieldValidation=Strict`, has unknown fields.
pub(crate) fn read_event(call: &Call, validation: FieldValidation) -> Result<Sent, Status> {
    let read = match body_media(&call.headers)? {
        Media::Json => json(call.api, &call.body),
        Media::Yaml => from_yaml(call.api, &call.body),
        Media::Protobuf => protobuf(call.api, &call.body),
    };
    let Document {
        target,
        event,
        reading,
    } = read.map_err(|refusal| refusal.status(&call.body))?;
    let warnings = validation
        .heed(reading.notes.texts)
        .map_err(|why| Refusal::Unfit(target.clone(), why).status(&call.body))?;
    if target.api != call.api || !target.served {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            target.group_version,
            call.api.api_version()
        ))
        .warning(&warnings));
    }
    Ok(Sent { event, warnings })
}

/// A decoded body.
struct Document {
    target: Target,
    event: Event,
    reading: Reading,
}

/// The reason why a body is not an event.
enum Refusal {
    /// Its kind cannot be read.
    Unrecognized(String),
    /// Its kind can be read, but the rest is not of that kind.
    Unfit(Target, String),
}

impl Refusal {
    /// The Status of kube-apiserver's `transformDecodeError`.
    fn status(&self, body: &[u8]) -> Status {
        Status::bad_request(match self {
            Self::Unrecognized(why) => format!(
                "the object provided is unrecognized (must be of type Event): {why} ({})",
                summary(body)
            ),
            Self::Unfit(target, why) => format!(
                "{} in version {} cannot be handled as a Event: {why}",
                target.kind,
                go_quote(&target.version)
            ),
        })
    }
}

/// The beginning of a body, in hexadecimal digits if it does not look like JSON.
fn summary(body: &[u8]) -> String {
    const LEN_MAX: usize = 30;
    let head = body.get(..LEN_MAX).unwrap_or(body);
    let more = if body.len() > LEN_MAX { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let digits = head
                .iter()
                .fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
            digits + more
        }
    }
}

fn json(api: Api, body: &[u8]) -> Result<Document, Refusal> {
    let read = |api: Api, body: &[u8]| {
        let mut reading = Reading::default();
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let read = codec::read_event(api, &mut deserializer, &mut reading)
            .and_then(|read| deserializer.end().map(|()| read));
        (read.map_err(|error| error.to_string()), reading)
    };
    let (mut result, mut reading) = read(api, body);
    if result.is_err() || reading.complaint().is_some() {
        if let Some(why) = not_json(body) {
            return Err(Refusal::Unrecognized(why));
        }
        if reading.complaint().is_none() {
            // Some text is valid only in Go.
            (result, reading) = read(api, &replace_what_is_no_text(body));
        }
    }
    let type_meta = || {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        codec::read_type_meta(&mut deserializer).unwrap_or_default()
    };
    settle(api, result, reading, type_meta, |other| read(other, body))
}

fn from_yaml(api: Api, body: &[u8]) -> Result<Document, Refusal> {
    let (value, repeated) = yaml_value(body).map_err(Refusal::Unrecognized)?;
    let read = |api: Api| {
        let mut reading = Reading::default();
        let read = codec::read_event(api, value.clone(), &mut reading);
        (read.map_err(|error| error.to_string()), reading)
    };
    let (result, reading) = read(api);
    let type_meta = || codec::read_type_meta(value.clone()).unwrap_or_default();
    let mut document = settle(api, result, reading, type_meta, read)?;
    document.reading.notes.texts.splice(0..0, repeated);
    Ok(document)
}

fn protobuf(api: Api, body: &Bytes) -> Result<Document, Refusal> {
    let (type_meta, raw) = enveloped(body).map_err(Refusal::Unrecognized)?;
    let target = Target::of(api, &type_meta)?;
    let event = codec::read_protobuf_event(target.api, raw)
        .map_err(|why| Refusal::Unfit(target.clone(), why))?;
    Ok(Document {
        target,
        event,
        reading: Reading::default(),
    })
}

type Read = (Result<(TypeMeta, Event), String>, Reading);

/// The document, or the error. An event of the other version is read again as that version, because
/// the two have different fields.
fn settle(
    api: Api,
    result: Result<(TypeMeta, Event), String>,
    reading: Reading,
    type_meta: impl FnOnce() -> TypeMeta,
    again: impl FnOnce(Api) -> Read,
) -> Result<Document, Refusal> {
    if let Some(why) = reading.uninterpretable() {
        return Err(Refusal::Unrecognized(why.to_owned()));
    }
    let target = match &result {
        Ok((type_meta, _)) => Target::of(api, type_meta)?,
        // The kind decides about the error, wherever the reading stopped.
        Err(_) => Target::of(api, &type_meta())?,
    };
    let (result, reading) = if target.api == api {
        (result, reading)
    } else {
        again(target.api)
    };
    match (reading.complaint(), result) {
        (Some(why), _) => Err(Refusal::Unfit(target, why.to_owned())),
        (None, Err(why)) => Err(Refusal::Unfit(target, why)),
        (None, Ok((_, event))) => Ok(Document {
            target,
            event,
            reading,
        }),
    }
}

/// The version and kind of a document. The defaults are those of the request's path.
#[derive(Clone)]
struct Target {
    group_version: String,
    version: String,
    kind: String,
    /// The API version by whose fields the document is read.
    api: Api,
    /// Whether that version is served.
    served: bool,
}

impl Target {
    fn of(api: Api, type_meta: &TypeMeta) -> Result<Self, Refusal> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let group_version =
            given(&type_meta.api_version).unwrap_or_else(|| api.api_version().into());
        let kind = given(&type_meta.kind).unwrap_or_else(|| "Event".into());
        let (group, version) = group_version
            .split_once('/')
            .unwrap_or(("", &group_version));
        if version.contains('/') {
            let why = format!("unexpected GroupVersion string: {group_version}");
            return Err(Refusal::Unrecognized(why));
        }
        let known = match (group, version, kind.as_str()) {
            ("", "v1", "Event") => Some((Api::Core, true)),
            ("events.k8s.io", "v1", "Event") => Some((Api::Events, true)),
            ("events.k8s.io", "v1beta1", "Event") => Some((Api::Events, false)),
            _ => None,
        };
        let group_version = match group {
            "" => version.to_owned(),
            _ => group_version.clone(),
        };
        let (of, served) = known.unwrap_or((api, false));
        let target = Self {
            version: version.to_owned(),
            api: of,
            served,
            group_version: group_version.clone(),
            kind,
        };
        if known.is_some() {
            return Ok(target);
        }
        let why = codec::unknown_kind(&group_version, &target.kind);
        Err(Refusal::Unfit(target, why))
    }
}

/// The API version of events that a document names.
///
/// # Errors
/// The message for a document that is not an event.
pub(in crate::api) fn named(api: Api, type_meta: &TypeMeta) -> Result<Api, String> {
    match Target::of(api, type_meta) {
        Ok(target) => Ok(target.api),
        Err(Refusal::Unrecognized(why) | Refusal::Unfit(_, why)) => Err(why),
    }
}

/// An answer with an encoded body.
pub(crate) fn encoded(code: StatusCode, media: Media, body: Vec<u8>) -> Response {
    let content_type = HeaderValue::from_static(media.content_type());
    (code, [(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Answers with one event.
pub(crate) fn event_response(
    call: &Call,
    form: Form,
    code: StatusCode,
    event: &Event,
    now: jiff::Timestamp,
    warnings: &[String],
) -> Result<Response, Status> {
    let rows = table_rows(call, form, now)?;
    let (media, body) = encode_one(call.api, form, event, Some(&rows))?;
    let mut response = encoded(code, media, body);
    warn(warnings, response.headers_mut());
    Ok(response)
}

/// How rows are made for this call, if its answer is a table.
pub(crate) fn table_rows(call: &Call, form: Form, now: jiff::Timestamp) -> Result<Rows, Status> {
    let api_version = match form.shape {
        Shape::Table(api_version) => api_version,
        Shape::Whole | Shape::Partial(_) => "meta.k8s.io/v1",
        Shape::Mismatch(why) => return Err(Status::shape_mismatch(why)),
    };
    Ok(Rows {
        api: call.api,
        api_version,
        include_object: match form.shape {
            Shape::Table(_) => call.info.query.include_object()?,
            _ => IncludeObject::default(),
        },
        now,
    })
}

fn encode_one(
    api: Api,
    form: Form,
    event: &Event,
    rows: Option<&Rows>,
) -> Result<(Media, Vec<u8>), Status> {
    let mut json = Vec::with_capacity(1024);
    match form.shape {
        Shape::Mismatch(why) => return Err(Status::shape_mismatch(why)),
        Shape::Table(_) => {
            let rows = rows.ok_or_else(|| Status::internal("a table without rows"))?;
            json = table_of_one(rows, event, true);
        }
        Shape::Partial(api_version) => {
            let metadata = event.metadata.clone().unwrap_or_default();
            if form.media == Media::Protobuf {
                let metadata = Some(metadata);
                let partial = PartialObjectMetadata { metadata };
                let body = codec::protobuf::envelop(api_version, "PartialObjectMetadata", &partial);
                return Ok((Media::Protobuf, body));
            }
            codec::write_partial(&metadata, api_version, true, &mut json);
        }
        Shape::Whole if form.media == Media::Protobuf => {
            return Ok((Media::Protobuf, codec::protobuf_event(api, event.clone())));
        }
        Shape::Whole => codec::write_event(api, event, true, &mut json),
    }
    present(form, json)
}

fn table_of_one(rows: &Rows, event: &Event, columns: bool) -> Vec<u8> {
    let mut json = Vec::with_capacity(2048);
    let metadata = event.metadata.as_ref();
    let meta = ListMeta {
        resource_version: metadata.and_then(|metadata| metadata.resource_version.clone()),
        ..ListMeta::default()
    };
    rows.write_start(&meta, columns, &mut json);
    rows.write_row(event, &mut json);
    Rows::write_end(&mut json);
    json
}

/// The bytes of one event for a watch: JSON without a line end, or enveloped protobuf.
pub(crate) fn encode_watched(
    api: Api,
    form: Form,
    event: &Event,
    rows: Option<(Rows, bool)>,
) -> Result<Bytes, Status> {
    if let Some((rows, columns)) = rows {
        return Ok(table_of_one(&rows, event, columns).into());
    }
    let plain = Form {
        pretty: false,
        ..form
    };
    let (media, mut body) = encode_one(api, plain, event, None)?;
    if media == Media::Json && body.last() == Some(&b'\n') {
        body.pop();
    }
    Ok(body.into())
}
