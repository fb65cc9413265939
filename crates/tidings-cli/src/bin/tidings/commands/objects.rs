//! Resolves the objects named on a command line: their kind, their metadata in the cluster, and
//! their family.

use futures::StreamExt;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery};
use serde::Deserialize;
use serde_json::Value;
use tidings_cli::family::{Candidate, Family};
use tidings_cli::filter::Target;
use tidings_cli::kinds::{Kind, Named};

use super::cluster::{CommandError, Server, tell};

/// Kinds whose objects controllers make, and which may therefore be members of a family.
const MEMBERS: [&str; 8] = [
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "pods",
    "persistentvolumeclaims",
];
/// The `Accept` header for the metadata of objects.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA_OF_ONE: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Objects in a page of metadata.
const PAGE: usize = 500;

/// The kind that a name means: a built-in one, or else one that the cluster's discovery has. `None`
/// if unknown.
///
/// # Errors
///
/// The cluster does not answer.
pub(crate) async fn kind(server: &Server, named: &Named) -> Result<Option<Kind>, CommandError> {
    if let Some(kind) = named.built_in() {
        return Ok(Some(kind));
    }
    let groups = server.ask(|| server.client.list_api_groups_aggregated());
    let groups = match groups.await {
        Ok(groups) => groups.items,
        // A server without discovery, or without permission for it, does not know the kind.
        Err(kube::Error::Api(status)) if !matches!(status.code, 401 | 429 | 500..) => Vec::new(),
        Err(kube::Error::SerdeError(_)) => Vec::new(),
        Err(error) => {
            let what = format!("find out what {:?} is", named.kind);
            return Err(CommandError::request(what, "events", error));
        }
    };
    Ok(groups.iter().find_map(|group| kind_of_group(named, group)))
}

