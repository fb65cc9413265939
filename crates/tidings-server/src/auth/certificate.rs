//! Client certificates: the user is the subject's common name, its groups are the organizations
//! (`k8s.io/apiserver/pkg/authentication/request/x509`).
//!
//! TLS only makes sure that the client has the certificate's key. Whether the certificate is good is asked with each
//! request, so that a bad one gets an answer, one that runs out is not good any more on an open connection either, and a
//! replaced authority is in force at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;

/// A certificate found good is not looked at again for so long, unless it ends before.
const GOOD_FOR: SignedDuration = SignedDuration::from_secs(60);

/// What is wrong with a bundle of authorities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// It holds none.
    #[error("no certificate in PEM form")]
    Empty,
    /// It cannot be read.
    #[error("not PEM: {why}")]
    Pem {
        /// What is wrong.
        why: String,
    },
    /// A certificate cannot be used.
    #[error("certificate {number}: {source}")]
    Certificate {
        /// Which one, from one.
        number: usize,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// All are fine by themselves, and yet.
    #[error("the certificates cannot be used: {why}")]
    Unusable {
        /// What is wrong.
        why: String,
    },
}

/// Whose client certificates are accepted.
#[derive(Clone, Debug)]
pub(crate) struct ClientAuthority(Arc<dyn ClientCertVerifier>);

impl ClientAuthority {
    /// Reads a bundle of certificates in PEM form.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for (number, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
            let certificate = certificate.map_err(|error| AuthorityError::Pem {
                why: error.to_string(),
            })?;
            roots
                .add(certificate)
                .map_err(|source| AuthorityError::Certificate { number, source })?;
        }
        if roots.is_empty() {
            return Err(AuthorityError::Empty);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map(Self)
            .map_err(|error| AuthorityError::Unusable {
                why: error.to_string(),
            })
    }

    /// For the handshake: asks for a certificate of one of these authorities, and takes any whose key the client has.
    pub(crate) fn handshake_verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Possession {
            authorities: self.0.root_hint_subjects().to_vec(),
            provider: rustls::crypto::ring::default_provider(),
        })
    }

    fn user(&self, chain: &[CertificateDer<'static>], now: Timestamp) -> Option<(User, Timestamp)> {
        let (certificate, intermediates) = chain.split_first()?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if let Err(error) = self.0.verify_client_cert(certificate, intermediates, at) {
            tracing::debug!(%error, "a client certificate is not accepted");
            return None;
        }
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let names = |attributes: &mut dyn Iterator<Item = Option<String>>| -> Option<Vec<String>> {
            attributes.collect()
        };
        let subject = parsed.subject();
        let groups = names(
            &mut subject
                .iter_organization()
                .map(|name| name.as_str().ok().map(str::to_owned)),
        )?;
        // Of several the last is the name, as Go reads them.
        let common_names = names(
            &mut subject
                .iter_common_name()
                .map(|name| name.as_str().ok().map(str::to_owned)),
        )?;
        let name = common_names
            .into_iter()
            .next_back()
            .filter(|name| !name.is_empty())?;
        let ends = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .unwrap_or(Timestamp::MAX);
        let looked_at_again = now.checked_add(GOOD_FOR).unwrap_or(Timestamp::MAX);
        Some((User::new(name, "", groups), ends.min(looked_at_again)))
    }
}

/// The certificate a client showed, and what was last found about it. One for each connection.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    found: Mutex<Option<Found>>,
}

#[derive(Debug)]
struct Found {
    authority: ClientAuthority,
    until: Timestamp,
    user: User,
}

impl PeerCertificate {
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self {
            chain,
            found: Mutex::new(None),
        }
    }

    /// Whose the certificate is, if the authority vouches for it now.
    pub(crate) fn user(&self, authority: &ClientAuthority, now: Timestamp) -> Option<User> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*found
            && Arc::ptr_eq(&found.authority.0, &authority.0)
            && now <= found.until
        {
            return Some(found.user.clone());
        }
        *found = None;
        let (user, until) = authority.user(&self.chain, now)?;
        *found = Some(Found {
            authority: authority.clone(),
            until,
            user: user.clone(),
        });
        Some(user)
    }
}

/// Checks that a client has the key of the certificate it shows, and nothing else.
#[derive(Debug)]
struct Possession {
    authorities: Vec<DistinguishedName>,
    provider: CryptoProvider,
}

impl ClientCertVerifier for Possession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    struct Signer {
        authority: ClientAuthority,
        issuer: Issuer<'static, KeyPair>,
    }

    fn signer() -> Signer {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Signer {
            authority: ClientAuthority::from_pem(pem.as_bytes()).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Good from the year 2020 to the year 2030.
    fn certificate(signer: &Signer, names: &[&str], groups: &[&str]) -> PeerCertificate {
        let mut params = CertificateParams::default();
        // The default has a name.
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &signer.issuer).unwrap();
        PeerCertificate::new(vec![certificate.der().clone()])
    }

    #[test]
    fn a_certificate_is_good_for_its_time_and_its_authority_only() {
        let (signer, other) = (self::signer(), self::signer());
        let ann = certificate(&signer, &["ann"], &["dev"]);
        let name = |authority: &ClientAuthority, at: &str| {
            let user = ann.user(authority, at.parse().unwrap());
            user.map(|user| format!("{} {:?}", user.name, user.groups))
        };
        let found = Some(r#"ann ["dev", "system:authenticated"]"#.to_owned());
        for (authority, at, expected) in [
            (&signer.authority, "2019-12-31T23:59:59Z", None),
            (&signer.authority, "2029-12-31T23:59:50Z", found.clone()),
            (&signer.authority, "2030-01-01T00:00:00Z", found),
            // Found good ten seconds ago, on the same connection.
            (&signer.authority, "2030-01-01T00:00:01Z", None),
            (&other.authority, "2029-12-31T23:59:50Z", None),
        ] {
            assert_eq!(name(authority, at), expected, "{at}");
        }
    }

    #[test]
    fn nobody_has_no_name() {
        let signer = self::signer();
        let at = "2025-01-01T00:00:00Z".parse().unwrap();
        for names in [&[][..], &[""]] {
            let nobody = certificate(&signer, names, &["system:masters"]);
            assert!(nobody.user(&signer.authority, at).is_none(), "{names:?}");
        }
    }
}
