//! Bodies: an event from what a client sent, and an answer in the form a client asked for.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use k8s_pb::api::core::v1::Event;
use serde_json::Value;

use super::call::Call;
use crate::codec::json::{Reading, TypeMeta};
use crate::codec::{self, Api};
use crate::error::Status;
use crate::indent::Indenter;
use crate::negotiate::{Form, Media, Shape, body_media};
use crate::query::FieldValidation;
use crate::table::{IncludeObject, Rows};

/// An event as sent, and the warnings its sender gets.
pub(crate) struct Sent {
    pub(crate) event: Event,
    pub(crate) warnings: Vec<String>,
}

/// Reads the event in a request's body.
///
/// # Errors
/// 415 for an unknown form, 400 for what is no event of the request's version or, if so asked, has unknown fields.
pub(crate) fn read_event(call: &Call, validation: FieldValidation) -> Result<Sent, Status> {
    let unreadable = |why: String| {
        Status::bad_request(format!(
            "Event in version {:?} cannot be handled as a Event: {why}",
            version(call.api)
        ))
    };
    let mut reading = Reading::default();
    let (type_meta, event) = match body_media(&call.headers)? {
        Media::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(&call.body);
            codec::read_event(call.api, &mut deserializer, &mut reading)
                .and_then(|read| deserializer.end().map(|()| read))
                .map_err(|error| unreadable(error.to_string()))?
        }
        Media::Yaml => {
            let value: Value = serde_saphyr::from_slice(&call.body)
                .map_err(|error| unreadable(error.to_string()))?;
            codec::read_event(call.api, value, &mut reading)
                .map_err(|error| unreadable(error.to_string()))?
        }
        Media::Protobuf => {
            let enveloped = codec::protobuf::open(&call.body).map_err(unreadable)?;
            let type_meta = TypeMeta {
                api_version: Some(enveloped.api_version),
                kind: Some(enveloped.kind),
            };
            check_type(call.api, &type_meta)?;
            (
                type_meta,
                codec::read_protobuf_event(call.api, enveloped.raw).map_err(unreadable)?,
            )
        }
    };
    check_type(call.api, &type_meta)?;
    let warnings = heed(reading, validation).map_err(Status::bad_request)?;
    Ok(Sent { event, warnings })
}

/// What becomes of the fields that were unknown or given twice.
///
/// # Errors
/// The complaint, if they are not accepted.
pub(crate) fn heed(reading: Reading, validation: FieldValidation) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(reading.notes),
        FieldValidation::Strict if reading.notes.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(format!(
            "strict decoding error: {}",
            reading.notes.join(", ")
        )),
    }
}

fn version(api: Api) -> &'static str {
    api.api_version().rsplit('/').next().unwrap_or_default()
}

/// A body may leave out what it is; if it says so, it has to be an event of the request's version.
fn check_type(api: Api, type_meta: &TypeMeta) -> Result<(), Status> {
    if let Some(kind) = type_meta
        .kind
        .as_deref()
        .filter(|kind| !kind.is_empty() && *kind != "Event")
    {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a Event: no kind {kind:?} is accepted here",
            type_meta.api_version.as_deref().unwrap_or(version(api)),
        )));
    }
    match type_meta.api_version.as_deref() {
        None | Some("") => Ok(()),
        Some(given) if given == api.api_version() => Ok(()),
        Some(given) => Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({})",
            api.api_version()
        ))),
    }
}

/// An answer with a body in some encoding.
pub(crate) fn encoded(code: StatusCode, media: Media, body: Vec<u8>) -> Response {
    let content_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(media.content_type()),
    )];
    (code, content_type, body).into_response()
}

/// Brings JSON into the form asked for: indented, or as YAML. Protobuf never comes here.
pub(crate) fn present(form: Form, mut json: Vec<u8>) -> Result<(Media, Vec<u8>), Status> {
    let reparse = |json: &[u8]| -> Result<Value, Status> {
        serde_json::from_slice(json).map_err(|error| Status::internal(error.to_string()))
    };
    match (form.media, form.pretty) {
        (Media::Yaml, _) => {
            let yaml = serde_saphyr::to_string(&reparse(&json)?)
                .map_err(|error| Status::internal(error.to_string()))?;
            Ok((Media::Yaml, yaml.into_bytes()))
        }
        (_, true) => {
            let mut pretty = Vec::new();
            Indenter::default().push(&json, &mut pretty);
            Ok((Media::Json, pretty))
        }
        _ => {
            json.push(b'\n');
            Ok((Media::Json, json))
        }
    }
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
    let (media, body) = encode_one(call.api, form, event, &|| table_rows(call, form, now))?;
    let mut response = encoded(code, media, body);
    for warning in warnings {
        let text = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

/// How rows are made for this call, if its answer is a table.
pub(crate) fn table_rows(call: &Call, form: Form, now: jiff::Timestamp) -> Result<Rows, Status> {
    let version = match form.shape {
        Shape::Table(version) => version,
        Shape::Whole | Shape::Partial(_) => "v1",
    };
    Ok(Rows {
        api: call.api,
        version,
        include_object: IncludeObject::parse(&call.query)?,
        now,
    })
}

fn encode_one(
    api: Api,
    form: Form,
    event: &Event,
    rows: &dyn Fn() -> Result<Rows, Status>,
) -> Result<(Media, Vec<u8>), Status> {
    let mut json = Vec::with_capacity(1024);
    match form.shape {
        Shape::Table(_) => {
            let rows = rows()?;
            let meta = k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta {
                resource_version: event
                    .metadata
                    .as_ref()
                    .and_then(|metadata| metadata.resource_version.clone()),
                ..Default::default()
            };
            rows.write_start(&meta, true, &mut json);
            rows.write_row(event, &mut json);
            Rows::write_end(&mut json);
        }
        Shape::Partial(version) => {
            let metadata = event.metadata.clone().unwrap_or_default();
            let api_version = format!("meta.k8s.io/{version}");
            if form.media == Media::Protobuf {
                let partial = k8s_pb::apimachinery::pkg::apis::meta::v1::PartialObjectMetadata {
                    metadata: Some(metadata),
                };
                let body =
                    codec::protobuf::envelop(&api_version, "PartialObjectMetadata", &partial);
                return Ok((Media::Protobuf, body));
            }
            codec::write_partial(&metadata, &api_version, true, &mut json);
        }
        Shape::Whole if form.media == Media::Protobuf => {
            return Ok((Media::Protobuf, codec::protobuf_event(api, event.clone())));
        }
        Shape::Whole => codec::write_event(api, event, true, &mut json),
    }
    present(form, json)
}

/// The bytes of one event for a watch: JSON without a line end, or enveloped protobuf.
pub(crate) fn encode_watched(
    api: Api,
    form: Form,
    event: &Event,
    rows: Option<&Rows>,
    columns: bool,
) -> Result<Bytes, Status> {
    if let Some(rows) = rows {
        let mut json = Vec::with_capacity(2048);
        let meta = k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta {
            resource_version: event
                .metadata
                .as_ref()
                .and_then(|metadata| metadata.resource_version.clone()),
            ..Default::default()
        };
        rows.write_start(&meta, columns, &mut json);
        rows.write_row(event, &mut json);
        Rows::write_end(&mut json);
        return Ok(json.into());
    }
    let plain = Form {
        pretty: false,
        ..form
    };
    let unreachable_rows = || Err(Status::internal("a table without rows"));
    let (media, mut body) = encode_one(api, plain, event, &unreachable_rows)?;
    if media == Media::Json && body.last() == Some(&b'\n') {
        body.pop();
    }
    Ok(body.into())
}
