//! Create, update and patch of one event.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::apply;
use super::commit::{AFTER_ADMISSION, CHANGE_ATTEMPTS, Write, Written};
use super::rules;
use crate::api::request::Call;
use crate::api::request::{Sent, named, read_event};
use crate::api::server::ApiServer;
use crate::http::negotiate::Answer;
use crate::http::status::Status;
use crate::http::stored::Key;
use tidings_api::codec::json::Reading;
use tidings_api::codec::{self, Api};
use tidings_api::patch::{Patch, PatchError, PatchKind};

/// POST to a namespace's events.
pub(crate) async fn create(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = call.info.query.write_options("CreateOptions")?;
    let Sent {
        mut event,
        warnings,
    } = read_event(&call, options.field_validation)?;
    let mut write = Write::new(&server, &call, form, &options, warnings);
    write.dedup_owners(&mut event, "");
    if !server.options.keep_identities {
        rules::wipe_system_fields(event.metadata.get_or_insert_default());
    }
    write.track(None, &mut event);
    // Boxed, to keep the handler's future small.
    let created = Box::pin(write.create(event)).await;
    write.answer(created.map(|event| (StatusCode::CREATED, event)))
}

/// PUT of an event; creates it if there is none.
pub(crate) async fn replace(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = call.info.query.write_options("UpdateOptions")?;
    let Sent { event, warnings } = read_event(&call, options.field_validation)?;
    let mut write = Write::new(&server, &call, form, &options, warnings);
    let replaced = Box::pin(replace_with(&mut write, event)).await;
    write.answer(replaced)
}

async fn replace_with(write: &mut Write<'_>, mut event: Event) -> Result<Written, Status> {
    let call = write.call;
    write.check_place(event.metadata.get_or_insert_default())?;
    write.dedup_owners(&mut event, "");
    for _ in 0..CHANGE_ATTEMPTS {
        let stored = write.stored().await?;
        let live = stored.as_ref().map(|stored| &stored.event);
        let (wanted, found) = (uid(Some(&event)), uid(live));
        if !wanted.is_empty() && wanted != found {
            return Err(wrong_uid(call.api, &call.key(), wanted, found));
        }
        let mut new = event.clone();
        if live.is_none() {
            rules::wipe_system_fields(new.metadata.get_or_insert_default());
        }
        write.track(live, &mut new);
        if let Some(written) = write.put(stored.as_ref(), new).await? {
            return Ok(written);
        }
    }
    Err(Status::modified(call.api, &call.info.name))
}

fn uid(event: Option<&Event>) -> &str {
    let metadata = event.and_then(|event| event.metadata.as_ref());
    metadata.map(ObjectMeta::uid).unwrap_or_default()
}

/// The Status for a patch that cannot be read or applied.
fn refused(error: PatchError) -> Status {
    match error {
        PatchError::Malformed(why) => Status::bad_request(why),
        PatchError::TooManyOperations(_) => Status::too_large(error),
        PatchError::NoPatch => Status::unsupported_patch(),
        PatchError::Unprocessable => Status::unprocessable(),
        _ => Status::internal(error),
    }
}

/// PATCH of an event.
pub(crate) async fn patch(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let kind = PatchKind::of(call.content_type()).ok_or_else(Status::unsupported_patch)?;
    let form = call.form(Answer::Object)?;
    let options = call.info.query.patch_options(kind == PatchKind::Apply)?;
    let mut write = Write::new(&server, &call, form, &options, Vec::new());
    let written = match kind {
        PatchKind::Apply => apply::apply(&mut write).await,
        kind => patch_with(&mut write, kind).await,
    };
    write.answer(written)
}

async fn patch_with(write: &mut Write<'_>, kind: PatchKind) -> Result<Written, Status> {
    let (server, call) = (write.server, write.call);
    let validation = write.options.field_validation;
    let patch = Patch::parse(kind, &call.body, validation);
    for _ in 0..CHANGE_ATTEMPTS {
        write.warnings.clear();
        let stored = call.stored(server).await?;
        // Errors of a patch are reported only if the event exists.
        let patch = patch.as_ref().map_err(|error| refused(error.clone()))?;
        let mut json = Vec::with_capacity(1024);
        codec::write_event(call.api, &stored.event, true, &mut json);
        let mut value: Value = serde_json::from_slice(&json).map_err(Status::internal)?;
        patch.apply(&mut value).map_err(refused)?;
        let (mut patched, reading) = read_patched(call.api, patch, &value)?;
        // If the patch did not change the resourceVersion, it is applied again when another request
        // is faster. A patch that names another version is refused, because that is not the stored
        // one.
        let applied_to = stored.record.revision.to_string();
        if let Some(metadata) = &mut patched.metadata
            && metadata.resource_version() == applied_to
        {
            metadata.resource_version = None;
        }
        write.warnings = patch
            .heed(reading, validation)
            .map_err(|complaint| Status::invalid_patched_object(patch.shown(&value), &complaint))?;
        write.check_place(patched.metadata.get_or_insert_default())?;
        write.track(Some(&stored.event), &mut patched);
        write.dedup_owners(&mut patched, AFTER_ADMISSION);
        if let Some(written) = write.put(Some(&stored), patched).await? {
            return Ok(written);
        }
    }
    Err(Status::modified(call.api, &call.info.name))
}

/// Reads a patched event.
fn read_patched(api: Api, patch: &Patch, value: &Value) -> Result<(Event, Reading), Status> {
    let mut of = api;
    loop {
        let mut reading = patch.reading();
        let read = codec::read_event(of, value, &mut reading);
        let why = match (reading.uninterpretable().or(reading.complaint()), read) {
            (Some(why), _) => why.to_owned(),
            (None, Err(error)) => error.to_string(),
            (None, Ok((type_meta, event))) if !patch.may_rename() => match named(api, &type_meta) {
                Ok(named) if named == of => return Ok((event, reading)),
                Ok(named) => {
                    of = named;
                    continue;
                }
                Err(why) => why,
            },
            (None, Ok((_, event))) => return Ok((event, reading)),
        };
        return Err(Status::invalid_patched_object(patch.shown(value), &why));
    }
}

fn wrong_uid(api: Api, Key { namespace, name }: &Key, wanted: &str, found: &str) -> Status {
    // Upstream answers with a storage error that names the key in etcd, whatever the store is.
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/events/{namespace}/{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    );
    Status::conflict(api, name, &why)
}
