//! Discovery documents as protobuf messages, made from their JSON.

use k8s_pb::api::apidiscovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APISubresourceDiscovery,
    APIVersionDiscovery,
};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery,
    GroupVersionKind, ListMeta, ObjectMeta, Verbs,
};
use prost::Message;
use serde_json::Value;

/// The message of a document of this kind.
pub(in crate::api) fn encode(kind: &str, document: &Value) -> Vec<u8> {
    match kind {
        "APIVersions" => APIVersions {
            versions: texts(&document["versions"]),
            ..APIVersions::default()
        }
        .encode_to_vec(),
        "APIGroup" => group(document).encode_to_vec(),
        "APIGroupList" => APIGroupList {
            groups: all(&document["groups"], group),
        }
        .encode_to_vec(),
        "APIResourceList" => APIResourceList {
            group_version: Some(text(&document["groupVersion"])),
            resources: all(&document["resources"], resource),
        }
        .encode_to_vec(),
        _ => APIGroupDiscoveryList {
            metadata: Some(ListMeta::default()),
            items: all(&document["items"], discovered_group),
        }
        .encode_to_vec(),
    }
}

fn all<T>(values: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    values.as_array().into_iter().flatten().map(read).collect()
}

/// A missing value is an empty text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(values: &Value) -> Vec<String> {
    all(values, text)
}

fn group(group: &Value) -> APIGroup {
    let version = |version: &Value| GroupVersionForDiscovery {
        group_version: Some(text(&version["groupVersion"])),
        version: Some(text(&version["version"])),
    };
    APIGroup {
        name: Some(text(&group["name"])),
        versions: all(&group["versions"], version),
        preferred_version: Some(version(&group["preferredVersion"])),
        ..APIGroup::default()
    }
}

fn resource(resource: &Value) -> APIResource {
    APIResource {
        name: Some(text(&resource["name"])),
        singular_name: Some(text(&resource["singularName"])),
        namespaced: resource["namespaced"].as_bool(),
        group: Some(text(&resource["group"])),
        version: Some(text(&resource["version"])),
        kind: Some(text(&resource["kind"])),
        verbs: Some(Verbs {
            items: texts(&resource["verbs"]),
        }),
        short_names: texts(&resource["shortNames"]),
        storage_version_hash: Some(text(&resource["storageVersionHash"])),
        ..APIResource::default()
    }
}

fn discovered_group(group: &Value) -> APIGroupDiscovery {
    let version = |version: &Value| APIVersionDiscovery {
        version: Some(text(&version["version"])),
        resources: all(&version["resources"], discovered_resource),
        freshness: Some(text(&version["freshness"])),
    };
    APIGroupDiscovery {
        metadata: Some(ObjectMeta {
            name: Some(text(&group["metadata"]["name"])),
            ..ObjectMeta::default()
        }),
        versions: all(&group["versions"], version),
    }
}

fn discovered_resource(resource: &Value) -> APIResourceDiscovery {
    let kind = |kind: &Value| GroupVersionKind {
        group: Some(text(&kind["group"])),
        version: Some(text(&kind["version"])),
        kind: Some(text(&kind["kind"])),
    };
    let subresource = |it: &Value| APISubresourceDiscovery {
        subresource: Some(text(&it["subresource"])),
        response_kind: Some(kind(&it["responseKind"])),
        verbs: texts(&it["verbs"]),
        ..APISubresourceDiscovery::default()
    };
    APIResourceDiscovery {
        resource: Some(text(&resource["resource"])),
        response_kind: Some(kind(&resource["responseKind"])),
        subresources: all(&resource["subresources"], subresource),
        scope: Some(text(&resource["scope"])),
        singular_resource: Some(text(&resource["singularResource"])),
        verbs: texts(&resource["verbs"]),
        short_names: texts(&resource["shortNames"]),
        ..APIResourceDiscovery::default()
    }
}
