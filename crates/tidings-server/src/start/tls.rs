//! The server's certificate. At the first start the server makes its own certificate authority and
//! stores it in the data folder, so that clients which trust it still do after a restart. At every
//! start the authority issues a new serving certificate. Both are renewed long before they end. A
//! renewed authority has the same key and name, so each of its certificates verifies whatever the
//! other one issued. A given certificate (`--tls-cert-file`) is only read.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use parking_lot::RwLock;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::auth::certificate::{self, ClientAuthority, certificate_end};
use crate::start::private::{create_private_dir, write_private};

/// Days for which a serving certificate is valid.
const CERTIFICATE_DAYS: i32 = 365;
/// Days for which the authority is valid.
const AUTHORITY_DAYS: i32 = 3650;
/// A certificate is renewed when this part of its days is left.
const LEFT_DIVISOR: i32 = 3;

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
    /// When an own certificate is to be replaced. `None` for a given one.
    pub(crate) renewed_at: Option<Timestamp>,
}

impl Identity {
    /// When the certificate ends, or an intermediate one before.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.chain.iter().filter_map(certificate::end).min()
    }

    /// Loads or makes the authority in `folder`, and issues a certificate for these names and
    /// addresses.
    pub(crate) fn own(folder: &Path, names: &[String], now: Timestamp) -> Result<Self, TlsError> {
        let (authority_pem, key) = authority(folder, now)?;
        let issuer = Issuer::new(authority_params(), key);
        let mut params = CertificateParams::new(names)?;
        set_validity(&mut params, now, CERTIFICATE_DAYS);
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
            renewed_at: Some(days_later(
                now,
                CERTIFICATE_DAYS - CERTIFICATE_DAYS / LEFT_DIVISOR,
            )),
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
            renewed_at: None,
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

    /// Makes the TLS configuration. Client certificates are requested if there are authorities for
    /// them.
    pub(crate) fn config(&self, clients: &[&ClientAuthority]) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match clients {
            [] => builder.with_no_client_auth(),
            clients => {
                builder.with_client_cert_verifier(ClientAuthority::handshake_verifier(clients))
            }
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

fn authority(folder: &Path, now: Timestamp) -> Result<(String, KeyPair), TlsError> {
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
            let renewed_at = days_later(now, AUTHORITY_DAYS / LEFT_DIVISOR);
            if ends_before(&certificate, renewed_at) {
                let certificate = new_authority(&key, now)?;
                write_private(&certificate_path, certificate.as_bytes())
                    .map_err(at(&certificate_path))?;
                return Ok((certificate, key));
            }
            Ok((certificate, key))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_dir(folder).map_err(at(folder))?;
            let key = KeyPair::generate()?;
            let certificate = new_authority(&key, now)?;
            // The key is written last, because its existence shows that the pair is complete.
            write_private(&certificate_path, certificate.as_bytes())
                .map_err(at(&certificate_path))?;
            write_private(&key_path, key.serialize_pem().as_bytes()).map_err(at(&key_path))?;
            Ok((certificate, key))
        }
        Err(error) => Err(at(&key_path)(error)),
    }
}

/// Makes the authority's certificate.
fn new_authority(key: &KeyPair, now: Timestamp) -> Result<String, rcgen::Error> {
    let mut params = authority_params();
    set_validity(&mut params, now, AUTHORITY_DAYS);
    Ok(params.self_signed(key)?.pem())
}

/// Whether a certificate in PEM ends before a time. One that cannot be read does not: it is not
/// replaced.
fn ends_before(pem: &str, time: Timestamp) -> bool {
    certificate_end(pem.as_bytes()).is_some_and(|end| end < time)
}

/// Sets the days for which a certificate is valid. It begins a day earlier, because clocks differ.
fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i32) {
    let begin = days_later(now, -1).to_zoned(TimeZone::UTC);
    let end = days_later(now, days).to_zoned(TimeZone::UTC);
    let [begin, end] = [begin, end].map(|at| {
        let (month, day) = (at.month().unsigned_abs(), at.day().unsigned_abs());
        rcgen::date_time_ymd(at.year().into(), month, day)
    });
    params.not_before = begin;
    params.not_after = end;
}

fn days_later(now: Timestamp, days: i32) -> Timestamp {
    let span = (i64::from(days) * 24).hours();
    now.saturating_add(span).unwrap_or(now)
}

/// The parameters of the authority except for its key and its time. They never change, so that a
/// stored key matches a stored certificate.
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

#[cfg(test)]
mod tests {
    use rustls_pki_types::UnixTime;
    use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

    use super::*;

    /// Whether a client that trusts this authority accepts the certificate at a time.
    fn is_accepted(authority_pem: &str, identity: &Identity, now: Timestamp) -> bool {
        let authority = CertificateDer::from_pem_slice(authority_pem.as_bytes()).unwrap();
        let anchor = anchor_from_trusted_cert(&authority).unwrap();
        let certificate = EndEntityCert::try_from(&identity.chain[0]).unwrap();
        let seconds = u64::try_from(now.as_second()).unwrap();
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        certificate
            .verify_for_usage(
                algorithms.all,
                &[anchor],
                &[],
                time,
                KeyUsage::server_auth(),
                None,
                None,
            )
            .is_ok()
    }

    #[test]
    fn certificates_are_renewed_long_before_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned()];
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let after = |days: i32| days_later(start, days);
        let first = Identity::own(folder.path(), &names, start).unwrap();
        assert!(is_accepted(&first.authority_pem, &first, start));
        assert_eq!(first.renewed_at, Some(after(244)));
        assert!(is_accepted(&first.authority_pem, &first, after(244)));
        assert!(!is_accepted(&first.authority_pem, &first, after(366)));
        // The authority stays while a third of its time is left.
        let later = Identity::own(folder.path(), &names, after(2400)).unwrap();
        assert_eq!(later.authority_pem, first.authority_pem);
        assert!(is_accepted(&first.authority_pem, &later, after(2400)));
        // Then it is renewed; clients that trust the former one accept what the new one issues.
        let renewed = Identity::own(folder.path(), &names, after(2450)).unwrap();
        assert_ne!(renewed.authority_pem, first.authority_pem);
        for authority in [&first.authority_pem, &renewed.authority_pem] {
            for identity in [&later, &renewed] {
                assert!(is_accepted(authority, identity, after(2450)));
            }
        }
        assert!(!is_accepted(&first.authority_pem, &renewed, after(3651)));
    }
}
