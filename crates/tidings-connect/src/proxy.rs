//! Chooses the proxy for a server, as Go does (`golang.org/x/net/http/httpproxy`).
//!
//! Invariant: the environment's proxy is used for a server only if `NO_PROXY` does not match the
//! server. A kubeconfig's `proxy-url` is meant for its cluster, so the environment is ignored then.

use std::net::IpAddr;

use http::Uri;
use percent_encoding::percent_decode_str;

/// The port of a SOCKS proxy whose address has none.
const SOCKS_PORT: u16 = 1080;

/// Why a proxy cannot be used. Messages never show the address, which may contain a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The address is invalid.
    #[error(
        "the proxy's address ({setting}) is invalid: expected one such as http://proxy:3128, https://proxy or socks5://proxy:1080"
    )]
    Address {
        /// The setting or variable with the address.
        setting: &'static str,
    },
    /// The address has a scheme that is not supported.
    #[error("not a proxy at http://, https:// or socks5://, but at {scheme:?}")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
}

/// How a client chooses the proxy for a server.
#[derive(Clone)]
#[non_exhaustive]
pub enum Proxies {
    /// This proxy, or none, for every server.
    Fixed(Option<Uri>),
    /// The proxy that the function returns for a server, such as [`of_process`].
    Chosen(fn(&Uri) -> Result<Option<Uri>, ProxyError>),
}

impl Proxies {
    /// The proxy for a server; `None` for a direct connection.
    ///
    /// # Errors
    ///
    /// [`ProxyError`] of the function of [`Proxies::Chosen`].
    pub fn of(&self, server: &Uri) -> Result<Option<Uri>, ProxyError> {
        match self {
            Self::Fixed(proxy) => Ok(proxy.clone()),
            Self::Chosen(choose) => choose(server),
        }
    }
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(proxy) => f
                .debug_tuple("Fixed")
                .field(&proxy.as_ref().map(shown))
                .finish(),
            Self::Chosen(_) => f.write_str("Chosen"),
        }
    }
}

/// An entry of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Everything,
    /// The addresses of a network: its address and the length of its prefix.
    Network(IpAddr, u8),
    Address(IpAddr, Option<String>),
    /// Names with this suffix.
    Domain {
        /// The suffix, with a dot in front.
        end: String,
        /// Whether the domain itself matches, too.
        has_itself: bool,
        port: Option<String>,
    },
}

impl Named {
    /// Parses an entry of the list; `None` if it matches nothing.
    fn of(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_lowercase();
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some(network) = network(&entry) {
            return Some(network);
        }
        let (host, port) = match split_port(&entry) {
            Some((host, port)) => (host, Some(port.to_owned()).filter(|port| !port.is_empty())),
            None => (entry.as_str(), None),
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical(), port));
        }
        let host = host
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(host);
        let has_itself = !host.starts_with('.');
        let dot = if has_itself { "." } else { "" };
        (!host.is_empty()).then(|| Self::Domain {
            end: format!("{dot}{host}"),
            has_itself,
            port,
        })
    }

    fn names(&self, host: &str, address: Option<IpAddr>, port: &str) -> bool {
        let is_port = |own: &Option<String>| own.as_deref().is_none_or(|own| own == port);
        match (self, address) {
            (Self::Everything, _) => true,
            (Self::Network(network, bits), Some(address)) => is_within(address, *network, *bits),
            (Self::Address(own, port), Some(address)) => *own == address && is_port(port),
            (
                Self::Domain {
                    end,
                    has_itself,
                    port,
                },
                None,
            ) => {
                let is_itself = *has_itself && end.strip_prefix('.') == Some(host);
                (is_itself || host.ends_with(end.as_str())) && is_port(port)
            }
            _ => false,
        }
    }
}

fn network(entry: &str) -> Option<Named> {
    let (address, bits) = entry.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    (bits <= max).then_some(Named::Network(address, bits))
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let own_bits = u32::from(bits);
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - own_bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - own_bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

/// Splits host and port, as Go's `net.SplitHostPort`.
fn split_port(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return Some((host, rest.strip_prefix(':')?));
    }
    let (host, port) = text.split_once(':')?;
    (!port.contains(':')).then_some((host, port))
}

