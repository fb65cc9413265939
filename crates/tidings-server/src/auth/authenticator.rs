//! Authentication by the headers of a front proxy, by client certificate, by a token of this
//! server, or by a token of a cluster.
//!
//! The order is this one. Headers were taken from the request when it arrived ([`Fronted`]); here
//! nothing reads them. Invalid credentials are refused even if anonymous requests are allowed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, header, request};
use jiff::Timestamp;
use parking_lot::RwLock;

use super::User;
use super::certificate::{ClientAuthority, PeerCertificate};
use super::cluster::TokenReviews;
use super::counters::AccessCounters;
use super::front_proxy::{FrontProxy, Fronted};
use super::reviewer::Reviewer;
use super::tokens::{Token, TokenTable, bearer, digest_of};

/// Paths open to clients without credentials, such as probes, as in kube-apiserver's default
/// policy.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Finds the user of a request by token or certificate.
#[derive(Default)]
pub struct Authenticator {
    known: Arc<Known>,
    cluster: Option<TokenReviews>,
    /// The only followed cluster whose events users of `cluster` may read; `None` for all.
    home: Option<Arc<str>>,
    anonymous: bool,
}

/// Users that are known without asking a cluster.
#[derive(Default)]
struct Known {
    tokens: RwLock<Arc<TokenTable>>,
    client_authority: RwLock<Option<ClientAuthority>>,
    front_proxy: RwLock<Option<Arc<FrontProxy>>>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator")
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

/// The credentials by which a user was found.
#[derive(Clone, Debug)]
pub(crate) enum KnownBy {
    /// No credentials.
    Nothing,
    /// The headers of a front proxy.
    FrontProxy,
    /// A client certificate.
    Certificate,
    /// A token of the server's own.
    OwnToken,
    /// A token that a cluster knows, as the `Authorization` header for proxied requests.
    ClusterToken(HeaderValue),
}

/// The reason why no user was found.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The credentials are invalid or missing. It has the reason why a certificate is not accepted,
    /// if there is one.
    Unauthorized(Option<String>),
    /// The credentials could not be checked.
    Unchecked,
}

impl Authenticator {
    /// An authenticator that accepts these tokens.
    pub fn new(tokens: Vec<Token>) -> Self {
        let authenticator = Self::default();
        authenticator.replace_tokens(tokens);
        authenticator
    }

    /// Sets whether requests without credentials are accepted for all paths. Their user is
    /// `system:anonymous` of `system:unauthenticated`. By default they are accepted only for health
    /// and version.
    #[must_use]
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Asks a cluster about unknown tokens, at most 100 at once.
    ///
    /// Answers are cached for ten seconds: at most 16,384 accepting ones and 4,096 of any kind.
    /// Tokens that were not accepted before share 75 of the 100 places, in turns by peer address. A
    /// request that gets no place within five seconds is refused with 503. A cluster that is not
    /// [verified](Reviewer::is_verified) is not asked. `system:masters` in an answer is ignored.
    #[must_use]
    pub fn ask_cluster(mut self, cluster: Arc<dyn Reviewer>) -> Self {
        let asked = Some(cluster).filter(|cluster| cluster.is_verified());
        self.cluster = asked.map(TokenReviews::new);
        self
    }

    /// The users of the cluster that is asked are those of the followed cluster of this name. They
    /// are nobody in other followed clusters.
    #[must_use]
    pub(crate) fn at_home(mut self, home: &str) -> Self {
        self.home = Some(home.into());
        self
    }

