//! Authentication, authorization and TLS from options and files, and the reload of replaced files.
//!
//! Files that belong together take effect together. New content is tried at every check until it is
//! valid, because a certificate may be written before its key. A missing or invalid file changes
//! nothing; this is logged and counted, once for each content. A file without tokens or permissions
//! is valid: it revokes the former ones. When the server's certificate was replaced, the kubeconfig
//! is written anew, with the present one.
//!
//! A file that is renamed into place is always read completely. A file that is written in place may
//! be read in part. It may be empty, which revokes everything, or end before the names that
//! restrict a rule, which grants more than intended. So a change found by polling takes effect only
//! if a second read, a second later, finds the same content. If the writer pauses for longer,
//! partial content is in force until the next check.

use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use parking_lot::RwLock;
use rustls::ServerConfig;
use tokio::sync::{mpsc, oneshot};

use crate::api::server::ApiServer;
use crate::auth::certificate::{ClientAuthority, certificate_end};
use crate::auth::front_proxy::FrontProxy;
use crate::auth::{
    AccessCounters, Authenticator, AuthorityError, Authorizer, RbacPolicy, RequestHeader,
    RequestHeaderError, Reviewer, Token, parse_token_file,
};
use crate::start::error::StartError;
use crate::start::kubeconfig::Trusted;
use crate::start::tls::{Identity, Tls, TlsError};

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Time between the two reads of a changed file.
const SETTLING: Duration = Duration::from_secs(1);

/// Authentication, authorization and TLS. The names are those of kube-apiserver's flags where it
/// has one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SecurityOptions {
    /// The authorization mode (`--authorization-mode`). Default: RBAC.
    pub authorization_mode: AuthorizationMode,
    /// A file of permissions in addition to the default ones: see [`RbacPolicy::parse`]. Default:
    /// no file.
    pub authorization_rbac_file: Option<PathBuf>,
    /// A cluster to ask about requests that RBAC does not allow (`--authorization-kubeconfig`).
    /// Default: no cluster.
    pub authorization_cluster: Option<Arc<dyn Reviewer>>,
    /// A cluster to ask about unknown tokens (`--authentication-kubeconfig`). Default: no cluster.
    pub authentication_cluster: Option<Arc<dyn Reviewer>>,
    /// Whether requests without credentials are accepted, as `system:anonymous`
    /// (`--anonymous-auth`). Default: only for health and version.
    pub anonymous_auth: bool,
    /// Authorities in PEM form whose client certificates are accepted (`--client-ca-file`).
    /// Default: client certificates are not used.
    pub client_ca_file: Option<PathBuf>,
    /// The server's certificate in PEM form, followed by its intermediates (`--tls-cert-file`), and
    /// its private key (`--tls-private-key-file`). Default: the server makes its own.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// Names and addresses of the certificate that the server makes, besides those of the machine
    /// itself and the address to listen on (`--tls-san`). Default: none.
    pub tls_names: Vec<String>,
    /// Interval at which files are checked for changes. Default: ten seconds.
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
            tls_names: Vec::new(),
            reload_interval: Duration::from_secs(10),
        }
    }
}

/// An archive's API group, to which the API server of a followed cluster proxies requests of its
/// users (an `APIService`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AggregatedOptions {
    /// The name of the followed cluster whose API server it is. Its users are those whom the API
    /// server names in headers.
    pub home: String,
    /// How the API server is recognized, and its headers. Without authorities, no header counts
    /// until [`Aggregation::trust_front_proxy`] is called.
    ///
    /// [`Aggregation::trust_front_proxy`]: crate::Aggregation::trust_front_proxy
    pub requestheader: RequestHeader,
}

impl AggregatedOptions {
    /// The defaults, with the name of the home cluster.
    pub fn new(home: impl Into<String>) -> Self {
        Self {
            home: home.into(),
            requestheader: RequestHeader::new(Vec::new()),
        }
    }
}

/// How requests are authorized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// By roles and bindings; without a file almost nothing is allowed, except to members of
    /// `system:masters`.
    #[default]
    Rbac,
    /// All authenticated users may do everything.
    AlwaysAllow,
}

/// The objects made from the options and files.
pub(crate) struct Security {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) tls: Tls,
    /// By what clients verify the certificate in force.
    pub(super) trusted: Arc<RwLock<Trusted>>,
    files: Files,
}

