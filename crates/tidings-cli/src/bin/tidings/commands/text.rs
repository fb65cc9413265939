//! Formats errors and untrusted texts on one line.

use std::error::Error;
use std::io::Write;

use rustls::CertificateError;
use tidings_connect::rejected_certificate;

use super::terminal::errors;

/// The text of an error with its causes, which the client's errors need. Of a refusal it is only
/// the server's message.
pub(crate) fn with_sources(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return one_line(&status.message);
    }
    let text = error.to_string();
    // The client's prefix for every failure without an answer.
    let mut text = text
        .strip_prefix("ServiceError: ")
        .unwrap_or(&text)
        .to_owned();
    let mut source = error.source();
    while let Some(error) = source {
        let more = of_certificate(error).unwrap_or_else(|| error.to_string());
        let more = more.strip_prefix("ServiceError: ").unwrap_or(&more);
        if !text.contains(more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    one_line(&text)
}

/// What is said of a certificate with an algorithm that is not supported, in place of the TLS
/// library's bytes.
fn of_certificate(error: &(dyn Error + 'static)) -> Option<String> {
    let (signature, key) = match rejected_certificate(error)? {
        CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id,
            ..
        } => (signature_algorithm_id, &[][..]),
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id,
            public_key_algorithm_id,
        } => (signature_algorithm_id, public_key_algorithm_id.as_slice()),
        _ => return None,
    };
    let known = SIGNATURES.iter().find(|(id, _)| signature.ends_with(id));
    let name = known.map_or("of an unknown algorithm", |(_, name)| *name);
    let key = if key.ends_with(CURVE_P521) {
        " by a key on the curve P-521"
    } else {
        ""
    };
    Some(format!(
        "invalid peer certificate: its signature is {name}{key}, which is not supported"
    ))
}

/// Signature algorithms of certificates, by the end of their object identifier in DER.
const SIGNATURES: [(&[u8], &str); 7] = [
    (&[0xce, 0x3d, 4, 1], "ECDSA with SHA-1"),
    (&[0xce, 0x3d, 4, 3, 2], "ECDSA with SHA-256"),
    (&[0xce, 0x3d, 4, 3, 3], "ECDSA with SHA-384"),
    (&[0xce, 0x3d, 4, 3, 4], "ECDSA with SHA-512"),
    (&[0xf7, 0x0d, 1, 1, 4], "RSA with MD5"),
    (&[0xf7, 0x0d, 1, 1, 5], "RSA with SHA-1"),
    (&[0x2b, 0x65, 0x71], "Ed448"),
];
/// The end of the curve's object identifier in DER.
const CURVE_P521: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x23];

/// Prints a note on standard error.
pub(crate) fn tell(text: &str) {
    // A closed pipe is no reason to stop; the exit code has the same information.
    let _ = writeln!(errors(), "{}", one_line(text));
}

/// Makes untrusted text one line that is safe on a terminal.
pub(crate) use tidings_cli::text::message as one_line;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("connect")]
    struct Connect(#[source] io::Error);

    #[test]
    fn the_algorithm_of_a_certificate_is_named() {
        const ECDSA: [u8; 8] = [42, 134, 72, 206, 61, 4, 3, 4];
        let id = |last: u8| [&[6, 8][..], &ECDSA[..7], &[last]].concat();
        let key = [&[6, 7, 42, 134, 72, 206, 61, 2, 1, 6, 5][..], CURVE_P521].concat();
        for (why, said) in [
            (
                CertificateError::UnsupportedSignatureAlgorithmContext {
                    signature_algorithm_id: id(4),
                    supported_algorithms: Vec::new(),
                },
                "ECDSA with SHA-512, which",
            ),
            (
                CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                    signature_algorithm_id: id(2),
                    public_key_algorithm_id: key,
                },
                "ECDSA with SHA-256 by a key on the curve P-521, which",
            ),
        ] {
            let error = Connect(io::Error::other(rustls::Error::InvalidCertificate(why)));
            let text = with_sources(&kube::Error::Service(Box::new(error)));
            let said = format!(
                "connect: invalid peer certificate: its signature is {said} is not supported"
            );
            assert_eq!(text, said);
        }
    }
}