    /// The authenticator for the followed cluster of this name. It shares the known users, and asks
    /// that cluster, if there is a way to. Users known by the cluster belong to the cluster.
    /// Changes of the shared users apply to both. The cache is a sixteenth of the usual size,
    /// because there may be many such authenticators.
    pub(crate) fn of_cluster(
        self: &Arc<Self>,
        cluster: Option<Arc<dyn Reviewer>>,
        name: &str,
    ) -> Arc<Self> {
        if cluster.is_none() && self.home.as_deref().is_none_or(|home| home == name) {
            return Arc::clone(self);
        }
        let asked = cluster.filter(|cluster| cluster.is_verified());
        Arc::new(Self {
            known: Arc::clone(&self.known),
            cluster: asked.map(|cluster| TokenReviews::of_cluster(cluster, name)),
            home: self.home.clone(),
            anonymous: self.anonymous,
        })
    }

    /// Replaces the tokens, for requests from now on.
    pub fn replace_tokens(&self, tokens: Vec<Token>) {
        *self.known.tokens.write() = Arc::new(TokenTable::new(tokens));
    }

    pub(crate) fn replace_client_authority(&self, authority: ClientAuthority) {
        *self.known.client_authority.write() = Some(authority);
    }

    pub(crate) fn replace_front_proxy(&self, front_proxy: FrontProxy) {
        *self.known.front_proxy.write() = Some(Arc::new(front_proxy));
    }

    /// The front proxy whose headers name users, if there is one.
    pub(crate) fn front_proxy(&self) -> Option<Arc<FrontProxy>> {
        self.known.front_proxy.read().clone()
    }

    /// Authenticates a request.
    pub(crate) async fn authenticate(
        &self,
        request: &request::Parts,
        wall: Timestamp,
        now: Instant,
        counters: &Arc<AccessCounters>,
    ) -> Result<(User, KnownBy), Refusal> {
        if let Some(Fronted(user)) = request.extensions.get() {
            return Ok((user.clone(), KnownBy::FrontProxy));
        }
        let authority = self.known.client_authority.read().clone();
        // Without an authority, certificates are neither requested nor used.
        let certificate = authority
            .as_ref()
            .and_then(|_| request.extensions.get::<Arc<PeerCertificate>>());
        let mut why = None;
        if let (Some(authority), Some(certificate)) = (&authority, certificate) {
            match certificate.user(authority, wall) {
                Ok(user) => return Ok((user, KnownBy::Certificate)),
                Err(refused) => why = Some(refused),
            }
        }
        let Some(shown) = bearer_token(&request.headers) else {
            let nothing_shown =
                certificate.is_none() && !request.headers.contains_key(header::AUTHORIZATION);
            let open = self.anonymous || PUBLIC_PATHS.contains(&request.uri.path());
            return if nothing_shown && open {
                Ok((User::anonymous(), KnownBy::Nothing))
            } else {
                Err(Refusal::Unauthorized(why))
            };
        };
        let tokens = self.known.tokens.read().clone();
        if let Some(user) = tokens.find(&digest_of(shown)) {
            return Ok((user.clone(), KnownBy::OwnToken));
        }
        let Some(cluster) = &self.cluster else {
            return Err(Refusal::Unauthorized(why));
        };
        let peer: Option<&SocketAddr> = request.extensions.get();
        let peer = peer.map(SocketAddr::ip);
        match cluster.user(shown, peer, now, counters).await {
            Ok(Some(user)) => {
                // This cannot fail, because the token comes from a header's value.
                let again = bearer(shown).map_err(|_| Refusal::Unchecked)?;
                Ok((user, KnownBy::ClusterToken(again)))
            }
            Ok(None) => Err(Refusal::Unauthorized(why)),
            Err(error) => {
                let cluster = cluster.name();
                tracing::warn!(
                    cluster, %error,
                    "a token could not be checked; the request is refused"
                );
                Err(Refusal::Unchecked)
            }
        }
    }
}

