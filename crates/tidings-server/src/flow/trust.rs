//! Verifies a server's certificate as Go does.
//!
//! A certificate that is itself among the authorities needs no other one. webpki differs in two
//! cases that are frequent in Kubernetes: a kubeconfig whose authority is the serving certificate
//! itself, and a self-signed serving certificate with CA:TRUE, which `openssl req -x509` makes.
//!
//! Invariants: the usual verifier decides first, and a certificate that it accepts is accepted.
//! Otherwise only a certificate that is byte for byte one of the authorities is considered. It must
//! be valid now, for this name, and for servers. The signature of the handshake is always verified.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Verifies servers by authorities, or by their own certificate among these.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use tidings_server::ServerVerifier;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let made = rcgen::generate_simple_self_signed(["api.example".to_owned()])?;
/// # let authority = made.cert.der().clone();
/// let provider = Arc::new(rustls::crypto::ring::default_provider());
/// let verifier = ServerVerifier::new(&[authority], Arc::clone(&provider))?;
/// let config = rustls::ClientConfig::builder_with_provider(provider)
///     .with_safe_default_protocol_versions()?
///     .dangerous()
///     .with_custom_certificate_verifier(Arc::new(verifier))
///     .with_no_client_auth();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServerVerifier {
    usual: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

/// The error of authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A certificate cannot be read.
    #[error("certificate {number}: {source}")]
    Certificate {
        /// The certificate's number, from 1.
        number: usize,
        /// The mistake in it.
        source: Error,
    },
    /// There is no certificate, or the certificates cannot be used together.
    #[error("{why}")]
    Unusable {
        /// The reason.
        why: String,
    },
}

impl ServerVerifier {
    /// A verifier by these authorities.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if a certificate cannot be read, or there is none.
    pub fn new(
        authorities: &[CertificateDer<'static>],
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        for (number, authority) in (1..).zip(authorities) {
            roots
                .add(authority.clone())
                .map_err(|source| TrustError::Certificate { number, source })?;
        }
        if roots.is_empty() {
            let why = "there is none".to_owned();
            return Err(TrustError::Unusable { why });
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self {
            usual: usual.map_err(|error| TrustError::Unusable {
                why: error.to_string(),
            })?,
            authorities: authorities.to_vec(),
        })
    }

    /// Whether a certificate is one of the authorities, and valid for this server now.
    fn is_own(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> bool {
        self.authorities.iter().any(|one| one == certificate)
            && is_named(certificate, name)
            && is_valid(certificate, now)
    }
}

/// Whether a certificate is for this name. A certificate with an unknown critical extension is for
/// no name.
fn is_named(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok())
}

/// Whether a certificate is valid now, and may be a server's.
fn is_valid(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let validity = parsed.validity();
    let Ok(now) = i64::try_from(now.as_secs()) else {
        return false;
    };
    let is_in_time =
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now);
    is_in_time
        && parsed
            .extended_key_usage()
            .is_ok_and(|usage| usage.is_none_or(|usage| usage.value.any || usage.value.server_auth))
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        verified.or_else(|error| {
            if self.is_own(end_entity, server_name, now) {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(error)
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        Issuer, KeyPair, date_time_ymd,
    };
    use rustls::crypto::ring::default_provider;

    use super::*;

    /// The test's time: 2026-01-01.
    const NOW: u64 = 1_767_225_600;
    const HERE: (&str, u64) = ("api.example", NOW);
    const YEAR: u64 = 366 * 86_400;

    fn params(is_ca: bool) -> CertificateParams {
        let mut params = CertificateParams::new(["api.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2025, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    fn self_signed(params: &CertificateParams) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    /// A certificate of an authority, and the authority's certificate.
    fn signed(params: &CertificateParams) -> [CertificateDer<'static>; 2] {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap());
        let authority = authority.unwrap();
        let issuer: &Issuer<'_, KeyPair> = &authority;
        let leaf = params.signed_by(&key, issuer).unwrap();
        [leaf.der().clone(), authority.der().clone()]
    }

    fn is_accepted(
        certificate: &CertificateDer<'static>,
        authority: &CertificateDer<'static>,
        (name, now): (&str, u64),
    ) -> bool {
        let provider = Arc::new(default_provider());
        let verifier = ServerVerifier::new(std::slice::from_ref(authority), provider).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier
            .verify_server_cert(certificate, &[], &name, &[], now)
            .is_ok()
    }

    /// crypto/x509 `Certificate.Verify`: a root is a chain of its own.
    #[test]
    fn a_certificate_among_the_authorities_needs_its_name_and_its_time() {
        let [leaf, authority] = signed(&params(false));
        let [own, own_authority] = [self_signed(&params(false)), self_signed(&params(true))];
        let [others, _] = signed(&params(false));
        let mut for_clients = params(true);
        for_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let mut for_servers = params(true);
        for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let [for_clients, for_servers] = [&for_clients, &for_servers].map(self_signed);
        // The same name and times, but another key.
        let twin = self_signed(&params(true));
        for (what, certificate, trusted, at, expected) in [
            ("of an authority", &leaf, &authority, HERE, true),
            ("itself", &leaf, &leaf, HERE, true),
            ("of another authority", &leaf, &others, HERE, false),
            ("self-signed", &own, &own, HERE, true),
            (
                "self-signed, CA:TRUE",
                &own_authority,
                &own_authority,
                HERE,
                true,
            ),
            ("for servers", &for_servers, &for_servers, HERE, true),
            ("for clients", &for_clients, &for_clients, HERE, false),
            ("a twin", &twin, &own_authority, HERE, false),
            ("another name", &leaf, &leaf, ("other.example", NOW), false),
            (
                "another name",
                &own_authority,
                &own_authority,
                ("other.example", NOW),
                false,
            ),
            (
                "an address",
                &own_authority,
                &own_authority,
                ("10.0.0.1", NOW),
                false,
            ),
            ("over", &leaf, &leaf, ("api.example", NOW + YEAR), false),
            (
                "over",
                &own_authority,
                &own_authority,
                ("api.example", NOW + YEAR),
                false,
            ),
            (
                "not yet",
                &own_authority,
                &own_authority,
                ("api.example", NOW - YEAR),
                false,
            ),
        ] {
            let found = is_accepted(certificate, trusted, at);
            assert_eq!(found, expected, "{what} {at:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_told() {
        let provider = || Arc::new(default_provider());
        let none = ServerVerifier::new(&[], provider());
        assert!(matches!(none, Err(TrustError::Unusable { .. })));
        let bad = ServerVerifier::new(&[CertificateDer::from(vec![1, 2])], provider());
        assert!(matches!(
            bad,
            Err(TrustError::Certificate { number: 1, .. })
        ));
    }
}
