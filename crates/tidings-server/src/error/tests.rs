//! What a Status says, and how long it may be.

use std::sync::Arc;

use super::*;

#[test]
fn a_write_whose_outcome_is_unknown_is_a_timeout_and_not_a_refusal() {
    let fault = Fault::Unknown(Arc::new(std::io::Error::other("connection reset")));
    let status = Status::from_write(&WriteError::Fault(fault), Api::Core, "web.1");
    assert_eq!(status.code(), StatusCode::GATEWAY_TIMEOUT);
    let json: serde_json::Value = serde_json::from_slice(&status.to_json()).unwrap_or_default();
    assert_eq!(json["reason"], "Timeout");
    assert_eq!(
        json["message"],
        "Timeout: the outcome of the write is unknown: connection reset; it may have been done, read before trying again"
    );
}

/// Whatever stands in it, and in every form.
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
                let (_, body) = status.present(&headers(accept), &Query::default());
                let len = body.len();
                assert!(len <= 64 * 1024, "{len} bytes of {piece:?} as {accept}");
            }
        }
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let mut errors = FieldErrors::default();
    errors.extend((0..5000).map(|number| FieldError::required("f", format!("{number:1000}"))));
    let status = Status::invalid("Event", "", "web.1", &errors);
    let json: serde_json::Value = serde_json::from_slice(&status.to_json()).unwrap();
    let message = json["message"].as_str().unwrap();
    let (told, more) = message.rsplit_once("… and ").unwrap();
    let told = told.matches("Required value").count();
    assert_eq!(more, format!("{} more]", 5000 - told));
    let causes = json["details"]["causes"].as_array().unwrap();
    let last = causes.last().unwrap();
    let more = format!("… and {} more", 5000 - (causes.len() - 1));
    assert_eq!(*last, serde_json::json!({ "message": more }));
}
