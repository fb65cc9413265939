//! Client certificates: the user is the subject's common name, its groups are the organizations.
//!
//! It follows `k8s.io/apiserver/pkg/authentication/request/x509`.
//!
//! The TLS handshake only checks that the client has the certificate's key. The certificate itself
//! is checked with each request. So a bad one gets a proper answer, an expired one is refused on an
//! open connection, too, and a replaced authority takes effect at once. Results are cached for a
//! while: those of accepted certificates for their connection, those of refused ones for all
//! connections.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use ring::digest::{Context, SHA256};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, PeerMisbehaved, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::{Digest, User};

/// Time for which a result is cached, unless the certificate's validity begins or ends earlier. A
/// check costs many times as much as a request, above all of a bad certificate.
const HOLDS_FOR: SignedDuration = SignedDuration::from_secs(60);
/// Time for which an authority counts as used after it vouched for a client.
const USED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// Maximum refused certificates in the cache.
const REFUSED_MAX: usize = 1024;

/// An error in a bundle of authorities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The bundle has no certificate.
    #[error("no certificate in PEM form")]
    Empty,
    /// The bundle cannot be read.
    #[error("not PEM: {why}")]
    Pem {
        /// The mistake in the bundle.
        why: String,
    },
    /// A certificate cannot be used.
    #[error("certificate {number}: {source}")]
    Certificate {
        /// The certificate's number in the bundle, from 1.
        number: usize,
        /// The mistake in the certificate.
        source: rustls::Error,
    },
    /// The certificates are valid, but cannot be used together.
    #[error("the certificates cannot be used: {why}")]
    Unusable {
        /// The reason.
        why: String,
    },
}

/// The authorities whose client certificates are accepted.
#[derive(Clone)]
pub(crate) struct ClientAuthority(Arc<Authority>);

struct Authority {
    verifier: Arc<dyn ClientCertVerifier>,
    certificates: Vec<CertificateDer<'static>>,
    /// The certificates one by one.
    members: Vec<Member>,
    /// Cache of refused certificates. A replaced authority begins with an empty one.
    refused: Cache<Digest, Refused>,
}

/// One certificate of a bundle.
struct Member {
    verifier: Arc<dyn ClientCertVerifier>,
    ends: Option<Timestamp>,
    /// When it last vouched for an accepted client, in seconds since 1970; the least number if it
    /// did not yet.
    used_at: AtomicI64,
}

fn verifier(roots: RootCertStore) -> Result<Arc<dyn ClientCertVerifier>, AuthorityError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| AuthorityError::Unusable {
        why: error.to_string(),
    })
}

/// When a certificate ends; `None` if it cannot be read.
pub(crate) fn end(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

/// Returns when the first certificate in a PEM text ends; `None` if there is none that can be read.
pub fn certificate_end(pem: &[u8]) -> Option<Timestamp> {
    let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    end(&certificate)
}

#[derive(Clone)]
struct Refused {
    why: String,
    /// The time for which the refusal holds. A range, so that it does not hold after the clock was
    /// set back.
    holds: RangeInclusive<Timestamp>,
}

impl fmt::Debug for ClientAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientAuthority")
            .field(&self.0.verifier)
            .finish()
    }
}

