//! Whether a program may write the events it wants to write, asked of the cluster before it matters.

use std::fmt;

use http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};
use tidings_core::EventApi;

use super::KubeSink;

/// What a recorder needs to be allowed: client-go's recorders need no more.
const VERBS: [&str; 2] = ["create", "patch"];

/// Why events cannot be written, or why that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// They will be refused. The message has the rule that is missing, to be pasted into a Role or ClusterRole.
    #[error("{}", Denied { verbs, api: *api, namespace })]
    Denied {
        /// The verbs that are not allowed, of `create` and `patch`.
        verbs: Vec<&'static str>,
        /// In which API group.
        api: EventApi,
        /// In which namespace; empty for all of them.
        namespace: String,
    },
    /// The cluster did not answer, or not with an access review.
    #[error("could not ask the cluster whether events may be written: {0}")]
    Unknown(#[source] Box<kube::Error>),
}

struct Denied<'a> {
    verbs: &'a [&'static str],
    api: EventApi,
    namespace: &'a str,
}

impl fmt::Display for Denied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = self.verbs.join(" or ");
        let (group, namespace) = (group(self.api), self.namespace);
        let group = if group.is_empty() {
            "the core API group"
        } else {
            group
        };
        write!(f, "may not {verbs} events of {group} in ")?;
        if namespace.is_empty() {
            write!(
                f,
                "all namespaces: bind its service account to a ClusterRole"
            )?;
        } else {
            write!(
                f,
                "namespace {namespace:?}: bind its service account there to a Role"
            )?;
        }
        write!(f, " with this rule:\n{}", rules_for(self.api))
    }
}

fn group(api: EventApi) -> &'static str {
    match api {
        EventApi::Core => "",
        EventApi::Events => "events.k8s.io",
    }
}

/// The rule that a Role or ClusterRole needs for recording events as `api`, as YAML.
///
/// ```
/// use tidings::{EventApi, rules_for};
///
/// assert_eq!(
///     rules_for(EventApi::Events),
///     r#"- apiGroups: ["events.k8s.io"]
///   resources: ["events"]
///   verbs: ["create", "patch"]
/// "#
/// );
/// ```
pub fn rules_for(api: EventApi) -> String {
    format!(
        "- apiGroups: [{:?}]\n  resources: [\"events\"]\n  verbs: [\"create\", \"patch\"]\n",
        group(api)
    )
}

impl KubeSink {
    /// Asks the cluster whether this sink may create and patch events of `api` in `namespace`, or in all namespaces if that is empty: two
    /// SelfSubjectAccessReviews, which every authenticated user may make. Of a sink of one namespace ([`KubeSink::namespace`]) that one is
    /// meant, and `namespace` is ignored.
    ///
    /// Ask at start, where somebody looks: an event that is refused later is counted and logged, but gone. Events about cluster-scoped objects
    /// go where [`BroadcasterOptions::cluster_scoped_namespace`](crate::BroadcasterOptions::cluster_scoped_namespace) says, which is a namespace
    /// to ask about, too.
    ///
    /// ```no_run
    /// # async fn start(sink: tidings::KubeSink) {
    /// use tidings::EventApi;
    ///
    /// if let Err(error) = sink.check_access(EventApi::Core, "").await {
    ///     eprintln!("this program {error}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AccessError::Denied`] with the rule that is missing, or [`AccessError::Unknown`] when there was no answer.
    pub async fn check_access(&self, api: EventApi, namespace: &str) -> Result<(), AccessError> {
        let namespace = self.only_namespace().unwrap_or(namespace);
        let mut denied = Vec::new();
        for verb in VERBS {
            if !self.is_allowed(verb, api, namespace).await? {
                denied.push(verb);
            }
        }
        if denied.is_empty() {
            return Ok(());
        }
        Err(AccessError::Denied {
            verbs: denied,
            api,
            namespace: namespace.to_owned(),
        })
    }

    async fn is_allowed(
        &self,
        verb: &str,
        api: EventApi,
        namespace: &str,
    ) -> Result<bool, AccessError> {
        let unknown = |error| AccessError::Unknown(Box::new(error));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": group(api), "resource": "events", "verb": verb, "namespace": namespace,
            }},
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(review.to_string().into_bytes()))
            .map_err(|error| unknown(kube::Error::HttpError(error)))?;
        let answer: Value = self.ask(request).await.map_err(unknown)?;
        answer["status"]["allowed"].as_bool().ok_or_else(|| {
            let message = "the answer is no SelfSubjectAccessReview with a status";
            unknown(kube::Error::Service(message.into()))
        })
    }
}
