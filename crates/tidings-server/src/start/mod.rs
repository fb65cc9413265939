//! Starts a server from a data folder: certificate, tokens, kubeconfig, listener.

pub(crate) mod clusters;
pub(crate) mod error;
pub(crate) mod inside;
mod intake;
mod kubeconfig;
mod lingering;
pub(crate) mod loopback;
pub(crate) mod private;
mod repolled;
pub(crate) mod security;
pub(crate) mod serve;
pub(crate) mod storage;
pub(crate) mod tls;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use parking_lot::RwLock;
use tidings_store::Store;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::api::random;
use crate::api::router;
use crate::api::server::ApiOptions;
use crate::api::server::ApiServer;
use crate::archive::ServedFeeds;
use crate::audit::{AuditLog, AuditOptions};
use crate::auth::{RequestHeader, RequestHeaderError, Token, User, parse_token_file};
use crate::clock::{Clock, SystemClock};
use crate::mcp;
use crate::start::error::StartError;
use crate::start::kubeconfig::{Credentials, Trusted, kubeconfig_text};
use crate::start::loopback::RunningTimeline;
use crate::start::private::write_private;
use crate::start::security::{
    AggregatedOptions, AuthorizationMode, MakeIdentity, ReloadRequest, Security, SecurityOptions,
    Watched, WriteKubeconfig,
};
use crate::start::serve::{Served, serve_api};
use crate::start::storage::{Storage, private_dir};
use crate::timeline::{self, Entrance, Timeline};
use tls::Identity;

/// Options of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StartOptions {
    /// The folder of events, certificates, tokens and the kubeconfig. Created if it does not exist.
    pub data_dir: PathBuf,
    /// The address to listen on. Default: 127.0.0.1.
    pub bind_address: IpAddr,
    /// The port to listen on; 0 chooses a free one. Default: 6443.
    pub secure_port: u16,
    /// A file of tokens in kube-apiserver's CSV form; a file without tokens is valid and lets no
    /// client in. Default: the server's own token.
    pub token_auth_file: Option<PathBuf>,
    /// Whether the server has its own token, of `system:masters`, if there is no token file. The
    /// token is made at the first start, stored in the data folder, and written into the
    /// kubeconfig. Without it, a token in the folder is ignored, and the kubeconfig has no
    /// credentials. Default: yes.
    pub admin_token: bool,
    /// Authentication, authorization and TLS.
    pub security: SecurityOptions,
    /// The store. Default: the embedded store, in the data folder.
    pub storage: Storage,
    /// The audit log. Default: no audit log.
    pub audit: Option<AuditOptions>,
    /// The API group that the API server of a followed cluster proxies to. Only
    /// [`start_clusters`](crate::start_clusters) uses it. Default: none.
    pub aggregated: Option<AggregatedOptions>,
    /// The feeds, at `/feeds` and in the metrics. Only
    /// [`start_clusters`](crate::start_clusters) uses it. Default: none.
    pub feeds: Option<Arc<dyn ServedFeeds>>,
    /// Options of the API.
    pub api: ApiOptions,
}

impl StartOptions {
    /// The defaults, with this data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            bind_address: Ipv4Addr::LOCALHOST.into(),
            secure_port: 6443,
            token_auth_file: None,
            admin_token: true,
            security: SecurityOptions::default(),
            storage: Storage::default(),
            audit: None,
            aggregated: None,
            feeds: None,
            api: ApiOptions::default(),
        }
    }
}

/// A running server. Dropping it also ends the server, but without waiting for anything; see
/// [`shutdown`](Running::shutdown).
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    kubeconfig: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    reload: mpsc::Sender<ReloadRequest>,
    task: JoinHandle<()>,
    server: Arc<ApiServer>,
    /// The first of the server's tokens.
    token: Option<Token>,
    /// By what clients verify the server's own certificate.
    own: Option<Arc<RwLock<Trusted>>>,
}

impl Running {
    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of the server's kubeconfig, readable by its owner only.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Also serves this server's timeline on the loopback interface, over plain HTTP. Its link can
    /// be used once, and gives the access of the server's first token.
    ///
    /// # Errors
    /// [`StartError`]: there is no token, or no address to listen on.
    pub async fn start_timeline(&self) -> Result<RunningTimeline, StartError> {
        let token = self.token.as_ref().ok_or(StartError::Options {
            why: "the server has no token that a link could stand for",
        })?;
        loopback::start_timeline_of_server(0, &self.server, &token.token).await
    }

    /// Reloads the files of tokens, permissions and certificates now, instead of at the next
    /// [`SecurityOptions::reload_interval`]. Returns whether all changed files are in force.
    pub async fn reload(&self) -> bool {
        let (asked, answered) = oneshot::channel();
        self.reload.send(ReloadRequest::Files(asked)).await.is_ok()
            && answered.await.unwrap_or(false)
    }

    fn aggregation(&self) -> Aggregation {
        Aggregation {
            asked: self.reload.downgrade(),
            own: self.own.clone(),
        }
    }

