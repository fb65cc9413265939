//! Impersonation: acting as another user (`Impersonate-User` and related headers, `kubectl --as`).
//!
//! The requesting user needs the verb `impersonate` on the name, the uid, and each group and extra
//! of the other user (`k8s.io/apiserver/pkg/endpoints/filters/impersonation`).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use tidings_core::validate::{check_dns1123_label, is_dns1123_subdomain};

use super::attributes::{Attributes, ResourceAttributes};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, UserInfo};
use crate::http::status::Status;

/// Prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// Maximum permissions that one request may need, because each may be a request to a cluster.
const NEEDED_MAX: usize = 100;

/// The user that a request wants to act as, and the permissions that this needs.
#[derive(Debug)]
pub(crate) struct Impersonation {
    pub(crate) user: User,
    /// The permissions, all of which are needed.
    pub(crate) needed: Vec<Attributes<'static>>,
}

/// Number of impersonation headers.
pub(crate) fn count_of(headers: &HeaderMap) -> usize {
    let names = headers.iter().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with(PREFIX)).count()
}

/// The impersonation that the headers request, if any.
///
/// # Errors
///
/// 400 for groups, uid or extras without a user, for headers that are not text, and for more than
/// 100 of them.
pub(crate) fn asked(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    let count = count_of(headers);
    if count == 0 {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| {
        value.to_str().map(str::to_owned).map_err(|_| {
            Status::bad_request("the Impersonate headers have to be visible ASCII characters")
        })
    };
    let first = |name| headers.get(name).map(text).transpose();
    let name = first(USER)?.unwrap_or_default();
    let uid = first(UID)?.unwrap_or_default();
    let groups = headers.get_all(GROUP).iter().map(text);
    let mut groups = groups.collect::<Result<Vec<_>, _>>()?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(text(value)?);
        }
    }
    if count > NEEDED_MAX {
        return Err(Status::bad_request(format!(
            "a request may have at most {NEEDED_MAX} Impersonate headers, this one has {count}"
        )));
    }
    if name.is_empty() && uid.is_empty() && groups.is_empty() && extra.is_empty() {
        return Ok(None);
    }
    if name.is_empty() {
        return Err(Status::bad_request(
            "requested impersonation without impersonating a user: Impersonate-User is missing",
        ));
    }

    let mut needed = Vec::new();
    let mut need =
        |group: &'static str, resource: &'static str, rest: ResourceAttributes<'static>| {
            needed.push(Attributes::Resource(ResourceAttributes {
                verb: "impersonate".into(),
                group: group.into(),
                version: "v1".into(),
                resource: resource.into(),
                ..rest
            }));
        };
    let named = |name: &str| ResourceAttributes {
        name: name.to_owned().into(),
        ..ResourceAttributes::default()
    };
    let account = service_account(&name);
    match account {
        Some((namespace, account)) => {
            let mut named = named(account);
            named.namespace = namespace.to_owned().into();
            need("", "serviceaccounts", named);
        }
        None => need("", "users", named(&name)),
    }
    for group in &groups {
        need("", "groups", named(group));
    }
    for (key, values) in &extra {
        for value in values {
            let mut named = named(value);
            named.subresource = key.clone().into();
            need(AUTHENTICATION_GROUP, "userextras", named);
        }
    }
    if !uid.is_empty() {
        need(AUTHENTICATION_GROUP, "uids", named(&uid));
    }

    if groups.is_empty()
        && let Some((namespace, _)) = account
    {
        groups = vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    let among = |wanted: &str| groups.iter().any(|group| group == wanted);
    if name == ANONYMOUS {
        if !among(UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.into());
        }
    } else if !among(AUTHENTICATED) && !among(UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    let user = User::exactly(UserInfo {
        name,
        uid,
        groups,
        extra,
    });
    Ok(Some(Impersonation { user, needed }))
}

