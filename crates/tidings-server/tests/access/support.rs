//! A server, and clients with given credentials.

use std::path::{Path, PathBuf};

use base64::Engine;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SigningKey,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tempfile::TempDir;
use tidings_server::{Running, StartOptions, start};
use tidings_testing::serving::config;

/// Permissions: `ann` and `system:serviceaccount:shop:robot` do everything with events in `shop`,
/// `reader` reads them, `updater` changes existing ones, `stranger` does everything in `other`.
pub(crate) const PERMISSIONS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: events}
rules:
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, get, list, watch, update, patch, delete, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: right, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: events}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
- {kind: ServiceAccount, name: robot, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wrong, namespace: other}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: events}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: stranger}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: updater, namespace: shop}
rules: [{apiGroups: ["", events.k8s.io], resources: [events], verbs: [update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: updaters, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: updater}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: updater}]
"#;

/// The admin's token is the first, which is the one in the kubeconfig.
pub(crate) const TOKENS: &str = "t-admin,admin,1,\"system:masters\"\nt-ann,ann,2\nt-stranger,stranger,3\nt-reader,reader,4\nt-updater,updater,5\n";

pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) folder: TempDir,
}

/// A client's credentials.
#[derive(Clone)]
pub(crate) enum Credentials {
    Nothing,
    Token(String),
    Certificate(Signed),
}

pub(crate) fn token(token: &str) -> Credentials {
    Credentials::Token(token.into())
}

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// A client's certificate, valid from 2020 to the beginning of `until`.
    pub(crate) fn client(&self, name: &str, groups: &[&str], until: i32) -> Signed {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, until)
    }

    /// A certificate that may sign others.
    pub(crate) fn intermediate(&self, name: &str) -> Signed {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.sign(params, 2040)
    }

    /// A certificate of X.509 version 1, as from `openssl x509 -req` without extensions.
    pub(crate) fn version_1(&self, name: &str) -> Signed {
        const SEQUENCE: u8 = 0x30;
        const BIT_STRING: u8 = 0x03;
        const VERSION: u8 = 0xa0;
        const EXTENSIONS: u8 = 0xa3;
        let signed = self.client(name, &[], 2040);
        let certificate = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
        let parts = der_parts(der_parts(&certificate)[0].1);
        let fields: Vec<u8> = der_parts(parts[0].1)
            .iter()
            .filter(|(field, _)| ![VERSION, EXTENSIONS].contains(&field[0]))
            .flat_map(|(field, _)| field.iter().copied())
            .collect();
        let fields = der(SEQUENCE, &fields);
        let mut signature = vec![0];
        signature.extend(self.issuer.key().sign(&fields).unwrap());
        let certificate = der(
            SEQUENCE,
            &[&fields, parts[1].0, &der(BIT_STRING, &signature)].concat(),
        );
        let base64 = base64::engine::general_purpose::STANDARD.encode(certificate);
        Signed {
            certificate: format!(
                "-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n"
            ),
            ..signed
        }
    }

    /// A server's certificate for this machine.
    pub(crate) fn server(&self, until: i32) -> Signed {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, until)
    }

    fn sign(&self, mut params: CertificateParams, until: i32) -> Signed {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A value in DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut value = vec![tag];
    match len {
        [0, len] if len < 0x80 => value.push(len),
        [0, len] => value.extend([0x81, len]),
        [high, low] => value.extend([0x82, high, low]),
    }
    value.extend(content);
    value
}

/// Consecutive values in DER, each with its content.
fn der_parts(mut rest: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut parts = Vec::new();
    while let [_, first, more @ ..] = rest {
        let (head, len) = match (first, more) {
            (0x81, [len, ..]) => (3, usize::from(*len)),
            (0x82, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
            (len, _) => (2, usize::from(*len)),
        };
        let (whole, behind) = rest.split_at(head + len);
        parts.push((whole, &whole[head..]));
        rest = behind;
    }
    parts
}

impl Server {
    /// Starts a server with the tokens and permissions above, and options changed by `change`.
    pub(crate) async fn start(change: impl FnOnce(&mut StartOptions, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = StartOptions::new(folder.path().join("data"));
        options.secure_port = 0;
        options.token_auth_file = Some(write(folder.path(), "tokens.csv", TOKENS));
        options.security.authorization_rbac_file =
            Some(write(folder.path(), "rbac.yaml", PERMISSIONS));
        change(&mut options, folder.path());
        let running = start(options).await.unwrap();
        Self { running, folder }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        write(self.folder.path(), name, text)
    }

    /// A client with its own connections.
    pub(crate) async fn client(&self, credentials: &Credentials) -> Caller {
        Caller::new(config(self.running.kubeconfig()).await, credentials)
    }

    pub(crate) async fn as_admin(&self) -> Caller {
        self.client(&token("t-admin")).await
    }
}

impl Caller {
    /// A client with its own connections.
    pub(crate) fn new(mut config: Config, credentials: &Credentials) -> Self {
        // Without retries, even after a 503.
        config.default_retry = false;
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        config.auth_info = match credentials {
            Credentials::Nothing => AuthInfo::default(),
            Credentials::Token(token) => AuthInfo {
                token: Some(token.clone().into()),
                ..AuthInfo::default()
            },
            Credentials::Certificate(signed) => AuthInfo {
                client_certificate_data: Some(base64(&signed.certificate)),
                client_key_data: Some(base64(&signed.key).into()),
                ..AuthInfo::default()
            },
        };
        Self(Client::try_from(config).unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        self.0.clone()
    }
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) struct Caller(Client);

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Caller {
    /// Sends a request. Of a successful watch, only the status is read.
    pub(crate) async fn send(&self, method: Method, uri: &str, body: &Value) -> Answer {
        self.try_send(method, uri, &[], body).await.unwrap()
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.send(Method::GET, uri, &Value::Null).await
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Answer, kube::Error> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.send(request.body(body.into()).unwrap()).await?;
        let code = response.status().as_u16();
        let body = if uri.contains("watch=") && code == 200 {
            Value::Null
        } else {
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes)))
        };
        Ok(Answer { code, body })
    }
}
