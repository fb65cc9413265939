//! Selects the cluster and makes a client for it, with kubectl's flags, kubeconfig and precedence.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Once;
use std::time::Duration;

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use rustls::CertificateError;
use tidings_cli::clusters::check_name;
use tidings_cli::printer::PrintError;
use tidings_connect::{is_not_http, rejected_certificate};

use super::connection;
use super::connection::answer::Stranger;
use super::kubeconfig;
use super::kubeconfig::chosen::{Chosen, ConfigError, Names, authorities_in, without_credentials};
pub(crate) use super::text::{one_line, tell, with_sources};

/// Success.
pub(crate) const DONE: u8 = 0;
/// The server refused, or the result was not the requested one.
pub(crate) const FAILED: u8 = 1;
/// A wrong command line, kubeconfig or file name; clap's own code.
pub(crate) const USAGE: u8 = 2;
/// The server cannot be reached or does not accept the credentials.
pub(crate) const UNREACHABLE: u8 = 3;

/// The `--cluster` that selects every cluster of an archive.
const ALL: &str = "all";

/// Wait before the first retry of a request; it doubles with each retry.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(250);
const ASK_AGAIN_LAST: Duration = Duration::from_secs(2);

/// The exit codes of every verb that talks to a cluster.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0    done
  1    the server refused, or the request could not be fulfilled
  2    a wrong command line, kubeconfig or file name
  3    the server cannot be reached or rejects the credentials
  130  interrupted";

/// The exit codes of every verb that also reads captures.
pub(crate) const EXIT_CODES_WITH_CAPTURES: &str = "Exit codes:
  0    done
  1    the server refused, or the request could not be fulfilled; with --file also if an event was
       refused or unreadable, or a capture is not whole or is something else than events
  2    a wrong command line, kubeconfig or file name
  3    the server cannot be reached or rejects the credentials
  130  interrupted";

/// The cluster and its credentials, by kubectl's flags. As in kubectl, an empty value counts as
/// absent, because scripts pass variables that may be empty.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// Kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster this runs
    /// in]
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Cluster of the kubeconfig [default: the context's]; all for every cluster of an archive.
    /// With --server, a cluster that no kubeconfig has is one of the archive at that address
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// User of the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Address of the API server [default: the kubeconfig's]
    #[arg(long, short, value_name = "URL")]
    server: Option<String>,
    /// Bearer token [default: the kubeconfig's credentials]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Certificate authorities for the server's certificate, in PEM
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    certificate_authority: Option<PathBuf>,
    /// Accept any server certificate: the connection is then insecure
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
    /// Name expected in the server's certificate [default: its address]
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate")]
    impersonate_groups: Vec<String>,
    /// Timeout of a request; 0 means none
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = request_timeout)]
    request_timeout: Duration,
    /// The server of captures, if these are read instead of a cluster.
    #[arg(skip)]
    captured: Option<Captured>,
    /// Another path of the same server: that of an archive, or of one of its clusters.
    #[arg(skip)]
    address: Option<String>,
    /// How requests reach another part of the same server.
    #[arg(skip)]
    route: Option<fn(&Server) -> Server>,
}

/// A client of a server with captures.
#[derive(Clone)]
struct Captured(Client);

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Captured")
    }
}

/// The namespaces to search.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct NamespaceFlags {
    /// Namespace [default: the context's, or default]
    #[arg(long, short, value_name = "NAME", value_parser = StringValueParser::new().try_map(namespace))]
    namespace: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
}

impl NamespaceFlags {
    /// The given namespace. An empty name means none, as in kubectl.
    pub(crate) fn name(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|name| !name.is_empty())
    }
}

/// Parses a namespace. It becomes a path segment, so only characters of namespaces are allowed.
/// Upper case is left to the server to refuse.
pub(crate) fn namespace(text: String) -> Result<String, &'static str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.bytes().all(is_good) {
        Ok(text)
    } else {
        Err("expected the name of a namespace, of a-z, 0-9 and -")
    }
}

