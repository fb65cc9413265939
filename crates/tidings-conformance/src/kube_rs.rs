//! kube-rs's own recorder, unmodified: what it publishes is on the server, once, and a repeat makes
//! it a series.

use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event as Stored;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Config};

const NAMESPACE: &str = "kube-rs";

/// Why nothing could be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum KubeRsError {
    #[error("kube-rs cannot use the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("kube-rs: {0}")]
    Kube(#[from] kube::Error),
}

/// What is wrong on a server after its recorder was used; nothing, if all is well.
pub(crate) async fn judge(kubeconfig: &Path) -> Result<Option<String>, KubeRsError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.into());
    match namespaces.create(&PostParams::default(), &namespace).await {
        // Where namespaces are always there, none can be made.
        Err(kube::Error::Api(status)) if status.code == 405 => {}
        made => drop(made?),
    }
    let stored: Api<Stored> = Api::namespaced(client.clone(), NAMESPACE);
    let reporter = Reporter {
        controller: "example.com/controller".into(),
        instance: Some("controller-0".into()),
    };
    let recorder = Recorder::new(client, reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "BackOff".into(),
        note: Some("restarting".into()),
        action: "Restart".into(),
        secondary: None,
    };
    let pod = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some("web".into()),
        namespace: Some(NAMESPACE.into()),
        uid: Some("0f3c6a44-8a0b-4c1e-9f63-1d2f3a4b5c6d".into()),
        ..ObjectReference::default()
    };
    for series in [None, Some(2), Some(3)] {
        if let Err(error) = recorder.publish(&event, &pod).await {
            return Ok(Some(format!("publishing for series {series:?}: {error}")));
        }
        let selected = ListParams::default().fields("regarding.name=web,reason=BackOff");
        let found = stored.list(&selected).await?.items;
        let said: Vec<_> = found
            .iter()
            .map(|event| {
                let count = event.series.as_ref().map(|series| series.count);
                (count, event.note.as_deref(), event.type_.as_deref())
            })
            .collect();
        let expected = [(series, Some("restarting"), Some("Warning"))];
        if said != expected {
            return Ok(Some(format!("expected {expected:?}, found {said:?}")));
        }
    }
    Ok(None)
}
