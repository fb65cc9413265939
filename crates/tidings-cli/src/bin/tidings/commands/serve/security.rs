//! The flags that say who may come in and what they may do; kube-apiserver's names wherever it has one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_server::{AuthorizationMode, SecurityOptions};

use super::cluster::Cluster;

/// Who may come in and what they may do.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access")]
pub(super) struct SecurityFlags {
    /// Who is let in: lines of token,user,uid and, in quotes, groups; without it, whoever has the token the server makes
    /// itself, which is in system:masters. Read again when replaced
    ///
    /// Emptied, it revokes every token; missing or malformed, the former ones stay, and the log says so. Rename a new file into
    /// place: one that is written in place may be read in part, until it is looked at again ten seconds later.
    #[arg(long, value_name = "CSV")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// Make no token of the server's own and accept none that is there; the kubeconfig then holds no credentials
    #[arg(long)]
    pub(super) no_admin_token: bool,
    /// Accept client certificates signed by one of these authorities, in PEM: the common name is the user, organizations are
    /// its groups. Read again when replaced
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Ask the cluster of this kubeconfig whose tokens are that are not known here, such as those of service accounts
    /// (TokenReview)
    #[arg(long, value_name = "FILE")]
    authentication_kubeconfig: Option<PathBuf>,
    /// Let requests without credentials in as system:anonymous; without it they see health and version only
    #[arg(long)]
    anonymous_auth: bool,
    /// Whether users may do what roles allow them (members of system:masters: everything), or everybody everything
    #[arg(long, value_name = "MODE", default_value = "RBAC")]
    authorization_mode: Mode,
    /// Roles, ClusterRoles, RoleBindings and ClusterRoleBindings in YAML, as kubectl get -o yaml prints them; cluster-admin,
    /// admin, edit and view are there already. Read again when replaced
    #[arg(long, value_name = "FILE")]
    authorization_rbac_file: Option<PathBuf>,
    /// Ask the cluster of this kubeconfig whether users may do what no role here allows (SubjectAccessReview)
    #[arg(long, value_name = "FILE")]
    authorization_kubeconfig: Option<PathBuf>,
    /// The certificate to serve with, in PEM, those that vouch for it behind it; without it the server makes its own. Read
    /// again when replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file, in PEM. Read again when replaced
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    #[value(name = "RBAC")]
    Rbac,
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// Why a cluster cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {}: {why}", path.display())]
pub(super) struct KubeconfigError {
    flag: &'static str,
    path: PathBuf,
    why: String,
}

impl SecurityFlags {
    /// What these flags mean.
    pub(super) async fn options(self) -> Result<SecurityOptions, KubeconfigError> {
        let mut options = SecurityOptions::default();
        options.authorization_mode = match self.authorization_mode {
            Mode::Rbac => AuthorizationMode::Rbac,
            Mode::AlwaysAllow => AuthorizationMode::AlwaysAllow,
        };
        options.authorization_rbac_file = self.authorization_rbac_file;
        options.anonymous_auth = self.anonymous_auth;
        options.client_ca_file = self.client_ca_file;
        options.tls_files = self.tls_cert_file.zip(self.tls_private_key_file);
        if let Some(path) = &self.authentication_kubeconfig {
            options.authentication_cluster =
                Some(cluster("authentication-kubeconfig", path).await?);
        }
        if let Some(path) = &self.authorization_kubeconfig {
            options.authorization_cluster = Some(cluster("authorization-kubeconfig", path).await?);
        }
        Ok(options)
    }
}

async fn cluster(flag: &'static str, path: &Path) -> Result<Arc<Cluster>, KubeconfigError> {
    let connected = Cluster::connect(path).await;
    connected.map(Arc::new).map_err(|why| KubeconfigError {
        flag,
        path: path.to_owned(),
        why,
    })
}