/// The watched files, and the settings in force.
struct Files {
    tokens: Option<Watched>,
    permissions: Option<Watched>,
    client_authority: Option<Watched>,
    /// The home cluster, whose API server may be trusted as front proxy.
    home: Option<String>,
    /// The certificate and its key.
    certificate: Option<Watched>,
    /// The client authority in force.
    clients: Option<ClientAuthority>,
    /// The authority of the front proxy in force.
    fronts: Option<ClientAuthority>,
    /// The server's certificate and key in force.
    identity: Identity,
    /// Makes a new one, if the server makes its own.
    own: Option<MakeIdentity>,
    /// The address at which clients on the same machine reach the server.
    reached: IpAddr,
    trusted: Arc<RwLock<Trusted>>,
}

/// Makes a certificate that is valid from now on.
pub(crate) type MakeIdentity = Box<dyn Fn(Timestamp) -> Result<Identity, TlsError> + Send>;

impl Files {
    /// When the certificates in force end, by their names in metrics.
    fn certificate_ends(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        let authority = self.own.as_ref();
        let authority =
            authority.and_then(|_| certificate_end(self.identity.authority_pem.as_bytes()));
        let of = |authority: &Option<ClientAuthority>| {
            let authority = authority.as_ref();
            authority.and_then(|authority| authority.ends(now))
        };
        let ends = [
            ("serving", self.identity.ends()),
            ("authority", authority),
            ("client-ca", of(&self.clients)),
            ("requestheader-client-ca", of(&self.fronts)),
        ];
        let ends = ends.into_iter();
        ends.filter_map(|(name, end)| Some((name, end?))).collect()
    }

    /// The TLS configuration of all that is in force.
    fn config(&self) -> Result<ServerConfig, TlsError> {
        let authorities: Vec<_> = self.clients.iter().chain(&self.fronts).collect();
        self.identity.config(&authorities)
    }
}

/// Files that take effect together.
pub(crate) struct Watched {
    paths: Vec<PathBuf>,
    in_force: Vec<Vec<u8>>,
    /// Changed content that was read once.
    seen_once: Option<Vec<Vec<u8>>>,
    /// The last content that was reported as unusable.
    reported: Option<Result<Vec<Vec<u8>>, String>>,
}

impl SecurityOptions {
    /// Reads the files. `tokens` are those in force, from the token file if there is one; `own`
    /// makes a certificate if the options name none. Clients on the same machine reach the server
    /// at the address `reached`.
    pub(crate) fn load(
        &self,
        (token_file, tokens): (Option<Watched>, &[Token]),
        aggregated: Option<AggregatedOptions>,
        (own, now): (MakeIdentity, Timestamp),
        reached: IpAddr,
    ) -> Result<Security, StartError> {
        let always_allow = self.authorization_mode == AuthorizationMode::AlwaysAllow;
        if always_allow && self.anonymous_auth {
            let why = "anonymous requests are not let in where everything is allowed (--anonymous-auth with --authorization-mode=AlwaysAllow)";
            return Err(StartError::Options { why });
        }
        let are_permissions =
            self.authorization_rbac_file.is_some() || self.authorization_cluster.is_some();
        if always_allow && are_permissions {
            let why = "permissions have no effect where everything is allowed (--authorization-mode=AlwaysAllow)";
            return Err(StartError::Options { why });
        }

        let permissions = Watched::open(self.authorization_rbac_file.as_deref())?;
        let policy = match &permissions {
            Some(file) => parse_policy(file.first()).map_err(|why| file.unusable(&why))?,
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

        let client_authority = Watched::open(self.client_ca_file.as_deref())?;
        let read = |file: &Watched| {
            ClientAuthority::from_pem(file.first()).map_err(|error| file.unusable(&error))
        };
        let clients = client_authority.as_ref().map(read).transpose()?;
        let mut authenticator = Authenticator::new(tokens.to_vec()).anonymous(self.anonymous_auth);
        if let Some(cluster) = &self.authentication_cluster {
            authenticator = authenticator.ask_cluster(cluster.clone());
        }
        if let Some(clients) = &clients {
            authenticator.replace_client_authority(clients.clone());
        }

        let mut fronts = None;
        if let Some(aggregated) = &aggregated {
            authenticator = authenticator.at_home(&aggregated.home);
            authorizer = authorizer.at_home(&aggregated.home);
            let settings = &aggregated.requestheader;
            if !settings.client_ca_pem.is_empty() {
                let proxy = FrontProxy::new(settings, &aggregated.home, clients.as_ref())
                    .map_err(StartError::RequestHeader)?;
                fronts = Some(proxy.authority().clone());
                authenticator.replace_front_proxy(proxy);
            }
        }

        let open = |(certificate, key): &(PathBuf, PathBuf)| {
            Watched::open_all(vec![certificate.clone(), key.clone()])
        };
        let certificate = self.tls_files.as_ref().map(open).transpose()?;
        let identity = match &certificate {
            Some(pair) => parse_identity(&pair.in_force).map_err(|error| pair.unusable(&error))?,
            None => own(now)?,
        };
        let trusted = Arc::new(RwLock::new(trusted(&identity, reached)));
        let files = Files {
            tokens: token_file,
            permissions,
            client_authority,
            home: aggregated.map(|it| it.home),
            own: certificate.is_none().then_some(own),
            certificate,
            clients,
            fronts,
            identity,
            reached,
            trusted: Arc::clone(&trusted),
        };
        Ok(Security {
            authenticator,
            authorizer,
            tls: Arc::new(files.config()?).into(),
            trusted,
            files,
        })
    }
}

/// By what clients on the same machine verify a certificate.
fn trusted(identity: &Identity, reached: IpAddr) -> Trusted {
    Trusted {
        authority_pem: identity.authority_pem.clone(),
        server_name: identity.name_at(reached),
    }
}

/// Parses a certificate and its key.
fn parse_identity(files: &[Vec<u8>]) -> Result<Identity, TlsError> {
    Identity::from_pem(file(files, 0), file(files, 1))
}

fn parse_policy(bytes: &[u8]) -> Result<RbacPolicy, Box<dyn Error>> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8")?;
    Ok(RbacPolicy::parse(text)?)
}

