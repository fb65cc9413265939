//! kube-rs's own recorder and watcher, unmodified: what the recorder publishes is on the server,
//! once, and a repeat makes it a series; the watcher of an archive shows what its source receives,
//! once, in order, however often its watch ends.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;

use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event as Stored;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use tokio::time::{sleep, timeout};

use crate::error::Result;

const NAMESPACE: &str = "kube-rs";

async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Creates a namespace if it does not exist.
async fn be_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.into());
    match namespaces.create(&PostParams::default(), &namespace).await {
        // A server on which every namespace exists cannot create any.
        Err(kube::Error::Api(status)) if matches!(status.code, 405 | 409) => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

/// Uses kube-rs's recorder on a server. Returns what was wrong.
pub(crate) async fn judge(kubeconfig: &Path) -> Result<Option<String>> {
    let client = client(kubeconfig).await?;
    be_namespace(&client, NAMESPACE).await?;
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

/// Writes events of one namespace.
pub(crate) struct Recorded {
    events: Api<Stored>,
    namespace: String,
}

impl Recorded {
    pub(crate) async fn at(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let client = client(kubeconfig).await?;
        be_namespace(&client, namespace).await?;
        Ok(Self {
            events: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        })
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        let mut event = Stored {
            event_time: Some(MicroTime(jiff::Timestamp::UNIX_EPOCH)),
            action: Some("Test".into()),
            reason: Some("Tested".into()),
            type_: Some("Normal".into()),
            reporting_controller: Some("example.com/controller".into()),
            reporting_instance: Some("controller-0".into()),
            regarding: Some(ObjectReference {
                kind: Some("Pod".into()),
                name: Some(name.to_owned()),
                namespace: Some(self.namespace.clone()),
                ..ObjectReference::default()
            }),
            ..Stored::default()
        };
        event.metadata.name = Some(name.to_owned());
        self.events.create(&PostParams::default(), &event).await?;
        Ok(())
    }
}

/// Number of events that are written while the source is watched, and of writes to each.
const EVENTS: usize = 30;
const BETWEEN_EVENTS: Duration = Duration::from_millis(150);
/// Seconds after which the server ends a watch, so that the watcher must resume it.
const WATCH_SECONDS: u32 = 1;
/// Maximum time until the watcher has shown everything, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs kube-rs's watcher on an archive while events are written to its source. Returns what was
/// wrong.
pub(crate) async fn follow(source: &Path, archive: &Path) -> Result<Option<String>> {
    const WATCHED: &str = "kube-rs-watched";
    let recorded = Recorded::at(source, WATCHED).await?;
    let read: Api<Stored> = Api::namespaced(client(archive).await?, WATCHED);
    let name = |number: usize| format!("event-{number:03}");
    recorded.create(&name(0)).await?;
    let watcher = watcher(read, watcher::Config::default().timeout(WATCH_SECONDS));
    let mut applied = pin!(watcher.default_backoff().applied_objects());
    let writing = async {
        for number in 1..EVENTS {
            sleep(BETWEEN_EVENTS).await;
            recorded.create(&name(number)).await?;
        }
        Result::Ok(())
    };
    let reading = async {
        let mut names = Vec::new();
        while names.len() < EVENTS {
            match applied.next().await {
                Some(Ok(event)) => names.extend(event.metadata.name),
                // The watcher reports the end of a watch, and then continues by itself.
                Some(Err(_)) => {}
                None => break,
            }
        }
        Ok(names)
    };
    let Ok(read) = timeout(PATIENCE, async { tokio::try_join!(writing, reading) }).await else {
        return Ok(Some("not every event came".to_owned()));
    };
    let ((), names) = read?;
    let expected: Vec<String> = (0..EVENTS).map(name).collect();
    Ok((names != expected).then(|| format!("expected {expected:?}, came {names:?}")))
}
