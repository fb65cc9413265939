//! Who may come in and what they may do, from options and files, and those files when they are replaced.
//!
//! A file is read again when its bytes have changed. What is not usable changes nothing: what was in force stays in force,
//! the log says so and a count goes up.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::auth::certificate::ClientAuthority;
use crate::auth::{Authenticator, Authorizer, RbacPolicy, Reviewer, Token, parse_token_file};
use crate::server::ApiServer;
use crate::start::StartError;
use crate::tls::{Identity, Tls};

/// No file of certificates, tokens or permissions is longer.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Who may come in and what they may do. The names are those of kube-apiserver's flags where it has one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SecurityOptions {
    /// Who decides (`--authorization-mode`). Default: RBAC.
    pub authorization_mode: AuthorizationMode,
    /// Permissions, beside the default ones: see [`RbacPolicy::parse`]. Default: none.
    pub authorization_rbac_file: Option<PathBuf>,
    /// A cluster to ask about what RBAC does not allow (`--authorization-kubeconfig`). Default: none.
    pub authorization_cluster: Option<Arc<dyn Reviewer>>,
    /// A cluster to ask about tokens that are not known here (`--authentication-kubeconfig`). Default: none.
    pub authentication_cluster: Option<Arc<dyn Reviewer>>,
    /// Whether requests without credentials are let in, as `system:anonymous` (`--anonymous-auth`). Default: no, but for
    /// health and version.
    pub anonymous_auth: bool,
    /// Authorities in PEM form whose client certificates are accepted (`--client-ca-file`). Default: certificates are not
    /// asked for.
    pub client_ca_file: Option<PathBuf>,
    /// The certificate to serve with, in PEM form, with those that vouch for it behind it (`--tls-cert-file`), and its
    /// private key (`--tls-private-key-file`). Default: the server makes its own.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// How often files are looked at for changes. Default: every ten seconds.
    pub reload_interval: Duration,
}

impl Default for SecurityOptions {
    fn default() -> Self {
        Self {
            authorization_mode: AuthorizationMode::default(),
            authorization_rbac_file: None,
            authorization_cluster: None,
            authentication_cluster: None,
            anonymous_auth: false,
            client_ca_file: None,
            tls_files: None,
            reload_interval: Duration::from_secs(10),
        }
    }
}

/// Who decides what a user may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Roles and their bindings; without a file next to nothing, but for members of `system:masters`.
    #[default]
    Rbac,
    /// Whoever is let in may do everything.
    AlwaysAllow,
}

/// What the options and their files amount to.
pub(crate) struct Security {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) tls: Tls,
    pub(crate) authority_pem: String,
    files: Files,
}

/// The files, as last read.
struct Files {
    tokens: Option<File>,
    permissions: Option<File>,
    client_authority: Option<File>,
    certificate: Option<(File, File)>,
    /// The client authority in force.
    clients: Option<ClientAuthority>,
    /// What is served with if no files say otherwise.
    identity: Identity,
}

struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Whether the last attempt to read it failed.
    missing: bool,
}

impl SecurityOptions {
    /// Reads the files. `tokens` are those in force if there is no token file; `own` makes a certificate if there is none.
    pub(crate) fn load(
        &self,
        token_file: Option<&Path>,
        tokens: &[Token],
        own: impl FnOnce() -> Result<Identity, StartError>,
    ) -> Result<Security, StartError> {
        let always_allow = self.authorization_mode == AuthorizationMode::AlwaysAllow;
        let contradiction = [
            (
                always_allow && self.anonymous_auth,
                "anonymous requests are not let in where everything is allowed (--anonymous-auth with --authorization-mode=AlwaysAllow)",
            ),
            (
                always_allow
                    && (self.authorization_rbac_file.is_some()
                        || self.authorization_cluster.is_some()),
                "permissions have no effect where everything is allowed (--authorization-mode=AlwaysAllow)",
            ),
        ];
        if let Some((_, why)) = contradiction.into_iter().find(|(is_so, _)| *is_so) {
            return Err(StartError::Options { why });
        }

        let permissions = self
            .authorization_rbac_file
            .as_deref()
            .map(File::open)
            .transpose()?;
        let policy = match &permissions {
            Some(file) => parse_policy(&file.bytes).map_err(|why| file.unusable(&why))?,
            None => RbacPolicy::default(),
        };
        let mut authorizer = if always_allow {
            Authorizer::always_allow()
        } else {
            Authorizer::rbac(policy)
        };
        if let Some(cluster) = &self.authorization_cluster {
            authorizer = authorizer.ask_cluster(cluster.clone());
        }

        let client_authority = self.client_ca_file.as_deref().map(File::open).transpose()?;
        let clients = client_authority
            .as_ref()
            .map(|file| {
                ClientAuthority::from_pem(&file.bytes).map_err(|error| file.unusable(&error))
            })
            .transpose()?;
        let mut authenticator = Authenticator::new(tokens.to_vec()).anonymous(self.anonymous_auth);
        if let Some(cluster) = &self.authentication_cluster {
            authenticator = authenticator.ask_cluster(cluster.clone());
        }
        if let Some(clients) = &clients {
            authenticator.replace_client_authority(clients.clone());
        }

        let certificate = self
            .tls_files
            .as_ref()
            .map(|(certificate, key)| {
                Ok::<_, StartError>((File::open(certificate)?, File::open(key)?))
            })
            .transpose()?;
        let identity = match &certificate {
            Some((certificate, key)) => Identity::from_pem(&certificate.bytes, &key.bytes)
                .map_err(|error| certificate.unusable(&error))?,
            None => own()?,
        };
        let config = identity.config(clients.as_ref())?;
        Ok(Security {
            authenticator,
            authorizer,
            tls: Arc::new(config).into(),
            authority_pem: identity.authority_pem.clone(),
            files: Files {
                tokens: token_file.map(File::open).transpose()?,
                permissions,
                client_authority,
                certificate,
                clients,
                identity,
            },
        })
    }
}

