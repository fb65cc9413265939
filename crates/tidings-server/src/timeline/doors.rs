//! The headers of a browser's request that protect the timeline: Host, Origin, Sec-Fetch-Site, and
//! the session's cookie.

use std::net::IpAddr;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The prefix of the cookie's name; the port follows, because cookies are shared by all ports of a
/// host.
const COOKIE: &str = "tidings-timeline";
/// The path for which the cookie is sent.
const COOKIE_PATH: &str = "/timeline";
/// The header that says whether a page of this host, a page of another host, or the user made the
/// request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// An extension of a request: the session id of its cookie, which is removed from it.
#[derive(Clone)]
pub(crate) struct Id(pub(crate) String);

/// The host and port to which a request is addressed.
pub(crate) fn host(request: &Parts) -> Option<&str> {
    match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers.get(header::HOST)?.to_str().ok(),
    }
}

/// Whether a request that changes something comes from a page of the host to which it is addressed.
pub(crate) fn is_of_own_page(headers: &HeaderMap, scheme: &str, host: &str) -> bool {
    let origin = headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok());
    let own = origin
        .and_then(|origin| origin.strip_prefix(scheme))
        .and_then(|rest| rest.strip_prefix("://"));
    own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

/// Whether a host is an address or `localhost`. A foreign page can make any other name resolve to
/// this address, and then has that name as its own.
pub(crate) fn is_fixed(host: &str) -> bool {
    let authority = host.parse::<Authority>();
    authority.is_ok_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    })
}

/// Whether the browser says that a page of another host made the request.
pub(crate) fn is_of_foreign_page(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The name of the cookie for a host.
fn cookie_name(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{COOKIE}-{port}")
        }
        _ => COOKIE.to_owned(),
    }
}

/// The session id in a request's cookie.
pub(crate) fn session<'a>(headers: &'a HeaderMap, host: &str) -> Option<&'a str> {
    let name = cookie_name(host);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut cookies = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='));
    let (_, id) = cookies.find(|(found, _)| *found == name)?;
    Some(id)
}

/// The cookie with a session id, valid for some seconds; zero ends the session.
pub(crate) fn cookie(host: &str, id: &str, seconds: u64, secure: bool) -> Option<HeaderValue> {
    let name = cookie_name(host);
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!(
        "{name}={id}; Path={COOKIE_PATH}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    let mut cookie = HeaderValue::try_from(cookie).ok()?;
    cookie.set_sensitive(true);
    Some(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_can_be_given_to_another_address() {
        for (host, expected) in [
            ("127.0.0.1:6444", true),
            ("10.0.0.7", true),
            ("[::1]:6444", true),
            ("localhost:6444", true),
            ("evil.example:6444", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_fixed(host), expected, "{host}");
        }
    }

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_a_page_of_the_host_may_change_something() {
        for (origin, expected) in [
            ("https://archive.example:6444", true),
            ("https://Archive.Example:6444", true),
            ("http://archive.example:6444", false),
            ("https://archive.example", false),
            ("https://archive.example:6444.evil.example", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let headers = headers(header::ORIGIN, origin);
            let found = is_of_own_page(&headers, "https", "archive.example:6444");
            assert_eq!(found, expected, "{origin}");
        }
        assert!(!is_of_own_page(&HeaderMap::new(), "https", "a"));
        for (site, expected) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
        ] {
            assert_eq!(is_of_foreign_page(&headers(SEC_FETCH_SITE, site)), expected);
        }
        assert!(!is_of_foreign_page(&HeaderMap::new()));
    }

    #[test]
    fn a_cookie_is_of_one_port() {
        let cookies = "a=b; tidings-timeline=1; tidings-timeline-6444=2;tidings-timeline-80= 3";
        let headers = headers(header::COOKIE, cookies);
        for (host, expected) in [
            ("archive.example", Some("1")),
            ("archive.example:6444", Some("2")),
            ("[::1]:6444", Some("2")),
            ("archive.example:7", None),
        ] {
            assert_eq!(session(&headers, host), expected, "{host}");
        }
        let made = cookie("127.0.0.1:8080", "abc", 60, true).unwrap();
        assert_eq!(
            made,
            "tidings-timeline-8080=abc; Path=/timeline; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(cookie("a:b\n", "abc", 60, false).is_some());
        assert!(cookie("a", "b\n", 60, false).is_none());
    }
}
