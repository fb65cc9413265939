//! The selected cluster and a client for it: kubectl's flags, its kubeconfig and its rules of which
//! comes first.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::capture::Capture;
use super::kubeconfig;

/// Success.
pub(crate) const DONE: u8 = 0;
/// The server refused, or the result was not the requested one.
pub(crate) const FAILED: u8 = 1;
/// A wrong command line, kubeconfig or file name; clap's own code.
pub(crate) const USAGE: u8 = 2;
/// The server cannot be reached or does not accept the credentials.
pub(crate) const UNREACHABLE: u8 = 3;

/// Stands for every cluster of an archive.
const ALL: &str = "all";

/// The kubeconfig of an archive has each cluster NAME as archive-NAME, too.
const ARCHIVE_PREFIX: &str = "archive-";

/// Pauses before retries of a request; each is twice the previous one.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(250);
const ASK_AGAIN_LAST: Duration = Duration::from_secs(2);

/// The exit codes of every verb that talks to a cluster.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0    done
  1    the server refused, or the request could not be fulfilled
  2    a wrong command line, kubeconfig or file name
  3    the server cannot be reached or rejects the credentials
  130  interrupted";

/// The cluster and its credentials, by kubectl's flags.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// Kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster this runs
    /// in]
    #[arg(long, value_name = "FILE", global = false)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Cluster of the kubeconfig [default: the context's]; all for every cluster of an archive
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// User of the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Address of the API server [default: the kubeconfig's]
    #[arg(long, short, value_name = "URL")]
    server: Option<http::Uri>,
    /// Bearer token [default: the kubeconfig's credentials]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Certificate authorities for the server's certificate, in PEM
    #[arg(long, value_name = "FILE")]
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
    /// Captures that are read instead.
    #[arg(skip)]
    capture: Option<Capture>,
}

/// The namespaces to search.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct NamespaceFlags {
    /// Namespace [default: the context's, or default]
    // An empty name would mean all of them.
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new().try_map(namespace))]
    pub(crate) namespace: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
}

/// A namespace becomes a segment of paths, so nothing else may be in it than what namespaces are
/// made of. Letters of the wrong case are the server's to judge.
pub(crate) fn namespace(text: String) -> Result<String, &'static str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.bytes().all(is_good) {
        Ok(text)
    } else {
        Err("expected the name of a namespace, of a-z, 0-9 and -")
    }
}

/// As in kubectl, a number without a unit is in seconds.
fn request_timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => tidings_cli::times::duration(text),
    }
}

/// A cluster's API server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    /// The timeout of a request, if any.
    pub(crate) timeout: Option<Duration>,
}

impl Server {
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