impl ClientAuthority {
    /// Reads a bundle of certificates in PEM form.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        let mut certificates: Vec<CertificateDer<'static>> = Vec::new();
        for (number, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
            let certificate = certificate.map_err(|error| AuthorityError::Pem {
                why: error.to_string(),
            })?;
            roots
                .add(certificate.clone())
                .map_err(|source| AuthorityError::Certificate { number, source })?;
            certificates.push(certificate);
        }
        if roots.is_empty() {
            return Err(AuthorityError::Empty);
        }
        let verifier = verifier(roots)?;
        let member = |certificate: &CertificateDer<'static>| {
            let mut roots = RootCertStore::empty();
            // It was added to the others before.
            roots.add(certificate.clone()).ok()?;
            Some(Member {
                verifier: self::verifier(roots).ok()?,
                ends: end(certificate),
                used_at: AtomicI64::new(i64::MIN),
            })
        };
        let members = certificates.iter().filter_map(member).collect();
        let refused = Cache::new(REFUSED_MAX);
        Ok(Self(Arc::new(Authority {
            verifier,
            certificates,
            members,
            refused,
        })))
    }

    /// Returns when the bundle of authorities stops to vouch for clients. A bundle has the former
    /// authority beside the new one for a while. So only authorities count that signed the
    /// certificate of a client within the last day: the first of them to end. If no client had a
    /// certificate, it is the last authority to end.
    pub(crate) fn ends(&self, now: Timestamp) -> Option<Timestamp> {
        let since = now.as_second().saturating_sub(USED_FOR.as_secs());
        let used = self
            .0
            .members
            .iter()
            .filter(|member| member.used_at.load(Ordering::Relaxed) >= since);
        let first = used.filter_map(|member| member.ends).min();
        first.or_else(|| self.0.certificates.iter().filter_map(end).max())
    }

    /// Notes which certificate vouches for a client. If several do, the client needs only the one
    /// that ends last. Returns whether that one has not ended: webpki does not check it, Go does.
    fn note_use(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> bool {
        let vouches = |member: &&Member| {
            let verifier = &member.verifier;
            verifier
                .verify_client_cert(certificate, intermediates, at)
                .is_ok()
        };
        let used = self.0.members.iter().filter(vouches);
        let Some(used) = used.max_by_key(|member| member.ends) else {
            return false;
        };
        let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
        if used.ends.is_some_and(|ends| ends.as_second() < seconds) {
            return false;
        }
        used.used_at.fetch_max(seconds, Ordering::Relaxed);
        true
    }

    /// Whether some certificate is an authority in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let mut certificates = self.0.certificates.iter();
        certificates.any(|certificate| other.0.certificates.contains(certificate))
    }

    /// The user of a certificate or the reason why it is refused, and the end of the result's
    /// validity. Until then a refused certificate is not checked again, on any connection.
    fn judge(
        &self,
        digest: &Digest,
        chain: &[CertificateDer<'static>],
        now: Timestamp,
    ) -> (Result<User, String>, Timestamp) {
        let refused = self.0.refused.get(digest);
        if let Some(refused) = refused.filter(|refused| refused.holds.contains(&now)) {
            return (Err(refused.why), *refused.holds.end());
        }
        let (user, until) = self.user(chain, now);
        if let Err(why) = &user {
            tracing::debug!(why, "a client certificate is not accepted");
            let refused = Refused {
                why: why.clone(),
                holds: now..=until,
            };
            self.0.refused.insert(*digest, refused);
        }
        (user, until)
    }

    /// The verifier for the handshake. It requests a certificate of one of these authorities, and
    /// accepts any certificate whose key the client has.
    pub(crate) fn handshake_verifier(authorities: &[&Self]) -> Arc<dyn ClientCertVerifier> {
        let hints = authorities
            .iter()
            .flat_map(|it| it.0.verifier.root_hint_subjects());
        Arc::new(Possession {
            authorities: hints.cloned().collect(),
            algorithms: rustls::crypto::ring::default_provider().signature_verification_algorithms,
        })
    }

    /// Checks a certificate without the cache. The result is like that of [`judge`](Self::judge).
    fn user(
        &self,
        chain: &[CertificateDer<'static>],
        now: Timestamp,
    ) -> (Result<User, String>, Timestamp) {
        let until = now.checked_add(HOLDS_FOR).unwrap_or(Timestamp::MAX);
        let Some((certificate, intermediates)) = chain.split_first() else {
            return (Err("there is none".to_owned()), until);
        };
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return (Err("it cannot be read".to_owned()), until);
        };
        let at = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX)
        };
        let validity = parsed.validity();
        let (begins, ends) = (at(validity.not_before), at(validity.not_after));
        let changes = if now < begins { begins } else { ends };
        let until = if now <= changes {
            until.min(changes)
        } else {
            until
        };
        let user = self
            .verify(certificate, &parsed, intermediates, now)
            .and_then(|()| user_of(&parsed));
        (user, until)
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        parsed: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), String> {
        // Go accepts both kinds. webpki would refuse them, too, but with less helpful words.
        if parsed.version() != X509Version::V3 {
            let version = parsed.version().0.saturating_add(1);
            return Err(format!(
                "it is of X.509 version {version}, and version 3 is needed"
            ));
        }
        if parsed.is_ca() {
            return Err("it is an authority's own (CA:TRUE), and a client's is needed".to_owned());
        }
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let verified = self
            .0
            .verifier
            .verify_client_cert(certificate, intermediates, at);
        if verified.is_ok() && !self.note_use(certificate, intermediates, at) {
            return Err("the authority that vouches for it has expired".to_owned());
        }
        verified.map(|_| ()).map_err(|error| match error {
            rustls::Error::InvalidCertificate(error) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "it has expired".to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "it is not valid yet".to_owned()
                }
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "no authority that is trusted here vouches for it".to_owned()
                }
                other => other.to_string(),
            },
            other => other.to_string(),
        })
    }
}

