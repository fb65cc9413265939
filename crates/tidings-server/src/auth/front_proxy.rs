//! Users that an authenticating proxy names in headers: the aggregation layer of a cluster's API
//! server. It follows `k8s.io/apiserver/pkg/authentication/request/headerrequest`.
//!
//! Headers count only on a connection whose client certificate the proxy's authority verifies, and
//! whose common name is allowed. On every connection they are removed from the request when it
//! arrives, so nothing else can read them: the user is the only thing that remains of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;

use super::certificate::{AuthorityError, ClientAuthority, PeerCertificate};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, UserInfo};

/// How an authenticating proxy is recognized, and in which headers it names users: the settings of
/// the ConfigMap `kube-system/extension-apiserver-authentication`, and of kube-apiserver's flags
/// `--requestheader-…`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestHeader {
    /// The authorities of the proxy's client certificate, in PEM.
    pub client_ca_pem: Vec<u8>,
    /// The common names that the certificate may have. Empty: any name. Default: empty.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that is there counts. Default: `X-Remote-User`.
    pub username_headers: Vec<String>,
    /// Headers with the user's uid; the first that is there counts. Default: `X-Remote-Uid`.
    pub uid_headers: Vec<String>,
    /// Headers with the user's groups. Default: `X-Remote-Group`.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further attributes of the user. Default: `X-Remote-Extra-`.
    pub extra_headers_prefix: Vec<String>,
}

impl RequestHeader {
    /// The default names of headers, with these authorities of the proxy in PEM.
    pub fn new(client_ca_pem: impl Into<Vec<u8>>) -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            client_ca_pem: client_ca_pem.into(),
            allowed_names: Vec::new(),
            username_headers: one("X-Remote-User"),
            uid_headers: one("X-Remote-Uid"),
            group_headers: one("X-Remote-Group"),
            extra_headers_prefix: one("X-Remote-Extra-"),
        }
    }
}

/// Why a proxy's headers cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestHeaderError {
    /// The authorities cannot be read.
    #[error("the authorities of the front proxy: {0}")]
    Authority(#[from] AuthorityError),
    /// A name is not one of a header.
    #[error("{name:?} is not the name of a header")]
    Name {
        /// The given name, or prefix.
        name: String,
    },
    /// No header has the user's name.
    #[error("no header is named that has the user's name")]
    NoUser,
    /// Every client with a certificate could name itself as any user.
    #[error(
        "an authority is both that of clients and that of the front proxy, so the names that the front proxy's certificate may have must be given"
    )]
    Overlap,
}

/// A proxy whose headers name users of the home cluster.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    authority: ClientAuthority,
    allowed_names: Vec<String>,
    user: Vec<HeaderName>,
    uid: Vec<HeaderName>,
    groups: Vec<HeaderName>,
    /// In lower case, as all names of a request are.
    extra: Vec<String>,
    /// The name of the cluster that knows the users.
    home: Arc<str>,
}

/// An extension of a request: the user that a front proxy named.
#[derive(Clone, Debug)]
pub(crate) struct Fronted(pub(crate) User);

