//! The kubeconfig that a server writes for its clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use serde_json::Value;

use crate::archive::ClusterContext;

/// The user names of a server's token and of an archive's token. An archive's kubeconfig may be
/// read together with those of other clusters, which may have a user `admin`.
const USER: &str = "admin";
const USER_OF_ARCHIVE: &str = "tidings-archive";

/// By what clients verify the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trusted {
    /// The authority of the certificate.
    pub(super) authority_pem: String,
    /// The DNS name by which clients verify the certificate (`tls-server-name`). `None` if the
    /// certificate is valid for the address in the kubeconfig.
    pub(super) server_name: Option<String>,
}

/// What the kubeconfig contains about the server: by what its certificate is verified, and a token
/// for clients.
pub(super) struct Credentials {
    pub(super) trusted: Trusted,
    /// The token. Without one, the kubeconfig has only the server's address and authority, and
    /// clients add their own credentials.
    pub(super) token: Option<String>,
}

/// A context, by the names of what it has.
struct Context {
    name: String,
    cluster: String,
    user: String,
    namespace: Option<String>,
}

/// The kubeconfig of a single server.
pub(super) fn kubeconfig_text(address: SocketAddr, credentials: &Credentials) -> String {
    let name = "tidings".to_owned();
    let clusters = [(name.clone(), format!("https://{}", host_of(address)))];
    let contexts = [Context {
        name: name.clone(),
        cluster: name,
        user: USER.to_owned(),
        namespace: None,
    }];
    text(&clusters, &contexts, USER, credentials)
}

/// The kubeconfig of an archive, with a context for each followed cluster; the first is the current
/// one.
///
/// The kubeconfig may be read together with the clusters' own kubeconfigs. Of several entries with
/// one name, client-go then uses the first. So each cluster also has a context archive-NAME. Both
/// contexts refer to a cluster entry of that name, unless another followed cluster is called so. If
/// the cluster has a user of its own, the context archive-NAME has that user, whose credentials are
/// in the cluster's own kubeconfig. Both contexts have the namespace of the cluster's.
pub(super) fn kubeconfig_of_clusters(
    address: SocketAddr,
    credentials: &Credentials,
    followed: &[ClusterContext],
) -> String {
    let server = host_of(address);
    let (mut clusters, mut contexts) = (Vec::new(), Vec::new());
    let mut second = Vec::new();
    for cluster in followed {
        let name = &cluster.name;
        let url = format!("https://{server}/clusters/{name}");
        let own = USER_OF_ARCHIVE.to_owned();
        let other = format!("archive-{name}");
        clusters.push((name.clone(), url.clone()));
        let is_free = followed.iter().all(|followed| followed.name != other);
        contexts.push(Context {
            name: name.clone(),
            cluster: if is_free { &other } else { name }.clone(),
            user: own.clone(),
            namespace: cluster.namespace.clone(),
        });
        if is_free {
            clusters.push((other.clone(), url));
            second.push(Context {
                name: other.clone(),
                cluster: other,
                user: cluster.user.clone().unwrap_or(own),
                namespace: cluster.namespace.clone(),
            });
        }
    }
    contexts.append(&mut second);
    text(&clusters, &contexts, USER_OF_ARCHIVE, credentials)
}

fn host_of(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(reached(address.ip()), address.port())
}

