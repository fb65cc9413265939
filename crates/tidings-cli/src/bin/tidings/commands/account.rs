//! `tidings kubeconfig --account`: prints a kubeconfig by which an archive follows a cluster.
//!
//! Invariant: it has the token of the service account, and no credential of the user who prints it.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tidings_cli::clusters::name_of_context;

use super::archived;
use super::cluster::{ClusterFlags, CommandError, DONE, with_sources};
use super::kubeconfig;
use super::terminal::output;

/// What is printed, and of which cluster.
pub(super) struct Account<'a> {
    /// The context of the cluster.
    pub(super) flags: ClusterFlags,
    pub(super) context: Option<&'a str>,
    pub(super) found: &'a Kubeconfig,
    /// The namespace and the name of the service account, and of its Secret.
    pub(super) subject: (&'a str, &'a str),
    /// The namespace and the name of the Secret to print, if one is to be.
    pub(super) secret: Option<(&'a str, &'a str)>,
}

/// Reads the account's token from the cluster, and prints the kubeconfig.
pub(super) async fn print(of: Account<'_>) -> Result<u8, CommandError> {
    let current = kubeconfig::current_context(of.found);
    let name = of.context.or(current).unwrap_or_default();
    let context = kubeconfig::context(of.found, of.context);
    let cluster = context.and_then(|context| {
        let mut clusters = of.found.clusters.iter();
        clusters
            .find(|named| named.name == context.cluster)?
            .cluster
            .clone()
    });
    let Some(mut cluster) = cluster else {
        let why = "it has no such context: kubectl config get-contexts shows them";
        return Err(CommandError::Config(why.to_owned()));
    };
    if let Some(path) = cluster.certificate_authority.take() {
        let authority = std::fs::read(&path);
        let authority = authority
            .map_err(|error| CommandError::Config(format!("{path}: {}", with_sources(&error))))?;
        cluster.certificate_authority_data = Some(STANDARD.encode(authority));
    }
    let (namespace, account) = of.subject;
    let server = of.flags.server().await?;
    let token = archived::token_of(&server, namespace, account).await?;
    let kubeconfig = kubeconfig_of(name, cluster, account, token);
    let mut text = serde_saphyr::to_string(&kubeconfig).map_err(io::Error::other)?;
    if let Some((namespace, secret)) = of.secret {
        let object = secret_of(namespace, secret, name, &text);
        text = serde_saphyr::to_string(&object).map_err(io::Error::other)?;
    }
    output().write_all(text.as_bytes())?;
    Ok(DONE)
}

fn kubeconfig_of(name: &str, cluster: Cluster, account: &str, token: String) -> Kubeconfig {
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: Some(name.to_owned()),
        clusters: vec![NamedCluster {
            name: name.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: account.to_owned(),
            auth_info: Some(AuthInfo {
                token: Some(SecretString::from(token)),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.to_owned(),
            context: Some(Context {
                cluster: name.to_owned(),
                user: Some(account.to_owned()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    }
}

/// The Secret with a kubeconfig. Its key is the cluster's name in an archive, because keys cannot
/// have every character of a context's name.
fn secret_of(namespace: &str, secret: &str, name: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": secret, "namespace": namespace},
        "stringData": {format!("{}.yaml", name_of_context(name)): kubeconfig},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_has_a_kubeconfig_with_the_accounts_token_alone() {
        let cluster = Cluster {
            server: Some("https://edge:6443".to_owned()),
            ..Cluster::default()
        };
        let kubeconfig = kubeconfig_of("edge", cluster, "tidings-archive", "t-1".to_owned());
        let text = serde_saphyr::to_string(&kubeconfig).unwrap();
        let secret = secret_of("tidings", "tidings-clusters", "edge", &text);
        let stored = secret["stringData"]["edge.yaml"].as_str().unwrap();
        let long = secret_of(
            "tidings",
            "tidings-clusters",
            "arn:aws:eks:eu:12:cluster/prod",
            "",
        );
        assert_eq!(
            long["stringData"]["arn-aws-eks-eu-12-cluster-prod.yaml"],
            ""
        );
        let again = Kubeconfig::from_yaml(stored).unwrap();
        assert_eq!(again.current_context.as_deref(), Some("edge"));
        assert!(
            stored.contains("token: t-1") && stored.contains("https://edge:6443"),
            "{stored}"
        );
    }
}
