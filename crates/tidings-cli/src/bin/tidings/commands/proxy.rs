//! The proxy for a server: kubectl's rules, which are those of Go's `http.ProxyFromEnvironment`.
//!
//! Invariant: a proxy of the environment is used for a server only if `NO_PROXY` does not name the
//! server. (kube looks for the proxy's own name there.) A kubeconfig's `proxy-url` is meant for its
//! cluster, so nothing else is asked about it.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy that leads to a server by the environment, if any does. A server on this machine needs
/// none.
///
/// # Errors
/// For an invalid address.
pub(crate) fn of_environment(
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let first = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&variable);
        values.find(|value| !value.is_empty())
    };
    let names = match server.scheme_str() {
        Some("http") => ["HTTP_PROXY", "http_proxy"],
        _ => ["HTTPS_PROXY", "https_proxy"],
    };
    let Some(proxy) = first(names) else {
        return Ok(None);
    };
    let host = server.host().unwrap_or_default();
    let no_proxy = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // Where it would go does not matter, only whether it would.
    let everything = Matcher::builder().all("http://proxy").no(no_proxy).build();
    if is_local(host) || everything.intercept(server).is_none() {
        return Ok(None);
    }
    address(&proxy).map(Some)
}

fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A proxy's address; without a scheme it is one of HTTP.
///
/// # Errors
/// For an invalid address.
pub(crate) fn address(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Option<Uri> = whole.parse().ok();
    // What was given may have a password in it.
    uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()))
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5")))
        .ok_or_else(|| {
            "the proxy's address is invalid: expected one such as http://proxy:3128, https://proxy or socks5://proxy:1080".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_proxy_and_what_needs_none() {
        let cluster = "https://api.cluster.example:6443";
        for (server, environment, expected) in [
            (cluster, &[] as &[(&str, &str)], None),
            (cluster, &[("HTTPS_PROXY", "")], None),
            (cluster, &[("HTTP_PROXY", "http://p:1")], None),
            (
                cluster,
                &[("HTTPS_PROXY", "http://p:1")],
                Some("http://p:1/"),
            ),
            (cluster, &[("https_proxy", "p:1")], Some("http://p:1/")),
            (
                cluster,
                &[("https_proxy", "socks5://p:1")],
                Some("socks5://p:1/"),
            ),
            (
                "http://api:80",
                &[("HTTP_PROXY", "p:1")],
                Some("http://p:1/"),
            ),
            // The proxy's own name in NO_PROXY says nothing about the cluster.
            (
                cluster,
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "p")],
                Some("http://p:1/"),
            ),
            (
                cluster,
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "a,,cluster.example")],
                None,
            ),
            (
                cluster,
                &[("HTTPS_PROXY", "p:1"), ("no_proxy", ".cluster.example")],
                None,
            ),
            (cluster, &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "*")], None),
            (
                cluster,
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "other.example")],
                Some("http://p:1/"),
            ),
            (
                "https://10.1.2.3",
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "10.0.0.0/8")],
                None,
            ),
            (
                "https://11.1.2.3",
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "10.0.0.0/8")],
                Some("http://p:1/"),
            ),
            ("https://127.0.0.1:6443", &[("HTTPS_PROXY", "p:1")], None),
            ("https://[::1]:6443", &[("HTTPS_PROXY", "p:1")], None),
            ("https://localhost:6443", &[("HTTPS_PROXY", "p:1")], None),
        ] {
            let variable = |name: &str| {
                let mut pairs = environment.iter();
                pairs.find_map(|(key, value)| (*key == name).then(|| (*value).to_owned()))
            };
            let proxy = of_environment(&server.parse().unwrap(), variable).unwrap();
            let proxy = proxy.map(|proxy| proxy.to_string());
            assert_eq!(proxy.as_deref(), expected, "{server} {environment:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_its_password() {
        for text in ["ftp://p", "http://", "http://user:secret@:x"] {
            let error = address(text).unwrap_err();
            assert!(error.contains("http://proxy:3128") && !error.contains("secret"));
        }
    }
}