/// The token of a `Bearer` header: the word after one space. Anything after another space is
/// ignored, as upstream.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let mut parts = value.trim().splitn(3, ' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tidings_store::BoxFuture;
    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;
    use crate::auth::ReviewError;
    use crate::clock;

    async fn find(authenticator: &Authenticator, path: &str, credentials: Option<&str>) -> String {
        let mut request = http::Request::get(path);
        if let Some(credentials) = credentials {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let counters = Arc::<AccessCounters>::default();
        match authenticator
            .authenticate(&parts, Timestamp::UNIX_EPOCH, clock::monotonic(), &counters)
            .await
        {
            Ok((user, _)) => user.name.clone(),
            Err(Refusal::Unauthorized(_)) => "Unauthorized".to_owned(),
            Err(refusal) => format!("{refusal:?}"),
        }
    }

    /// A cluster that cannot review.
    #[derive(Debug)]
    struct Other;

    impl Reviewer for Other {
        fn is_verified(&self) -> bool {
            true
        }

        fn review<'a>(
            &'a self,
            _: &'static str,
            _: Value,
        ) -> BoxFuture<'a, Result<Value, ReviewError>> {
            let message = "not found".to_owned();
            let refused = ReviewError::Refused { code: 404, message };
            Box::pin(std::future::ready(Err(refused)))
        }
    }

    /// The values of the field `cluster` in a log.
    #[derive(Clone, Default)]
    struct Named(Arc<RwLock<Vec<String>>>);

    impl Visit for Named {
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "cluster" {
                self.0.write().push(value.to_owned());
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    }

    impl Subscriber for Named {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    /// An archive asks many clusters, so the log must name the one.
    #[tokio::test]
    async fn a_log_names_the_cluster_that_could_not_check_a_token() {
        let named = Named::default();
        let _logged = tracing::subscriber::set_default(named.clone());
        let asking = Arc::new(Authenticator::new(Vec::new()));
        let asking = asking.of_cluster(Some(Arc::new(Other)), "prod");
        let found = find(&asking, "/api", Some("Bearer unknown")).await;
        assert_eq!(found, "Unchecked");
        assert_eq!(*named.0.read(), ["prod"]);
    }

    #[tokio::test]
    async fn only_known_tokens_are_let_in() {
        let token = |token: &str, name| Token {
            token: token.into(),
            user: User::new(name, "", []),
        };
        let known = vec![token("s3cret", "ann"), token("other", "bob")];
        let closed = Authenticator::new(known.clone());
        let open = Authenticator::new(known).anonymous(true);
        let no = "Unauthorized";
        for (credentials, with_anonymous, without) in [
            (Some("Bearer s3cret"), "ann", "ann"),
            (Some("bearer other "), "bob", "bob"),
            (Some("Bearer other more"), "bob", "bob"),
            (Some("Bearer  other"), no, no),
            (Some("Bearer s3cre"), no, no),
            (Some("Bearer s3crett"), no, no),
            (Some("Bearer "), no, no),
            (Some("Basic s3cret"), no, no),
            (Some("s3cret"), no, no),
            (Some(""), no, no),
            (None, "system:anonymous", no),
        ] {
            for (authenticator, expected) in [(&open, with_anonymous), (&closed, without)] {
                let found = find(authenticator, "/api", credentials).await;
                assert_eq!(found, expected, "{credentials:?}");
            }
        }
        for (path, expected) in [
            ("/healthz", "system:anonymous"),
            ("/readyz?verbose", "system:anonymous"),
            ("/version", "system:anonymous"),
            ("/healthz/ping", no),
            ("/healthz/", no),
            ("/metrics", no),
        ] {
            for (credentials, expected) in [(None, expected), (Some("Bearer wrong"), no)] {
                assert_eq!(find(&closed, path, credentials).await, expected, "{path}");
            }
        }
        closed.replace_tokens(vec![token("new", "eve")]);
        assert_eq!(find(&closed, "/api", Some("Bearer s3cret")).await, no);
        assert_eq!(find(&closed, "/api", Some("Bearer new")).await, "eve");
        assert!(!format!("{closed:?} {:?}", token("s3cret", "ann")).contains("s3cret"));
    }
}