/// The user that the certificate's subject names.
fn user_of(certificate: &X509Certificate<'_>) -> Result<User, String> {
    let subject = certificate.subject();
    let groups: Option<Vec<String>> = subject
        .iter_organization()
        .map(|name| name.as_str().ok().map(str::to_owned))
        .collect();
    let groups = groups.ok_or("an organization of its subject is no text")?;
    let names: Option<Vec<&str>> = subject
        .iter_common_name()
        .map(|name| name.as_str().ok())
        .collect();
    // As in Go, the last of several names counts.
    let name = names
        .ok_or("a common name of its subject is no text")?
        .into_iter()
        .next_back()
        .filter(|name| !name.is_empty())
        .ok_or("its subject has no common name")?;
    Ok(User::new(name, "", groups))
}

/// Maximum results that a connection's certificate has: of the authority of clients, and of that of
/// the front proxy.
const FOUND_MAX: usize = 2;

/// The certificate of a connection, and the last result of its check by each authority.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The digest of the whole chain.
    digest: OnceLock<Digest>,
    found: Mutex<Vec<Found>>,
}

#[derive(Debug)]
struct Found {
    authority: ClientAuthority,
    until: Timestamp,
    user: Result<User, String>,
}

impl PeerCertificate {
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self {
            chain,
            digest: OnceLock::new(),
            found: Mutex::default(),
        }
    }

    fn digest(&self) -> &Digest {
        self.digest.get_or_init(|| {
            let mut context = Context::new(&SHA256);
            for certificate in &self.chain {
                context.update(&certificate.len().to_le_bytes());
                context.update(certificate);
            }
            let mut bytes = [0; 32];
            bytes.copy_from_slice(context.finish().as_ref());
            bytes
        })
    }

    /// The user of the certificate, if the authority accepts it now.
    ///
    /// # Errors
    ///
    /// The reason why it is refused.
    pub(crate) fn user(&self, authority: &ClientAuthority, now: Timestamp) -> Result<User, String> {
        let mut found = self.found.lock();
        let at = found
            .iter()
            .position(|found| Arc::ptr_eq(&found.authority.0, &authority.0));
        if let Some(found) = at.and_then(|at| found.get(at))
            && now <= found.until
        {
            return found.user.clone();
        }
        let (user, until) = authority.judge(self.digest(), &self.chain, now);
        if let Some(at) = at {
            found.remove(at);
        }
        found.insert(
            0,
            Found {
                authority: authority.clone(),
                until,
                user: user.clone(),
            },
        );
        // An authority that was replaced is not asked again.
        found.truncate(FOUND_MAX);
        user
    }
}

