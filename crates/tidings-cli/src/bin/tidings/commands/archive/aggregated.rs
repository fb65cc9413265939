//! The archive's API group in the cluster it runs in: how that cluster's API server is recognized,
//! and how it recognizes the archive.
//!
//! The API server's authority and headers are read from the ConfigMap
//! `kube-system/extension-apiserver-authentication` and watched, or given by flags. The archive's
//! own authority is written into its `APIService`, and nothing else of it. Two archives behind one
//! Service write theirs side by side.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use http::{Request, header};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tidings_cli::clusters::ClusterSetting;
use tidings_server::{AggregatedOptions, Aggregation, PAST_API_SERVICE, RequestHeader};
use tokio::time::timeout;

use super::clusters::Defaults;
use crate::commands::cluster::with_sources;

/// The ConfigMap that says how the API server is recognized, and its namespace.
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// Time of one watch of the ConfigMap, in seconds. The API server ends longer ones.
const WATCH_SECONDS: u32 = 290;
/// Time after which a watch of the ConfigMap is begun anew, even if it seems to last: a connection
/// may be lost without an error. The API server ends the watch before that.
const FOLLOW_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 60);
/// Time after which writing the authority into the `APIService` is given up, and tried again.
const WRITE_MAX: Duration = Duration::from_secs(60);
const SILENT: &str = "the API server does not answer";
/// Pause between two watches.
const AGAIN: Duration = Duration::from_secs(1);
/// Pause after a failure, and between two looks at the `APIService`.
const PAUSE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(60);
/// Maximum certificates in the `APIService`: those of archives that are gone are not kept for ever.
const BUNDLE_MAX: usize = 8;
const END: &str = "-----END CERTIFICATE-----";

/// The API group in the cluster the archive runs in.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "API group")]
pub(crate) struct AggregatedFlags {
    /// Service before this archive, NAMESPACE/NAME: the API server of the first cluster serves what
    /// is past there to its users, as pastevents
    ///
    /// They need list on pastevents of the group archive.tidings.internal (tidings rbac
    /// past-events). The cluster's APIService must name the Service; without --tls-cert-file the
    /// archive makes the certificate, and writes its authority there (caBundle). Implies
    /// --cluster-access for that cluster.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service, conflicts_with = "no_follow")]
    api_service: Option<Service>,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    namespace: String,
    name: String,
}

fn service(text: &str) -> Result<Service, String> {
    let is_label = |text: &str| tidings_core::validate::check_dns1123_label(text).is_empty();
    let parts = text.split_once('/');
    parts
        .filter(|(namespace, name)| is_label(namespace) && is_label(name))
        .map(|(namespace, name)| Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
        .ok_or_else(|| "expected NAMESPACE/NAME of a Service, such as tidings/tidings".to_owned())
}

impl Service {
    /// The names by which the Service is reached.
    fn names(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
            format!("{name}.{namespace}"),
            name.clone(),
        ]
    }
}

impl AggregatedFlags {
    /// The server's options, if the API group is served; `home` is the first cluster's name.
    pub(super) fn options(
        &self,
        home: Option<&str>,
    ) -> Result<Option<AggregatedOptions>, Box<dyn Error>> {
        if self.api_service.is_none() {
            return Ok(None);
        }
        let home = home.ok_or("--api-service: no cluster is named that this archive runs in")?;
        Ok(Some(AggregatedOptions::new(home)))
    }

    /// The names of the Service, for the archive's own certificate.
    pub(super) fn names(&self) -> Vec<String> {
        self.api_service
            .as_ref()
            .map_or_else(Vec::new, Service::names)
    }

    /// What is left to do while the archive runs; `None` if the API group is not served.
    pub(super) fn keeper(
        &self,
        home: ClusterSetting,
        defaults: Arc<super::clusters::Defaults>,
        aggregation: Aggregation,
    ) -> Option<Keeper> {
        Some(Keeper {
            service: self.api_service.clone()?,
            home,
            defaults,
            aggregation,
        })
    }
}

/// Keeps the API server and the archive known to each other.
pub(super) struct Keeper {
    service: Service,
    home: ClusterSetting,
    defaults: Arc<Defaults>,
    aggregation: Aggregation,
}

/// Logs a problem once, until it is another one or over.
#[derive(Default)]
struct Told(String);

impl Told {
    fn problem(&mut self, what: &str, why: &str) {
        if self.0 != why {
            tracing::error!(error = why, "{what}");
            why.clone_into(&mut self.0);
        }
    }

    fn over(&mut self) {
        self.0.clear();
    }
}

