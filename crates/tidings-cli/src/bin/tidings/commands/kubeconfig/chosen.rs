//! Selects the cluster, user and namespace from a kubeconfig and the command line by client-go's
//! rules (clientcmd's `DirectClientConfig` and `validation.go`, rest's `DefaultServerURL`), and
//! makes a client configuration from them.
//!
//! kube's own loading differs in these rules, so its types are filled here.
//!
//! Invariant: credentials are sent over TLS only. As in client-go, an address without a scheme
//! means plain HTTP, over which no credentials are sent.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, ExecAuthCluster, ExecConfig, ExecInteractiveMode, Kubeconfig,
    NamedCluster,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tidings_connect::proxy::{self, ProxyError};

/// Maximum names that an error message lists.
const NAMES_MAX: usize = 20;

/// The prefix of the second name that an archive's kubeconfig has for each cluster NAME.
const ARCHIVE_PREFIX: &str = "archive-";

/// The API versions in which a credential program may print credentials.
const EXEC_V1: &str = "client.authentication.k8s.io/v1";
const EXEC_V1_BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// Names on the command line, which take precedence over those of the kubeconfig.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names<'a> {
    pub(crate) context: Option<&'a str>,
    pub(crate) cluster: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
}

/// The selected cluster, user and namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) cluster: Cluster,
    pub(crate) user: AuthInfo,
    /// The namespace; empty for `default`.
    pub(crate) namespace: String,
}

/// Why no client can be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("its server is no address: {0}; expected one such as https://host:6443")]
    Address(&'static str),
    /// Another field is invalid, or its file cannot be read.
    #[error("{0}")]
    Field(String),
}

impl From<String> for ConfigError {
    fn from(why: String) -> Self {
        Self::Field(why)
    }
}

/// A client configuration, and whether it lacks the user's credentials.
pub(crate) struct Configured {
    pub(crate) config: Config,
    /// Whether there are credentials that are not sent because the address has no TLS.
    pub(crate) is_without_credentials: bool,
}

impl Chosen {
    /// Selects from a kubeconfig. Entries that the command line replaces may be missing.
    ///
    /// # Errors
    /// A named context, cluster or user does not exist.
    pub(crate) fn of(
        kubeconfig: &Kubeconfig,
        names: Names<'_>,
        (has_server, has_token): (bool, bool),
    ) -> Result<Self, String> {
        let contexts: Vec<_> = kubeconfig.contexts.iter().map(|it| &*it.name).collect();
        let name = names.context.or(super::current_context(kubeconfig));
        // As in client-go, the command line may name all that a context would.
        let is_named = names.cluster.is_some() || has_server && names.user.is_some();
        let context = match (name, listed(&contexts)) {
            (Some(name), _) => {
                let mut found = kubeconfig.contexts.iter();
                let context = found.find(|it| it.name == name);
                let context = context.ok_or_else(|| missing("context", name, &contexts))?;
                context.context.clone().unwrap_or_default()
            }
            (None, _) if is_named => Context::default(),
            (None, Some(known)) => {
                let why =
                    format!("it has no current context, but {known}: name one with --context");
                return Err(why);
            }
            (None, None) => return Err("it has no context".to_owned()),
        };
        let name = names.cluster.unwrap_or(&context.cluster);
        let mut clusters = kubeconfig.clusters.iter();
        let cluster = match clusters.find(|it| it.name == name) {
            Some(found) => found.cluster.clone().unwrap_or_default(),
            None if has_server && names.cluster.is_none() => Cluster::default(),
            None if name.is_empty() => return Err("its context names no cluster".to_owned()),
            None => return Err(missing("cluster", name, &without_second_names(kubeconfig))),
        };
        let name = names.user.or(context.user.as_deref()).unwrap_or_default();
        let mut users = kubeconfig.auth_infos.iter();
        let user = match users.find(|it| it.name == name) {
            Some(found) => found.auth_info.clone().unwrap_or_default(),
            // kubectl would ask for a name and a password on the terminal.
            None if !(name.is_empty() || has_token && names.user.is_none()) => {
                let users: Vec<_> = kubeconfig.auth_infos.iter().map(|it| &*it.name).collect();
                return Err(missing("user", name, &users));
            }
            None => AuthInfo::default(),
        };
        Ok(Self {
            cluster,
            user,
            namespace: context.namespace.unwrap_or_default(),
        })
    }

