//! Connections to the members of etcd, and the TLS files for them.
//!
//! The files may be replaced while the store is open. As with etcd's own client, an open connection
//! keeps its certificates, and only a new one uses the current files. So the store reads the files
//! at an interval and after a failed request. If they changed, it makes all connections again.
//! Files that cannot be used, for example half-replaced ones, have no effect.

use std::error::Error;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tonic::transport::{Channel, Endpoint};

use super::error::OpenError;
use super::options::{EtcdOptions, TlsFiles, TlsMaterial};

/// Interval of keep-alive probes. etcd refuses less than 5 s (`--grpc-keepalive-min-time`).
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(8);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Interval at which the TLS files are read while nothing fails. It finds new files in time before
/// the old certificates expire.
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// Connections to all members; see the module documentation.
pub(super) struct Members {
    urls: Vec<String>,
    channels: RwLock<Vec<Channel>>,
    tls: Option<Tls>,
    connect_timeout: Duration,
}

struct Tls {
    files: TlsFiles,
    /// The content of the files that the current connections use.
    material: Mutex<TlsMaterial>,
}

impl Members {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, OpenError> {
        let tls = options.tls.clone().map(|files| {
            let material = Mutex::new(files.read()?);
            Ok::<_, OpenError>(Tls { files, material })
        });
        let members = Self {
            urls: options.endpoints.clone(),
            channels: RwLock::default(),
            tls: tls.transpose()?,
            connect_timeout: options.connect_timeout,
        };
        let channels = match &members.tls {
            Some(tls) => members.connect(&tls.material.lock())?,
            None => members.connect(&TlsMaterial::default())?,
        };
        members.replace(channels);
        Ok(members)
    }

    pub(super) fn len(&self) -> usize {
        self.urls.len()
    }

    pub(super) fn url(&self, member: usize) -> &str {
        self.urls.get(member).map_or("", String::as_str)
    }

    pub(super) fn channel(&self, member: usize) -> Option<Channel> {
        let channels = self.channels.read();
        channels.get(member).cloned()
    }

    /// Makes all connections again if the TLS files have changed.
    pub(super) fn refresh(&self) {
        let Some(tls) = &self.tls else { return };
        let mut material = tls.material.lock();
        let read = tls.files.read().and_then(|now| {
            let channels = (now != *material).then(|| self.connect(&now)).transpose()?;
            Ok((now, channels))
        });
        match read {
            Ok((now, Some(channels))) => {
                *material = now;
                self.replace(channels);
                tracing::info!("the TLS files for etcd were replaced; connecting again");
            }
            Ok((_, None)) => {}
            Err(error) => {
                tracing::warn!(%error, "the TLS files for etcd cannot be used; continuing with the previous ones");
            }
        }
    }

    fn replace(&self, channels: Vec<Channel>) {
        *self.channels.write() = channels;
    }

    fn connect(&self, material: &TlsMaterial) -> Result<Vec<Channel>, OpenError> {
        let connect = |url: &String| {
            let refuse = |error: tonic::transport::Error| {
                let cause = error
                    .source()
                    .map_or_else(String::new, |it| format!(": {it}"));
                OpenError::Options(format!("endpoint {url:?} cannot be used: {error}{cause}"))
            };
            let mut endpoint = Endpoint::from_shared(url.clone())
                .map_err(refuse)?
                .connect_timeout(self.connect_timeout)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(16 << 20);
            if url.starts_with("https://") {
                endpoint = endpoint.tls_config(material.config()).map_err(refuse)?;
            }
            Ok(endpoint.connect_lazy())
        };
        self.urls.iter().map(connect).collect()
    }
}
