//! The Status of a forbidden request.

use tidings_core::validate::{Quoted, bounded_text};

use super::attributes::Attributes;
use crate::http::status::{Details, FORBIDDEN, MESSAGE_BYTES_MAX, Status};

/// The answer to a request that the user may not make. It follows
/// `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go`.
pub(crate) fn forbidden(user: &str, asked: &Attributes<'_>, why: &str) -> Status {
    let (what, details, deed) = match asked {
        Attributes::Path { verb, path } => (
            "forbidden".to_owned(),
            Details::default(),
            bounded_text(
                format_args!("User {} cannot {verb} path {}", Quoted(user), Quoted(path)),
                MESSAGE_BYTES_MAX,
            ),
        ),
        Attributes::Resource(asked) => {
            let qualified = if asked.group.is_empty() {
                asked.resource.to_string()
            } else {
                format!("{}.{}", asked.resource, asked.group)
            };
            let what = if asked.name.is_empty() {
                format!("{qualified} is forbidden")
            } else {
                format!("{qualified} {} is forbidden", Quoted(&asked.name))
            };
            let resource = if asked.subresource.is_empty() {
                asked.resource.to_string()
            } else {
                format!("{}/{}", asked.resource, asked.subresource)
            };
            let place = if asked.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", Quoted(&asked.namespace))
            };
            let deed = bounded_text(
                format_args!(
                    "User {} cannot {} resource {} in API group {} {place}",
                    Quoted(user),
                    asked.verb,
                    Quoted(&resource),
                    Quoted(&asked.group)
                ),
                MESSAGE_BYTES_MAX,
            );
            let details = Details {
                name: asked.name.to_string(),
                group: asked.group.to_string(),
                kind: asked.resource.to_string(),
                ..Details::default()
            };
            (what, details, deed)
        }
    };
    // Text from the user must not look like HTML.
    let deed = deed
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    };
    Status::of(FORBIDDEN, format!("{what}: {deed}{why}")).details(details)
}