impl FrontProxy {
    /// Reads the settings. `clients` is the authority of other client certificates.
    pub(crate) fn new(
        settings: &RequestHeader,
        home: &str,
        clients: Option<&ClientAuthority>,
    ) -> Result<Self, RequestHeaderError> {
        let authority = ClientAuthority::from_pem(&settings.client_ca_pem)?;
        let names = |names: &[String]| -> Result<Vec<_>, _> {
            let names = names.iter().map(|name| {
                HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| RequestHeaderError::Name { name: name.clone() })
            });
            names.collect()
        };
        // An empty prefix is no name, either: it would be that of every header.
        let extra = names(&settings.extra_headers_prefix)?;
        let user = names(&settings.username_headers)?;
        if user.is_empty() {
            return Err(RequestHeaderError::NoUser);
        }
        let proxy = Self {
            authority,
            allowed_names: settings.allowed_names.clone(),
            user,
            uid: names(&settings.uid_headers)?,
            groups: names(&settings.group_headers)?,
            extra: extra.iter().map(|name| name.as_str().to_owned()).collect(),
            home: home.into(),
        };
        if let Some(clients) = clients {
            proxy.check_beside(clients)?;
        }
        Ok(proxy)
    }

    pub(crate) fn authority(&self) -> &ClientAuthority {
        &self.authority
    }

    /// Checks that this authority of client certificates lets no client name itself as any user.
    pub(crate) fn check_beside(&self, clients: &ClientAuthority) -> Result<(), RequestHeaderError> {
        if self.allowed_names.is_empty() && clients.overlaps(&self.authority) {
            return Err(RequestHeaderError::Overlap);
        }
        Ok(())
    }

    /// Removes the headers, and returns the user whom they name, if they count on the connection of
    /// this certificate.
    pub(crate) fn take_user(
        &self,
        certificate: Option<&PeerCertificate>,
        headers: &mut HeaderMap,
        now: Timestamp,
    ) -> Option<User> {
        let is_proxy = certificate.is_some_and(|certificate| self.is_proxy(certificate, now));
        let user = is_proxy.then(|| self.user(headers)).flatten();
        self.remove(headers);
        user
    }

    /// Whether this is the front proxy's certificate.
    pub(crate) fn is_proxy(&self, certificate: &PeerCertificate, now: Timestamp) -> bool {
        let Ok(proxy) = certificate.user(&self.authority, now) else {
            return false;
        };
        self.allowed_names.is_empty() || self.allowed_names.contains(&proxy.name)
    }

    /// The user of the headers; `None` if they name none, or a value is not UTF-8.
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[HeaderName]| -> Option<String> {
            let values = names.iter().filter_map(|name| headers.get(name));
            let value = values.into_iter().find(|value| !value.is_empty());
            value.map_or_else(|| Some(String::new()), text)
        };
        let name = first(&self.user)?;
        if name.is_empty() {
            return None;
        }
        let groups = self.groups.iter().flat_map(|name| headers.get_all(name));
        let groups = groups.filter(|group| !group.is_empty()).map(text);
        let mut groups = groups.collect::<Option<Vec<String>>>()?;
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            for prefix in &self.extra {
                if let Some(key) = header.as_str().strip_prefix(prefix) {
                    let key = percent_decode_str(key).decode_utf8().ok()?.into_owned();
                    extra.entry(key).or_default().push(text(value)?);
                }
            }
        }
        let is_among = |wanted: &str| groups.iter().any(|group| group == wanted);
        if name != ANONYMOUS && !is_among(UNAUTHENTICATED) && !is_among(AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        let user = User::exactly(UserInfo {
            name,
            uid: first(&self.uid)?,
            groups,
            extra,
        });
        Some(user.of_cluster(Some(Arc::clone(&self.home))))
    }

    fn remove(&self, headers: &mut HeaderMap) {
        for name in self.user.iter().chain(&self.uid).chain(&self.groups) {
            headers.remove(name);
        }
        let is_extra = |name: &&HeaderName| {
            let mut prefixes = self.extra.iter();
            prefixes.any(|prefix| name.as_str().starts_with(prefix))
        };
        let extra: Vec<HeaderName> = headers.keys().filter(is_extra).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }
}

fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes())
        .ok()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    struct Signer {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn signer() -> Signer {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Signer { pem, issuer }
    }

    fn named(signer: &Signer, name: &str) -> PeerCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &signer.issuer).unwrap();
        PeerCertificate::new(vec![certificate.der().clone()])
    }

    fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&str, &[u8])| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn headers_name_users_as_kube_apiserver_writes_them() {
        /// Headers, and the user whom they name.
        type Row<'a> = (&'a [(&'a str, &'a [u8])], Option<&'a str>);
        let signer = signer();
        let proxy = FrontProxy::new(&RequestHeader::new(signer.pem.clone()), "home", None).unwrap();
        let certificate = named(&signer, "front-proxy-client");
        #[rustfmt::skip]
        let table: [Row<'_>; 9] = [
            (&[], None),
            (&[("x-remote-group", b"system:masters")], None),
            (&[("x-remote-user", b"")], None),
            (&[("x-remote-user", b"ann")], Some(r#"ann "" ["system:authenticated"] {}"#)),
            (
                &[
                    ("X-Remote-User", b"ann"), ("x-remote-user", b"eve"), ("X-Remote-Uid", b"7"),
                    ("X-Remote-Group", b"dev"), ("X-Remote-Group", b"system:authenticated"),
                    ("X-Remote-Extra-Scopes", b"a"), ("X-Remote-Extra-Scopes", b"b"),
                    ("X-Remote-Extra-example.org%2Fkey", b"c"),
                ],
                Some(r#"ann "7" ["dev", "system:authenticated"] {"example.org/key": ["c"], "scopes": ["a", "b"]}"#),
            ),
            // An anonymous user stays one.
            (
                &[("x-remote-user", b"system:anonymous"), ("x-remote-group", b"system:unauthenticated")],
                Some(r#"system:anonymous "" ["system:unauthenticated"] {}"#),
            ),
            (&[("x-remote-user", b"system:anonymous")], Some(r#"system:anonymous "" [] {}"#)),
            (&[("x-remote-user", "Jörg".as_bytes())], Some(r#"Jörg "" ["system:authenticated"] {}"#)),
            (&[("x-remote-user", b"ann"), ("x-remote-group", b"\xff")], None),
        ];
        for (lines, expected) in table {
            let mut headers = headers(lines);
            headers.insert("accept", HeaderValue::from_static("*/*"));
            let user = proxy.take_user(Some(&certificate), &mut headers, now());
            assert!(
                user.as_ref()
                    .is_none_or(|user| user.cluster() == Some("home"))
            );
            let found =
                user.map(|it| format!("{} {:?} {:?} {:?}", it.name, it.uid, it.groups, it.extra));
            assert_eq!(found.as_deref(), expected, "{lines:?}");
            assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"], "{lines:?}");
        }
    }

    #[test]
    fn headers_count_only_with_the_certificate_of_the_front_proxy() {
        let (signer, other) = (signer(), self::signer());
        let mut settings = RequestHeader::new(signer.pem.clone());
        settings.allowed_names = vec!["front-proxy-client".to_owned()];
        let proxy = FrontProxy::new(&settings, "home", None).unwrap();
        for (certificate, expected) in [
            (None, false),
            (Some(named(&other, "front-proxy-client")), false),
            (Some(named(&signer, "ann")), false),
            (Some(named(&signer, "front-proxy-client")), true),
        ] {
            let mut headers = headers(&[
                ("x-remote-user", b"root"),
                ("x-remote-uid", b"0"),
                ("x-remote-group", b"system:masters"),
                ("x-remote-extra-a", b"b"),
            ]);
            let user = proxy.take_user(certificate.as_ref(), &mut headers, now());
            assert_eq!(user.is_some(), expected, "{certificate:?}");
            // They are gone in any case.
            assert!(headers.is_empty(), "{headers:?}");
        }
    }

    #[test]
    fn settings_that_would_trust_too_much_are_refused() {
        type Change = fn(&mut RequestHeader);
        let signer = signer();
        let clients = ClientAuthority::from_pem(signer.pem.as_bytes()).unwrap();
        let table: [(Change, &str); 6] = [
            (|_| {}, "an authority is both"),
            (|it| it.allowed_names = vec!["front".to_owned()], "fine"),
            (|it| it.client_ca_pem.clear(), "no certificate"),
            (
                |it| {
                    it.allowed_names = vec!["front".to_owned()];
                    it.username_headers.clear();
                },
                "no header is named",
            ),
            (
                |it| {
                    it.allowed_names = vec!["front".to_owned()];
                    it.extra_headers_prefix = vec![String::new()];
                },
                "\"\" is not the name",
            ),
            (
                |it| {
                    it.allowed_names = vec!["front".to_owned()];
                    it.group_headers = vec!["X Group".to_owned()];
                },
                "\"X Group\" is not the name",
            ),
        ];
        for (change, expected) in table {
            let mut settings = RequestHeader::new(signer.pem.clone());
            change(&mut settings);
            let read = FrontProxy::new(&settings, "home", Some(&clients));
            let found = read.map_or_else(|error| error.to_string(), |_| "fine".to_owned());
            assert!(found.contains(expected), "{found}");
        }
    }
}
