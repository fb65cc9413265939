//! Parsers that are not public, for the fuzz targets: built with `--cfg fuzzing` only.

use bytes::Bytes;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

use crate::auth::certificate::{ClientAuthority, PeerCertificate};
use crate::codec::stored::StoredEvent;
use crate::codec::{self, Api};
use crate::tls::Identity;

/// Certificates and keys as an operator's files have them, and a certificate as a client shows it.
pub fn certificates(bytes: &[u8]) {
    let middle = bytes.len() / 2;
    let (certificate, key) = bytes.split_at_checked(middle).unwrap_or_default();
    for (certificate, key) in [(bytes, bytes), (certificate, key)] {
        if let Ok(identity) = Identity::from_pem(certificate, key) {
            let _ = identity.config(None);
        }
    }
    if let Ok(authority) = ClientAuthority::from_pem(bytes) {
        let shown = CertificateDer::from(bytes.to_vec());
        let _ = PeerCertificate::new(vec![shown]).user(&authority, Timestamp::UNIX_EPOCH);
    }
}

/// What a store gives back: in the envelope or bare, what is served from the bytes is what is
/// served from the event.
pub fn stored(bytes: &[u8]) {
    let mut enveloped = codec::protobuf::MAGIC.to_vec();
    codec::stored::put_bytes(1, b"\x0a\x02v1\x12\x05Event", &mut enveloped);
    codec::stored::put_bytes(2, bytes, &mut enveloped);
    for bytes in [bytes, &enveloped] {
        let decoded = codec::decode_stored(&Bytes::copy_from_slice(bytes), 1);
        let Some(stored) = StoredEvent::open(bytes, 1) else {
            continue;
        };
        for api in [Api::Core, Api::Events] {
            let (mut short, mut long) = (Vec::new(), Vec::new());
            stored.write_protobuf(api, &mut Vec::new());
            if stored.write_json(api, true, &mut short).is_some() {
                let event = decoded.as_ref().expect("what can be served is an event");
                codec::write_event(api, event, true, &mut long);
                assert_eq!(
                    String::from_utf8_lossy(&short),
                    String::from_utf8_lossy(&long)
                );
            }
        }
        stored.write_partial_json("v1", true, &mut Vec::new());
        stored.labels();
        stored.series();
    }
}