/// The address for clients on the same machine.
pub(super) fn reached(bound: IpAddr) -> IpAddr {
    match bound {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Writes a kubeconfig of clusters (names and URLs), contexts, and the user who has the token. A
/// name that YAML could misread is written as a JSON string, which is valid YAML.
fn text(
    clusters: &[(String, String)],
    contexts: &[Context],
    user: &str,
    credentials: &Credentials,
) -> String {
    let trusted = &credentials.trusted;
    let authority = base64::engine::general_purpose::STANDARD.encode(&trusted.authority_pem);
    let token = match &credentials.token {
        Some(token) => format!("\n    token: {}", Value::from(token.as_str())),
        None => " {}".to_owned(),
    };
    let quoted = |name: &str| match name {
        "tidings" | USER | USER_OF_ARCHIVE => name.to_owned(),
        _ => Value::from(name).to_string(),
    };
    let current = contexts
        .first()
        .map_or("\"\"".to_owned(), |context| quoted(&context.name));
    let verified = match &trusted.server_name {
        Some(name) => format!("\n    tls-server-name: {name}"),
        None => String::new(),
    };
    let clusters = clusters.iter().map(|(name, server)| {
        let name = quoted(name);
        format!("\n- name: {name}\n  cluster:\n    server: {server}{verified}\n    certificate-authority-data: {authority}")
    });
    let named = contexts.iter().map(|context| {
        let [name, cluster, user] =
            [&context.name, &context.cluster, &context.user].map(|name| quoted(name));
        let namespace = match &context.namespace {
            Some(name) => format!("\n    namespace: {}", quoted(name)),
            None => String::new(),
        };
        format!("\n- name: {name}\n  context:\n    cluster: {cluster}\n    user: {user}{namespace}")
    });
    let list = |items: String| {
        if items.is_empty() {
            " []".to_owned()
        } else {
            items
        }
    };
    let (clusters, named) = (list(clusters.collect()), list(named.collect()));
    format!(
        "apiVersion: v1
kind: Config
current-context: {current}
clusters:{clusters}
contexts:{named}
users:
- name: {user}
  user:{token}
"
    )
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    /// Each context with its cluster, its user, and the cluster's URL.
    fn contexts(kubeconfig: &Kubeconfig) -> Vec<[String; 4]> {
        let contexts = kubeconfig.contexts.iter().map(|named| {
            let context = named.context.as_ref().unwrap();
            let mut clusters = kubeconfig.clusters.iter();
            let cluster = clusters.find(|cluster| cluster.name == context.cluster);
            let cluster = cluster.unwrap().cluster.as_ref().unwrap();
            [
                named.name.clone(),
                context.cluster.clone(),
                context.user.clone().unwrap(),
                cluster.server.clone().unwrap(),
            ]
        });
        contexts.collect()
    }

    fn of_archive(followed: &[(&str, Option<&str>)]) -> Kubeconfig {
        let trusted = Trusted {
            authority_pem: "pem".to_owned(),
            server_name: None,
        };
        let credentials = Credentials {
            trusted,
            token: Some("secret".to_owned()),
        };
        let owned = |&(name, user): &(&str, Option<&str>)| ClusterContext {
            name: name.to_owned(),
            user: user.map(str::to_owned),
            namespace: (name == "prod").then(|| "shop".to_owned()),
        };
        let followed: Vec<_> = followed.iter().map(owned).collect();
        let address = "0.0.0.0:6444".parse().unwrap();
        let text = kubeconfig_of_clusters(address, &credentials, &followed);
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn each_cluster_has_a_context_by_its_name_and_one_that_no_other_kubeconfig_has() {
        let found = of_archive(&[("prod", Some("arn:aws/1: prod")), ("edge", None)]);
        let prod = "https://127.0.0.1:6444/clusters/prod";
        let edge = "https://127.0.0.1:6444/clusters/edge";
        let expected = [
            ["prod", "archive-prod", "tidings-archive", prod],
            ["edge", "archive-edge", "tidings-archive", edge],
            ["archive-prod", "archive-prod", "arn:aws/1: prod", prod],
            ["archive-edge", "archive-edge", "tidings-archive", edge],
        ];
        assert_eq!(contexts(&found), expected);
        let namespaces = found.contexts.iter().map(|named| {
            let context = named.context.as_ref().unwrap();
            context.namespace.as_deref()
        });
        let namespaces: Vec<_> = namespaces.collect();
        assert_eq!(namespaces, [Some("shop"), None, Some("shop"), None]);
        assert_eq!(found.current_context.as_deref(), Some("prod"));
        // Clusters can also be selected by their names in the archive.
        let clusters = found.clusters.iter().map(|cluster| cluster.name.as_str());
        let clusters: Vec<_> = clusters.collect();
        assert_eq!(clusters, ["prod", "archive-prod", "edge", "archive-edge"]);
        let users = found.auth_infos.iter().map(|user| user.name.as_str());
        assert_eq!(users.collect::<Vec<_>>(), ["tidings-archive"]);
    }

    #[test]
    fn a_followed_cluster_keeps_its_name_whatever_another_one_is_called() {
        let found = of_archive(&[("archive-prod", None), ("prod", Some("me"))]);
        let found = contexts(&found);
        let names: Vec<_> = found.iter().map(|context| context[0].as_str()).collect();
        assert_eq!(names, ["archive-prod", "prod", "archive-archive-prod"]);
        assert!(found[0][3].ends_with("/clusters/archive-prod"));
        assert!(found[1][3].ends_with("/clusters/prod"));
    }

    /// Of several entries with one name, the first file's is used.
    #[test]
    fn behind_the_kubeconfig_of_the_cluster_itself_each_context_leads_where_it_says() {
        let own = "
clusters: [{name: prod, cluster: {server: 'https://prod'}}]
users: [{name: admin, user: {token: mine}}]
contexts: [{name: admin@prod, context: {cluster: prod, user: admin}}]
current-context: admin@prod
";
        let own = Kubeconfig::from_yaml(own).unwrap();
        let merged = own.merge(of_archive(&[("prod", Some("admin"))])).unwrap();
        let archive = "https://127.0.0.1:6444/clusters/prod";
        let expected = [
            ["admin@prod", "prod", "admin", "https://prod"],
            ["prod", "archive-prod", "tidings-archive", archive],
            ["archive-prod", "archive-prod", "admin", archive],
        ];
        assert_eq!(contexts(&merged), expected);
        assert_eq!(merged.current_context.as_deref(), Some("admin@prod"));
    }
}