    /// Makes the configuration of a client, with the kubeconfig's credentials. The proxy may depend
    /// on environment variables.
    ///
    /// # Errors
    /// The errors that client-go would report.
    pub(crate) fn config(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Configured, ConfigError> {
        check_cluster(&self.cluster)?;
        check_user(&self.user)?;
        let server = self.cluster.server.as_deref().unwrap_or_default();
        let address = Address::of(server)?;
        let is_secure = address.uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let mut config = Config::new(address.uri);
        if !self.namespace.is_empty() {
            config.default_namespace = self.namespace;
        }
        let proxy = match &self.cluster.proxy_url {
            Some(proxy) => proxy::of_kubeconfig(proxy).map(Some),
            None => proxy::of_environment(&config.cluster_url, variable),
        };
        config.proxy_url = proxy.map_err(|error: ProxyError| error.to_string())?;
        config.disable_compression = self.cluster.disable_compression.unwrap_or(false);
        let is_without_credentials = !is_secure && has_credentials(&self.user);
        if is_secure {
            config.accept_invalid_certs = self.cluster.insecure_skip_tls_verify.unwrap_or(false);
            config
                .tls_server_name
                .clone_from(&self.cluster.tls_server_name);
            config.root_cert = authorities_of(&self.cluster)?;
            if config.accept_invalid_certs && config.root_cert.is_some() {
                let why = "it names a certificate-authority and says insecure-skip-tls-verify: leave out one of them";
                return Err(why.to_owned().into());
            }
            if let Some((name, password)) = address.login {
                self.user = without_credentials(self.user);
                self.user.username = Some(name);
                self.user.password = Some(password.into());
            }
            prepare(&mut self.user, &self.cluster)?;
            config.auth_info = self.user;
        } else {
            config.auth_info = without_credentials(self.user);
        }
        // Each request decides about its own retries: a watch, for example, reports that it was cut
        // off.
        config.default_retry = false;
        Ok(Configured {
            config,
            is_without_credentials,
        })
    }

    /// Replaces the credentials by a token. Impersonation is kept.
    pub(crate) fn set_token(&mut self, token: &str) {
        self.user = without_credentials(std::mem::take(&mut self.user));
        self.user.token = Some(token.to_owned().into());
    }
}

/// The user without any credentials.
pub(crate) fn without_credentials(user: AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate,
        impersonate_uid: user.impersonate_uid,
        impersonate_groups: user.impersonate_groups,
        impersonate_user_extra: user.impersonate_user_extra,
        ..AuthInfo::default()
    }
}

fn has_credentials(user: &AuthInfo) -> bool {
    has_token(user)
        || user.username.is_some()
        || user.password.is_some()
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some()
}

/// Whether a user has a token, or a credential program that may return one.
pub(crate) fn has_token(user: &AuthInfo) -> bool {
    user.token.is_some()
        || user.token_file.is_some()
        || user.exec.is_some()
        || user.auth_provider.is_some()
}

/// client-go's `validateClusterInfo`.
fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    if cluster.server.is_none() {
        return Err("its cluster has no server".to_owned());
    }
    if cluster.certificate_authority.is_some() && cluster.certificate_authority_data.is_some() {
        return Err(
            "it has both certificate-authority and certificate-authority-data: leave out one"
                .to_owned(),
        );
    }
    if let Some(path) = &cluster.certificate_authority {
        std::fs::File::open(path).map_err(|error| format!("read {path}: {error}"))?;
    }
    Ok(())
}

/// client-go's `validateAuthInfo`.
fn check_user(user: &AuthInfo) -> Result<(), String> {
    let refused = |why: &str| Err(why.to_owned());
    let has_login = user.username.is_some() || user.password.is_some();
    if has_login && (user.token.is_some() || user.token_file.is_some()) {
        return refused("its user has a token and a username or password: leave out one of them");
    }
    if user.client_certificate.is_some() || user.client_certificate_data.is_some() {
        if user.client_certificate.is_some() && user.client_certificate_data.is_some() {
            return refused(
                "its user has both client-certificate and client-certificate-data: leave out one",
            );
        }
        match (&user.client_key, &user.client_key_data) {
            (Some(_), Some(_)) => {
                return refused("its user has both client-key and client-key-data: leave out one");
            }
            (None, None) => {
                return refused("its user has a client-certificate without its client-key");
            }
            _ => {}
        }
        for path in [&user.client_certificate, &user.client_key]
            .into_iter()
            .flatten()
        {
            let read = std::fs::File::open(path);
            read.map_err(|error| format!("read {path}: {error}"))?;
        }
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            return refused("its user has both exec and auth-provider: leave out one");
        }
        check_exec(exec)?;
    }
    let impersonates = user.impersonate_uid.is_some()
        || user
            .impersonate_groups
            .as_ref()
            .is_some_and(|it| !it.is_empty())
        || user
            .impersonate_user_extra
            .as_ref()
            .is_some_and(|it| !it.is_empty());
    if impersonates && user.impersonate.is_none() {
        return refused("its user has as-uid, as-groups or as-user-extra without as");
    }
    Ok(())
}

