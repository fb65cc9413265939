//! The credentials of a kubeconfig's user, as client-go chooses and sends them (`transport`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use kube::config::AuthInfo;
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tidings_store::clock::{Clock, SystemClock};

use super::program::{Certificate, Given, Program, ProgramError, bearer};
use super::tokens::{NoToken, Tokens};

/// Interval at which a token file is read, in milliseconds. client-go reads it once a minute, ten
/// seconds early.
const READ_AGAIN_MILLIS: i64 = 50_000;

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("the kubeconfig has a token or a name that cannot be sent: {0}")]
    Header(#[from] InvalidHeaderValue),
    #[error("read the tokenFile {}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

/// The credentials of a kubeconfig's user.
pub(super) enum Credentials {
    /// No credentials, or only a client certificate.
    None,
    /// A constant header: a token, or a name and a password.
    Header(HeaderValue),
    File(TokenFile),
    Program(Arc<Tokens>),
}

/// The credentials of one request.
#[derive(Clone)]
pub(super) enum Sent {
    Header(Option<HeaderValue>),
    Given(Arc<Given>),
}

impl Sent {
    pub(super) fn header(&self) -> Option<&HeaderValue> {
        match self {
            Self::Header(header) => header.as_ref(),
            Self::Given(given) => given.header.as_ref(),
        }
    }

    pub(super) fn certificate(&self) -> Option<&Certificate> {
        match self {
            Self::Header(_) => None,
            Self::Given(given) => given.certificate.as_ref(),
        }
    }

    /// Whether both have the same client certificate, or both have none.
    pub(super) fn has_certificate_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Given(own), Self::Given(other)) if Arc::ptr_eq(own, other) => true,
            _ => self.certificate().is_none() && other.certificate().is_none(),
        }
    }
}

impl Credentials {
    /// Takes all credentials except client certificates out of `user`, so that kube does not handle
    /// them. Reads a token file, and runs and waits for a credential program. The cluster's name is
    /// for the log.
    pub(super) async fn take(cluster: &str, user: &mut AuthInfo) -> Result<Self, CredentialsError> {
        let (token, file) = (user.token.take(), user.token_file.take());
        let (name, password) = (user.username.take(), user.password.take());
        let exec = user.exec.take();
        let token = token.as_ref().map(ExposeSecret::expose_secret);
        if let Some(path) = file {
            let clock = Arc::new(SystemClock);
            return TokenFile::open(Path::new(&path), token, clock).map(Self::File);
        }
        if let Some(token) = token {
            return Ok(Self::Header(bearer(token)?));
        }
        if name.is_some() || password.is_some() {
            let password = password.as_ref().map_or("", ExposeSecret::expose_secret);
            let login = format!("{}:{password}", name.unwrap_or_default());
            let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(login)))?;
            header.set_sensitive(true);
            return Ok(Self::Header(header));
        }
        let has_certificate =
            user.client_certificate.is_some() || user.client_certificate_data.is_some();
        match exec.filter(|_| !has_certificate) {
            Some(exec) => {
                let clock = Arc::new(SystemClock);
                let tokens = Tokens::of(cluster, Program::new(exec), clock).await?;
                Ok(Self::Program(tokens))
            }
            None => Ok(Self::None),
        }
    }

    /// The credentials for the next request.
    pub(super) async fn current(&self) -> Result<Sent, NoToken> {
        Ok(match self {
            Self::None => Sent::Header(None),
            Self::Header(header) => Sent::Header(Some(header.clone())),
            Self::File(file) => Sent::Header(Some(file.header())),
            Self::Program(tokens) => Sent::Given(tokens.current().await?),
        })
    }

    /// Records that the cluster rejected the credentials of a request.
    pub(super) async fn refused(&self, sent: &Sent) {
        if let (Self::Program(tokens), Sent::Given(given)) = (self, sent) {
            tokens.refused(given).await;
        }
    }
}

/// A token file that is read at intervals. While it cannot be read, the last token is used, because
/// some files are missing for a short time.
pub(super) struct TokenFile {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// The token, and when it was read.
    read: Mutex<(HeaderValue, i64)>,
}