/// Parses a service account or another object, by its namespace and name.
pub(crate) fn service_account(text: &str) -> Result<(String, String), String> {
    text.split_once(':')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        .ok_or_else(|| "expected NAMESPACE:NAME, such as shop:web-controller".to_owned())
}

/// Parses a timeout. As in kubectl, a number without a unit is in seconds.
fn request_timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => tidings_cli::times::duration(text),
    }
}

/// The API server of the selected cluster.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    /// The timeout of a request, if any.
    pub(crate) timeout: Option<Duration>,
}

impl Server {
    /// The namespace of the context, checked only where it is used: it becomes a path segment.
    pub(crate) fn context_namespace(&self) -> Result<String, CommandError> {
        let found = namespace(self.client.default_namespace().to_owned());
        found.map_err(|why| CommandError::Config(format!("the namespace of its context: {why}")))
    }

    /// Waits for an answer, up to the timeout.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        match self.timeout {
            None => answer.await,
            Some(timeout) => tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or_else(|_| {
                    let late = format!("no answer within {timeout:?} (--request-timeout)");
                    Err(kube::Error::Service(late.into()))
                }),
        }
    }

    /// Whether the server is a tidings server or archive.
    pub(crate) async fn is_ours(&self) -> Result<bool, CommandError> {
        match self.ask(|| self.client.apiserver_version()).await {
            Ok(version) => Ok(version.git_version.contains("+tidings-")),
            Err(kube::Error::Api(status)) if status.code != 401 => Ok(false),
            Err(error) => Err(CommandError::request("find the archive", "events", error)),
        }
    }

    /// Sends a request, and retries it while the server is busy or starting: five times in four
    /// seconds.
    ///
    /// # Errors
    /// Returns the error of the last try, or at once any other error.
    pub(crate) async fn ask<T, A>(&self, mut ask: impl FnMut() -> A) -> kube::Result<T>
    where
        A: Future<Output = kube::Result<T>>,
    {
        let mut wait = ASK_AGAIN_FIRST;
        loop {
            match self.in_time(ask()).await {
                Err(kube::Error::Api(status))
                    if matches!(status.code, 429 | 502..=504) && wait <= ASK_AGAIN_LAST =>
                {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                answer => return answer,
            }
        }
    }
}

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CommandError {
    /// A usage error that clap cannot detect.
    #[error("{0}")]
    Usage(String),
    #[error("use the kubeconfig: {0}")]
    Config(String),
    #[error("reach the server: {}", with_sources(.0))]
    Unreachable(kube::Error),
    #[error("authenticate to the server: {}", one_line(&.0.message))]
    Unauthorized(Box<kube::core::Status>),
    /// The archive itself does not know the user; one of its clusters may.
    #[error("list the clusters of the archive: {}", one_line(&.0.message))]
    UnknownToArchive(Box<kube::core::Status>),
    /// A temporary failure that lasted for the whole allowed time.
    #[error("{0}")]
    Away(Box<Self>),
    #[error("{what}: {}", one_line(&.status.message))]
    Refused {
        what: String,
        status: Box<kube::core::Status>,
        /// The use of `tidings rbac` that prints the needed permissions.
        rbac: &'static str,
    },
    #[error("{what}: the server sent an unexpected answer: {why}")]
    Unreadable { what: String, why: String },
    #[error("sort the events: there are more than {max}")]
    TooMany { max: usize },
    /// The result was not the requested one.
    #[error("{0}")]
    Failed(String),
    #[error("write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<PrintError> for CommandError {
    fn from(error: PrintError) -> Self {
        match error {
            PrintError::Output(error) => Self::Output(error),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl CommandError {
    /// The error of arguments that do not name an object.
    pub(crate) fn of_words(why: &str) -> Self {
        Self::Usage(format!("understand which object is meant: {why}"))
    }

    /// The error of a request; `what` fits after "failed to".
    pub(crate) fn request(what: impl Into<String>, rbac: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::Unauthorized(status),
            kube::Error::Api(status) => Self::Refused {
                what: what.into(),
                status,
                rbac,
            },
            kube::Error::SerdeError(error) => Self::Unreadable {
                what: what.into(),
                why: error.to_string(),
            },
            kube::Error::FromUtf8(error) => Self::Unreadable {
                what: what.into(),
                why: error.to_string(),
            },
            error => Self::Unreachable(error),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) => USAGE,
            Self::Unreachable(_)
            | Self::Unauthorized(_)
            | Self::UnknownToArchive(_)
            | Self::Away(_) => UNREACHABLE,
            Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::TooMany { .. }
            | Self::Failed(_)
            | Self::Output(_) => FAILED,
        }
    }

    /// Whether a retry may succeed: the server is out of reach, busy or starting.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => status.code == 429 || status.code >= 500,
            _ => false,
        }
    }

    /// Whether the caller lacks a permission.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 403)
    }

    /// Whether the user is unknown or lacks a permission.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_forbidden() || matches!(self, Self::Unauthorized(_))
    }

    /// Whether the server does not have the requested object.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// Whether the server's refusal names this object, which shows that it serves such objects.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        let Self::Refused { status, .. } = self else {
            return false;
        };
        let details = status.details.as_ref();
        details.is_some_and(|details| details.name == name)
    }

    /// Advice for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Config(_) => Some(
                "name one with --kubeconfig, or a server with --server and --token; kubectl config view shows the current one"
                    .to_owned(),
            ),
            Self::Unreachable(error) if Stranger::is_in(error) => Some(STRANGER_HINT.to_owned()),
            Self::Unreachable(error) => Some(unreachable_hint(error).to_owned()),
            Self::Away(error) => error.hint().or_else(|| Some(UNREACHABLE_HINT.to_owned())),
            Self::Unauthorized(status) if is_about_clusters(status) => {
                Some(AT_CLUSTER_HINT.to_owned())
            }
            Self::Refused { status, .. } if is_about_clusters(status) => {
                Some(NAME_A_CLUSTER_HINT.to_owned())
            }
            Self::Unauthorized(_) => Some(UNAUTHORIZED_HINT.to_owned()),
            Self::UnknownToArchive(_) => Some(UNKNOWN_TO_ARCHIVE_HINT.to_owned()),
            Self::Refused { rbac, status, .. } if self.is_forbidden() => {
                // The archive's API group has permissions of its own, whatever the verb.
                let group = status.details.as_ref().map(|details| details.group.as_str());
                let is_past = group == Some(tidings_server::PAST_GROUP);
                let kind = status.details.as_ref().map(|details| details.kind.as_str());
                if is_past && kind == Some("clusters") {
                    return Some(PROXY_HINT.to_owned());
                }
                let mut hint = permissions_hint(if is_past { ARCHIVE_USE } else { rbac });
                // A server's phrase for all namespaces.
                if status.message.contains("at the cluster scope") {
                    hint.push_str("; to read a single namespace, name it with -n");
                }
                Some(hint)
            }
            Self::TooMany { .. } => Some(
                "select fewer with -n, --since or --types, or the last ones with --limit; raise --max-events; or use \
                 tidings export, which writes all of them in order of name"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// Whether an archive says that it has no such cluster, or that a cluster must be named.
fn is_about_clusters(status: &kube::core::Status) -> bool {
    let details = status.details.as_ref();
    details.is_some_and(|details| details.kind == "clusters" && details.name.is_empty())
}

/// Advice if the server does not answer.
pub(crate) const UNREACHABLE_HINT: &str =
    "is it running, and is the address right? kubectl version asks it, too";

/// Advice if the answer did not come from an API server.
pub(crate) const STRANGER_HINT: &str = "what stands in front of the server answered, such as a login or a proxy: sign in there, or check the address and the proxy";

/// Advice if no server was reached, or one with another protocol or certificate.
fn unreachable_hint(error: &(dyn Error + 'static)) -> &'static str {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    if let Some(error) = causes.clone().find_map(rejected_certificate) {
        return match error {
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                "certificates may be signed with Ed25519, RSA of 2048 bits or more, or ECDSA on the curve P-256 or P-384 with SHA-256 or SHA-384"
            }
            _ => {
                "name the authority of the server's certificate with --certificate-authority, and the name in it with --tls-server-name if it is another"
            }
        };
    }
    if causes.any(is_not_http) {
        "its answer is not HTTP: if the server expects TLS, its address begins with https://"
    } else {
        UNREACHABLE_HINT
    }
}

/// Advice if the server rejects the credentials.
pub(crate) const UNAUTHORIZED_HINT: &str =
    "the credentials are wrong or have expired; kubectl auth whoami uses the same ones";

/// Advice if a cluster of an archive is not there, or does not accept the credentials.
const AT_CLUSTER_HINT: &str = "is the name of the cluster right? The archive lists the names at /clusters, and each cluster knows its own users: use credentials of this one that have not expired";

/// Advice if an archive of several clusters is asked without the name of one.
const NAME_A_CLUSTER_HINT: &str = "an archive is at this address: name one of its clusters with --server ADDRESS/clusters/NAME, or all with --cluster all; --cluster NAME is a cluster of the kubeconfig if that has one of this name";

/// Advice to a user who may not read an archive's cluster through the home cluster's API server.
const PROXY_HINT: &str = "this needs get of clusters/proxy in the archive's API group, with the cluster's name, and list of clusters for --cluster all: docs/how-to/follow-other-clusters.md has the commands";

/// Advice to a user who asks for all clusters of an archive that does not know the user itself.
const UNKNOWN_TO_ARCHIVE_HINT: &str = "the credentials are wrong, or only a cluster of the archive knows them: name it with --cluster NAME; for all, use a kubeconfig with a context for each cluster, as tidings kubeconfig prints it";

/// The use of `tidings rbac` that prints the permissions to read an archive.
pub(crate) const ARCHIVE_USE: &str = "past-events";

/// Advice if a permission is missing; `uses` is an argument of `tidings rbac`.
pub(crate) fn permissions_hint(uses: &str) -> String {
    format!("tidings rbac {uses} prints the permissions this needs")
}

/// Prints the error of a verb, and returns its exit code.
pub(crate) fn finish(result: Result<u8, CommandError>) -> ExitCode {
    let error = match result {
        Ok(code) => return ExitCode::from(code),
        // The reader has closed the pipe, as head and less do.
        Err(CommandError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            return ExitCode::from(DONE);
        }
        Err(error) => error,
    };
    complain(&error, error.hint().as_deref());
    ExitCode::from(error.exit_code())
}

impl ClusterFlags {
    /// Makes the flags for a context, with defaults.
    pub(crate) fn of_context(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self {
            kubeconfig,
            context,
            ..Self::default()
        }
    }

    /// The timeout of a request, if there is one.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        (!self.request_timeout.is_zero()).then_some(self.request_timeout)
    }

    /// Makes the flags point to captures instead of a cluster.
    pub(crate) fn direct_to(&mut self, captured: Client) {
        self.captured = Some(Captured(captured));
    }

    /// Whether captures are read instead of a cluster.
    pub(crate) fn is_of_capture(&self) -> bool {
        self.captured.is_some()
    }

    /// Connects to the cluster's server. Waits for a credential program.
    pub(crate) async fn server(&self) -> Result<Server, CommandError> {
        if let Some(Captured(client)) = &self.captured {
            return Ok(Server {
                client: client.clone(),
                timeout: None,
            });
        }
        let server = Server {
            client: self.client(self.config()?).await?,
            timeout: self.request_timeout(),
        };
        Ok(match self.route {
            Some(route) => route(&server),
            None => server,
        })
    }

    /// The flags for the same server, to which requests take this route.
    pub(crate) fn by(&self, route: fn(&Server) -> Server) -> Self {
        Self {
            route: Some(route),
            ..self.clone()
        }
    }

    /// Makes a client of a configuration that is derived from these flags'.
    pub(crate) async fn client(&self, config: Config) -> Result<Client, CommandError> {
        let name = self.cluster.as_deref().or(self.context.as_deref());
        let client = connection::client(name.unwrap_or_default(), config).await;
        client.map_err(|error| CommandError::Config(with_sources(&error)))
    }

    /// Whether every cluster of an archive is selected.
    pub(crate) fn is_of_all(&self) -> bool {
        self.cluster.as_deref() == Some(ALL)
    }

    /// Whether the flags name a cluster.
    pub(crate) fn names_cluster(&self) -> bool {
        self.cluster.as_deref().is_some_and(|name| !name.is_empty())
    }

    /// The flags for the root of the selected archive: its address without a final
    /// `/clusters/NAME`, if an archive is at that address. A proxy in front of another server may
    /// have such paths, too; it is sent no request outside of the given path.
    pub(crate) async fn root(&self) -> Result<Self, CommandError> {
        let mut root = self.clone();
        root.cluster = root.cluster.filter(|name| name != ALL);
        let address = root.config()?.cluster_url.to_string();
        if let Some(above) = root_of(&address)
            && root.server().await?.is_ours().await?
        {
            root.address = Some(above.to_owned());
        } else {
            root.address = Some(address);
        }
        Ok(root)
    }

    /// The name of the archive's cluster that the address names, if it names one.
    pub(crate) fn cluster_of_archive(&self) -> Result<Option<String>, CommandError> {
        let address = self.config()?.cluster_url.to_string();
        let address = address.trim_end_matches('/');
        let name = root_of(address).and_then(|_| address.rsplit('/').next());
        Ok(name.map(str::to_owned))
    }

    /// The flags for each of these clusters of the archive that these flags are the
    /// [root](Self::root) of. A cluster whose context in the kubeconfig has another user than the
    /// selected context is read with that context, because clusters may not know each other's
    /// users.
    pub(crate) fn below(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Vec<(String, Self)>, CommandError> {
        let root = self.address.as_deref().unwrap_or_default();
        let contexts = self.contexts_at(root)?;
        let below = names.into_iter().map(|name| {
            let mut below = self.clone();
            below.address = Some(format!("{}/clusters/{name}", root.trim_end_matches('/')));
            let other = contexts.iter().find(|(cluster, _)| *cluster == name);
            if let Some((_, Some(context))) = other {
                below.context = Some(context.clone());
            }
            (name, below)
        });
        Ok(below.collect())
    }

    /// The flags for each cluster of the selected archive that the kubeconfig has a context for;
    /// none if the selected address is not that of an archive's cluster.
    pub(crate) async fn clusters_of_kubeconfig(&self) -> Result<Vec<(String, Self)>, CommandError> {
        let mut root = self.of_context_alone();
        let address = root.config()?.cluster_url.to_string();
        let Some(above) = root_of(&address) else {
            return Ok(Vec::new());
        };
        // An archive's cluster may not know the user.
        match root.server().await?.is_ours().await {
            Ok(true) | Err(CommandError::Unauthorized(_)) => {}
            Ok(false) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        root.address = Some(above.to_owned());
        let names = root.contexts_at(above)?.into_iter().map(|(name, _)| name);
        root.below(names)
    }

    /// The clusters of an archive at this address that the kubeconfig has contexts for, each with
    /// its context if that has another user than the selected one.
    fn contexts_at(&self, root: &str) -> Result<Vec<(String, Option<String>)>, CommandError> {
        let flags = self.without_empty();
        let found = flags.found(&kubeconfig::of_environment())?;
        let found = found.unwrap_or_default();
        Ok(kubeconfig::contexts_at(
            &found,
            root,
            flags.context.as_deref(),
        ))
    }

    /// The flags for the selected context, whatever cluster is selected.
    pub(crate) fn of_context_alone(&self) -> Self {
        Self {
            cluster: None,
            ..self.clone()
        }
    }

    /// The flags for another address, with the same credentials.
    pub(crate) fn at(&self, address: String) -> Self {
        Self {
            address: Some(address),
            ..self.clone()
        }
    }

    /// Whether the flags are for a cluster of an archive that was selected as a whole.
    pub(crate) fn is_of_archive(&self) -> bool {
        self.address.is_some() || self.route.is_some()
    }

    /// The configuration of a client for the selected cluster.
    pub(crate) fn config(&self) -> Result<Config, CommandError> {
        if self.is_of_all() {
            let why = "use --cluster all, which is for tidings events, top and coverage: name one cluster";
            return Err(CommandError::Usage(why.to_owned()));
        }
        let paths = kubeconfig::of_environment();
        let mut config = self.config_of(&paths, || Config::incluster().ok())?;
        if let Some(address) = &self.address {
            let address = address.parse();
            config.cluster_url = address.map_err(|error: http::uri::InvalidUri| {
                CommandError::Config(format!("the address of the archive: {error}"))
            })?;
        }
        Ok(config)
    }

    /// The configuration that the flags and the kubeconfigs at `paths` select. Only if these are
    /// all missing, it is that of the cluster in which the command runs: a broken file must not
    /// lead to another cluster.
    fn config_of(
        &self,
        paths: &[PathBuf],
        incluster: impl FnOnce() -> Option<Config>,
    ) -> Result<Config, CommandError> {
        self.without_empty().filled_config_of(paths, incluster)
    }

    /// The flags without those whose value is empty.
    fn without_empty(&self) -> Self {
        let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let path = |value: &Option<PathBuf>| {
            let value = value.clone();
            value.filter(|path| !path.as_os_str().is_empty())
        };
        Self {
            kubeconfig: path(&self.kubeconfig),
            context: text(&self.context),
            cluster: text(&self.cluster),
            user: text(&self.user),
            server: text(&self.server),
            token: text(&self.token),
            certificate_authority: path(&self.certificate_authority),
            tls_server_name: text(&self.tls_server_name),
            impersonate: text(&self.impersonate),
            ..self.clone()
        }
    }

    fn filled_config_of(
        &self,
        paths: &[PathBuf],
        incluster: impl FnOnce() -> Option<Config>,
    ) -> Result<Config, CommandError> {
        let found = self.found(paths)?;
        if let Some(below) = self.in_archive(found.as_ref()) {
            return below.configured_of(found.as_ref(), paths, incluster);
        }
        self.configured_of(found.as_ref(), paths, incluster)
    }

    /// The named kubeconfig, or those at `paths` as one.
    fn found(&self, paths: &[PathBuf]) -> Result<Option<Kubeconfig>, CommandError> {
        let read = match &self.kubeconfig {
            Some(path) => kubeconfig::read(path).map(Some),
            None => kubeconfig::merged(paths),
        };
        read.map_err(|error| CommandError::Config(with_sources(&error)))
    }

    /// With the address of an archive, a cluster that no kubeconfig has is one of the archive's:
    /// the flags for it.
    fn in_archive(&self, found: Option<&Kubeconfig>) -> Option<Self> {
        let (server, name) = (self.server.as_ref()?, self.cluster.as_ref()?);
        let mut named = found.iter().flat_map(|found| &found.clusters);
        if named.any(|cluster| cluster.name == *name) || check_name(name).is_err() {
            return None;
        }
        Some(Self {
            server: Some(format!("{}/clusters/{name}", server.trim_end_matches('/'))),
            cluster: None,
            ..self.clone()
        })
    }

    fn configured_of(
        &self,
        found: Option<&Kubeconfig>,
        paths: &[PathBuf],
        incluster: impl FnOnce() -> Option<Config>,
    ) -> Result<Config, CommandError> {
        let is_chosen = self.kubeconfig.is_some()
            || self.context.is_some()
            || self.cluster.is_some()
            || self.user.is_some();
        // As in kubectl, the flags may be enough without a kubeconfig, or with one that selects
        // nothing.
        let is_enough = |found: &Kubeconfig| {
            !is_chosen && self.server.is_some() && kubeconfig::current_context(found).is_none()
        };
        let chosen = match found {
            Some(found) if is_enough(found) => Chosen::default(),
            Some(found) => {
                let names = Names {
                    context: self.context.as_deref(),
                    cluster: self.cluster.as_deref(),
                    user: self.user.as_deref(),
                };
                let given = (self.server.is_some(), self.token.is_some());
                Chosen::of(found, names, given).map_err(CommandError::Config)?
            }
            None if is_chosen => return Err(CommandError::Config(none_at(paths))),
            None => match (incluster(), &self.server) {
                (Some(config), _) => return self.in_cluster(config),
                (None, Some(_)) => Chosen::default(),
                (None, None) => return Err(CommandError::Config(none_at(paths))),
            },
        };
        self.configured(chosen)
    }

    /// The selected configuration, overridden by the flags.
    fn configured(&self, mut chosen: Chosen) -> Result<Config, CommandError> {
        let cluster = &mut chosen.cluster;
        if let Some(server) = &self.server {
            cluster.server = Some(server.clone());
            // The kubeconfig's server name is that of another server.
            cluster.tls_server_name = None;
        }
        if let Some(name) = &self.tls_server_name {
            cluster.tls_server_name = Some(name.clone());
        }
        if let Some(path) = &self.certificate_authority {
            // Explicitly named authorities are used, whatever the kubeconfig says.
            let read = authorities_in(path);
            read.map_err(|why| CommandError::Usage(format!("use --certificate-authority: {why}")))?;
            cluster.certificate_authority = Some(path.to_string_lossy().into_owned());
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = None;
        }
        if self.insecure_skip_tls_verify {
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = Some(true);
        }
        if let Some(token) = &self.token {
            chosen.set_token(token);
        }
        if let Some(user) = &self.impersonate {
            chosen.user.impersonate = Some(user.clone());
            chosen.user.impersonate_groups = Some(self.impersonate_groups.clone());
            chosen.user.impersonate_uid = None;
            chosen.user.impersonate_user_extra = None;
        }
        let configured = chosen.config(|name| std::env::var(name).ok());
        let configured = configured.map_err(|error| match (&self.server, error) {
            (Some(server), error @ ConfigError::Address(_)) => {
                CommandError::Usage(format!("use --server {server}: {error}"))
            }
            (_, error) => CommandError::Config(error.to_string()),
        })?;
        if configured.is_without_credentials {
            tell_left_out(&configured.config);
        }
        Ok(configured.config)
    }

    /// The configuration of the cluster in which the command runs, overridden by the flags.
    fn in_cluster(&self, mut config: Config) -> Result<Config, CommandError> {
        let given = Chosen {
            namespace: config.default_namespace.clone(),
            ..Chosen::default()
        };
        let address = config.cluster_url.to_string();
        let server = self.server.clone().unwrap_or(address);
        let flags = Self {
            server: Some(server),
            ..self.clone()
        };
        let by_flags = flags.configured(given)?;
        config.cluster_url = by_flags.cluster_url;
        config.proxy_url = by_flags.proxy_url;
        config.tls_server_name = by_flags.tls_server_name;
        config.accept_invalid_certs = by_flags.accept_invalid_certs;
        if by_flags.root_cert.is_some() {
            config.root_cert = by_flags.root_cert;
            config.root_cert_file = None;
        }
        let is_plain = config.cluster_url.scheme_str() != Some("https");
        if self.token.is_some() || is_plain {
            config.auth_info = without_credentials(config.auth_info);
            config.auth_info.token = by_flags.auth_info.token;
        }
        if self.impersonate.is_some() {
            config.auth_info.impersonate = by_flags.auth_info.impersonate;
            config.auth_info.impersonate_groups = by_flags.auth_info.impersonate_groups;
        }
        config.default_retry = false;
        Ok(config)
    }
}

/// The address of an archive, if `address` looks like that of one of its clusters.
fn root_of(address: &str) -> Option<&str> {
    let (rest, _) = address.trim_end_matches('/').rsplit_once('/')?;
    rest.strip_suffix("/clusters")
}

/// Prints once that credentials are not sent.
fn tell_left_out(config: &Config) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let server = &config.cluster_url;
        tell(&format!(
            "no credentials are sent to {server}, which is not reached over TLS"
        ));
    });
}

/// The message that no kubeconfig was found at these paths.
fn none_at(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    let paths: Vec<_> = paths.collect();
    format!("it does not exist, or is empty, at {:?}", paths.join(", "))
}

/// Prints an error and advice.
pub(crate) fn complain(error: &dyn fmt::Display, hint: Option<&str>) {
    tell(&format!("error: failed to {error}"));
    if let Some(hint) = hint {
        tell(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests;
