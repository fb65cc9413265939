//! Requests to the store for lists and watches.

use tidings_api::selector::{SelectedObject, Selector};
use tidings_history::ListOrder;
use tidings_store::{ListRequest, ObjectSelector, Revision};

use crate::api::server::ApiServer;
use crate::http::status::Status;

/// The first request of a list or watch to a server's store. Where lists are in the order of
/// objects, these are found by name rather than by uid, if both are given.
pub(crate) fn request_to(server: &ApiServer, namespace: &str, selector: &Selector) -> ListRequest {
    let fields = &selector.fields;
    let namespace = if namespace.is_empty() {
        fields.namespace().unwrap_or_default()
    } else {
        namespace
    };
    let prefix = match (namespace, fields.name()) {
        ("", _) => String::new(),
        (namespace, name) => format!("{namespace}/{}", name.unwrap_or_default()),
    };
    let by_name = fields.object_by_name();
    let by_name = by_name.filter(|_| server.capabilities().lists == ListOrder::Object);
    ListRequest {
        object: by_name.or_else(|| fields.object()).map(indexed),
        ..ListRequest::prefix(prefix)
    }
}

/// The request to the store's index of objects.
pub(in crate::api) fn indexed(object: SelectedObject<'_>) -> ObjectSelector {
    match object {
        SelectedObject::Uid(uid) => ObjectSelector::Uid(uid.into()),
        SelectedObject::Name {
            name,
            kind,
            namespace,
        } => ObjectSelector::Name {
            name: name.into(),
            kind: kind.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
        },
    }
}

/// 410 if a client requests a revision of another store.
pub(crate) fn of_this_store(server: &ApiServer, revision: Revision) -> Result<(), Status> {
    if server.store.is_own(revision) {
        return Ok(());
    }
    let why = "The provided resourceVersion is of another store: list again without it.";
    Err(Status::expired(why, None))
}

/// 504 if a client requests a later revision than the store has, 410 for one of another store.
///
/// The revision that the store knows without a read may be older than one that a client has seen:
/// from another server of the same etcd, or from a list that was read before its changes were
/// published. Only a read returns the latest.
pub(crate) async fn not_newer_than_store(
    server: &ApiServer,
    revision: Revision,
) -> Result<(), Status> {
    of_this_store(server, revision)?;
    if revision <= server.store.revision() {
        return Ok(());
    }
    let page = server.store.list(ListRequest::default().limit(1)).await?;
    let current = page.revision.max(server.store.revision());
    if revision > current {
        Err(Status::too_large_resource_version(revision, current))
    } else {
        Ok(())
    }
}

/// The prefix of a namespace's keys; empty for all namespaces.
pub(crate) fn key_prefix(namespace: &str) -> String {
    if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    }
}
