//! Verifies a server's certificate as Go does (`crypto/x509`).
//!
//! webpki decides about chains and names. It differs from Go in what it takes for an authority:
//!
//! - It accepts any certificate as an anchor: an expired one, one with CA:FALSE, one whose key must
//!   not sign certificates. Go refuses these as issuers, so they are not passed to webpki.
//! - It needs an issuer. In Go a certificate that is itself among the authorities needs none. Such
//!   certificates are frequent in Kubernetes: `openssl req -x509` makes them.
//!
//! Invariants: a certificate is accepted only if an authority that is valid now issued it, or if it
//! is byte for byte one of the authorities, valid now, and for servers. In both cases it must have
//! the server's name, and the signature of the handshake is verified.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// A TLS configuration without a client certificate, which verifies servers by these authorities.
/// `None` means the system's, or those of the file `SSL_CERT_FILE` and the folder `SSL_CERT_DIR`.
///
/// # Errors
///
/// [`TrustError`] if there is no authority that can be read.
pub fn tls(authorities: Option<&[CertificateDer<'static>]>) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = match authorities {
        Some(authorities) => ServerVerifier::new(authorities, &provider)?,
        None => ServerVerifier::of_system(&provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Unusable {
            why: error.to_string(),
        })?;
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

/// Verifies servers by authorities. It is a verifier for rustls.
#[derive(Debug)]
pub struct ServerVerifier {
    authorities: Vec<Authority>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    anchor: TrustAnchor<'static>,
    /// When it is valid, in seconds since 1970.
    validity: RangeInclusive<i64>,
    /// Whether it may issue certificates at all.
    is_issuer: bool,
    is_for_servers: bool,
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
    /// The system's roots cannot be read.
    #[error("the system's roots cannot be read: {why}")]
    System {
        /// The reason.
        why: String,
    },
    /// There is no certificate, or the certificates cannot be used together.
    #[error("{why}")]
    Unusable {
        /// The reason.
        why: String,
    },
}

/// Why a server is not verified although one of the authorities issued its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusedAuthority {
    /// The authority's certificate has expired.
    #[error("the certificate of its authority has expired")]
    Expired,
    /// The authority's certificate is not valid yet.
    #[error("the certificate of its authority is not valid yet")]
    NotYet,
    /// The issuer is no authority: basicConstraints say CA:FALSE or are missing, or its key usage
    /// has no keyCertSign.
    #[error("its issuer is among the authorities but may not issue certificates (CA:FALSE)")]
    NoAuthority,
    /// The authority's certificate is restricted to other purposes than servers.
    #[error("its authority may not issue certificates of servers (extended key usage)")]
    NotForServers,
}

impl Authority {
    fn of(certificate: &CertificateDer<'static>) -> Result<Self, Error> {
        let bad = || Error::InvalidCertificate(CertificateError::BadEncoding);
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| bad())?;
        let validity = parsed.validity();
        let constraints = parsed.basic_constraints().map_err(|_| bad())?;
        let usage = parsed.key_usage().map_err(|_| bad())?;
        let purposes = parsed.extended_key_usage().map_err(|_| bad())?;
        // Go's `CheckSignatureFrom`. Certificates before version 3 have no constraints.
        let is_authority = match constraints {
            Some(constraints) => constraints.value.ca,
            None => parsed.version() != X509Version::V3,
        };
        Ok(Self {
            validity: validity.not_before.timestamp()..=validity.not_after.timestamp(),
            is_issuer: is_authority && usage.is_none_or(|usage| usage.value.key_cert_sign()),
            is_for_servers: purposes.is_none_or(|it| it.value.any || it.value.server_auth),
            anchor: roots.roots.pop().ok_or_else(bad)?,
            certificate: certificate.clone(),
        })
    }

    /// Why certificates that it issued are refused now, if they are.
    fn refusal(&self, now: UnixTime) -> Option<UnusedAuthority> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if !self.is_issuer {
            Some(UnusedAuthority::NoAuthority)
        } else if !self.is_for_servers {
            Some(UnusedAuthority::NotForServers)
        } else if now > *self.validity.end() {
            Some(UnusedAuthority::Expired)
        } else if now < *self.validity.start() {
            Some(UnusedAuthority::NotYet)
        } else {
            None
        }
    }

    /// Whether it is the server's certificate itself, and valid now.
    fn is_own(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs());
        self.certificate == *certificate
            && self.is_for_servers
            && now.is_ok_and(|now| self.validity.contains(&now))
    }
}

