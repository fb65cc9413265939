//! An archive's own resources: the versions of an event, and the coverage of a followed cluster.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;

use super::body::{encoded, table_rows};
use super::call::Call;
use super::followed::{Followed, ObservedVersion};
use super::list_writer::ListWriter;
use crate::api::server::ApiServer;
use crate::http::continuation::Continuation;
use crate::http::list_options::ListOptions;
use crate::http::negotiate::{Answer, Form, Media};
use crate::http::status::Status;
use crate::http::stored::Key;
use tidings_api::codec;

/// When the archive received a version, in RFC 3339.
const OBSERVED_AT: &str = "tidings/observed-at";
/// Maximum versions in a page, and the default.
const VERSIONS_MAX: usize = 500;
/// The prefix of continue tokens of versions; those of events have a key there.
const AFTER: &str = "versions/";

/// GET of the versions of an event, newest first.
pub(crate) async fn versions(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let followed = followed(&server)?;
    let form = call.form(Answer::List)?;
    let options = ListOptions::parse(call.api, &call.info.query, false)?;
    if options.watch || !options.selector.is_empty() {
        return Err(Status::bad_request(
            "the versions of an event are neither watched nor selected",
        ));
    }
    let after = options.continue_token.as_deref();
    let after = after.map(|token| read_token(token, server.store_identity()));
    let limit = options.limit.unwrap_or(VERSIONS_MAX).min(VERSIONS_MAX);
    let key = call.key();
    let revision = server.store.revision();
    let page = followed
        .past
        .versions(key.bytes(), after.transpose()?, limit)
        .await?
        .ok_or_else(|| Status::not_found(call.api, &key.name))?;
    let meta = ListMeta {
        resource_version: Some(revision.to_string()),
        r#continue: page.more.map(|after| write_token(after, &server)),
        ..ListMeta::default()
    };
    let body = write(&server, &call, form, &meta, page.versions)?;
    Ok(encoded(StatusCode::OK, form.media, body))
}

/// The encoded answer. Only one version is decoded at a time.
fn write(
    server: &ApiServer,
    call: &Call,
    form: Form,
    meta: &ListMeta,
    versions: Vec<ObservedVersion>,
) -> Result<Vec<u8>, Status> {
    let key = call.key();
    let rows = table_rows(call, form, server.clock.now())?;
    let mut writer = ListWriter::new(call.api, form, rows);
    let mut items_len = 0;
    if form.media == Media::Protobuf {
        for version in &versions {
            items_len += writer.item_len(&as_observed(&key, version)?)?;
        }
    }
    let mut body = Vec::with_capacity(versions.len() * 1024 + 512);
    writer.write_start(meta, items_len, &mut body)?;
    for version in versions {
        writer.write_item(&as_observed(&key, &version)?, &mut body)?;
    }
    writer.write_end(meta, &mut body)?;
    Ok(body)
}

/// The event with its resourceVersion at the source, and the time at which it was received.
fn as_observed(key: &Key, version: &ObservedVersion) -> Result<Event, Status> {
    let mut event = codec::decode_stored(&version.value, 0)
        .map_err(|why| Status::damaged(&key.bytes(), &why))?;
    let metadata = event.metadata.get_or_insert_default();
    metadata.resource_version = Some(version.source_version.clone());
    if let Ok(observed_at) = Timestamp::from_millisecond(version.observed_at.0) {
        let annotations = &mut metadata.annotations;
        annotations.insert(OBSERVED_AT.into(), format!("{observed_at:.3}"));
    }
    Ok(event)
}

fn write_token(after: u64, server: &ApiServer) -> String {
    Continuation {
        revision: None,
        after: format!("{AFTER}{after}"),
        store: server.store_identity().to_owned(),
    }
    .encode()
}

fn read_token(token: &str, store: &str) -> Result<u64, Status> {
    let continuation = Continuation::decode_for(token, store)?;
    let after = continuation.after.strip_prefix(AFTER);
    let after = after.and_then(|after| after.parse().ok());
    after.ok_or_else(|| {
        Status::bad_request("invalid continue token: it is not of the versions of an event")
    })
}

/// GET /coverage
pub(crate) async fn coverage(State(server): State<Arc<ApiServer>>) -> Result<Response, Status> {
    let coverage = followed(&server)?.past.coverage().await?;
    let mut json = serde_json::to_vec_pretty(&coverage).map_err(Status::internal)?;
    json.push(b'\n');
    Ok(encoded(StatusCode::OK, Media::Json, json))
}

fn followed(server: &ApiServer) -> Result<&Followed, Status> {
    server.followed.as_ref().ok_or_else(Status::no_such_path)
}
