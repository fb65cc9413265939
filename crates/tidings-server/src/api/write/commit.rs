//! Writes one event: managed fields, validation, admission, the store, and the answer.

use axum::response::Response;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_core::floor_char_boundary;
use tidings_core::validate::FieldErrors;
use tidings_store::{NewRecord, Record, WriteError};

use super::rules;
use crate::admission::{Gate, Operation};
use crate::api::request::Call;
use crate::api::request::event_response;
use crate::api::server::ApiServer;
use crate::api::server::ManagedFields;
use crate::api::{access, random};
use crate::http::list_options::ResourceVersion;
use crate::http::negotiate::Form;
use crate::http::query::WriteOptions;
use crate::http::status::Status;
use crate::http::stored::{Key, Stored};
use tidings_api::codec::{self, Api, set_revision};
use tidings_api::managed::{self, Writer};

/// Maximum attempts to find a generated name that is not taken.
const GENERATE_ATTEMPTS: usize = 8;
/// Maximum bytes of a generateName that are kept before the random suffix.
const GENERATE_STEM_BYTES_MAX: usize = 58;
/// Maximum attempts of a change without a resourceVersion. Each applies it to the state that other
/// requests have written meanwhile.
pub(in crate::api) const CHANGE_ATTEMPTS: usize = 64;

/// The place in kube-apiserver at which it finds the repeated owners of a patched event.
pub(in crate::api) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// The event as stored, and the status code of the answer.
pub(in crate::api) type Written = (StatusCode, Event);

/// A write in progress.
pub(in crate::api) struct Write<'a> {
    pub(in crate::api) server: &'a ApiServer,
    pub(in crate::api) call: &'a Call,
    pub(in crate::api) options: &'a WriteOptions,
    form: Form,
    gate: Gate<'a>,
    /// Warnings about the request, for the answer or the error.
    pub(in crate::api) warnings: Vec<String>,
}

impl<'a> Write<'a> {
    pub(in crate::api) fn new(
        server: &'a ApiServer,
        call: &'a Call,
        form: Form,
        options: &'a WriteOptions,
        warnings: Vec<String>,
    ) -> Self {
        let gate = server.gate(&call.user.name, options.dry_run);
        Self {
            server,
            call,
            options,
            form,
            gate,
            warnings,
        }
    }

    /// The answer to the request.
    pub(in crate::api) fn answer(
        self,
        written: Result<Written, Status>,
    ) -> Result<Response, Status> {
        let (code, event) = written.map_err(|status| status.warning(&self.warnings))?;
        let now = self.server.clock.now();
        event_response(self.call, self.form, code, &event, now, &self.warnings)
    }

    /// The event that the request names, if it exists.
    pub(in crate::api) async fn stored(&self) -> Result<Option<Stored>, Status> {
        match self.call.stored(self.server).await {
            Err(status) if status.code() == StatusCode::NOT_FOUND => Ok(None),
            stored => stored.map(Some),
        }
    }

