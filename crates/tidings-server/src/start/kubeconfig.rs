//! The kubeconfig that a server writes for its clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use serde_json::Value;

/// The server's authority, and a token for clients.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) authority_pem: String,
    /// Without a token, the kubeconfig has only the server's address and authority, and clients add
    /// their own credentials.
    pub(super) token: Option<String>,
}

/// The kubeconfig of a single server.
pub(super) fn kubeconfig_text(address: SocketAddr, credentials: &Credentials) -> String {
    let contexts = [(
        "tidings".to_owned(),
        format!("https://{}", reached(address)),
    )];
    text(&contexts, credentials)
}

/// A kubeconfig with a context for each followed cluster; the first is the current one.
pub(super) fn kubeconfig_of_clusters(
    address: SocketAddr,
    credentials: &Credentials,
    names: &[String],
) -> String {
    let server = reached(address);
    let context = |name: &String| (name.clone(), format!("https://{server}/clusters/{name}"));
    let contexts: Vec<_> = names.iter().map(context).collect();
    text(&contexts, credentials)
}

/// The address for clients on the same machine.
fn reached(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(host, address.port())
}

/// The text, for contexts with these names and server URLs. A name that YAML could misread is
/// written as a JSON string, which is valid YAML.
fn text(contexts: &[(String, String)], credentials: &Credentials) -> String {
    let authority = base64::engine::general_purpose::STANDARD.encode(&credentials.authority_pem);
    let user = match &credentials.token {
        Some(token) => format!("\n    token: {}", Value::from(token.as_str())),
        None => " {}".to_owned(),
    };
    let quoted = |name: &str| match name {
        "tidings" => name.to_owned(),
        _ => Value::from(name).to_string(),
    };
    let current = contexts
        .first()
        .map_or("\"\"".to_owned(), |(name, _)| quoted(name));
    let clusters = contexts.iter().map(|(name, server)| {
        let name = quoted(name);
        format!("\n- name: {name}\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}")
    });
    let named = contexts.iter().map(|(name, _)| {
        let name = quoted(name);
        format!("\n- name: {name}\n  context:\n    cluster: {name}\n    user: admin")
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
- name: admin
  user:{user}
"
    )
}