fn check_exec(exec: &ExecConfig) -> Result<(), String> {
    if exec.command.is_none() {
        return Err("its user's program has no exec.command".to_owned());
    }
    let version = exec.api_version.as_deref().unwrap_or_default();
    if ![EXEC_V1, EXEC_V1_BETA1].contains(&version) {
        return Err(format!(
            "its user's program is of apiVersion {version:?}: expected {EXEC_V1} or {EXEC_V1_BETA1}"
        ));
    }
    if version == EXEC_V1 && exec.interactive_mode.is_none() {
        return Err(
            "its user's program has no valid exec.interactiveMode: expected Never, IfAvailable or Always"
                .to_owned(),
        );
    }
    let mut variables = exec.env.iter().flatten();
    if variables.any(|it| it.get("name").is_none_or(String::is_empty)) {
        return Err("its user's program has a variable without a name in exec.env".to_owned());
    }
    Ok(())
}

/// Prepares a user whose credentials are sent: loads files, and removes fields that client-go
/// ignores.
fn prepare(user: &mut AuthInfo, cluster: &Cluster) -> Result<(), String> {
    if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
        // client-go ignores a key without a certificate.
        user.client_key = None;
        user.client_key_data = None;
    }
    if let Some(exec) = &mut user.exec {
        exec.interactive_mode
            .get_or_insert(ExecInteractiveMode::IfAvailable);
        if exec.provide_cluster_info {
            let told = ExecAuthCluster::try_from(cluster);
            exec.cluster = Some(told.map_err(|error| error.to_string())?);
        }
    }
    if let Some(provider) = user.auth_provider.take() {
        // The only auth provider that kubectl still supports.
        let token = provider.config.get("id-token");
        match token.filter(|token| provider.name == "oidc" && !token.is_empty()) {
            Some(token) => user.token = Some(token.clone().into()),
            None => {
                return Err(format!(
                    "its user has the auth-provider {:?}, which is not supported: use a program (exec), such as gke-gcloud-auth-plugin, kubelogin or kubectl oidc-login",
                    provider.name
                ));
            }
        }
    }
    Ok(())
}

/// The certificate authorities of a cluster, if it has its own.
fn authorities_of(cluster: &Cluster) -> Result<Option<Vec<Vec<u8>>>, String> {
    if let Some(data) = &cluster.certificate_authority_data {
        let pem = STANDARD.decode(data);
        let pem = pem.map_err(|_| "its certificate-authority-data is no base64".to_owned())?;
        let found = authorities(&pem);
        return found
            .map(Some)
            .map_err(|why| format!("its certificate-authority-data: {why}"));
    }
    let path = cluster.certificate_authority.as_deref();
    path.map(|path| authorities_in(Path::new(path))).transpose()
}

/// The certificates of a file that can be authorities.
///
/// # Errors
/// The file cannot be read, or has no such certificate.
pub(crate) fn authorities_in(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let pem = std::fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))?;
    authorities(&pem).map_err(|why| format!("{}: {why}", path.display()))
}

/// Go's `AppendCertsFromPEM`: skips everything that is not a certificate.
fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    let certificates = certificates.filter(|one| roots.add(one.clone()).is_ok());
    let found: Vec<_> = certificates.map(|one| one.to_vec()).collect();
    if found.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(found)
}

/// The parsed address of an API server.
struct Address {
    uri: Uri,
    /// The name and the password in the address, which take precedence over all other credentials.
    login: Option<(String, String)>,
}