/// Checks only that a client has the certificate's key. Nothing else of the certificate is read. So
/// even one that webpki cannot read is refused with an answer, not in the handshake.
#[derive(Debug)]
struct Possession {
    authorities: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The public key of a certificate.
fn public_key(
    certificate: &CertificateDer<'_>,
) -> Result<SubjectPublicKeyInfoDer<'static>, rustls::Error> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(
        parsed.public_key().raw.to_vec(),
    ))
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
        let schemes = self.algorithms.mapping;
        let (_, algorithms) = schemes
            .iter()
            .find(|(scheme, _)| *scheme == signature.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let key = public_key(certificate)?;
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
        // TLS 1.2 does not name the curve, so every algorithm is tried with the key.
        let good = algorithms.iter().any(|algorithm| {
            key.verify_signature(*algorithm, message, signature.signature())
                .is_ok()
        });
        if good {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = public_key(certificate)?;
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    struct Signer {
        authority: ClientAuthority,
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    fn signer() -> Signer {
        signer_until(2040)
    }

    /// An authority that ends when this year begins.
    fn signer_until(year: i32) -> Signer {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Signer {
            authority: ClientAuthority::from_pem(pem.as_bytes()).unwrap(),
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate that is valid from the year 2020 to the year 2030.
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

    /// While an authority is replaced, both are trusted for a time.
    #[test]
    fn of_several_authorities_one_that_clients_use_decides_when_they_end() {
        let (former, new) = (signer_until(2026), signer_until(2035));
        let both = format!("{}{}", former.pem, new.pem);
        let both = ClientAuthority::from_pem(both.as_bytes()).unwrap();
        let year = |at: &str| -> i16 {
            let ends = both.ends(at.parse().unwrap()).unwrap();
            ends.to_string()[..4].parse().unwrap()
        };
        let accept = |signer: &Signer, at: &str| {
            let client = certificate(signer, &["ann"], &[]);
            client.user(&both, at.parse().unwrap()).unwrap();
        };
        assert_eq!(year("2025-12-01T00:00:00Z"), 2035);
        accept(&new, "2025-12-01T00:00:00Z");
        assert_eq!(year("2025-12-01T00:00:00Z"), 2035);
        accept(&former, "2025-12-01T01:00:00Z");
        assert_eq!(year("2025-12-02T01:00:00Z"), 2026);
        // Nobody has used the former one for more than a day.
        assert_eq!(year("2025-12-02T01:00:01Z"), 2035);
        let alone = former
            .authority
            .ends("2025-12-01T00:00:00Z".parse().unwrap());
        assert!(alone.unwrap().to_string().starts_with("2026"));
    }

    /// As in Go. Whoever has the key of an authority that ended could be anybody.
    #[test]
    fn an_authority_that_has_expired_vouches_for_nobody() {
        let (former, new) = (signer_until(2026), signer_until(2035));
        let both = format!("{}{}", former.pem, new.pem);
        let both = ClientAuthority::from_pem(both.as_bytes()).unwrap();
        for authority in [&former.authority, &both] {
            let client = certificate(&former, &["ann"], &[]);
            let user = |at: &str| client.user(authority, at.parse().unwrap());
            user("2025-12-31T00:00:00Z").unwrap();
            assert!(user("2026-01-02T00:00:00Z").is_err());
        }
    }

    #[test]
    fn a_certificate_is_good_for_its_time_and_its_authority_only() {
        let (signer, other) = (self::signer(), self::signer());
        let ann = certificate(&signer, &["ann"], &["dev"]);
        let name = |authority: &ClientAuthority, at: &str| {
            let user = ann.user(authority, at.parse().unwrap());
            user.ok()
                .map(|user| format!("{} {:?}", user.name, user.groups))
        };
        let found = Some(r#"ann ["dev", "system:authenticated"]"#.to_owned());
        for (authority, at, expected) in [
            (&signer.authority, "2019-12-31T23:59:59Z", None),
            (&signer.authority, "2029-12-31T23:59:50Z", found.clone()),
            (&signer.authority, "2030-01-01T00:00:00Z", found),
            // Ten seconds ago it was accepted on the same connection.
            (&signer.authority, "2030-01-01T00:00:01Z", None),
            (&other.authority, "2029-12-31T23:59:50Z", None),
        ] {
            assert_eq!(name(authority, at), expected, "{at}");
        }
    }

    #[test]
    fn a_refused_certificate_is_not_verified_again_for_a_while() {
        let (signer, strict) = (self::signer(), self::signer().authority);
        let ann = certificate(&signer, &["ann"], &[]);
        // The client opens a new connection for each request.
        let is_let_in = |authority: &ClientAuthority, at: &str| {
            let again = PeerCertificate::new(ann.chain.clone());
            again.user(authority, at.parse().unwrap()).is_ok()
        };
        for (at, verified) in [
            ("2025-01-01T00:00:10Z", "2025-01-01T00:00:10Z"),
            ("2025-01-01T00:00:11Z", "2025-01-01T00:00:10Z"),
            ("2025-01-01T00:01:10Z", "2025-01-01T00:00:10Z"),
            ("2025-01-01T00:01:10.1Z", "2025-01-01T00:01:10.1Z"),
            // The clock was set back.
            ("2025-01-01T00:00:15Z", "2025-01-01T00:00:15Z"),
        ] {
            assert!(!is_let_in(&strict, at), "{at}");
            let refused = strict.0.refused.get(ann.digest()).unwrap();
            let verified: Timestamp = verified.parse().unwrap();
            assert_eq!(*refused.holds.start(), verified, "{at}");
        }
        assert!(is_let_in(&signer.authority, "2025-01-01T00:00:15Z"));
        // Another certificate, or the same with another one beside it, is not confused with it.
        let bob = certificate(&signer, &["bob"], &[]);
        let both = PeerCertificate::new([ann.chain.clone(), bob.chain.clone()].concat());
        for certificate in [bob, both] {
            let at = "2025-01-01T00:00:15Z".parse().unwrap();
            assert!(certificate.user(&strict, at).is_err());
        }
        assert_eq!(strict.0.refused.len(), 3);
        for number in 0..2 * REFUSED_MAX as u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            let refused = Refused {
                why: String::new(),
                holds: Timestamp::MIN..=Timestamp::MIN,
            };
            strict.0.refused.insert(digest, refused);
        }
        assert!(strict.0.refused.len() <= REFUSED_MAX);
    }

    #[test]
    fn nobody_has_no_name() {
        let signer = self::signer();
        let at = "2025-01-01T00:00:00Z".parse().unwrap();
        for names in [&[][..], &[""]] {
            let nobody = certificate(&signer, names, &["system:masters"]);
            assert!(nobody.user(&signer.authority, at).is_err(), "{names:?}");
        }
    }
}
