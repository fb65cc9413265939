//! The API server's rules for events, in one place: the recorder keeps to them, the server refuses by them.

/// The longest DNS-1123 subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_BYTES_MAX: usize = 253;

/// Whether `name` is a DNS-1123 subdomain: at most 253 bytes of lower-case letters, digits, `-` and `.`, where every part between dots
/// starts and ends with a letter or digit. Kubernetes' `validation.IsDNS1123Subdomain`; as there, a part may be longer than 63 bytes.
pub fn is_dns1123_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= DNS1123_SUBDOMAIN_BYTES_MAX
        && name.as_bytes().split(|byte| *byte == b'.').all(|part| {
            part.first().is_some_and(alphanumeric)
                && part.last().is_some_and(alphanumeric)
                && part.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        })
}
