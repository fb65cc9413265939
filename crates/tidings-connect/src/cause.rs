//! Finds why a request failed in the errors of the libraries that send it. Each function judges one
//! error, and not its sources.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// The reason why the server's certificate was rejected, if that is the error.
#[must_use]
pub fn rejected_certificate<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    // An I/O error is not the source of the I/O error that was made of it.
    let mut inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    while let Some(error) = inner.downcast_ref::<io::Error>() {
        inner = error.get_ref()?;
    }
    match inner.downcast_ref()? {
        rustls::Error::InvalidCertificate(why) => Some(why),
        _ => None,
    }
}

/// Whether the error is an answer that is not HTTP, as a server that expects TLS sends it to a
/// client without TLS.
#[must_use]
pub fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<hyper::Error>();
    error.is_some_and(hyper::Error::is_parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificates_rejection_is_found_in_nested_errors() {
        let rejected = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let other = || rustls::Error::HandshakeNotComplete;
        for (error, expected) in [
            (io::Error::other(rejected()), true),
            // hyper-rustls wraps the error of tokio-rustls.
            (io::Error::other(io::Error::other(rejected())), true),
            (io::Error::other(other()), false),
            (io::Error::from(io::ErrorKind::ConnectionRefused), false),
        ] {
            let found = rejected_certificate(&error);
            assert_eq!(found, expected.then_some(&CertificateError::UnknownIssuer));
        }
        assert_eq!(rejected_certificate(&rejected()), None);
    }
}
