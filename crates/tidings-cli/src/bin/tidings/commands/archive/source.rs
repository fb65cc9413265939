//! The connection to a followed cluster, made from its kubeconfig.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::AuthInfo;
use kube::{Client, Config};
use tidings_server::{PassThrough, PassThroughError, PassThroughOptions, certificate_end};

use crate::commands::connection::{self, NotConnected};
use crate::commands::serve::cluster::{Cluster as Reviewing, Unverified, verified};

/// Maximum certificate authorities by which a cluster is recognised. If there are more, they are a
/// system's, which verify any server.
const AUTHORITIES_MAX: usize = 8;

/// Bytes of a certificate by which it is recognised: its end, which is part of its signature.
const TELLING: usize = 16;

/// The connection to a followed cluster, and what is known of it.
pub(in crate::commands) struct Source {
    pub(in crate::commands) client: Client,
    /// The recognisable parts of the cluster's own certificate authorities; empty if these are the
    /// system's.
    pub(super) authorities: Vec<String>,
    address: String,
    /// Whether callers' tokens may be sent to the cluster.
    pub(super) verified: Result<(), Unverified>,
    /// The proxy for reads of other kinds than events, if they are proxied.
    pub(super) pass_through: Option<PassThrough>,
    /// The name in the kubeconfigs of the user by whom the cluster is followed, if the user's token
    /// may be sent on.
    pub(super) passed_user: Option<String>,
    /// The namespace of the context by which the cluster is followed, if it names one.
    pub(super) namespace: Option<String>,
    /// When the client certificate of the kubeconfig ends, if it has one.
    pub(super) client_certificate_ends: Option<Timestamp>,
    /// Whether the cluster reviews tokens and permissions.
    pub(in crate::commands) is_asked: bool,
}

/// Makes the proxy to the cluster, without the credentials by which it is followed. `None` if no
/// token may be sent to the cluster.
pub(super) fn pass_through(config: &Config) -> Result<Option<PassThrough>, PassThroughError> {
    if verified(config).is_err() {
        return Ok(None);
    }
    let authority = config.root_cert.as_ref().map(|certificates| {
        let certificates = certificates.iter().map(|certificate| pem(certificate));
        certificates.collect::<String>()
    });
    let mut options = PassThroughOptions::default();
    options.authority_pem = authority.map(String::into_bytes);
    options.server_name.clone_from(&config.tls_server_name);
    options.proxy.clone_from(&config.proxy_url);
    let address = config.cluster_url.to_string();
    PassThrough::with_options(&address, &options).map(Some)
}

impl Source {
    /// Makes a client of a cluster by a configuration whose files were all read. Waits for the
    /// program that prints the credentials, if there is one.
    pub(in crate::commands) async fn new(
        cluster: &str,
        config: Config,
        pass_through: Option<PassThrough>,
        is_asked: bool,
    ) -> Result<Self, NotConnected> {
        let address = config.cluster_url.to_string();
        let verified = verified(&config);
        let authorities = config.root_cert.as_deref().map(authorities);
        let client_certificate_ends = client_certificate_end(&config.auth_info);
        let client = connection::client(cluster, config).await?;
        Ok(Self {
            client,
            authorities: authorities.unwrap_or_default(),
            address,
            verified,
            pass_through,
            passed_user: None,
            namespace: None,
            client_certificate_ends,
            is_asked,
        })
    }

    pub(in crate::commands) fn reviewer(&self) -> Reviewing {
        Reviewing::of(self.client.clone(), self.address.clone(), self.verified)
    }
}

/// When the client certificate in a kubeconfig ends. That of a credential program is not known.
fn client_certificate_end(user: &AuthInfo) -> Option<Timestamp> {
    let pem = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => STANDARD.decode(data).ok()?,
        (None, Some(path)) => std::fs::read(path).ok()?,
        (None, None) => return None,
    };
    certificate_end(&pem)
}

/// The recognisable parts of certificate authorities; empty if they are many.
fn authorities(certificates: &[Vec<u8>]) -> Vec<String> {
    if certificates.len() > AUTHORITIES_MAX {
        return Vec::new();
    }
    let telling = |certificate: &Vec<u8>| {
        let from = certificate.len().saturating_sub(TELLING);
        STANDARD.encode(certificate.get(from..).unwrap_or_default())
    };
    certificates.iter().map(telling).collect()
}

/// A certificate in PEM.
fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change<'a> = &'a dyn Fn(&mut Config);

    fn certificate() -> Vec<u8> {
        let own = rcgen::generate_simple_self_signed(["api.example".to_owned()]).unwrap();
        own.cert.der().to_vec()
    }

    #[test]
    fn requests_are_passed_by_the_way_that_the_cluster_is_followed_by() {
        let of = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
            config.root_cert = Some(vec![certificate()]);
            change(&mut config);
            pass_through(&config).map_err(|error| error.to_string())
        };
        for change in [
            // A certificate that is not verified, whatever authority is named.
            &(|config: &mut Config| config.accept_invalid_certs = true) as Change<'_>,
            &|config| config.cluster_url = "http://10.0.0.1".parse().unwrap(),
            &|config| config.cluster_url = "http://127.0.0.1:8001".parse().unwrap(),
        ] {
            assert!(matches!(of(change), Ok(None)));
        }
        for proxy in ["http://a:b@proxy:3128", "https://proxy", "socks5://proxy"] {
            let way = of(&|config| {
                config.proxy_url = Some(proxy.parse().unwrap());
                config.tls_server_name = Some("api.example".to_owned());
            });
            assert!(matches!(way, Ok(Some(_))), "{proxy}: {way:?}");
        }
        let refused: [(Change<'_>, &str); 3] = [
            (
                &|config| config.proxy_url = Some("ftp://a:secret@proxy".parse().unwrap()),
                "not a proxy",
            ),
            (
                &|config| config.tls_server_name = Some("not a name".to_owned()),
                "not a name of a server",
            ),
            // An empty list of authorities differs from none.
            (
                &|config| config.root_cert = Some(Vec::new()),
                "not usable certificates",
            ),
        ];
        for (change, expected) in refused {
            let error = of(change).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn authorities_are_told_apart_unless_they_are_many() {
        let [one, other] = [certificate(), certificate()];
        let told = authorities(&[one.clone(), other]);
        assert_eq!(told.len(), 2);
        assert_ne!(told[0], told[1]);
        assert_eq!(authorities(std::slice::from_ref(&one)), told[..1]);
        assert_eq!(authorities(&vec![one; 9]), Vec::<String>::new());
        assert_eq!(authorities(&[Vec::new()]), [""]);
    }

    /// The test machine may have no root certificates; the error shows that they were looked for.
    #[test]
    fn without_an_authority_the_systems_roots_are_taken() {
        let config = Config::new("https://10.0.0.1:6443".parse().unwrap());
        match pass_through(&config) {
            Ok(Some(_)) | Err(PassThroughError::Roots { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