/// The proxy for a server by the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same
/// in lower case. A server on this machine needs none. `variable` reads a variable.
///
/// # Errors
///
/// [`ProxyError::Address`] for an invalid address.
pub fn of_environment(
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ProxyError> {
    let first = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&variable);
        values.find(|value| !value.is_empty())
    };
    let is_plain = server.scheme_str() == Some("http");
    let (names, default_port) = if is_plain {
        (["HTTP_PROXY", "http_proxy"], "80")
    } else {
        (["HTTPS_PROXY", "https_proxy"], "443")
    };
    let Some(proxy) = first(names) else {
        return Ok(None);
    };
    let host = server.host().unwrap_or_default().to_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
        return Ok(None);
    }
    let port = server.port_u16().map(|port| port.to_string());
    let port = port.as_deref().unwrap_or(default_port);
    let listed = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let mut named = listed.split(',').filter_map(Named::of);
    if named.any(|named| named.names(host, address.map(|it| it.to_canonical()), port)) {
        return Ok(None);
    }
    let whole = if proxy.contains("://") {
        proxy
    } else {
        format!("http://{proxy}")
    };
    let name = if is_plain {
        "HTTP_PROXY"
    } else {
        "HTTPS_PROXY"
    };
    self::address(&whole, name).map(Some)
}

/// The proxy for a server by the environment of this process; see [`of_environment`].
///
/// # Errors
///
/// [`ProxyError::Address`] for an invalid address.
pub fn of_process(server: &Uri) -> Result<Option<Uri>, ProxyError> {
    of_environment(server, |name| std::env::var(name).ok())
}

/// Parses a kubeconfig's `proxy-url`.
///
/// # Errors
///
/// [`ProxyError::Address`] for an invalid address.
pub fn of_kubeconfig(text: &str) -> Result<Uri, ProxyError> {
    address(text, "proxy-url")
}

fn address(text: &str, setting: &'static str) -> Result<Uri, ProxyError> {
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.map(with_port);
    // The error does not show the address, which may contain a password.
    uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty()))
        .filter(|uri| check(uri).is_ok())
        .ok_or(ProxyError::Address { setting })
}

/// Checks the scheme of a proxy's address.
pub(crate) fn check(proxy: &Uri) -> Result<(), ProxyError> {
    match proxy.scheme_str() {
        Some("http" | "https" | "socks5" | "socks5h") => Ok(()),
        scheme => Err(ProxyError::Scheme {
            scheme: scheme.unwrap_or_default().to_owned(),
        }),
    }
}

/// The address of a proxy with the port of SOCKS, unless it has a port or another scheme.
fn with_port(proxy: Uri) -> Uri {
    let is_socks = matches!(proxy.scheme_str(), Some("socks5" | "socks5h"));
    if !is_socks || proxy.port_u16().is_some() {
        return proxy;
    }
    let authority = proxy.authority().map_or("", |it| it.as_str());
    let authority = format!("{}:{SOCKS_PORT}", authority.trim_end_matches(':'));
    let mut parts = proxy.clone().into_parts();
    parts.authority = authority.parse().ok();
    Uri::from_parts(parts).unwrap_or(proxy)
}