fn kind_of_group(named: &Named, group: &APIGroupDiscovery) -> Option<Kind> {
    let name = group.metadata.as_ref()?.name.as_deref()?;
    let (word, wanted) = named.parts();
    if wanted.is_some_and(|wanted| wanted != name) {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let versions = group.versions.iter();
    versions
        .filter(|version| {
            named
                .version()
                .is_none_or(|wanted| version.version.as_deref() == Some(wanted))
        })
        .find_map(|version| kind_of_version(&word, name, version))
}

fn kind_of_version(word: &str, group: &str, version: &APIVersionDiscovery) -> Option<Kind> {
    let is_meant = |resource: &&APIResourceDiscovery| {
        let kind = resource
            .response_kind
            .as_ref()
            .and_then(|kind| kind.kind.as_deref());
        resource.resource.as_deref() == Some(word)
            || resource.singular_resource.as_deref() == Some(word)
            || resource.short_names.iter().any(|short| short == word)
            || kind.is_some_and(|kind| kind.eq_ignore_ascii_case(word))
    };
    let resource = version.resources.iter().find(is_meant)?;
    Some(Kind {
        kind: resource.response_kind.as_ref()?.kind.clone()?,
        group: group.to_owned(),
        version: version.version.clone()?,
        plural: resource.resource.clone()?,
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
    })
}

/// Resolves the objects of a command line to targets, and prints notes about them.
pub(crate) async fn targets(
    server: &Server,
    found: Vec<(Named, Option<Kind>)>,
    tree: Option<&str>,
) -> Result<Vec<Target>, CommandError> {
    let mut targets = Vec::new();
    for (named, kind) in found {
        let family = match (tree, &kind) {
            (None, Some(_)) => None,
            (None, None) => {
                tell(&format!(
                    "no kind {:?} is known here: looking for events that call it so",
                    named.kind
                ));
                None
            }
            (Some(namespace), Some(kind)) => {
                Some(family(server, kind, &named.name, namespace).await?)
            }
            (Some(_), None) => {
                tell(&format!(
                    "no kind {:?} is known here, so nothing is known of what {named} owns",
                    named.kind
                ));
                None
            }
        };
        targets.push(Target {
            named,
            kind,
            family,
        });
    }
    Ok(targets)
}

/// The metadata of one object; `None` if it does not exist, or the server does not serve its kind.
pub(crate) async fn metadata(
    server: &Server,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> kube::Result<Option<Value>> {
    #[derive(Deserialize)]
    struct One {
        metadata: Value,
    }
    let namespace = if kind.namespaced { namespace } else { "" };
    let request = || async {
        let request = http::Request::get(format!("{}/{}", kind.path(namespace), segment(name)))
            .header(http::header::ACCEPT, METADATA_OF_ONE)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        server.client.request::<One>(request).await
    };
    match server.ask(request).await {
        Ok(one) => Ok(Some(one.metadata)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn family(
    server: &Server,
    kind: &Kind,
    name: &str,
    namespace: &str,
) -> Result<Family, CommandError> {
    let root = match metadata(server, kind, namespace, name).await {
        Ok(root) => root,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            tell(&format!(
                "not allowed to get {}: the family is put together without {name} itself",
                kind.plural
            ));
            None
        }
        Err(error) => return Err(CommandError::request(format!("get {name}"), "tree", error)),
    };
    let uid = root
        .as_ref()
        .and_then(|root| root.get("uid"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let kinds = MEMBERS.iter().filter_map(|plural| {
        let named = Named {
            kind: (*plural).to_owned(),
            name: String::new(),
        };
        named.built_in()
    });
    let mut lists = futures::stream::iter(kinds)
        .map(|kind| async move {
            let objects = objects(server, &kind, namespace).await;
            (kind, objects)
        })
        .buffered(MEMBERS.len());
    let mut candidates = Vec::new();
    let mut unknown = Vec::new();
    let mut has_events_only = true;
    while let Some((kind, objects)) = lists.next().await {
        match objects {
            Ok(objects) => {
                has_events_only = false;
                candidates.extend(objects.into_iter().map(|metadata| Candidate {
                    kind: kind.kind.clone(),
                    metadata,
                }));
            }
            // A server that serves only events does not serve other objects; one that refuses to
            // list them may still have events about them.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                has_events_only &= status.code == 404;
                unknown.push(kind.plural);
            }
            Err(error) => {
                return Err(CommandError::request(
                    format!("list {}", kind.plural),
                    "tree",
                    error,
                ));
            }
        }
    }
    if has_events_only {
        // Captures, archives and other servers of events.
        tell(&format!(
            "there are only events here, no objects: those that {}/{name} owns are recognised by name",
            kind.kind
        ));
    } else if !unknown.is_empty() {
        tell(&format!(
            "cannot list {}: those of {kind}/{name} are recognised by name only",
            unknown.join(", "),
            kind = kind.kind,
        ));
    }
    Ok(Family::new(&kind.kind, name, uid.as_deref(), &candidates))
}

/// The metadata of all objects of a kind in a namespace.
async fn objects(server: &Server, kind: &Kind, namespace: &str) -> kube::Result<Vec<Value>> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Value,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ListMetadata {
        r#continue: String,
    }
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        metadata: ListMetadata,
        // An empty list of metadata is null.
        items: Option<Vec<Item>>,
    }
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("limit", &PAGE.to_string())
            .append_pair("continue", &next)
            .finish();
        let request = || async {
            let request = http::Request::get(format!("{}?{query}", kind.path(namespace)))
                .header(http::header::ACCEPT, METADATA)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            server.client.request::<List>(request).await
        };
        let list = server.ask(request).await?;
        let items = list.items.unwrap_or_default();
        found.extend(items.into_iter().map(|item| item.metadata));
        if list.metadata.r#continue.is_empty() {
            return Ok(found);
        }
        next = list.metadata.r#continue;
    }
}

/// Escapes a name as one path segment.
pub(crate) fn segment(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use kube::Client;
    use kube::client::Body;

    use super::super::rbac::Use;
    use super::*;

    /// The requests for a family need exactly the permissions that `tidings rbac tree` prints.
    #[tokio::test]
    async fn a_family_needs_exactly_what_its_role_allows() {
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            // /api/v1/namespaces/shop/pods/web, /apis/apps/v1/namespaces/shop/deployments
            let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
            let (group, rest) = match path.as_slice() {
                ["apis", group, _, "namespaces", "shop", rest @ ..] => (*group, rest),
                ["api", _, "namespaces", "shop", rest @ ..] => ("", rest),
                other => panic!("{other:?}"),
            };
            let verb = if rest.len() > 1 { "get" } else { "list" };
            log.lock()
                .unwrap()
                .insert((group.to_owned(), rest[0].to_owned(), verb));
            let (code, answer) = match verb {
                "get" => (
                    404,
                    r#"{"kind": "Status", "status": "Failure", "code": 404}"#,
                ),
                _ => (200, r#"{"items": null}"#),
            };
            let answer = http::Response::builder()
                .status(code)
                .body(Body::from(answer.as_bytes().to_vec()));
            std::future::ready(answer)
        });
        let server = Server {
            client: Client::new(service, "default"),
            timeout: None,
        };
        let mut found = Vec::new();
        for plural in MEMBERS {
            let named: Named = format!("{plural}/web").parse().unwrap();
            let kind = kind(&server, &named).await.unwrap();
            found.push((named, kind));
        }
        targets(&server, found, Some("shop")).await.unwrap();
        let allowed: BTreeSet<_> = Use::Tree
            .rules()
            .iter()
            .filter(|rule| rule.resources != ["events"])
            .flat_map(|rule| {
                rule.resources.iter().flat_map(|resource| {
                    let verbs = rule.verbs.iter();
                    verbs.map(|verb| (rule.group.to_owned(), (*resource).to_owned(), *verb))
                })
            })
            .collect();
        assert_eq!(*asked.lock().unwrap(), allowed);
    }
}