fn parse_policy(bytes: &[u8]) -> Result<RbacPolicy, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    RbacPolicy::parse(text).map_err(|error| error.to_string())
}

impl Security {
    /// What looks after the files from now on.
    pub(crate) fn watcher(self, server: Arc<ApiServer>) -> FileWatcher {
        FileWatcher {
            server,
            tls: self.tls,
            files: self.files,
        }
    }
}

/// Puts replaced files in force.
pub(crate) struct FileWatcher {
    server: Arc<ApiServer>,
    tls: Tls,
    files: Files,
}

/// Somebody who wants to know whether all files are usable.
pub(crate) type ReloadRequest = oneshot::Sender<bool>;

impl FileWatcher {
    /// Looks at the files every so often, and whenever it is asked to, until nobody can ask any more.
    pub(crate) async fn run(
        mut self,
        interval: Duration,
        mut asked: mpsc::Receiver<ReloadRequest>,
    ) {
        loop {
            let request = tokio::select! {
                request = asked.recv() => match request {
                    Some(request) => Some(request),
                    None => return,
                },
                () = tokio::time::sleep(interval) => None,
            };
            // Files may lie on slow disks.
            let reloaded = tokio::task::spawn_blocking(move || {
                let usable = self.reload();
                (self, usable)
            });
            let Ok((watcher, usable)) = reloaded.await else {
                return tracing::error!("files are not looked after any more");
            };
            self = watcher;
            if let Some(request) = request {
                // Whoever asked may be gone.
                let _ = request.send(usable);
            }
        }
    }

    /// Whether every changed file was taken over.
    fn reload(&mut self) -> bool {
        let mut usable = true;
        let mut report = |file: &File, outcome: Result<(), String>| match outcome {
            Ok(()) => {
                self.server.access_counters().files_reloaded.add();
                tracing::info!(file = %file.path.display(), "a replaced file is in force");
            }
            Err(why) => {
                usable = false;
                self.server.access_counters().file_reload_failures.add();
                tracing::error!(
                    file = %file.path.display(), why,
                    "a replaced file is not usable; what it held before stays in force"
                );
            }
        };
        let files = &mut self.files;
        if let Some(file) = &mut files.tokens
            && let Some(changed) = file.changed()
        {
            let outcome = changed.and_then(|()| {
                let tokens = parse_token_file(&file.bytes).map_err(|error| error.to_string())?;
                self.server.authenticator.replace_tokens(tokens);
                Ok(())
            });
            report(file, outcome);
        }
        if let Some(file) = &mut files.permissions
            && let Some(changed) = file.changed()
        {
            let outcome = changed.and_then(|()| {
                let policy = parse_policy(&file.bytes)?;
                self.server.authorizer.replace_policy(policy);
                Ok(())
            });
            report(file, outcome);
        }
        if let Some(file) = &mut files.client_authority
            && let Some(changed) = file.changed()
        {
            let outcome = changed.and_then(|()| {
                let clients =
                    ClientAuthority::from_pem(&file.bytes).map_err(|error| error.to_string())?;
                let config = files
                    .identity
                    .config(Some(&clients))
                    .map_err(|error| error.to_string())?;
                self.tls.replace(Arc::new(config));
                self.server
                    .authenticator
                    .replace_client_authority(clients.clone());
                files.clients = Some(clients);
                Ok(())
            });
            report(file, outcome);
        }
        if let Some((certificate, key)) = &mut files.certificate
            && let Some(changed) = certificate
                .changed()
                .into_iter()
                .chain(key.changed())
                .reduce(Result::and)
        {
            let outcome = changed.and_then(|()| {
                let identity = Identity::from_pem(&certificate.bytes, &key.bytes)
                    .map_err(|error| error.to_string())?;
                let config = identity
                    .config(files.clients.as_ref())
                    .map_err(|error| error.to_string())?;
                self.tls.replace(Arc::new(config));
                files.identity = identity;
                Ok(())
            });
            report(certificate, outcome);
        }
        usable
    }
}

impl File {
    fn open(path: &Path) -> Result<Self, StartError> {
        let bytes = read(path).map_err(|source| StartError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            missing: false,
        })
    }

    /// Reads the file again. `None` if nothing is new: the same bytes, or still not there.
    fn changed(&mut self) -> Option<Result<(), String>> {
        match read(&self.path) {
            Ok(bytes) => {
                self.missing = false;
                if bytes == self.bytes {
                    return None;
                }
                self.bytes = bytes;
                Some(Ok(()))
            }
            Err(error) => {
                let known = std::mem::replace(&mut self.missing, true);
                (!known).then(|| Err(error.to_string()))
            }
        }
    }

    fn unusable(&self, why: &impl ToString) -> StartError {
        StartError::SecurityFile {
            path: self.path.clone(),
            why: why.to_string(),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let why = format!("longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}