impl Address {
    /// Parses an address by client-go's `DefaultServerURL`. Without a scheme it means plain HTTP.
    fn of(text: &str) -> Result<Self, ConfigError> {
        let invalid = ConfigError::Address;
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        if !text.contains("://") && text.trim_end_matches('/').contains('/') {
            return Err(invalid("it has a path and no scheme"));
        }
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(invalid("its scheme is neither http nor https"));
        }
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => {
                let (name, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((proxy::decoded(name), proxy::decoded(password))), host)
            }
            None => (None, authority),
        };
        check_port(host).map_err(invalid)?;
        // The name and the password are removed, so that only the server gets them.
        let host = host.strip_suffix(':').unwrap_or(host);
        let uri: Option<Uri> = format!("{scheme}://{host}{path}").parse().ok();
        let uri = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        let uri = uri.ok_or_else(|| invalid("it cannot be read"))?;
        Ok(Self { uri, login })
    }
}

/// Checks the port, because the http crate ignores an invalid port and uses the default.
fn check_port(authority: &str) -> Result<(), &'static str> {
    let behind = authority
        .rfind(']')
        .map_or(authority, |at| &authority[at..]);
    match behind.rsplit_once(':') {
        None | Some((_, "")) => Ok(()),
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number: Result<u16, _> = port.parse();
            number.map(|_| ()).map_err(|_| "its port is above 65535")
        }
        Some(_) => Err("its port is no number"),
    }
}

/// The names of clusters, without the second names in an archive's kubeconfig.
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

fn missing(what: &str, name: &str, known: &[&str]) -> String {
    match listed(known) {
        Some(known) => format!("it has no {what} {name:?}, but {known}"),
        None => format!("it has no {what} {name:?}, and no other"),
    }
}

/// Names as an error message lists them; `None` if there are none.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// In an archive's kubeconfig each cluster has two names.
    #[test]
    fn what_there_is_to_choose_from_is_told_once() {
        let cluster =
            |name: &str, server: &str| json!({"name": name, "cluster": {"server": server}});
        let found = json!({
            "current-context": "one",
            "contexts": [{"name": "one", "context": {"cluster": "archive-one"}}],
            "clusters": [
                cluster("one", "https://archive:1/clusters/one"),
                cluster("archive-one", "https://archive:1/clusters/one"),
                cluster("two", "https://two:1"),
                // An entry of another kubeconfig: the cluster itself.
                cluster("archive-two", "https://archive:1/clusters/two"),
            ],
        });
        let found = super::super::parse(found.to_string().as_bytes(), Path::new("/")).unwrap();
        let chosen = |name| {
            let names = Names {
                cluster: Some(name),
                ..Names::default()
            };
            Chosen::of(&found, names, (false, false)).err()
        };
        let said = "it has no cluster \"three\", but one, two, archive-two";
        assert_eq!(chosen("three").as_deref(), Some(said));
        assert_eq!(chosen("archive-one"), None);
    }

    /// client-go `rest` TestHostPort and others, and `net/url`.
    #[test]
    fn an_address_is_read_as_go_reads_it() {
        for (text, expected) in [
            ("https://a:6443", Ok(("https://a:6443/", None))),
            ("HTTPS://a", Ok(("https://a/", None))),
            ("https://a:", Ok(("https://a/", None))),
            ("https://a/b/c/?x=1#y", Ok(("https://a/b/c/", None))),
            ("https://[::1]:1", Ok(("https://[::1]:1/", None))),
            ("https://u:p%40@a", Ok(("https://a/", Some(("u", "p@"))))),
            ("a", Ok(("http://a/", None))),
            ("a:1/", Ok(("http://a:1/", None))),
            ("localhost:8080", Ok(("http://localhost:8080/", None))),
            ("a:1/b", Err("a path and no scheme")),
            ("ftp://a", Err("neither http nor https")),
            ("https://a:65536", Err("above 65535")),
            ("a:99999", Err("above 65535")),
            ("https://a:x", Err("no number")),
            ("https://u:secret@a:x", Err("no number")),
            // A host with this name.
            ("https:", Ok(("http://https/", None))),
            ("https://", Err("cannot be read")),
            ("https://a b", Err("cannot be read")),
        ] {
            let found = Address::of(text);
            match expected {
                Ok((uri, login)) => {
                    let found = found.unwrap_or_else(|why| panic!("{text}: {why}"));
                    assert_eq!(found.uri.to_string(), uri, "{text}");
                    let found = found.login.as_ref();
                    assert_eq!(found.map(|(name, it)| (&**name, &**it)), login, "{text}");
                }
                Err(said) => {
                    let why = found.err().unwrap_or_else(|| panic!("{text} is accepted"));
                    let why = why.to_string();
                    assert!(
                        why.contains(said) && !why.contains("secret"),
                        "{text}: {why}"
                    );
                }
            }
        }
    }
}
