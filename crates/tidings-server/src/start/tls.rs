//! The server's certificate. At the first start the server makes its own certificate authority and
//! stores it in the data folder, so that clients which trust it still do after a restart. At every
//! start the authority issues a new serving certificate. A given certificate (`--tls-cert-file`) is
//! only read.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::auth::certificate::ClientAuthority;
use crate::start::private::{create_private_dir, write_private};

/// The reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The stored key of the authority is invalid.
    #[error("{}: not a usable private key ({source}); remove the folder to have a new authority made", path.display())]
    Key {
        /// The path of the key.
        path: PathBuf,
        /// The error in the key.
        source: rcgen::Error,
    },
    /// A file in PEM form is invalid.
    #[error("not a usable {what}: {why}")]
    Pem {
        /// What the file should contain.
        what: &'static str,
        /// The error in the file.
        why: String,
    },
    /// A certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate was not accepted by the TLS library.
    #[error("the certificate cannot be used: {0}")]
    Rustls(#[from] rustls::Error),
}

/// The TLS configuration of new connections. It can be replaced while the server runs; open
/// connections keep theirs.
#[derive(Clone, Debug)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl From<Arc<ServerConfig>> for Tls {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(config)))
    }
}

impl Tls {
    /// The configuration for the next connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.0.read().clone()
    }

    /// Sets the configuration for connections accepted from now on.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.write() = config;
    }
}

/// A serving certificate, its key, and the authority by which clients trust it.
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pub(crate) authority_pem: String,
}

impl Identity {
    /// Loads or makes the authority in `folder`, and issues a certificate for these names and
    /// addresses.
    pub(crate) fn own(folder: &Path, names: &[String]) -> Result<Self, TlsError> {
        let (authority_pem, key) = authority(folder)?;
        let issuer = Issuer::new(authority_params(), key);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = common_name("tidings");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            authority_pem,
        })
    }

    /// Reads a certificate, followed by its intermediates, and its key, both in PEM form.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let pem = |what, error: pem::Error| TlsError::Pem {
            what,
            why: error.to_string(),
        };
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| pem("certificate", error))?;
        if chain.is_empty() {
            return Err(TlsError::Pem {
                what: "certificate",
                why: "the file holds none".into(),
            });
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| pem("private key", error))?;
        Ok(Self {
            chain,
            key,
            authority_pem: String::from_utf8_lossy(certificate).into_owned(),
        })
    }

    /// The name by which clients verify the certificate if they reach the server at this address:
    /// the certificate's first one. `None` if the certificate is for the address or has no name.
    pub(crate) fn name_at(&self, address: IpAddr) -> Option<String> {
        let (_, certificate) = X509Certificate::from_der(self.chain.first()?).ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let mut first = None;
        for name in &names.value.general_names {
            match name {
                GeneralName::IPAddress(address) if **address == octets => return None,
                GeneralName::DNSName(name) if first.is_none() && !name.starts_with('*') => {
                    first = Some((*name).to_owned());
                }
                _ => {}
            }
        }
        first
    }

    /// Makes the TLS configuration. Client certificates are requested if there is an authority for
    /// them.
    pub(crate) fn config(
        &self,
        clients: Option<&ClientAuthority>,
    ) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients.handshake_verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The names and addresses by which clients reach a server bound to this address: those of the
/// machine itself, the address, and `others`.
pub(crate) fn names(bind_address: IpAddr, others: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let bound = bind_address.to_string();
    if !bind_address.is_unspecified() && !names.contains(&bound) {
        names.push(bound);
    }
    for other in others {
        if !names.contains(other) {
            names.push(other.clone());
        }
    }
    names
}

fn authority(folder: &Path) -> Result<(String, KeyPair), TlsError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    let key_path = folder.join("ca.key");
    let certificate_path = folder.join("ca.crt");
    match fs::read_to_string(&key_path) {
        Ok(pem) => {
            let key = KeyPair::from_pem(&pem).map_err(|source| TlsError::Key {
                path: key_path,
                source,
            })?;
            let certificate =
                fs::read_to_string(&certificate_path).map_err(at(&certificate_path))?;
            Ok((certificate, key))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_dir(folder).map_err(at(folder))?;
            let key = KeyPair::generate()?;
            let certificate = authority_params().self_signed(&key)?.pem();
            // The key is written last, because its existence shows that the pair is complete.
            write_private(&certificate_path, certificate.as_bytes())
                .map_err(at(&certificate_path))?;
            write_private(&key_path, key.serialize_pem().as_bytes()).map_err(at(&key_path))?;
            Ok((certificate, key))
        }
        Err(error) => Err(at(&key_path)(error)),
    }
}

/// The parameters of the authority except for its key. They never change, so that a stored key
/// matches a stored certificate.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("tidings-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}
