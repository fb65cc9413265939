//! Deletion of one event, or of many.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta};
use prost::Message;
use tidings_core::validate::{FieldError, FieldErrors, Quoted};
use tidings_store::{Record, WriteError};

use super::commit::{CHANGE_ATTEMPTS, now, record};
use crate::api::read::Pages;
use crate::api::read::list;
use crate::api::read::streamed::{self, Batches};
use crate::api::request::Call;
use crate::api::request::decoding::{enveloped, not_json, yaml_value};
use crate::api::request::event_response;
use crate::api::server::ApiServer;
use crate::http::list_options::ListOptions;
use crate::http::negotiate::{Answer, Media, body_media};
use crate::http::query::{dry_run_error, not_supported};
use crate::http::status::Status;
use crate::http::stored::{Key, Stored};
use tidings_api::codec::json::{Reading, TypeMeta};
use tidings_api::codec::{self, Api};

/// Maximum concurrent deletions of a collection's events; the store writes these together.
const DELETES_AT_ONCE: usize = 128;

/// DELETE of an event.
pub(crate) async fn delete(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Object)?;
    let options = read_delete_options(&call)?;
    let key = call.key();
    for _ in 0..CHANGE_ATTEMPTS {
        let stored = call.stored(&server).await?;
        let metadata = stored.event.metadata.clone().unwrap_or_default();
        match remove(&server, call.api, &key, &stored, &options).await? {
            Removed::Gone => {
                return Ok(Status::deleted(call.api, &key.name, metadata.uid()).into_response());
            }
            Removed::Waiting(event) => {
                let code = match options.orphan_dependents {
                    Some(false) => StatusCode::ACCEPTED,
                    _ => StatusCode::OK,
                };
                return event_response(&call, form, code, &event, server.clock.now(), &[]);
            }
            Removed::Overtaken => {}
        }
    }
    Err(Status::modified(call.api, &call.info.name))
}

enum Removed {
    Gone,
    /// The event's finalizers delay its deletion.
    Waiting(Box<Event>),
    Overtaken,
}

async fn remove(
    server: &ApiServer,
    api: Api,
    key: &Key,
    stored: &Stored,
    options: &Deletion,
) -> Result<Removed, Status> {
    let metadata = stored.event.metadata.as_ref();
    check_preconditions(key, options, metadata)?;
    let (store, revision) = (&server.store, stored.record.revision);
    // Finalizers of an archived event concern the event at its source.
    let held_back = server.followed.is_none()
        && metadata.is_some_and(|it| it.finalizers.iter().any(|one| is_waited_for(one)));
    let removed = if held_back {
        let mut event = Box::new(stored.event.clone());
        let metadata = event.metadata.get_or_insert_default();
        if metadata.deletion_timestamp.is_some() {
            return Ok(Removed::Waiting(event));
        }
        metadata.finalizers.retain(|one| is_waited_for(one));
        metadata.deletion_timestamp = Some(now(server));
        metadata.deletion_grace_period_seconds = Some(0);
        if options.dry_run {
            return Ok(Removed::Waiting(event));
        }
        let record = record(server, &mut event);
        let updated = store.update(key.bytes(), record, revision).await;
        updated.map(|revision| {
            codec::set_revision(&mut event, revision);
            Removed::Waiting(event)
        })
    } else if options.dry_run {
        Ok(Removed::Gone)
    } else {
        let deleted = store.delete(key.bytes(), Some(revision)).await;
        deleted.map(|_| Removed::Gone)
    };
    match removed {
        Err(WriteError::Conflict { .. }) => Ok(Removed::Overtaken),
        removed => removed.map_err(|error| Status::from_write(&error, api, &key.name)),
    }
}

/// Whether a deletion waits for a finalizer. Events have no dependents to collect, so a deletion
/// does not wait for the finalizers of the garbage collector
/// (`deletionFinalizersForGarbageCollection`).
fn is_waited_for(finalizer: &str) -> bool {
    !["orphan", "foregroundDeletion"].contains(&finalizer)
}

/// DELETE of a namespace's events, or of the selected ones.
pub(crate) async fn delete_collection(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::Deleted)?;
    let options = ListOptions::parse(call.api, &call.info.query, false)?;
    let delete_options = read_delete_options(&call)?;
    let deleting = Deleting {
        pages: list::pages(&server, &call, &options).await?,
        server: Arc::clone(&server),
        api: call.api,
        options: delete_options,
    };
    streamed::answer(&server, &call, form, deleting).await
}

/// A list whose pages are deleted before they are sent. At most one page is in progress, so if the
/// client does not read, or disconnects, the remaining events stay.
struct Deleting {
    pages: Pages,
    server: Arc<ApiServer>,
    api: Api,
    options: Deletion,
}

impl Batches for Deleting {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Status> {
        self.pages.next().await
    }

    fn is_done(&self) -> bool {
        self.pages.is_done()
    }

    fn restart(&mut self) {
        self.pages.restart();
    }

    async fn look_ahead(
        &mut self,
        lengths: bool,
        see: impl FnMut(&Record) -> Result<(), Status> + Send,
    ) -> Result<ListMeta, Status> {
        self.pages.look_ahead(lengths, see).await
    }

    async fn settle(&mut self, batch: &[Record]) -> Result<(), Status> {
        let mut deletions = FuturesUnordered::new();
        for record in batch {
            if deletions.len() >= DELETES_AT_ONCE {
                deletions.next().await.transpose()?;
            }
            deletions.push(remove_listed(&self.server, self.api, record, &self.options));
        }
        while let Some(done) = deletions.next().await {
            done?;
        }
        Ok(())
    }
}