impl Security {
    /// Makes the task that reloads the files from now on, and writes the kubeconfig anew when
    /// clients verify the certificate by something else.
    pub(crate) fn watcher(
        self,
        server: Arc<ApiServer>,
        write_kubeconfig: WriteKubeconfig,
    ) -> FileWatcher {
        let ends = self.files.certificate_ends(server.clock.now());
        server.access_counters().set_certificates(ends);
        FileWatcher {
            server,
            tls: self.tls,
            files: self.files,
            write_kubeconfig,
            is_stale: false,
        }
    }
}

/// Writes the server's kubeconfig, with what clients trust now. The error is for the log.
pub(crate) type WriteKubeconfig = Box<dyn Fn() -> Result<(), String> + Send>;

/// Reloads replaced files.
pub(crate) struct FileWatcher {
    server: Arc<ApiServer>,
    tls: Tls,
    files: Files,
    write_kubeconfig: WriteKubeconfig,
    /// Whether the kubeconfig has a former certificate.
    is_stale: bool,
}

/// A request to the task that reloads files.
pub(crate) enum ReloadRequest {
    /// Check the files now; the answer says whether all of them are in force.
    Files(oneshot::Sender<bool>),
    /// Trust this front proxy instead of the former one.
    FrontProxy(
        Box<RequestHeader>,
        oneshot::Sender<Result<(), RequestHeaderError>>,
    ),
}

/// The reason for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// A request: the files are written completely.
    Asked,
    /// The interval is over: the files may be half written.
    Regular,
}

/// The result of a check. Of several, the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Looked {
    InForce,
    Unusable,
    /// The files changed, and must be read again.
    Changing,
}

impl FileWatcher {
    /// Checks the files once per `interval`, and on request, until all senders of requests are
    /// dropped.
    pub(crate) async fn run(
        mut self,
        interval: Duration,
        mut asked: mpsc::Receiver<ReloadRequest>,
    ) {
        loop {
            let request = tokio::select! {
                request = asked.recv() => match request {
                    Some(ReloadRequest::Files(request)) => Some(request),
                    Some(ReloadRequest::FrontProxy(settings, request)) => {
                        // The receiver may have been dropped.
                        let _ = request.send(self.trust(&settings));
                        continue;
                    }
                    None => return,
                },
                () = tokio::time::sleep(interval) => None,
            };
            let look = match request {
                Some(_) => Look::Asked,
                None => Look::Regular,
            };
            let Some((watcher, mut looked)) = self.look(look).await else {
                return;
            };
            self = watcher;
            if looked == Looked::Changing {
                tokio::time::sleep(SETTLING).await;
                let Some((watcher, again)) = self.look(look).await else {
                    return;
                };
                self = watcher;
                looked = again;
            }
            if let Some(request) = request {
                // The receiver may have been dropped.
                let _ = request.send(looked == Looked::InForce);
            }
        }
    }

    /// Trusts a front proxy, for requests and connections from now on: its certificate is
    /// requested, and its headers count.
    fn trust(&mut self, settings: &RequestHeader) -> Result<(), RequestHeaderError> {
        let Self {
            server, tls, files, ..
        } = self;
        let Some(home) = &files.home else {
            return Ok(());
        };
        let proxy = FrontProxy::new(settings, home, files.clients.as_ref())?;
        let former = files.fronts.replace(proxy.authority().clone());
        match files.config() {
            Ok(config) => tls.replace(Arc::new(config)),
            Err(error) => {
                files.fronts = former;
                let why = error.to_string();
                return Err(AuthorityError::Unusable { why }.into());
            }
        }
        server.authenticator.replace_front_proxy(proxy);
        Ok(())
    }

