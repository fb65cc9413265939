//! The flags of authentication, authorization and TLS, with kube-apiserver's names where it has
//! them.

use std::error::Error;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_server::{AuthorizationMode, SecurityOptions, StartError};

use super::cluster::Cluster;

/// Authentication, authorization and TLS.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct SecurityFlags {
    /// Bearer tokens: lines of token,user,uid and optionally, in quotes, groups. Without this file
    /// the server makes one token, for system:masters. Reloaded when replaced
    ///
    /// An empty file revokes every token. If the file is missing or malformed, the previous tokens
    /// stay valid and the log says so. Rename a new file into place: one that is written in place
    /// counts once it is the same for a second, complete or not, and is read again ten seconds
    /// later.
    #[arg(long, value_name = "CSV")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Make no token and ignore an existing one; the kubeconfig then has no credentials
    #[arg(long)]
    pub(crate) no_admin_token: bool,
    /// Certificate authorities for client certificates, in PEM. The common name is the user,
    /// organizations are groups. Reloaded when replaced
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Kubeconfig of a cluster that reviews tokens unknown here, such as those of service accounts
    /// (TokenReview). It is not asked unless its certificate is verified
    #[arg(long, value_name = "FILE")]
    authentication_kubeconfig: Option<PathBuf>,
    /// Accept requests without credentials as system:anonymous. Otherwise they can read only health
    /// and version
    #[arg(long)]
    anonymous_auth: bool,
    /// Authorization by roles (members of system:masters may do everything), or none: every user
    /// may do everything
    #[arg(long, value_name = "MODE", default_value = "RBAC")]
    authorization_mode: Mode,
    /// Roles, ClusterRoles, RoleBindings and ClusterRoleBindings in YAML, as printed by kubectl get
    /// -o yaml. cluster-admin, admin, edit and view are built in. Reloaded when replaced
    #[arg(long, value_name = "FILE")]
    authorization_rbac_file: Option<PathBuf>,
    /// Kubeconfig of a cluster that reviews requests which no role allows (SubjectAccessReview)
    #[arg(long, value_name = "FILE")]
    authorization_kubeconfig: Option<PathBuf>,
    /// Serving certificate in PEM, followed by its intermediates. Without it the server makes its
    /// own. Reloaded when replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file, in PEM. Reloaded when replaced
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Further name or address for the certificate that the server makes, by which other machines
    /// reach it; may be repeated
    #[arg(long, value_name = "NAME", value_parser = host, conflicts_with = "tls_cert_file")]
    tls_san: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    #[value(name = "RBAC")]
    Rbac,
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// Why a reviewing cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {}: {why}", path.display())]
pub(crate) struct KubeconfigError {
    flag: &'static str,
    path: PathBuf,
    why: String,
}

/// The files of a command line, each with its flag.
pub(crate) struct NamedFiles(Vec<(&'static str, PathBuf)>);

/// The error for a file that a flag names, without which the server cannot start.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {source}")]
pub(crate) struct FileError {
    flag: &'static str,
    pub(crate) source: StartError,
}

impl NamedFiles {
    /// Adds the flag of the affected file to the error.
    pub(crate) fn explain(&self, error: StartError) -> Box<dyn Error> {
        let path = match &error {
            StartError::File { path, .. }
            | StartError::TokenFile { path, .. }
            | StartError::SecurityFile { path, .. } => Some(path),
            _ => None,
        };
        let mut files = self.0.iter();
        let flag = path.and_then(|path| files.find(|(_, named)| named == path));
        match flag.map(|(flag, _)| *flag) {
            Some(flag) => Box::new(FileError {
                flag,
                source: error,
            }),
            None => Box::new(error),
        }
    }
}

impl SecurityFlags {
    /// The files that the server reads at its start.
    pub(crate) fn files(&self) -> NamedFiles {
        let files = [
            ("token-auth-file", &self.token_auth_file),
            ("client-ca-file", &self.client_ca_file),
            ("authorization-rbac-file", &self.authorization_rbac_file),
            ("tls-cert-file", &self.tls_cert_file),
            ("tls-private-key-file", &self.tls_private_key_file),
        ];
        let named = files.into_iter();
        let named = named.filter_map(|(flag, path)| Some((flag, path.clone()?)));
        NamedFiles(named.collect())
    }

    /// The server's options.
    pub(crate) async fn options(self) -> Result<SecurityOptions, KubeconfigError> {
        let mut options = SecurityOptions::default();
        options.authorization_mode = match self.authorization_mode {
            Mode::Rbac => AuthorizationMode::Rbac,
            Mode::AlwaysAllow => AuthorizationMode::AlwaysAllow,
        };
        options.authorization_rbac_file = self.authorization_rbac_file;
        options.anonymous_auth = self.anonymous_auth;
        options.client_ca_file = self.client_ca_file;
        options.tls_names = self.tls_san;
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

/// Parses a name or address for a certificate. The first label of a name may be `*`.
fn host(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        (1..=63).contains(&label.len()) && label.chars().all(is_plain)
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    if is_name || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("expected a DNS name or an IP address, such as events.example.org")
}

async fn cluster(flag: &'static str, path: &Path) -> Result<Arc<Cluster>, KubeconfigError> {
    let connected = Cluster::connect(path).await;
    if let Ok(Cluster {
        verified: Err(why), ..
    }) = &connected
    {
        let file = path.display();
        tracing::warn!(
            "the cluster of --{flag} ({file}) is not asked, and requests that need it are refused: {why}"
        );
    }
    connected.map(Arc::new).map_err(|why| KubeconfigError {
        flag,
        path: path.to_owned(),
        why,
    })
}