    /// Checks that an event has the name and namespace of the request's path; a missing namespace
    /// is filled in.
    pub(in crate::api) fn check_place(&self, metadata: &mut ObjectMeta) -> Result<(), Status> {
        let info = &self.call.info;
        settle_namespace(metadata, &info.namespace)?;
        match metadata.name() {
            name if name == info.name => Ok(()),
            "" => Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                info.name
            ))),
            name => Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                info.name
            ))),
        }
    }

    /// Removes repeated owners, with a warning. `place` is the place at which kube-apiserver finds
    /// them.
    pub(in crate::api) fn dedup_owners(&mut self, event: &mut Event, place: &str) {
        let warnings = rules::dedup_owner_references(event, place);
        self.warnings.extend(warnings);
    }

    /// Updates the managed fields of an event that is created, or that replaces `live`.
    pub(in crate::api) fn track(&self, live: Option<&Event>, event: &mut Event) {
        let manager = self.call.manager(self.options);
        let writer = Writer {
            manager: &manager,
            api: self.call.api,
            now: now(self.server),
        };
        let always = self.server.options.managed_fields == ManagedFields::Always;
        managed::track(live, event, writer, always);
    }

    /// Replaces the stored event, or creates one if there is none; its managed fields are up to
    /// date. `None` if another request was faster and this one names no resourceVersion: try again.
    pub(in crate::api) async fn put(
        &mut self,
        stored: Option<&Stored>,
        mut event: Event,
    ) -> Result<Option<Written>, Status> {
        if let Some(stored) = stored {
            let changed = self.change(stored, event).await?;
            return Ok(changed.map(|event| (StatusCode::OK, event)));
        }
        access::require_create(self.server, self.call).await?;
        event.metadata.get_or_insert_default().resource_version = None;
        match self.create(event).await {
            Err(status) if status.code() == StatusCode::CONFLICT && !self.options.dry_run => {
                Ok(None)
            }
            created => Ok(Some((StatusCode::CREATED, created?))),
        }
    }

    /// Stores a new event whose managed fields are up to date, and generates its name if requested.
    pub(in crate::api) async fn create(&mut self, mut event: Event) -> Result<Event, Status> {
        let (server, call, api) = (self.server, self.call, self.call.api);
        settle_namespace(event.metadata.get_or_insert_default(), &call.info.namespace)?;
        server
            .admission
            .check_namespace(api, &call.info.namespace, &event)?;
        let metadata = event.metadata.get_or_insert_default();
        let version = metadata.resource_version.take();
        let version = version.filter(|version| !version.is_empty());
        if !server.options.keep_identities {
            let uid = random::uuid().map_err(Status::internal)?;
            rules::prepare_create(metadata, uid, now(server));
        }
        server.admission.check_size(&event)?;
        let metadata = event.metadata.get_or_insert_default();

        let has_base = !metadata.generate_name().is_empty();
        let generated = metadata.name().is_empty() && has_base;
        let attempts = if generated { GENERATE_ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            if generated {
                let metadata = event.metadata.get_or_insert_default();
                metadata.name = Some(generated_name(metadata.generate_name())?);
            }
            let metadata = event.metadata.as_ref();
            let name = metadata.map(|it| it.name().to_owned()).unwrap_or_default();
            call.notes.name(&name);
            refuse_if_any(&name, &rules::check_create(api, &event))?;
            self.gate.pass(Operation::Create, &event)?;
            let key = Key {
                namespace: call.info.namespace.clone(),
                name,
            };
            if self.options.dry_run {
                if let Some(existing) = server.store.get(key.bytes()).await? {
                    if attempt < attempts {
                        continue;
                    }
                    return Err(taken(api, &key.name, has_base, Some(existing)));
                }
                event.metadata.get_or_insert_default().resource_version = version;
                return Ok(event);
            }
            // In kube-apiserver the store refuses this, and ignores a resourceVersion that is not a
            // number.
            let number = version.as_ref().and_then(|it| it.parse::<u64>().ok());
            if number > Some(0) {
                return Err(Status::internal(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
            let record = record(server, &mut event);
            match server.store.create(key.bytes(), record).await {
                Ok(revision) => {
                    set_revision(&mut event, revision);
                    return Ok(event);
                }
                Err(WriteError::AlreadyExists { .. }) if attempt < attempts => {}
                Err(WriteError::AlreadyExists { .. }) => {
                    let existing = server.store.get(key.bytes()).await.ok().flatten();
                    return Err(taken(api, &key.name, has_base, existing));
                }
                Err(error) => return Err(Status::from_write(&error, api, &key.name)),
            }
        }
        Err(Status::internal("no name could be generated"))
    }

    /// Replaces the stored event by `new`, whose managed fields are up to date.
    async fn change(&mut self, stored: &Stored, mut new: Event) -> Result<Option<Event>, Status> {
        let (server, api, key) = (self.server, self.call.api, self.call.key());
        let old = &stored.event;
        server.admission.check_size(&new)?;
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
        self.gate.pass(Operation::Update, &new)?;

        let record = record(server, &mut new);
        // Events are compared, not bytes: kube-apiserver encodes the same event to other bytes.
        set_revision(&mut new, stored.record.revision);
        let unchanged = new == *old;
        let (store, current) = (&server.store, stored.record.revision);
        let revision = if unchanged || self.options.dry_run {
            Ok(current)
        } else if finished {
            // The last finalizer was removed, so the deletion is completed.
            let deleted = store.delete(key.bytes(), Some(current)).await;
            deleted.map(|_| current)
        } else {
            store.update(key.bytes(), record, current).await
        };
        match revision {
            Ok(revision) => {
                set_revision(&mut new, revision);
                Ok(Some(new))
            }
            Err(WriteError::Conflict { .. } | WriteError::NotFound) if insisted.is_none() => {
                Ok(None)
            }
            Err(error) => Err(Status::from_write(&error, api, &key.name)),
        }
    }
}

/// The Status for a name that is taken; the existing event may be waiting for its finalizers.
/// `has_base` says whether the new event has a base of generated names
/// (`rest.CheckGeneratedNameError`).
fn taken(api: Api, name: &str, has_base: bool, existing: Option<Record>) -> Status {
    let deleted = existing.and_then(|existing| Stored::decode(existing).ok());
    let deleted = deleted.is_some_and(|stored| {
        let metadata = stored.event.metadata;
        metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    });
    let status = if has_base {
        Status::generated_name_taken(name)
    } else {
        Status::already_exists(api, name)
    };
    if deleted {
        status.still_exists()
    } else {
        status
    }
}

fn generated_name(base: &str) -> Result<String, Status> {
    let stem = floor_char_boundary(base, GENERATE_STEM_BYTES_MAX);
    let suffix = random::name_suffix().map_err(Status::internal)?;
    Ok(format!("{}{suffix}", base.get(..stem).unwrap_or_default()))
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

/// The record of an event that is written now. An event that waits for finalizers does not expire.
pub(in crate::api) fn record(server: &ApiServer, event: &mut Event) -> NewRecord {
    let metadata = event.metadata.as_ref();
    let deleted = metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some());
    let record = NewRecord::new(codec::encode_stored(event)).index(rules::index(event));
    if deleted {
        record
    } else {
        record.expires_at(server.expiry(event))
    }
}

pub(in crate::api) fn now(server: &ApiServer) -> Time {
    Time {
        seconds: Some(server.clock.now().as_second()),
        nanos: Some(0),
    }
}