/// Namespace and name of a service account, read from its user name. An invalid one is treated as
/// an ordinary user name, with the permission for that (`SplitUsername` of
/// `k8s.io/apiserver/pkg/authentication/serviceaccount`).
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let valid = check_dns1123_label(namespace).is_empty() && is_dns1123_subdomain(name);
    valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// These complement upstream's own `TestImpersonationFilter`.
    #[test]
    fn whom_and_what_it_takes() {
        #[rustfmt::skip]
        let table = [
            (&["other: x"][..], "nobody"),
            (&["impersonate-user: eve"], "eve [system:authenticated] users/eve"),
            (
                &[
                    "impersonate-user: eve",
                    "impersonate-group: a",
                    "impersonate-group: b",
                    "impersonate-uid: 7",
                ],
                "eve [a,b,system:authenticated] users/eve groups/a groups/b authentication.k8s.io:uids/7",
            ),
            (
                &["impersonate-user: system:serviceaccount:shop:robot"],
                "system:serviceaccount:shop:robot [system:serviceaccounts,system:serviceaccounts:shop,system:authenticated] shop:serviceaccounts/robot",
            ),
            // Names that are not those of service accounts are names of users.
            (
                &["impersonate-user: system:serviceaccount:shop:"],
                "system:serviceaccount:shop: [system:authenticated] users/system:serviceaccount:shop:",
            ),
            (
                &["impersonate-user: system:serviceaccount::robot"],
                "system:serviceaccount::robot [system:authenticated] users/system:serviceaccount::robot",
            ),
            (
                &["impersonate-user: system:serviceaccount:sh.op:robot"],
                "system:serviceaccount:sh.op:robot [system:authenticated] users/system:serviceaccount:sh.op:robot",
            ),
            (
                &["impersonate-user: system:serviceaccount:shop:Robot"],
                "system:serviceaccount:shop:Robot [system:authenticated] users/system:serviceaccount:shop:Robot",
            ),
            (
                &["impersonate-user: system:serviceaccount:shop:robot:x"],
                "system:serviceaccount:shop:robot:x [system:authenticated] users/system:serviceaccount:shop:robot:x",
            ),
            (
                &["impersonate-user: system:serviceaccount:shop:robot.v2"],
                "system:serviceaccount:shop:robot.v2 [system:serviceaccounts,system:serviceaccounts:shop,system:authenticated] shop:serviceaccounts/robot.v2",
            ),
            (
                &["impersonate-user: system:anonymous"],
                "system:anonymous [system:unauthenticated] users/system:anonymous",
            ),
            (
                &["impersonate-user: eve", "impersonate-extra-a%2fb: x"],
                "eve [system:authenticated] users/eve authentication.k8s.io:userextras(a/b)/x",
            ),
            (&["impersonate-group: system:masters"], "refused"),
            (&[&["impersonate-user: eve"][..], &["impersonate-group: a"; 100]].concat(), "refused"),
            (&["impersonate-uid: 7"], "refused"),
        ];
        for (headers, expected) in table {
            let headers: HeaderMap = headers
                .iter()
                .map(|line| {
                    let (name, value) = line.split_once(": ").unwrap();
                    (
                        HeaderName::try_from(name).unwrap(),
                        HeaderValue::from_str(value).unwrap(),
                    )
                })
                .collect();
            let found = match asked(&headers) {
                Err(_) => "refused".to_owned(),
                Ok(None) => "nobody".to_owned(),
                Ok(Some(asked)) => {
                    let mut text = format!("{} [{}]", asked.user.name, asked.user.groups.join(","));
                    for needed in asked.needed {
                        let Attributes::Resource(needed) = needed else {
                            panic!("{needed:?}")
                        };
                        assert_eq!(needed.verb, "impersonate");
                        let place = [needed.group, needed.namespace].concat();
                        let place = if place.is_empty() { place } else { place + ":" };
                        let sub = if needed.subresource.is_empty() {
                            String::new()
                        } else {
                            format!("({})", needed.subresource)
                        };
                        text = format!("{text} {place}{}{sub}/{}", needed.resource, needed.name);
                    }
                    text
                }
            };
            assert_eq!(found, expected);
        }
    }
}