/// A proxy's address without a name and a password.
pub fn shown(proxy: &Uri) -> String {
    let scheme = proxy.scheme_str().unwrap_or("http");
    let authority = proxy.authority().map_or("", |it| it.as_str());
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// The name and the password in a proxy's address.
pub(crate) fn login(proxy: &Uri) -> Option<(String, String)> {
    let (login, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    Some((decoded(name), decoded(password)))
}

/// Decodes percent escapes in a part of an address.
pub fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, environment: &[(&str, &str)]) -> Result<Option<String>, ProxyError> {
        let variable = |name: &str| {
            let mut pairs = environment.iter();
            pairs.find_map(|(key, value)| (*key == name).then(|| (*value).to_owned()))
        };
        let proxy = of_environment(&server.parse().unwrap(), variable)?;
        Ok(proxy.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn the_environment_names_a_proxy() {
        let cluster = "https://api.cluster.example:6443";
        for (server, environment, expected) in [
            (cluster, &[] as &[(&str, &str)], None),
            (cluster, &[("HTTPS_PROXY", "")], None),
            (cluster, &[("HTTP_PROXY", "http://p:1")], None),
            (cluster, &[("ALL_PROXY", "http://p:1")], None),
            (
                cluster,
                &[("HTTPS_PROXY", "http://p:1")],
                Some("http://p:1/"),
            ),
            (
                cluster,
                &[("HTTPS_PROXY", ""), ("https_proxy", "p:1")],
                Some("http://p:1/"),
            ),
            (
                cluster,
                &[("https_proxy", "socks5://p:1")],
                Some("socks5://p:1/"),
            ),
            (
                cluster,
                &[("https_proxy", "socks5h://u:x@p")],
                Some("socks5h://u:x@p:1080/"),
            ),
            (
                "http://api:80",
                &[("HTTP_PROXY", "p:1")],
                Some("http://p:1/"),
            ),
            ("https://127.0.0.1:6443", &[("HTTPS_PROXY", "p:1")], None),
            ("https://[::1]:6443", &[("HTTPS_PROXY", "p:1")], None),
            ("https://localhost:6443", &[("HTTPS_PROXY", "p:1")], None),
        ] {
            let proxy = chosen(server, environment).unwrap();
            assert_eq!(proxy.as_deref(), expected, "{server} {environment:?}");
        }
    }

    /// `httpproxy` TestUseProxy and TestProxyForURL.
    #[test]
    fn some_servers_need_none() {
        let (name, port) = (
            "https://api.cluster.example",
            "https://api.cluster.example:6443",
        );
        let (v4, v6) = ("https://10.1.2.3:6443", "https://[fd00::1]:6443");
        for (server, listed, is_named) in [
            (name, "", false),
            (name, " , ,", false),
            (name, "*", true),
            (name, "other.example, *", true),
            (name, "cluster.example", true),
            (name, "API.Cluster.Example", true),
            (name, "a,,cluster.example", true),
            (name, ".cluster.example", true),
            (name, "*.cluster.example", true),
            (name, "*cluster.example", false),
            (name, ".api.cluster.example", false),
            (name, "*.api.cluster.example", false),
            (name, "luster.example", false),
            (name, "example", true),
            (name, "cluster.example:443", true),
            (name, "cluster.example:6443", false),
            (port, "api.cluster.example:6443", true),
            (port, ".cluster.example:6443", true),
            (port, "*.cluster.example:443", false),
            (port, "cluster.example:", true),
            (port, ":6443", false),
            // The proxy's own name does not matter for the cluster.
            (port, "p", false),
            (v4, "10.0.0.0/8", true),
            (v4, "11.0.0.0/8", false),
            (v4, "0.0.0.0/0", true),
            (v4, "10.1.2.3", true),
            (v4, "10.1.2.3:6443", true),
            (v4, "10.1.2.3:443", false),
            (v4, "10.1.2.3/33", false),
            (v4, ".2.3", false),
            (v6, "fd00::/8", true),
            (v6, "fd00::1", true),
            (v6, "[fd00::1]:6443", true),
            (v6, "[fd00::1]:443", false),
            (v6, "10.0.0.0/8", false),
        ] {
            let environment = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", listed)];
            let expected = (!is_named).then_some("http://p:1/");
            let proxy = chosen(server, &environment).unwrap();
            assert_eq!(proxy.as_deref(), expected, "{server} {listed:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_its_password() {
        for text in ["ftp://p", "http://", "http://user:secret@:x", "p:1"] {
            let error = of_kubeconfig(text).unwrap_err().to_string();
            assert!(error.contains("http://proxy:3128") && !error.contains("secret"));
        }
        let proxy = of_kubeconfig("http://a%40b:secret@p:1").unwrap();
        assert_eq!(shown(&proxy), "http://p:1");
        let expected = ("a@b".to_owned(), "secret".to_owned());
        assert_eq!(login(&proxy), Some(expected));
    }
}
