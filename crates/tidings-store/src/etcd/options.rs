//! Options of the etcd backend. Invalid values are refused when the store is opened.

use std::path::PathBuf;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::error::OpenError;

/// Options of an [`EtcdStore`](super::EtcdStore). Start from [`EtcdOptions::new`] and set fields.
///
/// ```
/// use tidings_store::etcd::EtcdOptions;
///
/// let mut options = EtcdOptions::new(["http://10.0.0.1:2379", "http://10.0.0.2:2379"]);
/// options.prefix = "/registry/events/".into();
/// options.compaction_interval = None;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EtcdOptions {
    /// The client URLs of members of one cluster (`--etcd-servers`), at least one.
    pub endpoints: Vec<String>,
    /// Prefix of every key in etcd. Default `/registry/events/`; it must not be empty. It
    /// corresponds to kube-apiserver's `--etcd-prefix`, the resource and a slash.
    pub prefix: String,
    /// Files for TLS, for endpoints that begin with `https://`. Without any, an authority that the
    /// system trusts must have signed etcd's certificate.
    pub tls: Option<TlsFiles>,
    /// Maximum time of a request, including all attempts. Default 10 s. After it a read fails, and
    /// a write is refused or ends as [`Fault::Unknown`](crate::Fault::Unknown).
    pub request_timeout: Duration,
    /// Time after which another member is tried. Default 3 s.
    pub attempt_timeout: Duration,
    /// Maximum time to connect. Default 2 s.
    pub connect_timeout: Duration,
    /// Interval of compactions of etcd's history. Default 5 minutes. All kube-apiservers on the
    /// same etcd take part (`--etcd-compaction-interval`). History then reaches back 5 to 10
    /// minutes. `None` leaves compaction to others.
    pub compaction_interval: Option<Duration>,
    /// Maximum changes kept in memory for watchers. Default 100,000. Older changes are read from
    /// etcd's own history.
    pub history_len_max: usize,
    /// Maximum bytes of the changes kept in memory for watchers. Default 64 MiB.
    pub history_bytes_max: usize,
    /// Maximum records in the local index, about 400 bytes each. Default 300,000. With more
    /// records, lists by object and by time read the whole prefix, until the number has fallen by a
    /// sixteenth. Zero turns the index off.
    pub index_len_max: usize,
    /// The shortest lease. Default 5 s. Reads hide a record after its expiry even if its lease
    /// lasts longer.
    pub lease_ttl_min: Duration,
}

/// PEM files for TLS. They may be replaced while the store is open. The store reads them every ten
/// seconds and whenever etcd cannot be reached.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Authorities that may sign etcd's certificate (`--etcd-cafile`). By default those that the
    /// system trusts when a connection is made. `SSL_CERT_FILE` and `SSL_CERT_DIR` override the
    /// system's.
    pub ca_file: Option<PathBuf>,
    /// The client certificate of this store (`--etcd-certfile`); requires `key_file`.
    pub cert_file: Option<PathBuf>,
    /// The private key of the client certificate (`--etcd-keyfile`).
    pub key_file: Option<PathBuf>,
}

impl EtcdOptions {
    /// Default options for a cluster with these member URLs.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/registry/events/".into(),
            tls: None,
            request_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            compaction_interval: Some(Duration::from_secs(300)),
            history_len_max: 100_000,
            history_bytes_max: 64 << 20,
            index_len_max: 300_000,
            lease_ttl_min: Duration::from_secs(5),
        }
    }

    pub(super) fn validate(&self) -> Result<(), OpenError> {
        let refuse = |message: String| Err(OpenError::Options(message));
        if self.endpoints.is_empty() {
            return refuse("no endpoint is given; at least one etcd URL is needed".into());
        }
        for endpoint in &self.endpoints {
            let tls = endpoint.starts_with("https://");
            if !tls && !endpoint.starts_with("http://") {
                return refuse(format!(
                    "endpoint {endpoint:?} must begin with http:// or https://"
                ));
            }
            if !tls && self.tls.is_some() {
                return refuse(format!(
                    "endpoint {endpoint:?} must begin with https://, for TLS files are given"
                ));
            }
        }
        if self.prefix.is_empty() {
            return refuse("the prefix is empty; give one such as /registry/events/".into());
        }
        for (name, value) in [
            ("request_timeout", self.request_timeout),
            ("attempt_timeout", self.attempt_timeout),
            ("connect_timeout", self.connect_timeout),
        ] {
            if value.is_zero() {
                return refuse(format!("{name} is zero; it must be longer"));
            }
        }
        if self
            .compaction_interval
            .is_some_and(|every| every < Duration::from_secs(1))
        {
            return refuse(
                "compaction_interval is below one second; use None to turn it off".into(),
            );
        }
        if self.history_len_max == 0 || self.history_bytes_max == 0 {
            return refuse("history_len_max and history_bytes_max must be above zero".into());
        }
        Ok(())
    }
}

/// The contents of the TLS files.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct TlsMaterial {
    ca: Option<Vec<u8>>,
    /// Client certificate and private key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsFiles {
    pub(super) fn read(&self) -> Result<TlsMaterial, OpenError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| OpenError::TlsFile {
                path: path.clone(),
                source,
            })
        };
        let identity = match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            (None, None) => None,
            _ => {
                return Err(OpenError::Options(
                    "cert_file and key_file go together; only one is given".into(),
                ));
            }
        };
        Ok(TlsMaterial {
            ca: self.ca_file.as_ref().map(read).transpose()?,
            identity,
        })
    }
}

impl TlsMaterial {
    pub(super) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
            None => config.with_native_roots(),
        };
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(cert, key));
        }
        config
    }
}
