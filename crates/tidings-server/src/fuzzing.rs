//! Parsers that are not public, for the fuzz targets: built with `--cfg fuzzing` only.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

use crate::auth::certificate::{ClientAuthority, PeerCertificate};
use crate::start::tls::Identity;

/// Certificates and keys as an operator's files have them, and a certificate as a client shows it.
pub fn certificates(bytes: &[u8]) {
    let middle = bytes.len() / 2;
    let (certificate, key) = bytes.split_at_checked(middle).unwrap_or_default();
    for (certificate, key) in [(bytes, bytes), (certificate, key)] {
        if let Ok(identity) = Identity::from_pem(certificate, key) {
            let _ = identity.config(&[]);
        }
    }
    if let Ok(authority) = ClientAuthority::from_pem(bytes) {
        let shown = CertificateDer::from(bytes.to_vec());
        let _ = PeerCertificate::new(vec![shown]).user(&authority, Timestamp::UNIX_EPOCH);
    }
}
