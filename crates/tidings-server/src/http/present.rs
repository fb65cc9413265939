//! Writes JSON answers in the requested form.

use http::HeaderMap;
use serde_json::Value;

use crate::http::negotiate::{Answer, Form, Media, negotiate, negotiate_status};
use crate::http::query::Query;
use crate::http::status::Status;
use tidings_api::indent::Indenter;

/// Converts JSON to the requested form: indented, or YAML. It is never called for protobuf.
pub(crate) fn present(form: Form, mut json: Vec<u8>) -> Result<(Media, Vec<u8>), Status> {
    let reparse = |json: &[u8]| -> Result<Value, Status> {
        serde_json::from_slice(json).map_err(Status::internal)
    };
    match (form.media, form.pretty) {
        (Media::Yaml, _) => {
            let yaml = serde_saphyr::to_string(&reparse(&json)?).map_err(Status::internal)?;
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

/// Writes a Status in the form in which its client accepts errors (`ErrorNegotiated`). A success is
/// negotiated as any object is.
pub(crate) fn present_status(
    status: &Status,
    headers: &HeaderMap,
    query: &Query,
) -> (Media, Vec<u8>) {
    let form = if status.is_success() {
        negotiate(headers, query, Answer::Object)
            .unwrap_or_else(|_| negotiate_status(headers, query))
    } else {
        negotiate_status(headers, query)
    };
    if form.media == Media::Protobuf {
        return (Media::Protobuf, status.to_protobuf());
    }
    present(form, status.to_json()).unwrap_or_else(|_| (Media::Json, status.to_json()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use tidings_core::validate::{FieldError, FieldErrors};

    use super::*;
    use tidings_api::codec::Api;
    use tidings_api::managed::Conflict;

    /// The bound holds for any content, in every form.
    #[test]
    fn no_status_is_longer_than_64_kib() {
        let headers = |accept: &'static str| {
            let accept = (header::ACCEPT, HeaderValue::from_static(accept));
            HeaderMap::from_iter([accept])
        };
        for piece in [
            "x",
            "\"",
            "\\",
            "\u{1}",
            "\n",
            "é",
            "\u{2028}",
            "🦀",
            "- : #\n  ",
            "'\" ",
        ] {
            let long = piece.repeat(100_000);
            let error = || FieldError::invalid(long.clone(), &long, &long);
            let mut errors: FieldErrors = error().into();
            errors.extend((0..1000).map(|number| FieldError::required(long.clone(), number)));
            let mut short = FieldErrors::default();
            let texts = (0..5000).map(|number| FieldError::required("f", number));
            short.extend(texts);
            let conflicts = vec![
                Conflict {
                    manager: long.as_str().into(),
                    field: long.clone(),
                };
                100
            ];
            for status in [
                Status::bad_request(&long),
                Status::not_found(Api::Core, &long),
                Status::conflict(Api::Core, &long, &long),
                Status::invalid(&long, &long, &long, &errors),
                Status::invalid("Event", "", &long, &short),
                Status::apply_conflicts(&conflicts),
                Status::apply_conflicts(&conflicts[..1]),
                Status::expired(&long, Some(long.clone())),
            ] {
                for accept in [
                    "application/json",
                    "application/json;pretty=1",
                    "application/yaml",
                    "application/vnd.kubernetes.protobuf",
                ] {
                    let (_, body) = present_status(&status, &headers(accept), &Query::default());
                    let len = body.len();
                    assert!(len <= 64 * 1024, "{len} bytes of {piece:?} as {accept}");
                }
            }
        }
    }
}