    /// Stops accepting, ends watches cleanly, finishes requests in flight and closes the store.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the task has ended already.
            let _ = stop.send(());
        }
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the server ended abnormally");
        }
    }
}

/// Keeps a running archive and the API server of its home cluster known to each other; see
/// [`RunningClusters::aggregation`](crate::RunningClusters::aggregation). It does not keep the
/// archive running.
#[derive(Clone, Debug)]
pub struct Aggregation {
    asked: mpsc::WeakSender<ReloadRequest>,
    own: Option<Arc<RwLock<Trusted>>>,
}

impl Aggregation {
    /// Trusts a front proxy from now on, instead of the former one: the API server of the home
    /// cluster, whose headers name users. Open connections are judged anew with their next request.
    ///
    /// # Errors
    /// [`RequestHeaderError`] says why the settings cannot be used; the former ones stay in force.
    pub async fn trust_front_proxy(
        &self,
        settings: RequestHeader,
    ) -> Result<(), RequestHeaderError> {
        let (asked, answered) = oneshot::channel();
        let request = ReloadRequest::FrontProxy(Box::new(settings), asked);
        // Without a receiver, or without an answer, the server has ended.
        let Some(sender) = self.asked.upgrade() else {
            return Ok(());
        };
        if sender.send(request).await.is_err() {
            return Ok(());
        }
        drop(sender);
        answered.await.unwrap_or(Ok(()))
    }

    /// The authority of the server's own certificate, in PEM. It is renewed years before it ends.
    /// `None` if the certificate is a given one ([`SecurityOptions::tls_files`]).
    pub fn own_authority_pem(&self) -> Option<String> {
        let own = self.own.as_ref()?;
        Some(own.read().authority_pem.clone())
    }
}

/// Starts a server over the store of its options, by default the embedded one in the data folder.
/// It is ready when this returns. Needs a tokio runtime.
///
/// # Errors
/// [`StartError`] says which file, address or token was wrong.
///
/// ```
/// use tidings_server::{StartOptions, start};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let mut options = StartOptions::new(folder.path());
/// options.secure_port = 0;
/// let server = start(options).await?;
/// println!("kubectl --kubeconfig {} get events -A", server.kubeconfig().display());
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub async fn start(options: StartOptions) -> Result<Running, StartError> {
    private_dir(&options.data_dir)?;
    let store = options.storage.clone().open(&options.data_dir).await?;
    start_with_store(store, options).await
}

/// Like [`start`], with an open store; [`StartOptions::storage`] is not used. The data folder then
/// holds only certificates, tokens and the kubeconfig.
///
/// # Errors
/// The errors of [`start`].
pub async fn start_with_store(
    store: Arc<dyn Store>,
    options: StartOptions,
) -> Result<Running, StartError> {
    let prepared = Prepared::of(Arc::clone(&store), options).await?;
    prepared.warn_of_closed_doors(false);
    let (address, clients) = (prepared.address, prepared.clients());
    let path = prepared.kubeconfig.clone();
    let write = move || {
        let kubeconfig = kubeconfig_text(address, &clients.credentials());
        write_private(&path, kubeconfig.as_bytes())
    };
    let path = &prepared.kubeconfig;
    write().map_err(StartError::file(path))?;
    let api = router(Arc::clone(&prepared.server));
    let timeline = prepared.has_timeline().then(|| {
        let server = Arc::clone(&prepared.server);
        timeline_router(Arc::new(Timeline::of_server(server, Entrance::Login)))
    });
    let served = Served::new(api, timeline);
    let write = Box::new(move || write().map_err(|error| error.to_string()));
    Ok(prepared.run(served, write, async move { store.close().await }))
}

/// The routes of a timeline, and of the Model Context Protocol over its answers.
pub(crate) fn timeline_router(timeline: Arc<Timeline>) -> Router {
    timeline::router(Arc::clone(&timeline)).merge(mcp::router(timeline))
}

/// A server that listens, but does not serve yet.
struct Prepared {
    server: Arc<ApiServer>,
    listener: TcpListener,
    address: SocketAddr,
    kubeconfig: PathBuf,
    tokens: Vec<Token>,
    security: Security,
    options: SecurityOptions,
}