impl Keeper {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        let config_map = async {
            let mut told = Told::default();
            loop {
                let followed = timeout(FOLLOW_MAX, self.follow_config_map(&mut told)).await;
                let pause = match followed.unwrap_or_else(|_| Err(SILENT.to_owned())) {
                    Ok(()) => AGAIN,
                    Err(why) => {
                        told.problem(
                            "the ConfigMap kube-system/extension-apiserver-authentication is not \
                             read; what it said before stays in force",
                            &why,
                        );
                        PAUSE
                    }
                };
                tokio::time::sleep(pause).await;
            }
        };
        let api_service = async {
            let mut told = Told::default();
            loop {
                let written = timeout(WRITE_MAX, self.write_authority()).await;
                let pause = match written.unwrap_or_else(|_| Err(SILENT.to_owned())) {
                    Ok(()) => {
                        told.over();
                        LOOK
                    }
                    Err(why) => {
                        let what = "the archive's authority is not in its APIService";
                        told.problem(what, &why);
                        PAUSE
                    }
                };
                tokio::time::sleep(pause).await;
            }
        };
        tokio::join!(config_map, api_service);
    }

    /// A client with the cluster's current credentials.
    async fn client(&self) -> Result<Client, String> {
        let source = self.defaults.connect(&self.home).await;
        source
            .map(|source| source.client)
            .map_err(|error| error.to_string())
    }

    /// Reads the ConfigMap, and again with every change, until a watch of it ends.
    async fn follow_config_map(&self, told: &mut Told) -> Result<(), String> {
        let failed = |error: kube::Error| with_sources(&error);
        let client = self.client().await?;
        let config_maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let read = config_maps.get(CONFIG_MAP).await.map_err(failed)?;
        self.trust(&read).await?;
        told.over();
        let version = read.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default()
            .fields(&format!("metadata.name={CONFIG_MAP}"))
            .timeout(WATCH_SECONDS);
        let watched = config_maps.watch(&params, &version).await.map_err(failed)?;
        let mut watched = std::pin::pin!(watched);
        while let Some(event) = watched.next().await {
            match event.map_err(failed)? {
                WatchEvent::Added(read) | WatchEvent::Modified(read) => self.trust(&read).await?,
                WatchEvent::Deleted(_) => return Err("it was deleted".to_owned()),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(status.message),
            }
        }
        Ok(())
    }

    async fn trust(&self, config_map: &ConfigMap) -> Result<(), String> {
        let settings = settings_of(config_map)?;
        let trusted = self.aggregation.trust_front_proxy(settings).await;
        trusted.map_err(|error| error.to_string())
    }

    /// Writes the archive's own authority into its `APIService`, unless it is there.
    async fn write_authority(&self) -> Result<(), String> {
        let Some(own) = self.aggregation.own_authority_pem() else {
            return Ok(());
        };
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{PAST_API_SERVICE}");
        let client = self.client().await?;
        let send =
            async |request: http::request::Builder, body: Vec<u8>| -> Result<Value, String> {
                let request = request.header(header::ACCEPT, "application/json");
                let request = request.body(body).map_err(|error| error.to_string())?;
                client
                    .request(request)
                    .await
                    .map_err(|error| with_sources(&error))
            };
        let found = send(Request::get(&path), Vec::new()).await?;
        let Some(bundle) = self.service.bundle(&found, &own)? else {
            return Ok(());
        };
        let patch = json!({
            // Another archive may write its own at the same time.
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"caBundle": STANDARD.encode(bundle)},
        });
        let request = Request::patch(&path);
        let request = request.header(header::CONTENT_TYPE, "application/merge-patch+json");
        send(request, patch.to_string().into_bytes()).await?;
        tracing::info!(
            api_service = PAST_API_SERVICE,
            "the archive's authority is written"
        );
        Ok(())
    }
}

impl Service {
    /// The authorities that the `APIService` should have; `None` if it has this one.
    fn bundle(&self, found: &Value, own: &str) -> Result<Option<String>, String> {
        let service = &found["spec"]["service"];
        if service["namespace"] != self.namespace.as_str() || service["name"] != self.name.as_str()
        {
            return Err(format!(
                "{PAST_API_SERVICE} is of another Service than --api-service={}/{}",
                self.namespace, self.name
            ));
        }
        if found["spec"]["insecureSkipTLSVerify"] == true {
            return Err(format!(
                "{PAST_API_SERVICE} has insecureSkipTLSVerify; remove that, so that the certificate is verified"
            ));
        }
        let bundle = found["spec"]["caBundle"].as_str().unwrap_or_default();
        let bundle = STANDARD.decode(bundle).unwrap_or_default();
        let bundle = String::from_utf8(bundle).unwrap_or_default();
        let own = certificates(own);
        let others = certificates(&bundle);
        if own.iter().all(|certificate| others.contains(certificate)) {
            return Ok(None);
        }
        let others = others.into_iter().filter(|other| !own.contains(other));
        let all = own.iter().cloned().chain(others).take(BUNDLE_MAX);
        Ok(Some(all.collect()))
    }
}