impl TokenFile {
    /// Opens a token file. If it cannot be read, the kubeconfig's own token is used, if there is
    /// one.
    fn open(
        path: &Path,
        other: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CredentialsError> {
        let header = match (token_in(path), other) {
            (Ok(header), _) => header,
            (Err(_), Some(other)) => bearer(other)?,
            (Err(why), None) => {
                let path = path.to_owned();
                return Err(CredentialsError::File { path, why });
            }
        };
        let read = Mutex::new((header, clock.now().0));
        let path = path.to_owned();
        Ok(Self { path, clock, read })
    }

    /// The token as a header.
    fn header(&self) -> HeaderValue {
        let now = self.clock.now().0;
        let mut read = self.read.lock();
        let (header, at) = &mut *read;
        if !(*at..at.saturating_add(READ_AGAIN_MILLIS)).contains(&now) {
            if let Ok(new) = token_in(&self.path) {
                *header = new;
            }
            *at = now;
        }
        header.clone()
    }
}

/// The token in a file, without the line break at its end.
fn token_in(path: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        token => bearer(token).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tidings_store::UnixMillis;
    use tidings_store::clock::ManualClock;

    use super::*;

    /// client-go `transport` TestCachingTokenSource and TestFileTokenSource.
    #[test]
    fn a_file_of_a_token_is_read_again_and_the_former_token_outlives_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let clock = ManualClock::at(UnixMillis(1_000));
        let open = |other| TokenFile::open(&path, other, Arc::new(clock.clone()));
        let told = |file: &TokenFile| file.header().to_str().unwrap().to_owned();
        assert!(open(None).is_err());
        // The kubeconfig's token is used until the file exists.
        let other = open(Some("other")).unwrap();
        assert_eq!(told(&other), "Bearer other");
        write(" \n");
        assert!(open(None).is_err());
        write("one\r\n");
        let file = open(Some("other")).unwrap();
        write("two\n");
        for (millis, expected) in [(READ_AGAIN_MILLIS - 1, "Bearer one"), (1, "Bearer two")] {
            clock.advance(millis);
            assert_eq!(told(&file), expected);
        }
        assert_eq!(told(&other), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        clock.advance(READ_AGAIN_MILLIS);
        assert_eq!(told(&file), "Bearer two");
    }

    #[tokio::test]
    async fn some_credentials_come_before_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "file\n").unwrap();
        let file = || Some(path.display().to_string());
        let text = |text: &str| Some(text.to_owned());
        let secret = |text: &str| Some(text.to_owned().into());
        let exec = || Some(kube::config::ExecConfig::default());
        let none = AuthInfo::default;
        for (mut user, expected) in [
            (none(), None),
            (
                AuthInfo {
                    token: secret("t"),
                    ..none()
                },
                Some("Bearer t"),
            ),
            (
                AuthInfo {
                    token: secret("t"),
                    token_file: file(),
                    ..none()
                },
                Some("Bearer file"),
            ),
            (
                AuthInfo {
                    token_file: file(),
                    exec: exec(),
                    ..none()
                },
                Some("Bearer file"),
            ),
            (
                AuthInfo {
                    username: text("a"),
                    exec: exec(),
                    ..none()
                },
                Some("Basic YTo="),
            ),
            (
                AuthInfo {
                    username: text("a"),
                    password: secret("b"),
                    ..none()
                },
                Some("Basic YTpi"),
            ),
            (
                AuthInfo {
                    client_certificate: text("/c"),
                    exec: exec(),
                    ..none()
                },
                None,
            ),
        ] {
            let taken = Credentials::take("prod", &mut user).await.unwrap();
            let sent = taken.current().await.unwrap();
            let header = sent.header().map(|header| header.to_str().unwrap());
            assert_eq!(header, expected);
            assert!(user.token.is_none() && user.token_file.is_none() && user.exec.is_none());
        }
        let mut wrong = AuthInfo {
            token: secret("a\nb"),
            ..none()
        };
        assert!(Credentials::take("prod", &mut wrong).await.is_err());
    }
}