impl Prepared {
    /// Reads all files and listens. `store` has the events of the server itself.
    async fn of(store: Arc<dyn Store>, options: StartOptions) -> Result<Self, StartError> {
        private_dir(&options.data_dir)?;
        let token_file = Watched::open(options.token_auth_file.as_deref())?;
        let tokens = match (&token_file, &options.token_auth_file) {
            (Some(file), Some(path)) => parse_tokens(path, file.first())?,
            _ if options.admin_token => own_tokens(&options.data_dir.join("tokens.csv"))?,
            _ => Vec::new(),
        };
        let names = tls::names(options.bind_address, &options.security.tls_names);
        let folder = options.data_dir.join("pki");
        let own: MakeIdentity = Box::new(move |now| Identity::own(&folder, &names, now));
        let mut security = options.security.load(
            (token_file, &tokens),
            options.aggregated.clone(),
            (own, SystemClock.now()),
            kubeconfig::reached(options.bind_address),
        )?;

        let address = SocketAddr::new(options.bind_address, options.secure_port);
        let listening = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;

        let identity = store.identity(random::uuid()?).await;
        let identity = identity.unwrap_or_else(|error| {
            tracing::warn!(%error, "namespaces are shown without uids: the store's identity is not known");
            None
        });
        let mut server = ApiServer::new(
            store,
            Arc::new(SystemClock),
            std::mem::take(&mut security.authenticator),
            options.api,
        )
        .with_authorizer(std::mem::take(&mut security.authorizer))
        .with_identity(identity);
        if let Some(audit) = options.audit {
            let unusable = StartError::file(&audit.path);
            let log = AuditLog::open(audit, Arc::new(SystemClock)).map_err(unusable)?;
            server = server.with_audit_log(log);
        }
        Ok(Self {
            server: Arc::new(server),
            listener,
            address,
            kubeconfig: options.data_dir.join("kubeconfig"),
            tokens,
            security,
            options: options.security,
        })
    }

    /// Warns in the log if no client can be authenticated, or if none may do anything. `are_asked`:
    /// whether clusters other than those of the options review tokens and permissions.
    fn warn_of_closed_doors(&self, are_asked: bool) {
        let options = &self.options;
        if are_asked {
            return;
        }
        if self.tokens.is_empty()
            && options.client_ca_file.is_none()
            && options.authentication_cluster.is_none()
            && !options.anonymous_auth
        {
            tracing::warn!(
                "no request is let in but for health and version: there is no token, and nothing else to know users by \
                 (--client-ca-file, --authentication-kubeconfig)"
            );
        } else if options.authorization_mode == AuthorizationMode::Rbac
            && options.authorization_rbac_file.is_none()
            && options.authorization_cluster.is_none()
            && !self.tokens.iter().any(|token| token.user.is_master())
        {
            tracing::warn!(
                "no user may read or write events: no token is in system:masters, and no permissions are given \
                 (--authorization-rbac-file, --authorization-kubeconfig or --authorization-mode=AlwaysAllow)"
            );
        }
    }

    /// What the kubeconfig contains about the server.
    fn clients(&self) -> Clients {
        Clients {
            trusted: Arc::clone(&self.security.trusted),
            token: self.tokens.first().map(|token| token.token.clone()),
        }
    }

    fn has_timeline(&self) -> bool {
        self.server.options.timeline.enabled
    }

    /// Serves these routes; `closed` is awaited after the last request. The kubeconfig is written
    /// anew when the certificate is replaced.
    fn run(
        self,
        served: Served,
        write_kubeconfig: WriteKubeconfig,
        closed: impl Future<Output = ()> + Send + 'static,
    ) -> Running {
        let Self {
            server,
            listener,
            address,
            kubeconfig,
            tokens,
            security,
            options,
        } = self;
        let tls = security.tls.clone();
        let token = tokens.into_iter().next();
        let shared = Arc::clone(&server);
        let (reload, reloads) = mpsc::channel(1);
        let own = options.tls_files.is_none();
        let own = own.then(|| Arc::clone(&security.trusted));
        let watcher = security.watcher(server.clone(), write_kubeconfig);
        tokio::spawn(watcher.run(options.reload_interval, reloads));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                // A dropped sender ends the server as well.
                let _ = stopped.await;
            };
            serve_api(listener, Arc::clone(&server), served, tls, stopped).await;
            closed.await;
            // Write the last lines before the program ends.
            if let Some(audit) = &server.audit {
                Arc::clone(audit).finish().await;
            }
        });
        Running {
            address,
            kubeconfig,
            stop: Some(stop),
            reload,
            task,
            server: shared,
            token,
            own,
        }
    }
}

/// What a kubeconfig contains about the server, as of whenever it is written.
struct Clients {
    trusted: Arc<RwLock<Trusted>>,
    token: Option<String>,
}

impl Clients {
    fn credentials(&self) -> Credentials {
        Credentials {
            trusted: self.trusted.read().clone(),
            token: self.token.clone(),
        }
    }
}

fn parse_tokens(path: &Path, bytes: &[u8]) -> Result<Vec<Token>, StartError> {
    parse_token_file(bytes).map_err(|source| StartError::TokenFile {
        path: path.to_owned(),
        source,
    })
}

/// The server's own token, which is made at the first start.
fn own_tokens(path: &Path) -> Result<Vec<Token>, StartError> {
    if path.exists() {
        let bytes = fs::read(path).map_err(StartError::file(path))?;
        return parse_tokens(path, &bytes);
    }
    let token = random::token()?;
    let user = User::new("admin", random::uuid()?, ["system:masters".to_owned()]);
    let line = format!("{token},{},{},\"system:masters\"\n", user.name, user.uid);
    write_private(path, line.as_bytes()).map_err(StartError::file(path))?;
    Ok(vec![Token { token, user }])
}
