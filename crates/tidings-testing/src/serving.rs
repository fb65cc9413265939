//! A running server of the project, and clients for it.

use std::path::Path;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::ObjectMeta;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tidings_server::{Running, StartOptions};

/// Starts a server with its data in this folder, on this port; 0 is any free port.
pub async fn start(data: &Path, port: u16) -> Running {
    let mut options = StartOptions::new(data);
    options.secure_port = port;
    tidings_server::start(options).await.unwrap()
}

/// The configuration of a client, from a kubeconfig.
pub async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap()
}

/// A client, from a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Client {
    Client::try_from(config(kubeconfig).await).unwrap()
}

/// An event about a pod in the namespace `shop`.
pub fn event(name: &str) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some("shop".into()),
            name: Some("web".into()),
            ..ObjectReference::default()
        },
        reason: Some("BackOff".into()),
        ..Event::default()
    }
}
