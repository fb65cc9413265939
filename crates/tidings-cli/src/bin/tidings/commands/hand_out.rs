//! `tidings kubeconfig`: prints a kubeconfig of an archive or a server for other users.
//!
//! Invariant: no credential of the kubeconfig that is read is printed.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use http::Uri;
use kube::config::{Cluster, Context, Kubeconfig, NamedCluster, NamedContext};

use super::account::{self, Account};
use super::cluster::{ClusterFlags, CommandError, DONE, finish, service_account, with_sources};
use super::kubeconfig;
use super::terminal::output;

/// Print a kubeconfig of an archive for a colleague, or of a cluster for an archive.
///
/// It has a context archive-NAME for each cluster of the archive, the authority of the archive's
/// certificate, and no credentials. Each user adds credentials of their own: a user of their
/// kubeconfig (--user), which is then read together with the printed one, or a token on the command
/// line. What they may read is decided as docs/archive-reference.md says.
///
/// With --account it is a kubeconfig of the context's cluster, by which an archive follows the
/// cluster: with the token of a service account that tidings rbac --account printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings kubeconfig --kubeconfig ./archive/kubeconfig --server https://events.example.org:6444 > archive.yaml
  tidings kubeconfig --kubeconfig ./archive/kubeconfig --server https://events.example.org:6444 --user oidc > archive.yaml
  # Add the kubeconfig of another cluster to the secret beside an archive
  tidings kubeconfig --context edge --account tidings:tidings-follow --secret tidings:tidings-clusters | kubectl --context home apply --server-side --field-manager edge -f -
  # A colleague, with it
  KUBECONFIG=~/.kube/config:archive.yaml tidings events --context archive-prod -A --since 7d

Exit codes:
  0    printed
  1    the output could not be written
  2    a wrong command line or kubeconfig")]
pub(crate) struct Args {
    /// Kubeconfig that the archive wrote [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address by which the users reach the archive: https:// and its host, with its port
    #[arg(long, short, value_name = "URL", value_parser = address, required_unless_present = "account")]
    server: Option<String>,
    /// User of the users' own kubeconfigs whose credentials are used
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// Service account whose token the printed kubeconfig has, for an archive. The token is in the
    /// Secret of the same name
    #[arg(long, value_name = "NAMESPACE:NAME", value_parser = service_account, conflicts_with_all = ["server", "user"])]
    account: Option<(String, String)>,
    /// With --account: context of the cluster [default: the current one]
    #[arg(long, value_name = "NAME", requires = "account")]
    context: Option<String>,
    /// With --account: print a Secret of this name, with the kubeconfig as CONTEXT.yaml
    #[arg(long, value_name = "NAMESPACE:NAME", value_parser = service_account, requires = "account")]
    secret: Option<(String, String)>,
}

/// Parses an address. Credentials must not be sent to an address without TLS.
fn address(text: &str) -> Result<String, &'static str> {
    let uri: Option<Uri> = text.parse().ok();
    let is_good = uri.is_some_and(|uri| {
        uri.scheme_str() == Some("https") && uri.host().is_some() && uri.query().is_none()
    });
    if is_good {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("expected https:// and a host, such as https://events.example.org:6444")
    }
}

/// Prints the kubeconfig.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(print(&args).await)
}

async fn print(args: &Args) -> Result<u8, CommandError> {
    let read = match &args.kubeconfig {
        Some(path) => kubeconfig::read(path).map(Some),
        None => kubeconfig::merged(&kubeconfig::of_environment()),
    };
    let found = read.map_err(|error| CommandError::Config(with_sources(&error)))?;
    let found = found.unwrap_or_default();
    if let Some((namespace, name)) = &args.account {
        let secret = args.secret.as_ref();
        let of = Account {
            flags: ClusterFlags::of_context(args.kubeconfig.clone(), args.context.clone()),
            context: args.context.as_deref(),
            found: &found,
            subject: (namespace, name),
            secret: secret.map(|(namespace, name)| (namespace.as_str(), name.as_str())),
        };
        return account::print(of).await;
    }
    let server = args.server.as_deref().unwrap_or_default();
    let printed = handed_out(&found, server, args.user.as_deref());
    if printed.contexts.is_empty() {
        let why = "it has no cluster of an archive: give the kubeconfig that tidings archive wrote";
        return Err(CommandError::Config(why.to_owned()));
    }
    let yaml = serde_saphyr::to_string(&printed).map_err(io::Error::other)?;
    output().write_all(yaml.as_bytes())?;
    Ok(DONE)
}

