//! Create, update and patch of one event.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::Value;
use tidings_core::validate::FieldErrors;
use tidings_store::{NewRecord, Record, WriteError};

use super::access;
use super::apply;
use super::body::{self, Sent, event_response};
use super::call::Call;
use crate::admission::Gate;
use crate::codec::json::Reading;
use crate::codec::{self, Api};
use crate::error::Status;
use crate::managed::{self, Writer};
use crate::metrics::Operation;
use crate::negotiate::{Answer, Form};
use crate::patch::{Patch, PatchKind};
use crate::query::{ResourceVersion, WriteOptions};
use crate::server::{ApiServer, Key, ManagedFields, Stored};
use crate::{random, rules};

/// So often a generated name is made anew when it is taken.
const GENERATE_ATTEMPTS: usize = 8;
/// Of a generateName so many bytes are kept before the random end.
const GENERATE_STEM_BYTES_MAX: usize = 58;
/// So often a change without a resourceVersion is made again on what another wrote in between.
pub(super) const CHANGE_ATTEMPTS: usize = 64;

/// Where kube-apiserver finds the repeated owners of a patched event.
pub(super) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// POST to a namespace's events.
pub(crate) async fn create(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = call.query.write_options("CreateOptions")?;
    let Sent {
        mut event,
        mut warnings,
    } = body::read_event(&call, options.field_validation)?;
    warnings.extend(rules::dedup_owner_references(&mut event, ""));
    let mut gate = server.gate(&call.user.name, call.api, options.dry_run);
    // Boxed, so that what holds this future is not longer by all of it.
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

/// Stores an event whose managed fields are settled, under a name that is made now if so asked.
pub(super) async fn store_new(
    server: &ApiServer,
    call: &Call,
    mut event: Event,
    dry_run: bool,
    gate: &mut Gate<'_>,
) -> Result<Event, Status> {
    let api = call.api;
    settle_namespace(event.metadata.get_or_insert_default(), &call.namespace)?;
    server
        .admission
        .check_namespace(&server.metrics.policy, api, &call.namespace, &event)?;
    let metadata = event.metadata.get_or_insert_default();
    let version = metadata
        .resource_version
        .take()
        .filter(|version| !version.is_empty());
    let uid = random::uuid().map_err(|error| Status::internal(error.to_string()))?;
    rules::prepare_create(metadata, uid, now(server));
    server.admission.fit(&mut event)?;
    let metadata = event.metadata.get_or_insert_default();

    let generated = metadata.name().is_empty() && !metadata.generate_name().is_empty();
    let attempts = if generated { GENERATE_ATTEMPTS } else { 1 };
    for attempt in 1..=attempts {
        if generated {
            let metadata = event.metadata.get_or_insert_default();
            metadata.name = Some(generated_name(metadata.generate_name())?);
        }
        let name = event
            .metadata
            .as_ref()
            .map(|metadata| metadata.name().to_owned())
            .unwrap_or_default();
        call.notes.name(&name);
        refuse_if_any(&name, &rules::check_create(api, &event))?;
        gate.pass(Operation::Create, &event)?;
        let key = Key {
            namespace: call.namespace.clone(),
            name,
        };
        if dry_run {
            let existing = server
                .store
                .get(key.bytes())
                .await
                .map_err(|error| Status::from_read(&error, None))?;
            if let Some(existing) = existing {
                return Err(taken(api, &key.name, existing));
            }
            event.metadata.get_or_insert_default().resource_version = version;
            return Ok(event);
        }
        // It is the store that refuses it, and one that is no number is none to it.
        if version
            .as_ref()
            .and_then(|version| version.parse::<u64>().ok())
            > Some(0)
        {
            return Err(Status::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        match server
            .store
            .create(key.bytes(), record(server, &mut event))
            .await
        {
            Ok(revision) => {
                event.metadata.get_or_insert_default().resource_version =
                    Some(revision.to_string());
                return Ok(event);
            }
            Err(WriteError::AlreadyExists { .. }) if generated && attempt < attempts => {}
            Err(WriteError::AlreadyExists { .. }) if generated => {
                return Err(Status::generated_name_taken(api, &key.name));
            }
            Err(error @ WriteError::AlreadyExists { .. }) => {
                return Err(match server.store.get(key.bytes()).await {
                    Ok(Some(existing)) => taken(api, &key.name, existing),
                    _ => Status::from_write(&error, api, &key.name),
                });
            }
            Err(error) => return Err(Status::from_write(&error, api, &key.name)),
        }
    }
    Err(Status::internal("no name could be generated"))
}

/// There is an event of that name already, and it may be on its way out.
fn taken(api: Api, name: &str, existing: Record) -> Status {
    let deleted = Stored::decode(existing).is_ok_and(|stored| {
        let metadata = stored.event.metadata;
        metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    });
    if deleted {
        Status::still_exists(api, name)
    } else {
        Status::already_exists(api, name)
    }
}

fn generated_name(base: &str) -> Result<String, Status> {
    let mut stem = base.len().min(GENERATE_STEM_BYTES_MAX);
    while !base.is_char_boundary(stem) {
        stem -= 1;
    }
    let suffix = random::name_suffix().map_err(|error| Status::internal(error.to_string()))?;
    Ok(format!("{}{suffix}", base.get(..stem).unwrap_or_default()))
}

/// PUT of an event; creates it if there is none.
pub(crate) async fn replace(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = call.query.write_options("UpdateOptions")?;
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
                    // Somebody else created it just now: replace that.
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
        match change(
            &server,
            call.api,
            &call.key(),
            &stored,
            new,
            options.dry_run,
            &mut gate,
        )
        .await?
        {
            Changed::Done(event) => return answer(StatusCode::OK, &event),
            Changed::Overtaken => {}
        }
    }
    Err(Status::modified(call.api, &call.name))
}

/// PATCH of an event.
pub(crate) async fn patch(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let kind = PatchKind::of(call.content_type())?;
    let form = call.form(Answer::Object)?;
    let options = call.query.patch_options(kind == PatchKind::Apply)?;
    let patch = match kind {
        PatchKind::Apply => return apply::apply(&server, &call, form, &options).await,
        kind => Patch::parse(kind, &call.body, options.field_validation),
    };

    let mut gate = server.gate(&call.user.name, call.api, options.dry_run);
    for _ in 0..CHANGE_ATTEMPTS {
        let stored = server.stored(call.api, &call.key()).await?;
        // What is wrong with a patch is told only of what is there.
        let patch = patch.as_ref().map_err(Status::clone)?;
        let mut json = Vec::with_capacity(1024);
        codec::write_event(call.api, &stored.event, true, &mut json);
        let mut value: Value =
            serde_json::from_slice(&json).map_err(|error| Status::internal(error.to_string()))?;
        patch.apply(&mut value)?;
        let (mut patched, reading) = read_patched(call.api, patch, &value)?;
        // The version the patch was applied to is not one it insists on: if somebody else is faster it is applied again. One that it
        // does name is refused then, because it is not the stored one any more.
        let applied_to = stored.record.revision.to_string();
        if let Some(metadata) = &mut patched.metadata
            && metadata.resource_version() == applied_to
        {
            metadata.resource_version = None;
        }
        let mut warnings = patch
            .heed(reading, options.field_validation)
            .map_err(|complaint| patch.unfit(&value, &complaint))?;
        check_place(&call, patched.metadata.get_or_insert_default())
            .map_err(|status| status.warning(&warnings))?;
        track(&server, &call, &options, Some(&stored.event), &mut patched);
        warnings.extend(rules::dedup_owner_references(&mut patched, AFTER_ADMISSION));
        match change(
            &server,
            call.api,
            &call.key(),
            &stored,
            patched,
            options.dry_run,
            &mut gate,
        )
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
    Err(Status::modified(call.api, &call.name))
}

/// Reads what a patch left behind.
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
        return Err(patch.unfit(value, &why));
    }
}

/// What became of an attempt to change an event.
pub(super) enum Changed {
    Done(Box<Event>),
    /// Somebody else changed it in between, and the request did not insist on a version: try again.
    Overtaken,
}

/// Puts `new`, whose managed fields are settled, in the place of what is stored.
pub(super) async fn change(
    server: &ApiServer,
    api: Api,
    key: &Key,
    stored: &Stored,
    mut new: Event,
    dry_run: bool,
    gate: &mut Gate<'_>,
) -> Result<Changed, Status> {
    let old = &stored.event;
    server.admission.fit(&mut new)?;
    let metadata = new.metadata.get_or_insert_default();
    let insisted = match ResourceVersion::parse(
        Some(metadata.resource_version()).filter(|version| !version.is_empty()),
    )? {
        ResourceVersion::At(revision) => Some(revision),
        ResourceVersion::Unset | ResourceVersion::Zero => None,
    };
    if insisted.is_some_and(|revision| revision != stored.record.revision) {
        return Err(Status::modified(api, &key.name));
    }
    rules::prepare_update(metadata, &old.metadata.clone().unwrap_or_default());
    let finished = metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty();
    if let Some(old) = &old.metadata {
        managed::keep_times(metadata, old);
    }
    refuse_if_any(&key.name, &rules::check_update(api, &new, old))?;
    gate.pass(Operation::Update, &new)?;

    let record = record(server, &mut new);
    // Events are compared, not bytes: kube-apiserver makes others of the same event.
    new.metadata.get_or_insert_default().resource_version =
        Some(stored.record.revision.to_string());
    let unchanged = new == *old;
    let revision = if unchanged || dry_run {
        Ok(stored.record.revision)
    } else if finished {
        // The last finalizer is gone: the delete that waited for it is done now.
        server
            .store
            .delete(key.bytes(), Some(stored.record.revision))
            .await
            .map(|_| stored.record.revision)
    } else {
        server
            .store
            .update(key.bytes(), record, stored.record.revision)
            .await
    };
    match revision {
        Ok(revision) => {
            new.metadata.get_or_insert_default().resource_version = Some(revision.to_string());
            Ok(Changed::Done(Box::new(new)))
        }
        Err(WriteError::Conflict { .. } | WriteError::NotFound) if insisted.is_none() => {
            Ok(Changed::Overtaken)
        }
        Err(error) => Err(Status::from_write(&error, api, &key.name)),
    }
}

fn wrong_uid(api: Api, Key { namespace, name }: &Key, wanted: &str, found: &str) -> Status {
    // The words of a storage error, which tell where etcd has the event, whatever the store is.
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/events/{namespace}/{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    );
    Status::conflict(api, name, &why)
}

/// Settles who manages what in an event to be created, or written over `live`.
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

/// An event has to have the namespace and the name of the request's path; the namespace may be left out.
pub(super) fn check_place(call: &Call, metadata: &mut ObjectMeta) -> Result<(), Status> {
    settle_namespace(metadata, &call.namespace)?;
    match metadata.name() {
        name if name == call.name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        ))),
        name => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        ))),
    }
}

fn settle_namespace(metadata: &mut ObjectMeta, namespace: &str) -> Result<(), Status> {
    if metadata.namespace().is_empty() {
        metadata.namespace = Some(namespace.to_owned());
    } else if metadata.namespace() != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn refuse_if_any(name: &str, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("Event", "", name, errors))
    }
}

/// The record of an event written now. What waits for finalizers does not expire.
pub(super) fn record(server: &ApiServer, event: &mut Event) -> NewRecord {
    let deleted = event
        .metadata
        .as_ref()
        .is_some_and(|metadata| metadata.deletion_timestamp.is_some());
    let record = NewRecord::new(codec::encode_stored(event)).index(rules::index(event));
    if deleted {
        record
    } else {
        record.expires_at(server.expiry(event))
    }
}

pub(super) fn now(server: &ApiServer) -> Time {
    Time {
        seconds: Some(server.clock.now().as_second()),
        nanos: Some(0),
    }
}