impl ServerVerifier {
    /// A verifier by these authorities.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if a certificate cannot be read, or there is none.
    pub fn new(
        authorities: &[CertificateDer<'static>],
        provider: &CryptoProvider,
    ) -> Result<Self, TrustError> {
        let authorities: Result<Vec<_>, _> = (1..)
            .zip(authorities)
            .map(|(number, one)| {
                Authority::of(one).map_err(|source| TrustError::Certificate { number, source })
            })
            .collect();
        Self::by(authorities?, provider)
    }

    /// A verifier by the system's roots, or those of the file `SSL_CERT_FILE` and the folder
    /// `SSL_CERT_DIR`. Roots that cannot be read are left out.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if there is no root that can be read.
    pub fn of_system(provider: &CryptoProvider) -> Result<Self, TrustError> {
        let found = rustls_native_certs::load_native_certs();
        let authorities = found.certs.iter().flat_map(Authority::of).collect();
        Self::by(authorities, provider).map_err(|error| TrustError::System {
            why: match found.errors.first() {
                Some(error) => error.to_string(),
                None => error.to_string(),
            },
        })
    }

    fn by(authorities: Vec<Authority>, provider: &CryptoProvider) -> Result<Self, TrustError> {
        if authorities.is_empty() {
            let why = "there is none".to_owned();
            return Err(TrustError::Unusable { why });
        }
        Ok(Self {
            authorities,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let issued_by = |roots| {
            let roots = RootCertStore { roots };
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &roots,
                intermediates,
                now,
                algorithms,
            )
        };
        let usable = self.authorities.iter();
        let usable = usable.filter(|one| one.refusal(now).is_none());
        let issued = issued_by(usable.map(|one| one.anchor.clone()).collect());
        if let Err(error) = issued
            && !self
                .authorities
                .iter()
                .any(|one| one.is_own(end_entity, now))
        {
            // Says what is wrong with the issuer, if it is known.
            let mut refused = self.authorities.iter().filter_map(|one| {
                let why = one.refusal(now)?;
                issued_by(vec![one.anchor.clone()]).is_ok().then_some(why)
            });
            return Err(refused.next().map_or(error, |why| {
                CertificateError::Other(OtherError(Arc::new(why))).into()
            }));
        }
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
    };

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
        signed_by(params, authority())
    }

    /// The parameters of an authority that is valid until 2030.
    fn authority() -> CertificateParams {
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.not_after = date_time_ymd(2030, 1, 1);
        authority
    }

    fn signed_by(
        params: &CertificateParams,
        authority: CertificateParams,
    ) -> [CertificateDer<'static>; 2] {
        let key = KeyPair::generate().unwrap();
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
        verified(certificate, authority, (name, now)).is_ok()
    }

    fn verified(
        certificate: &CertificateDer<'static>,
        authority: &CertificateDer<'static>,
        (name, now): (&str, u64),
    ) -> Result<ServerCertVerified, Error> {
        let authorities = std::slice::from_ref(authority);
        let verifier = ServerVerifier::new(authorities, &ring::default_provider()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier.verify_server_cert(certificate, &[], &name, &[], now)
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

    /// crypto/x509 `Certificate.CheckSignatureFrom` and `Certificate.isValid`: an authority is
    /// judged as any other certificate of a chain.
    #[test]
    fn an_authority_must_be_one_and_be_valid() {
        use UnusedAuthority::{Expired, NoAuthority, NotForServers, NotYet};
        type Change = fn(&mut CertificateParams);
        let cases: [(&str, Change, Option<UnusedAuthority>); 11] = [
            ("as it is", |_| {}, None),
            (
                "expired",
                |it| it.not_after = date_time_ymd(2025, 12, 31),
                Some(Expired),
            ),
            (
                "not yet",
                |it| it.not_before = date_time_ymd(2026, 1, 2),
                Some(NotYet),
            ),
            (
                "CA:FALSE",
                |it| it.is_ca = IsCa::ExplicitNoCa,
                Some(NoAuthority),
            ),
            (
                "without basicConstraints",
                |it| it.is_ca = IsCa::NoCa,
                Some(NoAuthority),
            ),
            (
                "for signatures of certificates",
                |it| it.key_usages = vec![KeyUsagePurpose::KeyCertSign],
                None,
            ),
            (
                "for signatures of other things",
                |it| it.key_usages = vec![KeyUsagePurpose::DigitalSignature],
                Some(NoAuthority),
            ),
            (
                "for servers",
                |it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
                None,
            ),
            (
                "for anything",
                |it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any],
                None,
            ),
            (
                "for clients",
                |it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
                Some(NotForServers),
            ),
            (
                "CA:FALSE and expired",
                |it| {
                    it.is_ca = IsCa::ExplicitNoCa;
                    it.not_after = date_time_ymd(2025, 12, 31);
                },
                Some(NoAuthority),
            ),
        ];
        for (what, change, expected) in cases {
            let mut authority = authority();
            change(&mut authority);
            let [leaf, authority] = signed_by(&params(false), authority);
            let found = match verified(&leaf, &authority, HERE) {
                Ok(_) => None,
                Err(Error::InvalidCertificate(CertificateError::Other(why))) => {
                    Some(*why.0.downcast_ref::<UnusedAuthority>().unwrap())
                }
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!(found, expected, "an authority {what}");
            // Nothing is said of it for a certificate that it did not issue.
            let [others, _] = signed(&params(false));
            let error = verified(&others, &authority, HERE).unwrap_err();
            assert!(
                !matches!(error, Error::InvalidCertificate(CertificateError::Other(_))),
                "an authority {what}: {error}"
            );
        }
    }

    #[test]
    fn what_is_no_certificate_is_told() {
        let provider = ring::default_provider();
        let none = ServerVerifier::new(&[], &provider);
        assert!(matches!(none, Err(TrustError::Unusable { .. })));
        let bad = ServerVerifier::new(&[CertificateDer::from(vec![1, 2])], &provider);
        assert!(matches!(
            bad,
            Err(TrustError::Certificate { number: 1, .. })
        ));
    }
}