/// The clusters of an archive in `found`, at another address.
fn handed_out(found: &Kubeconfig, server: &str, user: Option<&str>) -> Kubeconfig {
    let mut printed = Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        ..Kubeconfig::default()
    };
    let mut names = BTreeSet::new();
    for named in &found.contexts {
        let Some(context) = &named.context else {
            continue;
        };
        let mut clusters = found.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.name == context.cluster);
        let Some(cluster) = cluster.and_then(|cluster| cluster.cluster.as_ref()) else {
            continue;
        };
        let url = cluster.server.as_deref().unwrap_or_default();
        let Some(name) = cluster_of(url).filter(|name| names.insert(name.clone())) else {
            continue;
        };
        let entry = format!("archive-{name}");
        printed.clusters.push(NamedCluster {
            name: entry.clone(),
            cluster: Some(Cluster {
                server: Some(format!("{server}/clusters/{name}")),
                certificate_authority: cluster.certificate_authority.clone(),
                certificate_authority_data: cluster.certificate_authority_data.clone(),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        });
        printed.contexts.push(NamedContext {
            name: entry.clone(),
            context: Some(Context {
                cluster: entry.clone(),
                user: user.map(str::to_owned),
                namespace: context.namespace.clone(),
                ..Context::default()
            }),
            ..NamedContext::default()
        });
        printed.current_context.get_or_insert(entry);
    }
    printed
}

/// The cluster of an archive that is at an address: its path is `/clusters/NAME` and nothing more.
fn cluster_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let name = uri.path().strip_prefix("/clusters/")?;
    let name = name.trim_end_matches('/');
    (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_an_archive_are_handed_out_without_credentials() {
        let found = Kubeconfig::from_yaml(
            "
clusters:
- {name: archive-prod, cluster: {server: 'https://127.0.0.1:6444/clusters/prod', certificate-authority-data: QQ==, tls-server-name: inner}}
- {name: edge, cluster: {server: 'https://127.0.0.1:6444/clusters/edge/'}}
- {name: other, cluster: {server: 'https://kubernetes:6443'}}
- {name: rancher, cluster: {server: 'https://kubernetes/k8s/clusters/c-m-abc'}}
users: [{name: tidings-archive, user: {token: secret}}]
contexts:
- {name: prod, context: {cluster: archive-prod, user: tidings-archive, namespace: shop}}
- {name: archive-prod, context: {cluster: archive-prod, user: tidings-archive, namespace: shop}}
- {name: edge, context: {cluster: edge, user: tidings-archive}}
- {name: other, context: {cluster: other, user: tidings-archive}}
- {name: rancher, context: {cluster: rancher, user: tidings-archive}}
- {name: dangling, context: {cluster: none}}
",
        );
        let printed = handed_out(&found.unwrap(), "https://events.example.org", Some("oidc"));
        let text = serde_saphyr::to_string(&printed).unwrap();
        for missing in ["secret", "tidings-archive", "inner", "kubernetes"] {
            assert!(!text.contains(missing), "{text}");
        }
        let again = Kubeconfig::from_yaml(&text).unwrap();
        let contexts: Vec<_> = again.contexts.iter().map(|named| &*named.name).collect();
        assert_eq!(contexts, ["archive-prod", "archive-edge"]);
        assert_eq!(again.current_context.as_deref(), Some("archive-prod"));
        let prod = again.contexts[0].context.as_ref().unwrap();
        assert_eq!(
            (prod.user.as_deref(), prod.namespace.as_deref()),
            (Some("oidc"), Some("shop"))
        );
        let prod = again.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(
            prod.server.as_deref(),
            Some("https://events.example.org/clusters/prod")
        );
        assert_eq!(prod.certificate_authority_data.as_deref(), Some("QQ=="));
    }

    #[test]
    fn addresses_have_tls() {
        assert_eq!(address("https://a:1/x/").as_deref(), Ok("https://a:1/x"));
        for text in ["http://a", "a:1", "https://", "https://a?b", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
