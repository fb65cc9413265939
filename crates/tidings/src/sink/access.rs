//! Access checks: asks the cluster in advance whether events may be written.

use http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};
use tidings_core::EventApi;

use super::KubeSink;
use super::access_error::{AccessError, group};

/// The verbs that a recorder needs, the same as client-go's.
const VERBS: [&str; 2] = ["create", "patch"];

impl KubeSink {
    /// Asks the cluster whether this sink may create and patch events of `api` in `namespace`, or
    /// in all namespaces if that is empty. It makes two SelfSubjectAccessReviews, which every
    /// authenticated user may make. A sink of one namespace ([`KubeSink::namespace`]) asks for that
    /// namespace, and ignores `namespace`.
    ///
    /// Call it at start, when operators are watching: a later refusal is counted and logged, but
    /// its event is lost. Events about cluster-scoped objects are written to
    /// [`BroadcasterOptions::cluster_scoped_namespace`](crate::BroadcasterOptions::cluster_scoped_namespace),
    /// so check that namespace, too.
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
    /// [`AccessError::Denied`] with the missing rule, or [`AccessError::Unknown`] if there was no
    /// answer.
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
