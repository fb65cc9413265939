//! Tests of the content of a Status.

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

#[test]
fn who_may_not_watch_is_told_what_can_be_watched() {
    let begun = "watch is not supported: this is a sealed archive of the events of cluster \
                 \"prod\"; the cluster itself, and an archive that follows it, can be watched";
    for (address, option, end) in [
        (None, None, ""),
        (Some("https://a"), None, ": https://a"),
        (
            None,
            Some("--waiting"),
            ", and so can this server if it is started with --waiting",
        ),
    ] {
        let unwatched = Unwatched {
            address: address.map(str::to_owned),
            option,
        };
        let status = Status::unwatched("prod", &unwatched);
        assert_eq!(status.code(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(status.message(), format!("{begun}{end}"));
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
