//! A client of a cluster, whose credentials a program may give out.

use std::process::ExitStatus;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::client::AuthError;
use kube::config::AuthInfo;
use kube::{Client, Config};
use tidings_store::clock::SystemClock;

use super::program::{Credential, Program, ProgramError};
use super::tokens::{Tokens, with_tokens};

/// Why there is no client of a cluster.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum NotConnected {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Of a form of kubeconfigs that kubectl does not know any more.
    #[error("the program of the auth-provider failed: {0}")]
    AuthProvider(ExitStatus),
    #[error(transparent)]
    Client(kube::Error),
}

impl From<kube::Error> for NotConnected {
    fn from(error: kube::Error) -> Self {
        match error {
            // Its words have what was printed: there may be a token in it.
            kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => Self::AuthProvider(out.status),
            error => Self::Client(error),
        }
    }
}

/// A client, and what is known of its credentials.
pub(in crate::commands) struct Made {
    pub(in crate::commands) client: Client,
    /// Whether a program gives them out.
    pub(super) has_program: bool,
    /// When they end, in milliseconds since 1970, if the client does not replace them by itself.
    pub(super) valid_until: Option<i64>,
}

/// A client of a cluster with this configuration, which is whole. If a program gives out the
/// credentials, it is waited for. The name is for the log.
pub(in crate::commands) async fn client_of(
    cluster: &str,
    mut config: Config,
) -> Result<Made, NotConnected> {
    let program = Program::take(&mut config.auth_info);
    let has_program = program.is_some();
    let (mut tokens, mut valid_until) = (None, None);
    if let Some(program) = program {
        let given = program.run().await?;
        match &given.credential {
            Credential::Token(_) => {
                let clock = Arc::new(SystemClock);
                tokens = Some(Tokens::new(cluster, program, clock, &given)?);
            }
            Credential::Certificate { certificate, key } => {
                set_certificate(&mut config.auth_info, certificate, key);
                valid_until = given.ends;
            }
        }
    }
    let client = Client::try_from(config)?;
    Ok(Made {
        client: match tokens {
            Some(tokens) => with_tokens(client, tokens),
            None => client,
        },
        has_program,
        valid_until,
    })
}

/// Lets a user be known by a certificate, both in PEM.
fn set_certificate(user: &mut AuthInfo, certificate: &str, key: &str) {
    user.client_certificate_data = Some(STANDARD.encode(certificate));
    user.client_key_data = Some(STANDARD.encode(key).into());
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use kube::config::{AuthProviderConfig, ExecConfig, ExecInteractiveMode};

    use super::*;

    /// The client needs the certificate and its key: it would not be made with another one.
    #[tokio::test]
    async fn a_certificate_of_a_program_is_used_until_it_ends() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let own = rcgen::generate_simple_self_signed(["user".to_owned()]).unwrap();
        let of = async |key: String| {
            let printed = serde_json::json!({"status": {
                "clientCertificateData": own.cert.pem(),
                "clientKeyData": key,
                "expirationTimestamp": "2026-01-01T00:00:00Z",
            }});
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("printed");
            std::fs::write(&file, printed.to_string()).unwrap();
            let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
            config.root_cert = Some(vec![own.cert.der().to_vec()]);
            config.auth_info.exec = Some(ExecConfig {
                command: Some("cat".to_owned()),
                args: Some(vec![file.display().to_string()]),
                interactive_mode: Some(ExecInteractiveMode::Never),
                ..ExecConfig::default()
            });
            client_of("prod", config).await
        };
        let made = of(own.signing_key.serialize_pem()).await.ok().unwrap();
        assert!(made.has_program);
        assert_eq!(made.valid_until, Some(1_767_225_600_000));
        assert!(of("no key".to_owned()).await.is_err());
    }

    /// A program of the form that kubectl does not know any more printed it.
    #[tokio::test]
    async fn what_the_program_of_an_auth_provider_printed_is_not_told() {
        let mut config = Config::new("https://10.0.0.1:6443".parse().unwrap());
        let settings = [("cmd-path", "sh"), ("cmd-args", "/secret")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        config.auth_info.auth_provider = Some(AuthProviderConfig {
            name: "gcp".to_owned(),
            config: settings.into(),
            ..AuthProviderConfig::default()
        });
        let made = client_of("prod", config).await;
        let error = made.err().unwrap().to_string();
        assert!(
            error.contains("auth-provider failed: exit status"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
