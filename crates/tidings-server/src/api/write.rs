//! Create, update and patch of one event.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::access;
use super::apply;
use super::body::{self, Sent, event_response};
use super::call::Call;
use super::commit::{
    AFTER_ADMISSION, CHANGE_ATTEMPTS, Changed, change, check_place, now, store_new,
};
use crate::admission::Gate;
use crate::api::options::ManagedFields;
use crate::api::rules;
use crate::api::server::ApiServer;
use crate::http::negotiate::{Answer, Form};
use crate::http::query::WriteOptions;
use crate::http::status::Status;
use crate::http::stored::Key;
use tidings_api::codec::json::Reading;
use tidings_api::codec::{self, Api};
use tidings_api::managed::{self, Writer};
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
        mut warnings,
    } = body::read_event(&call, options.field_validation)?;
    warnings.extend(rules::dedup_owner_references(&mut event, ""));
    let mut gate = server.gate(&call.user.name, call.api, options.dry_run);
    // Boxed, to keep the handler's future small.
    let event = Box::pin(create_event(&server, &call, event, &options, &mut gate))
        .await
        .map_err(|status| status.warning(&warnings))?;
    event_response(
        &call,
        form,
        StatusCode::CREATED,
        &event,
        server.clock.now(),
        &warnings,
    )
}

async fn create_event(
    server: &ApiServer,
    call: &Call,
    mut event: Event,
    options: &WriteOptions,
    gate: &mut Gate<'_>,
) -> Result<Event, Status> {
    rules::wipe_system_fields(event.metadata.get_or_insert_default());
    track(server, call, options, None, &mut event);
    store_new(server, call, event, options.dry_run, gate).await
}

/// PUT of an event; creates it if there is none.
pub(crate) async fn replace(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = call.info.query.write_options("UpdateOptions")?;
    let Sent { event, warnings } = body::read_event(&call, options.field_validation)?;
    let said = warnings.clone();
    Box::pin(replace_with(server, call, form, &options, event, warnings))
        .await
        .map_err(|status| status.warning(&said))
}

async fn replace_with(
    server: Arc<ApiServer>,
    call: Call,
    form: Form,
    options: &WriteOptions,
    mut event: Event,
    mut warnings: Vec<String>,
) -> Result<Response, Status> {
    check_place(&call, event.metadata.get_or_insert_default())?;
    warnings.extend(rules::dedup_owner_references(&mut event, ""));
    let answer = |code, event: &Event| {
        event_response(&call, form, code, event, server.clock.now(), &warnings)
    };

    let mut gate = server.gate(&call.user.name, call.api, options.dry_run);
    for _ in 0..CHANGE_ATTEMPTS {
        let stored = match server.stored(call.api, &call.key()).await {
            Err(status) if status.code() == StatusCode::NOT_FOUND => {
                let metadata = event.metadata.get_or_insert_default();
                if !metadata.uid().is_empty() {
                    return Err(wrong_uid(call.api, &call.key(), metadata.uid(), ""));
                }
                access::require_create(&server, &call).await?;
                let mut event = event.clone();
                event.metadata.get_or_insert_default().resource_version = None;
                match create_event(&server, &call, event, options, &mut gate).await {
                    // Another request has just created it: replace it.
                    Err(status) if status.code() == StatusCode::CONFLICT && !options.dry_run => {
                        continue;
                    }
                    created => return answer(StatusCode::CREATED, &created?),
                }
            }
            stored => stored?,
        };
        let metadata = event.metadata.get_or_insert_default();
        let stored_uid = stored
            .event
            .metadata
            .as_ref()
            .map(ObjectMeta::uid)
            .unwrap_or_default();
        if !metadata.uid().is_empty() && metadata.uid() != stored_uid {
            return Err(wrong_uid(call.api, &call.key(), metadata.uid(), stored_uid));
        }
        let mut new = event.clone();
        track(&server, &call, options, Some(&stored.event), &mut new);
        match change(&server, &call, &stored, new, options.dry_run, &mut gate).await? {
            Changed::Done(event) => return answer(StatusCode::OK, &event),
            Changed::Overtaken => {}
        }
    }
    Err(Status::modified(call.api, &call.info.name))
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
    let patch = match kind {
        PatchKind::Apply => return apply::apply(&server, &call, form, &options).await,
        kind => Patch::parse(kind, &call.body, options.field_validation),
    };

    let mut gate = server.gate(&call.user.name, call.api, options.dry_run);
    for _ in 0..CHANGE_ATTEMPTS {
        let stored = server.stored(call.api, &call.key()).await?;
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
        let mut warnings = patch
            .heed(reading, options.field_validation)
            .map_err(|complaint| Status::invalid_patched_object(patch.shown(&value), &complaint))?;
        check_place(&call, patched.metadata.get_or_insert_default())
            .map_err(|status| status.warning(&warnings))?;
        track(&server, &call, &options, Some(&stored.event), &mut patched);
        warnings.extend(rules::dedup_owner_references(&mut patched, AFTER_ADMISSION));
        match change(&server, &call, &stored, patched, options.dry_run, &mut gate)
            .await
            .map_err(|status| status.warning(&warnings))?
        {
            Changed::Done(event) => {
                return event_response(
                    &call,
                    form,
                    StatusCode::OK,
                    &event,
                    server.clock.now(),
                    &warnings,
                );
            }
            Changed::Overtaken => {}
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
            (None, Ok((type_meta, event))) if !patch.may_rename() => {
                match body::named(api, &type_meta) {
                    Ok(named) if named == of => return Ok((event, reading)),
                    Ok(named) => {
                        of = named;
                        continue;
                    }
                    Err(why) => why,
                }
            }
            (None, Ok((_, event))) => return Ok((event, reading)),
        };
        return Err(Status::invalid_patched_object(patch.shown(value), &why));
    }
}

fn wrong_uid(api: Api, Key { namespace, name }: &Key, wanted: &str, found: &str) -> Status {
    // A storage error of upstream, which names the key in etcd, whatever the store is.
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/events/{namespace}/{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    );
    Status::conflict(api, name, &why)
}

/// Updates the managed fields of an event that is created, or that replaces `live`.
fn track(
    server: &ApiServer,
    call: &Call,
    options: &WriteOptions,
    live: Option<&Event>,
    event: &mut Event,
) {
    let manager = call.manager(options);
    let writer = Writer {
        manager: &manager,
        api: call.api,
        now: now(server),
    };
    let always = server.options.managed_fields == ManagedFields::Always;
    managed::track(live, event, writer, always);
}
