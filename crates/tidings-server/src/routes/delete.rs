//! The deletion of one event, or of many.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use prost::Message;
use serde::Deserialize;
use tidings_store::{Record, WriteError};

use super::body::event_response;
use super::call::Call;
use super::list;
use super::write::{CHANGE_ATTEMPTS, now, record, wrong_uid};
use crate::codec::{self, Api};
use crate::error::Status;
use crate::negotiate::{Answer, Media, body_media};
use crate::query::{ListOptions, check_dry_run};
use crate::server::{ApiServer, Key, Stored};

/// So many events of a collection are deleted at once, so that the store writes them together.
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
        let stored = server.stored(call.api, &key).await?;
        let metadata = stored.event.metadata.clone().unwrap_or_default();
        match remove(&server, call.api, &key, &stored, &options).await? {
            Removed::Gone => {
                return Ok(Status::deleted(call.api, &key.name, metadata.uid()).into_response());
            }
            Removed::Waiting(event) => {
                return event_response(
                    &call,
                    form,
                    StatusCode::OK,
                    &event,
                    server.clock.now(),
                    &[],
                );
            }
            Removed::Overtaken => {}
        }
    }
    Err(Status::modified(call.api, &call.name))
}

enum Removed {
    Gone,
    /// Finalizers hold it back.
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
    let dry_run = options.dry_run;
    let metadata = stored.event.metadata.as_ref();
    check_preconditions(api, key, options, metadata)?;
    let held_back = metadata.is_some_and(|metadata| !metadata.finalizers.is_empty());
    if held_back {
        let mut event = stored.event.clone();
        let metadata = event.metadata.get_or_insert_default();
        if metadata.deletion_timestamp.is_some() || dry_run {
            return Ok(Removed::Waiting(Box::new(event)));
        }
        metadata.deletion_timestamp = Some(now(server));
        metadata.deletion_grace_period_seconds = Some(0);
        return match server
            .store
            .update(key.bytes(), record(server, &event), stored.record.revision)
            .await
        {
            Ok(revision) => {
                event.metadata.get_or_insert_default().resource_version =
                    Some(revision.to_string());
                Ok(Removed::Waiting(Box::new(event)))
            }
            Err(WriteError::Conflict { .. }) => Ok(Removed::Overtaken),
            Err(error) => Err(Status::from_write(&error, api, &key.name)),
        };
    }
    if dry_run {
        return Ok(Removed::Gone);
    }
    match server
        .store
        .delete(key.bytes(), Some(stored.record.revision))
        .await
    {
        Ok(_) => Ok(Removed::Gone),
        Err(WriteError::Conflict { .. }) => Ok(Removed::Overtaken),
        Err(error) => Err(Status::from_write(&error, api, &key.name)),
    }
}

/// DELETE of a namespace's events, or of those that selectors choose.
pub(crate) async fn delete_collection(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let form = call.form(Answer::List)?;
    let options = ListOptions::parse(call.api, &call.query, false)?;
    let delete_options = read_delete_options(&call)?;
    let mut pages = list::pages(&server, &call, &options)?;
    // What the answer lists: as it was stored, which takes a fraction of an event in memory.
    let mut deleted = Vec::new();
    while let Some(page) = pages.next().await? {
        let mut deletions = FuturesUnordered::new();
        for record in &page {
            if deletions.len() >= DELETES_AT_ONCE {
                deletions.next().await.transpose()?;
            }
            deletions.push(remove_listed(&server, call.api, record, &delete_options));
        }
        while let Some(done) = deletions.next().await {
            done?;
        }
        drop(deletions);
        deleted.extend(page);
    }
    let meta = pages.look_ahead(false, |_| Ok(())).await?;
    list::page_response(&server, &call, form, &deleted, &meta)
}

/// Removes an event that was listed, whatever became of it since, if the preconditions hold of what it has become.
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
            // What somebody else deleted first is deleted all the same.
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
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptionsBody {
    kind: Option<String>,
    dry_run: Option<Vec<String>>,
    preconditions: Option<PreconditionsBody>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PreconditionsBody {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Reads `DeleteOptions` from the body and the query. Grace periods and propagation have no effect on events.
fn read_delete_options(call: &Call) -> Result<Deletion, Status> {
    const OPTIONS: &str = "DeleteOptions";
    let mut deletion = Deletion {
        dry_run: call.query.dry_run(OPTIONS)?,
        ..Deletion::default()
    };
    if call.body.is_empty() {
        return Ok(deletion);
    }
    let unreadable =
        |why: String| Status::bad_request(format!("DeleteOptions cannot be handled: {why}"));
    let (dry_run, preconditions) = match body_media(&call.headers)? {
        Media::Protobuf => {
            let enveloped = codec::protobuf::open(&call.body).map_err(unreadable)?;
            let options = DeleteOptions::decode(enveloped.raw)
                .map_err(|error| unreadable(error.to_string()))?;
            let preconditions = options.preconditions.map(|given| PreconditionsBody {
                uid: given.uid,
                resource_version: given.resource_version,
            });
            (options.dry_run, preconditions)
        }
        media => {
            let options: DeleteOptionsBody = match media {
                Media::Yaml => serde_saphyr::from_slice(&call.body)
                    .map_err(|error| unreadable(error.to_string()))?,
                _ => serde_json::from_slice(&call.body)
                    .map_err(|error| unreadable(error.to_string()))?,
            };
            if let Some(kind) = options
                .kind
                .filter(|kind| !kind.is_empty() && kind != OPTIONS)
            {
                return Err(unreadable(format!("no kind {kind:?} is accepted here")));
            }
            (options.dry_run.unwrap_or_default(), options.preconditions)
        }
    };
    let dry_run: Vec<&str> = dry_run.iter().map(String::as_str).collect();
    deletion.dry_run |= check_dry_run(&dry_run, OPTIONS)?;
    let preconditions = preconditions.unwrap_or_default();
    deletion.uid = preconditions.uid.filter(|uid| !uid.is_empty());
    deletion.resource_version = preconditions
        .resource_version
        .filter(|version| !version.is_empty());
    Ok(deletion)
}

fn check_preconditions(
    api: Api,
    key: &Key,
    options: &Deletion,
    metadata: Option<&ObjectMeta>,
) -> Result<(), Status> {
    let is = metadata.map(ObjectMeta::uid).unwrap_or_default();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != is) {
        return Err(wrong_uid(api, &key.name, uid, is));
    }
    let is = metadata
        .map(ObjectMeta::resource_version)
        .unwrap_or_default();
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|version| *version != is)
    {
        return Err(Status::conflict(
            api,
            &key.name,
            &format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {is}"
            ),
        ));
    }
    Ok(())
}