/// Deletes a listed event, even if it has changed since, if the preconditions hold for its current
/// state.
async fn remove_listed(
    server: &ApiServer,
    api: Api,
    record: &Record,
    options: &Deletion,
) -> Result<(), Status> {
    let listed = &Stored::decode(record.clone())?;
    let metadata = listed.event.metadata.as_ref();
    let text = |of: fn(&ObjectMeta) -> &str| metadata.map(of).unwrap_or_default().to_owned();
    let key = Key {
        namespace: text(ObjectMeta::namespace),
        name: text(ObjectMeta::name),
    };
    let mut removed = remove(server, api, &key, listed, options).await;
    loop {
        match removed {
            Ok(Removed::Gone | Removed::Waiting(_)) => return Ok(()),
            Ok(Removed::Overtaken) => {}
            // Another request has deleted it, with the same result.
            Err(status) if status.code() == StatusCode::NOT_FOUND => return Ok(()),
            Err(status) => return Err(status),
        }
        removed = match server.stored(api, &key).await {
            Ok(stored) => remove(server, api, &key, &stored, options).await,
            Err(status) => Err(status),
        };
    }
}

#[derive(Default)]
struct Deletion {
    dry_run: bool,
    uid: Option<String>,
    resource_version: Option<String>,
    orphan_dependents: Option<bool>,
}

/// Reads `DeleteOptions` from the body, or else from the query. Grace period and propagation policy
/// have no effect on events.
fn read_delete_options(call: &Call) -> Result<Deletion, Status> {
    let options = if call.body.is_empty() {
        call.info.query.delete_options()?
    } else {
        decode_options(call)?
    };
    let mut errors = FieldErrors::default();
    if let Some(policy) = options.propagation_policy.as_deref() {
        if options.orphan_dependents.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(|| FieldError::invalid("propagationPolicy", policy, detail));
        }
        let policies = ["Foreground", "Background", "Orphan"];
        if !policies.contains(&policy) {
            let supported = [policies.as_slice(), &["nil"]].concat();
            errors.push(|| not_supported("propagationPolicy", Quoted(policy), &supported));
        }
    }
    let dry_run: Vec<&str> = options.dry_run.iter().map(String::as_str).collect();
    errors.extend(dry_run_error(&dry_run));
    if !errors.is_empty() {
        return Err(Status::invalid("DeleteOptions", "meta.k8s.io", "", &errors));
    }
    // A body replaces the query, except that a dry run may be requested in either.
    let dry_run = !dry_run.is_empty() || call.info.query.asks_for_dry_run();
    if dry_run {
        call.notes.dry_run();
    }
    let preconditions = options.preconditions.unwrap_or_default();
    Ok(Deletion {
        dry_run,
        uid: preconditions.uid,
        resource_version: preconditions.resource_version,
        orphan_dependents: options.orphan_dependents,
    })
}

fn decode_options(call: &Call) -> Result<DeleteOptions, Status> {
    let mut reading = Reading::default();
    let (type_meta, options) = match body_media(&call.headers)? {
        Media::Protobuf => {
            let (type_meta, raw) = enveloped(&call.body).map_err(Status::bad_request)?;
            let read = DeleteOptions::decode(raw).map_err(|error| error.to_string());
            (type_meta, read)
        }
        Media::Yaml => {
            let (value, _) = yaml_value(&call.body).map_err(Status::bad_request)?;
            let type_meta = codec::read_type_meta(value.clone()).unwrap_or_default();
            let read = codec::read_delete_options(value, &mut reading);
            (type_meta, read.map_err(|error| error.to_string()))
        }
        Media::Json => {
            if let Some(why) = not_json(&call.body) {
                return Err(Status::bad_request(why));
            }
            let read = || serde_json::Deserializer::from_slice(&call.body);
            let type_meta = codec::read_type_meta(&mut read()).unwrap_or_default();
            let read = codec::read_delete_options(&mut read(), &mut reading);
            (type_meta, read.map_err(|error| error.to_string()))
        }
    };
    if let Some(why) = reading.uninterpretable() {
        return Err(Status::bad_request(why));
    }
    check_kind(type_meta)?;
    match reading.complaint() {
        Some(why) => Err(Status::bad_request(why)),
        None => options.map_err(Status::bad_request),
    }
}

/// The kind must be DeleteOptions, in any version, or absent.
fn check_kind(type_meta: TypeMeta) -> Result<(), Status> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let group_version = given(type_meta.api_version).unwrap_or_else(|| "meta.k8s.io/v1".into());
    if group_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {group_version}");
        return Err(Status::bad_request(why));
    }
    match given(type_meta.kind) {
        Some(kind) if kind != "DeleteOptions" => Err(Status::bad_request(codec::not_registered(
            &group_version,
            &kind,
        ))),
        _ => Ok(()),
    }
}

fn check_preconditions(
    key: &Key,
    options: &Deletion,
    metadata: Option<&ObjectMeta>,
) -> Result<(), Status> {
    let is = metadata.map(ObjectMeta::uid).unwrap_or_default();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != is) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({is}). The object might have been deleted \
             and then recreated"
        );
        return Err(Status::precondition_failed(&key.name, &why));
    }
    let is = metadata
        .map(ObjectMeta::resource_version)
        .unwrap_or_default();
    match &options.resource_version {
        Some(version) if version != is => {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({is}). The \
                 object might have been modified"
            );
            Err(Status::precondition_failed(&key.name, &why))
        }
        _ => Ok(()),
    }
}
