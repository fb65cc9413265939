//! The last part of every write: validation, admission, and the store.

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_core::validate::FieldErrors;
use tidings_store::{NewRecord, Record, WriteError};

use super::call::Call;
use super::{random, rules};
use crate::admission::{Gate, Operation};
use crate::api::server::ApiServer;
use crate::http::list_options::ResourceVersion;
use crate::http::status::Status;
use crate::http::stored::{Key, Stored};
use tidings_api::codec::{self, Api, set_revision};
use tidings_api::managed;

/// Maximum attempts to find a generated name that is not taken.
const GENERATE_ATTEMPTS: usize = 8;
/// Maximum bytes of a generateName that are kept before the random suffix.
const GENERATE_STEM_BYTES_MAX: usize = 58;
/// Maximum attempts of a change without a resourceVersion, each applied to what other requests
/// wrote in between.
pub(super) const CHANGE_ATTEMPTS: usize = 64;

/// Where kube-apiserver finds the repeated owners of a patched event.
pub(super) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// Stores an event whose managed fields are up to date, and generates its name if requested.
pub(super) async fn store_new(
    server: &ApiServer,
    call: &Call,
    mut event: Event,
    dry_run: bool,
    gate: &mut Gate<'_>,
) -> Result<Event, Status> {
    let api = call.api;
    settle_namespace(event.metadata.get_or_insert_default(), &call.info.namespace)?;
    server
        .admission
        .check_namespace(api, &call.info.namespace, &event)?;
    let metadata = event.metadata.get_or_insert_default();
    let version = metadata
        .resource_version
        .take()
        .filter(|version| !version.is_empty());
    let uid = random::uuid().map_err(Status::internal)?;
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
            namespace: call.info.namespace.clone(),
            name,
        };
        if dry_run {
            if let Some(existing) = server.store.get(key.bytes()).await? {
                return Err(taken(api, &key.name, existing));
            }
            event.metadata.get_or_insert_default().resource_version = version;
            return Ok(event);
        }
        // In kube-apiserver the store refuses this, and ignores a version that is not a number.
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
                set_revision(&mut event, revision);
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

/// An event of that name exists; it may be waiting for its finalizers.
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
    let suffix = random::name_suffix().map_err(Status::internal)?;
    Ok(format!("{}{suffix}", base.get(..stem).unwrap_or_default()))
}

/// The outcome of an attempt to change an event.
pub(super) enum Changed {
    Done(Box<Event>),
    /// Another request changed it meanwhile, and this request did not name a version: try again.
    Overtaken,
}

/// Replaces the stored event by `new`, whose managed fields are up to date.
pub(super) async fn change(
    server: &ApiServer,
    call: &Call,
    stored: &Stored,
    mut new: Event,
    dry_run: bool,
    gate: &mut Gate<'_>,
) -> Result<Changed, Status> {
    let (api, key, old) = (call.api, call.key(), &stored.event);
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
    // Events are compared, not bytes: kube-apiserver encodes the same event to other bytes.
    set_revision(&mut new, stored.record.revision);
    let unchanged = new == *old;
    let revision = if unchanged || dry_run {
        Ok(stored.record.revision)
    } else if finished {
        // The last finalizer was removed: complete the deletion.
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
            set_revision(&mut new, revision);
            Ok(Changed::Done(Box::new(new)))
        }
        Err(WriteError::Conflict { .. } | WriteError::NotFound) if insisted.is_none() => {
            Ok(Changed::Overtaken)
        }
        Err(error) => Err(Status::from_write(&error, api, &key.name)),
    }
}

/// Checks that an event has the name and namespace of the request's path; a missing namespace is
/// filled in.
pub(super) fn check_place(call: &Call, metadata: &mut ObjectMeta) -> Result<(), Status> {
    settle_namespace(metadata, &call.info.namespace)?;
    match metadata.name() {
        name if name == call.info.name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.info.name
        ))),
        name => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.info.name
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

/// The record of an event written now. An event that waits for finalizers does not expire.
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
