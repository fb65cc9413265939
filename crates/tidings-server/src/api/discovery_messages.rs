//! The documents of discovery as protobuf messages.

use k8s_pb::api::apidiscovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APIVersionDiscovery,
};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery,
    GroupVersionKind, ListMeta, ObjectMeta, Verbs,
};
use prost::Message;

use super::known_resources::Resource;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(super) fn versions(version: &str) -> Vec<u8> {
    APIVersions {
        versions: texts(&[version]),
        ..APIVersions::default()
    }
    .encode_to_vec()
}

fn api_group(name: &str, version: &str) -> APIGroup {
    let version = GroupVersionForDiscovery {
        group_version: Some(format!("{name}/{version}")),
        version: Some(version.into()),
    };
    APIGroup {
        name: Some(name.into()),
        versions: vec![version.clone()],
        preferred_version: Some(version),
        ..APIGroup::default()
    }
}

pub(super) fn group(name: &str, version: &str) -> Vec<u8> {
    api_group(name, version).encode_to_vec()
}

pub(super) fn groups(groups: &[(&str, &str)]) -> Vec<u8> {
    let groups = groups.iter();
    APIGroupList {
        groups: groups
            .map(|(name, version)| api_group(name, version))
            .collect(),
    }
    .encode_to_vec()
}

pub(super) fn resources<'a>(
    group_version: &str,
    resources: impl Iterator<Item = &'a Resource>,
) -> Vec<u8> {
    let resource = |resource: &Resource| APIResource {
        name: Some(resource.name.into()),
        singular_name: Some(resource.singular.into()),
        namespaced: Some(resource.namespaced),
        group: Some(String::new()),
        version: Some(String::new()),
        kind: Some(resource.kind.into()),
        verbs: Some(Verbs {
            items: texts(resource.verbs),
        }),
        short_names: texts(resource.short_names),
        storage_version_hash: Some(resource.storage_version_hash().unwrap_or_default().into()),
        ..APIResource::default()
    };
    APIResourceList {
        group_version: Some(group_version.into()),
        resources: resources.map(resource).collect(),
    }
    .encode_to_vec()
}

pub(super) fn aggregated(groups: &[(&str, &str)], resources: &[Resource]) -> Vec<u8> {
    let resource = |resource: &Resource| APIResourceDiscovery {
        resource: Some(resource.name.into()),
        response_kind: Some(GroupVersionKind {
            group: Some(String::new()),
            version: Some(String::new()),
            kind: Some(resource.kind.into()),
        }),
        scope: Some(resource.scope().into()),
        singular_resource: Some(resource.singular.into()),
        verbs: texts(resource.verbs),
        short_names: texts(resource.short_names),
        ..APIResourceDiscovery::default()
    };
    let group = |(group, version): &(&str, &str)| APIGroupDiscovery {
        metadata: Some(ObjectMeta {
            name: Some((*group).into()),
            ..ObjectMeta::default()
        }),
        versions: vec![APIVersionDiscovery {
            version: Some((*version).into()),
            resources: resources
                .iter()
                .filter(|resource| resource.group == *group)
                .map(resource)
                .collect(),
            freshness: Some("Current".into()),
        }],
    };
    APIGroupDiscoveryList {
        metadata: Some(ListMeta::default()),
        items: groups.iter().map(group).collect(),
    }
    .encode_to_vec()
}
