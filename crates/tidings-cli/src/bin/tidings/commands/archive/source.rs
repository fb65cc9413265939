//! A cluster that is followed, as its kubeconfig has it.

use base64::Engine;
use kube::{Client, Config};
use tidings_server::{PassThrough, PassThroughError};

use crate::commands::serve::cluster::Cluster as Reviewing;

/// See the module documentation.
pub(in crate::commands) struct Source {
    pub(in crate::commands) client: Client,
    address: String,
    /// Certificates of its authority, in PEM.
    authority: Option<String>,
    /// Whether requests for other things than events are passed to it.
    pub(in crate::commands) passes: bool,
    /// Whether it is asked about tokens and permissions.
    pub(in crate::commands) is_asked: bool,
}

impl Source {
    /// Of a configuration that is whole.
    pub(in crate::commands) fn new(
        config: Config,
        passes: bool,
        is_asked: bool,
    ) -> Result<Self, kube::Error> {
        let authority = config.root_cert.as_ref().map(|certificates| {
            let certificates = certificates.iter().map(|certificate| pem(certificate));
            certificates.collect::<String>()
        });
        Ok(Self {
            address: config.cluster_url.to_string(),
            authority,
            client: Client::try_from(config)?,
            passes,
            is_asked,
        })
    }

    pub(in crate::commands) fn reviewer(&self) -> Reviewing {
        Reviewing::of(self.client.clone(), self.address.clone())
    }

    pub(in crate::commands) fn pass_through(
        &self,
    ) -> Result<Option<PassThrough>, PassThroughError> {
        if !self.passes {
            return Ok(None);
        }
        let authority = self.authority.as_deref().unwrap_or_default();
        PassThrough::new(&self.address, authority.as_bytes()).map(Some)
    }
}

/// A certificate in PEM.
fn pem(certificate: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