    /// Checks the files on another thread, because disks may be slow. `None` if the runtime is
    /// shutting down.
    async fn look(mut self, look: Look) -> Option<(Self, Looked)> {
        let looked = tokio::task::spawn_blocking(move || {
            let looked = self.reload(look);
            (self, looked)
        });
        let looked = looked.await;
        looked
            .inspect_err(
                |error| tracing::error!(%error, "files are not checked for changes any more"),
            )
            .ok()
    }

    /// Reloads changed files.
    fn reload(&mut self, look: Look) -> Looked {
        let Self {
            server, tls, files, ..
        } = self;
        let counters = server.access_counters();
        let mut looked = Looked::InForce;
        if let Some(watched) = &mut files.tokens {
            looked = looked.max(watched.reload(counters, look, |bytes| {
                let tokens = parse_token_file(file(bytes, 0))?;
                if tokens.is_empty() {
                    tracing::warn!("the token file has no token any more: all are revoked");
                }
                server.authenticator.replace_tokens(tokens);
                Ok(())
            }));
        }
        if let Some(watched) = &mut files.permissions {
            looked = looked.max(watched.reload(counters, look, |bytes| {
                let policy = parse_policy(file(bytes, 0))?;
                server.authorizer.replace_policy(policy);
                Ok(())
            }));
        }
        if let Some(mut watched) = files.client_authority.take() {
            looked = looked.max(watched.reload(counters, look, |bytes| {
                let new = ClientAuthority::from_pem(file(bytes, 0))?;
                if let Some(proxy) = server.authenticator.front_proxy() {
                    proxy.check_beside(&new)?;
                }
                let former = files.clients.replace(new.clone());
                match files.config() {
                    Ok(config) => tls.replace(Arc::new(config)),
                    Err(error) => {
                        files.clients = former;
                        return Err(error.into());
                    }
                }
                server.authenticator.replace_client_authority(new);
                Ok(())
            }));
            files.client_authority = Some(watched);
        }
        if let Some(mut watched) = files.certificate.take() {
            looked = looked.max(watched.reload(counters, look, |bytes| {
                let former = std::mem::replace(&mut files.identity, parse_identity(bytes)?);
                match files.config() {
                    Ok(config) => tls.replace(Arc::new(config)),
                    Err(error) => {
                        files.identity = former;
                        return Err(error.into());
                    }
                }
                Ok(())
            }));
            files.certificate = Some(watched);
        }
        renew(server.clock.now(), tls, files);
        counters.set_certificates(files.certificate_ends(server.clock.now()));
        self.trust_certificate();
        looked
    }

    /// Writes the kubeconfig anew if clients verify the certificate in force by something else. If
    /// that fails, it is tried again at the next check.
    fn trust_certificate(&mut self) {
        let now = trusted(&self.files.identity, self.files.reached);
        if *self.files.trusted.read() != now {
            *self.files.trusted.write() = now;
            self.is_stale = true;
        }
        if !self.is_stale {
            return;
        }
        match (self.write_kubeconfig)() {
            Ok(()) => self.is_stale = false,
            Err(error) => {
                tracing::error!(error, "the kubeconfig was not written; it is tried again");
            }
        }
    }
}

/// Replaces the server's own certificate if it is time.
fn renew(now: Timestamp, tls: &Tls, files: &mut Files) {
    let (Some(own), Some(at)) = (&files.own, files.identity.renewed_at) else {
        return;
    };
    if now < at {
        return;
    }
    let renewed = own(now).and_then(|identity| {
        let former = std::mem::replace(&mut files.identity, identity);
        let config = files.config();
        if config.is_err() {
            files.identity = former;
        }
        config
    });
    match renewed {
        Ok(config) => {
            tls.replace(Arc::new(config));
            tracing::info!("the server's certificate is renewed");
        }
        Err(error) => {
            tracing::error!(%error, "the server's certificate could not be renewed; it is tried again in an hour");
            files.identity.renewed_at = Some(now.saturating_add(1.hour()).unwrap_or(now));
        }
    }
}

impl Watched {
    /// Reads a file, if one is given.
    pub(crate) fn open(path: Option<&Path>) -> Result<Option<Self>, StartError> {
        path.map(|path| Self::open_all(vec![path.to_owned()]))
            .transpose()
    }