    /// Sends a request, and retries it while the server is busy or starting: five times in four
    /// seconds.
    ///
    /// # Errors
    /// The error of the last try, or at once any other error.
    pub(crate) async fn ask<T, A>(&self, mut ask: impl FnMut() -> A) -> kube::Result<T>
    where
        A: Future<Output = kube::Result<T>>,
    {
        let mut wait = ASK_AGAIN_FIRST;
        loop {
            match self.in_time(ask()).await {
                Err(kube::Error::Api(status))
                    if matches!(status.code, 429 | 503 | 504) && wait <= ASK_AGAIN_LAST =>
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
    /// A temporary failure that lasted for the whole time allowed.
    #[error("{0}")]
    Away(Box<Self>),
    #[error("{what}: {}", one_line(&.status.message))]
    Refused {
        what: String,
        status: Box<kube::core::Status>,
        /// How to find the needed permissions.
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

impl CommandError {
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
            Self::Unreachable(_) | Self::Unauthorized(_) | Self::Away(_) => UNREACHABLE,
            Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::TooMany { .. }
            | Self::Failed(_)
            | Self::Output(_) => FAILED,
        }
    }

    /// Whether a retry may succeed: the server is away, busy or starting.
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

    /// Whether the server does not have the requested object.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// Whether the server names this object in its refusal: it has such objects, then.
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
            Self::Unreachable(error) => Some(unreachable_hint(&with_sources(error)).to_owned()),
            Self::Away(error) => error.hint().or_else(|| Some(UNREACHABLE_HINT.to_owned())),
            Self::Unauthorized(_) => Some(UNAUTHORIZED_HINT.to_owned()),
            Self::Refused { rbac, status, .. } if self.is_forbidden() => {
                let mut hint = permissions_hint(rbac);
                // A server's words for all namespaces.
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

/// Advice if the server does not answer.
pub(crate) const UNREACHABLE_HINT: &str =
    "is it running, and is the address right? kubectl version asks it, too";

/// Advice if a server was reached that speaks otherwise or has another certificate, or if none was.
fn unreachable_hint(why: &str) -> &'static str {
    if why.contains("invalid HTTP version") {
        "the server seems to expect TLS: its address begins with https://"
    } else if why.contains("invalid peer certificate") {
        "name the authority of the server's certificate with --certificate-authority, and the name in it with --tls-server-name if it is another"
    } else {
        UNREACHABLE_HINT
    }
}

/// Advice if the server rejects the credentials.
pub(crate) const UNAUTHORIZED_HINT: &str =
    "the credentials are wrong or have expired; kubectl auth whoami uses the same ones";

/// Advice if a permission is missing; `uses` is one of `tidings rbac`.
pub(crate) fn permissions_hint(uses: &str) -> String {
    format!("tidings rbac {uses} prints the permissions this needs")
}

/// The exit code of a verb, after printing the error.
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
    /// The flags for a context, with defaults.
    pub(crate) fn of_context(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Self {
            kubeconfig,
            context,
            ..Self::default()
        }
    }

    /// The timeout of a request, if any.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        (!self.request_timeout.is_zero()).then_some(self.request_timeout)
    }

    /// Reads captures instead of a cluster.
    pub(crate) fn direct_to(&mut self, capture: Capture) {
        self.capture = Some(capture);
    }

    /// Whether captures are read instead of a cluster.
    pub(crate) fn is_of_capture(&self) -> bool {
        self.capture.is_some()
    }

    /// The cluster's server.
    pub(crate) async fn server(&self) -> Result<Server, CommandError> {
        if let Some(capture) = &self.capture {
            return Ok(Server {
                client: capture.client.clone(),
                timeout: None,
            });
        }
        let client = Client::try_from(self.config().await?)
            .map_err(|error| CommandError::Config(with_sources(&error)))?;
        Ok(Server {
            client,
            timeout: self.request_timeout(),
        })
    }

    /// Whether every cluster of an archive is selected.
    pub(crate) fn is_of_all(&self) -> bool {
        self.cluster.as_deref() == Some(ALL)
    }

    /// Whether a cluster is named.
    pub(crate) fn names_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The same flags for the root of the selected archive.
    pub(crate) async fn root(&self) -> Result<Self, CommandError> {
        let mut root = self.clone();
        root.cluster = root.cluster.filter(|name| name != ALL);
        let address = root.config().await?.cluster_url.to_string();
        let address = address.split("/clusters/").next().unwrap_or_default();
        let address = address.trim_end_matches('/').parse();
        root.server = Some(address.map_err(|error: http::uri::InvalidUri| {
            CommandError::Config(format!("the server's address: {error}"))
        })?);
        Ok(root)
    }

    /// The same flags for a cluster of the selected archive.
    pub(crate) fn below(&self, name: &str) -> Result<Self, CommandError> {
        let mut below = self.clone();
        let root = self
            .server
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let address = format!("{}/clusters/{name}", root.trim_end_matches('/'));
        below.server = Some(address.parse().map_err(|error: http::uri::InvalidUri| {
            CommandError::Config(format!("the address of the cluster {name:?}: {error}"))
        })?);
        Ok(below)
    }

    /// Flags that select and reach the cluster.
    pub(crate) async fn config(&self) -> Result<Config, CommandError> {
        if self.is_of_all() {
            let why = "use --cluster all, which is for tidings events, top and coverage: name one cluster";
            return Err(CommandError::Usage(why.to_owned()));
        }
        // Another dependency may add a second provider, and then rustls needs a default. Setting it
        // twice does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let paths = kubeconfig::of_environment();
        let named = self.named(&paths, || Config::incluster().ok());
        let (mut config, proxy) = named.await.map_err(CommandError::Config)?;
        // As in kubectl, a namespace that is set to nothing is not set.
        if config.default_namespace.is_empty() {
            "default".clone_into(&mut config.default_namespace);
        }
        if let Some(server) = &self.server {
            config.cluster_url = with_scheme(server).map_err(CommandError::Usage)?;
        }
        if let Some(token) = &self.token {
            config.auth_info = kube::config::AuthInfo {
                token: Some(token.clone().into()),
                ..kube::config::AuthInfo::default()
            };
        }
        if let Some(path) = &self.certificate_authority {
            let read = certificates(path);
            config.root_cert = Some(read.map_err(|why| {
                CommandError::Usage(format!("use --certificate-authority: {why}"))
            })?);
            config.root_cert_file = None;
            // A user who names authorities relies on them, whatever the kubeconfig says.
            config.accept_invalid_certs = false;
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        config.proxy_url = match proxy {
            Some(proxy) => super::proxy::address(&proxy).map(Some),
            None => {
                super::proxy::of_environment(&config.cluster_url, |name| std::env::var(name).ok())
            }
        }
        .map_err(CommandError::Config)?;
        // Each request decides about its own retries: a watch, for example, reports that it was cut
        // off.
        config.default_retry = false;
        Ok(config)
    }

    /// The selected configuration, and the proxy that it names. Without --kubeconfig the files of
    /// `paths` are read. Only where these say nothing is it the cluster that this runs in: a broken
    /// file must not lead to another cluster.
    async fn named(
        &self,
        paths: &[PathBuf],
        incluster: impl FnOnce() -> Option<Config>,
    ) -> Result<(Config, Option<String>), String> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map(Some),
            None => kubeconfig::merged(paths),
        };
        let found = read.map_err(|error| not_read(&error))?;
        let is_chosen = self.kubeconfig.is_some()
            || self.context.is_some()
            || self.cluster.is_some()
            || self.user.is_some();
        // As in kubectl, the flags may be enough without a kubeconfig, or where it selects nothing.
        let is_enough = |found: &Kubeconfig| {
            !is_chosen && self.server.is_some() && kubeconfig::current_context(found).is_none()
        };
        match (found, &self.server) {
            (Some(found), Some(server)) if is_enough(&found) => {
                Ok((Config::new(with_scheme(server)?), None))
            }
            (Some(found), _) => selected(found, &options).await,
            (None, _) if is_chosen => Err(none_at(paths)),
            (None, server) => match (incluster(), server) {
                (Some(config), _) => Ok((config, None)),
                (None, Some(server)) => Ok((Config::new(with_scheme(server)?), None)),
                (None, None) => Err(none_at(paths)),
            },
        }
    }
}

/// What a kubeconfig selects, and the proxy that it names for it.
async fn selected(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<(Config, Option<String>), String> {
    if let Some(missing) = missing(&kubeconfig, options) {
        return Err(missing);
    }
    let proxy = proxy(&kubeconfig, options);
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await;
    let config = config.map_err(|error| with_sources(&error))?;
    Ok((config, proxy))
}

/// Where a kubeconfig was looked for in vain.
fn none_at(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    let paths: Vec<_> = paths.collect();
    format!("there is none, or an empty one, at {:?}", paths.join(", "))
}

/// Maximum of names that a message lists.
const NAMES_MAX: usize = 20;

/// What is wrong if a flag names something that the kubeconfig does not have.
fn missing(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> Option<String> {
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|it| &*it.name).collect();
    if options.context.is_none() && kubeconfig::current_context(kubeconfig).is_none() {
        return Some(match listed(&contexts) {
            Some(known) => {
                format!("it has no current context, but {known}: name one with --context")
            }
            None => "it has no context".to_owned(),
        });
    }
    let clusters: Vec<_> = kubeconfig.clusters.iter().map(|it| &*it.name).collect();
    let users: Vec<_> = kubeconfig.auth_infos.iter().map(|it| &*it.name).collect();
    let is_unknown = |name: &&str| !clusters.contains(name);
    let cluster = options.cluster.as_deref().filter(is_unknown);
    named_among("context", options.context.as_deref(), &contexts)
        .or_else(|| named_among("cluster", cluster, &without_second_names(kubeconfig)))
        .or_else(|| named_among("user", options.user.as_deref(), &users))
}

/// The names of clusters, without those by which the kubeconfig of an archive has each a second
/// time.
fn without_second_names(kubeconfig: &Kubeconfig) -> Vec<&str> {
    let server = |it: &NamedCluster| it.cluster.as_ref().and_then(|it| it.server.clone());
    let is_second = |it: &NamedCluster| {
        let first = it.name.strip_prefix(ARCHIVE_PREFIX);
        let mut others = kubeconfig.clusters.iter();
        first.is_some_and(|first| {
            others.any(|other| other.name == first && server(other) == server(it))
        })
    };
    let clusters = kubeconfig.clusters.iter();
    let clusters = clusters.filter(|it| !is_second(it));
    clusters.map(|it| &*it.name).collect()
}

fn named_among(what: &str, name: Option<&str>, known: &[&str]) -> Option<String> {
    let name = name.filter(|name| !known.contains(name))?;
    Some(match listed(known) {
        Some(known) => format!("it has no {what} {name:?}, but {known}"),
        None => format!("it has no {what} {name:?}, and no other"),
    })
}

/// Names, as a message lists them; `None` if there are no names.
fn listed(known: &[&str]) -> Option<String> {
    if known.is_empty() {
        return None;
    }
    let more = match known.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let known: Vec<_> = known.iter().take(NAMES_MAX).copied().collect();
    Some(format!("{}{more}", known.join(", ")))
}

/// The proxy in the kubeconfig for the selected cluster.
fn proxy(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> Option<String> {
    let current = options
        .context
        .as_ref()
        .or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| Some(&context.name) == current);
    let context = context.and_then(|context| context.context.as_ref());
    let name = options
        .cluster
        .as_ref()
        .or(context.map(|context| &context.cluster))?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.name == *name)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.clone();
    proxy.filter(|proxy| !proxy.is_empty())
}

/// kubectl uses plain HTTP for an address without a scheme, which would send a token unencrypted.
fn with_scheme(server: &http::Uri) -> Result<http::Uri, String> {
    if server.scheme().is_some() {
        return Ok(server.clone());
    }
    Err(format!(
        "understand --server {server}: expected an address such as https://{server}"
    ))
}

fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("there is no certificate in {}", path.display()))
        }
        Ok(certificates) => Ok(certificates.iter().map(|one| one.to_vec()).collect()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Prints an error, and advice.
pub(crate) fn complain(error: &dyn fmt::Display, hint: Option<&str>) {
    tell(&format!("error: failed to {error}"));
    if let Some(hint) = hint {
        tell(&format!("hint: {hint}"));
    }
}

/// An error of a client says little without its causes.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let text = error.to_string();
    // The client's word for every failure that is not an answer.
    let mut text = text
        .strip_prefix("ServiceError: ")
        .unwrap_or(&text)
        .to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    one_line(&text)
}

/// Why a kubeconfig cannot be read, without a part of it: there are secrets in it.
pub(crate) fn not_read(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            one_line(&format!("parse the YAML: {}", error.without_snippet()))
        }
        KubeconfigError::ReadConfig(error, path) => {
            one_line(&format!("read {}: {error}", path.display()))
        }
        error => with_sources(error),
    }
}

/// Prints a note on standard error.
pub(crate) fn tell(text: &str) {
    // A closed pipe is no reason to stop, and the exit code has the same information.
    let _ = writeln!(std::io::stderr(), "{}", one_line(text));
}

/// Text from outside on one line, of which a terminal only prints what is there.
pub(crate) use tidings_cli::text::message as one_line;

#[cfg(test)]
mod tests;