/// The certificates of a text in PEM, each with a line break at its end.
fn certificates(pem: &str) -> Vec<String> {
    let parts = pem.split_inclusive(END).map(str::trim);
    let parts = parts.filter(|part| part.ends_with(END));
    parts.map(|part| format!("{part}\n")).collect()
}

/// The settings in the ConfigMap.
fn settings_of(config_map: &ConfigMap) -> Result<RequestHeader, String> {
    let data = config_map.data.as_ref();
    let text = |key: &str| data.and_then(|data| data.get(key));
    let pem = text("requestheader-client-ca-file");
    let pem = pem.ok_or("it has no requestheader-client-ca-file: the API server does not proxy")?;
    let list = |key: &str| -> Result<Option<Vec<String>>, String> {
        let list = text(key).map(|list| serde_json::from_str(list));
        list.transpose()
            .map_err(|error| format!("{key} is no list of names: {error}"))
    };
    let mut settings = RequestHeader::new(pem.as_bytes());
    settings.allowed_names = list("requestheader-allowed-names")?.unwrap_or_default();
    for (setting, key) in [
        (
            &mut settings.username_headers,
            "requestheader-username-headers",
        ),
        (&mut settings.uid_headers, "requestheader-uid-headers"),
        (&mut settings.group_headers, "requestheader-group-headers"),
        (
            &mut settings.extra_headers_prefix,
            "requestheader-extra-headers-prefix",
        ),
    ] {
        // A header that the API server does not name is not believed.
        *setting = list(key)?.unwrap_or_default();
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config_map(data: &[(&str, &str)]) -> ConfigMap {
        let data = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        ConfigMap {
            data: Some(data.collect::<BTreeMap<_, _>>()),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn the_api_server_says_by_what_it_is_recognized() {
        let found = settings_of(&config_map(&[
            ("client-ca-file", "clients"),
            ("requestheader-client-ca-file", "front"),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ]))
        .unwrap();
        let mut expected = RequestHeader::new("front");
        expected.allowed_names = vec!["front-proxy-client".to_owned()];
        // Older API servers name no header for uids.
        expected.uid_headers.clear();
        assert_eq!(found, expected);
        for (data, said) in [
            (
                &[("client-ca-file", "clients")][..],
                "no requestheader-client-ca-file",
            ),
            (
                &[
                    ("requestheader-client-ca-file", "a"),
                    ("requestheader-allowed-names", "front"),
                ],
                "requestheader-allowed-names is no list",
            ),
        ] {
            let error = settings_of(&config_map(data)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn an_authority_is_written_beside_those_of_other_archives() {
        let service = service("tidings/archive").unwrap();
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{END}\n");
        let found = |bundle: &str| {
            let mut found =
                json!({"spec": {"service": {"namespace": "tidings", "name": "archive"}}});
            if !bundle.is_empty() {
                found["spec"]["caBundle"] = STANDARD.encode(bundle).into();
            }
            found
        };
        let [own, other] = [pem("own"), pem("other")];
        let bundle = |before: &str| service.bundle(&found(before), &own).unwrap();
        assert_eq!(bundle(""), Some(own.clone()));
        assert_eq!(bundle(&own), None);
        assert_eq!(bundle("none of it is PEM"), Some(own.clone()));
        assert_eq!(bundle(&other), Some(format!("{own}{other}")));
        assert_eq!(bundle(&format!("{other}\n\n{own}")), None);
        let many: String = (0..20).map(|number| pem(&number.to_string())).collect();
        let kept = bundle(&many).unwrap();
        assert!(kept.starts_with(&own));
        assert_eq!(kept.matches(END).count(), BUNDLE_MAX);

        for (found, said) in [
            (json!({"spec": {}}), "of another Service"),
            (
                json!({"spec": {"service": {"namespace": "a", "name": "archive"}}}),
                "of another Service",
            ),
            (
                json!({"spec": {
                    "service": {"namespace": "tidings", "name": "archive"}, "insecureSkipTLSVerify": true,
                }}),
                "insecureSkipTLSVerify",
            ),
        ] {
            let error = service.bundle(&found, &own).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn services_have_a_namespace_and_a_name() {
        let found = service("tidings/archive").unwrap().names();
        assert_eq!(found[0], "archive.tidings.svc");
        for text in ["tidings", "/a", "a/", "a/b/c", "A/b", "a/b.c"] {
            assert!(service(text).is_err(), "{text}");
        }
    }
}