    fn open_all(paths: Vec<PathBuf>) -> Result<Self, StartError> {
        let read = |path: &PathBuf| read(path).map_err(StartError::file(path));
        Ok(Self {
            in_force: paths.iter().map(read).collect::<Result<_, _>>()?,
            paths,
            seen_once: None,
            reported: None,
        })
    }

    /// The bytes of the first file.
    pub(crate) fn first(&self) -> &[u8] {
        file(&self.in_force, 0)
    }

    /// Applies changed content, unless it must be read once more.
    fn reload(
        &mut self,
        counters: &AccessCounters,
        look: Look,
        apply: impl FnOnce(&[Vec<u8>]) -> Result<(), Box<dyn Error>>,
    ) -> Looked {
        let read =
            |path: &PathBuf| read(path).map_err(|error| format!("{}: {error}", path.display()));
        let seen: Result<Vec<_>, _> = self.paths.iter().map(read).collect();
        let before = self.seen_once.take();
        let outcome = match &seen {
            Ok(bytes) if *bytes == self.in_force => {
                self.reported = None;
                return Looked::InForce;
            }
            Ok(bytes)
                if look == Look::Regular
                    && before.as_ref() != Some(bytes)
                    && self.reported.as_ref() != Some(&seen) =>
            {
                self.seen_once = Some(bytes.clone());
                return Looked::Changing;
            }
            Ok(bytes) => apply(bytes).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        let file = self.paths.first().map(|path| path.display().to_string());
        match (outcome, seen) {
            (Ok(()), Ok(bytes)) => {
                counters.files_reloaded.add();
                tracing::info!(file, "a replaced file is in force");
                self.in_force = bytes;
                self.reported = None;
                Looked::InForce
            }
            (outcome, seen) => {
                if self.reported.as_ref() != Some(&seen) {
                    let why = outcome.err();
                    counters.file_reload_failures.add();
                    tracing::error!(
                        file,
                        why,
                        "a replaced file cannot be used; its previous content stays in force"
                    );
                }
                self.reported = Some(seen);
                Looked::Unusable
            }
        }
    }

    fn unusable(&self, why: &impl ToString) -> StartError {
        StartError::SecurityFile {
            path: self.paths.first().cloned().unwrap_or_default(),
            why: why.to_string(),
        }
    }
}

fn file(files: &[Vec<u8>], at: usize) -> &[u8] {
    files.get(at).map(Vec::as_slice).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn what_changed_is_in_force_once_it_was_the_same_at_two_looks() {
        use Look::{Asked, Regular};
        use Looked::{Changing, InForce, Unusable};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rbac.yaml");
        fs::write(&path, "old").unwrap();
        let mut file = Watched::open(Some(&path)).unwrap().unwrap();
        let counters = AccessCounters::default();
        let applied = RefCell::new(Vec::new());
        let mut look = |text: &str, look| {
            fs::write(&path, text).unwrap();
            let looked = file.reload(&counters, look, |bytes| {
                let text = String::from_utf8_lossy(super::file(bytes, 0)).into_owned();
                if text == "unusable" {
                    return Err(text.into());
                }
                applied.borrow_mut().push(text);
                Ok(())
            });
            (looked, applied.take())
        };
        for (text, how, expected) in [
            ("old", Regular, (InForce, vec![])),
            // The file is emptied and then written in parts.
            ("", Regular, (Changing, vec![])),
            ("verbs: [get]", Regular, (Changing, vec![])),
            ("verbs: [get], names: [a]", Regular, (Changing, vec![])),
            (
                "verbs: [get], names: [a]",
                Regular,
                (InForce, vec!["verbs: [get], names: [a]".to_owned()]),
            ),
            ("verbs: [get], names: [a]", Regular, (InForce, vec![])),
            // The content changes for a moment, and later in the same way again.
            ("", Regular, (Changing, vec![])),
            ("verbs: [get], names: [a]", Regular, (InForce, vec![])),
            ("", Regular, (Changing, vec![])),
            ("", Regular, (InForce, vec![String::new()])),
            ("unusable", Regular, (Changing, vec![])),
            ("unusable", Regular, (Unusable, vec![])),
            ("unusable", Regular, (Unusable, vec![])),
            // On request, the content counts as complete.
            ("new", Asked, (InForce, vec!["new".to_owned()])),
        ] {
            assert_eq!(look(text, how), expected, "{text:?} {how:?}");
        }
        let counts = [&counters.files_reloaded, &counters.file_reload_failures];
        assert_eq!(counts.map(crate::auth::Count::get), [3, 1]);
    }
}
