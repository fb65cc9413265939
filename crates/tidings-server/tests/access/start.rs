//! A whole server over TLS, used by a client of the ecosystem (kube-rs) through the kubeconfig it
//! wrote.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::Kubeconfig;
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tempfile::TempDir;
use tidings_server::{Running, StartError, StartOptions, start};
use tidings_testing::serving::{client, config, event};

const PATIENCE: Duration = Duration::from_secs(60);

fn options(folder: &TempDir) -> StartOptions {
    let mut options = StartOptions::new(folder.path().join("data"));
    options.secure_port = 0;
    options
}

async fn events(server: &Running) -> Api<Event> {
    Api::namespaced(client(server.kubeconfig()).await, "shop")
}

#[tokio::test]
async fn namespaces_have_uids_that_stay_with_the_data() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut found = Vec::new();
    for folder in [&folders[0], &folders[0], &folders[1]] {
        let server = start(options(folder)).await.unwrap();
        let api: Api<Namespace> = Api::all(client(server.kubeconfig()).await);
        let system = api.get("kube-system").await.unwrap().uid().unwrap();
        let list = api.list(&ListParams::default()).await.unwrap();
        let listed = list.items.iter().find(|it| it.name_any() == "kube-system");
        assert_eq!(listed.unwrap().uid().as_ref(), Some(&system));
        let metadata = api.get_metadata("kube-system").await.unwrap();
        assert_eq!(metadata.uid().as_ref(), Some(&system));
        let other = api.get("default").await.unwrap().uid().unwrap();
        assert_ne!(other, system);
        assert_eq!((system.len(), system.matches('-').count()), (36, 4));
        found.push(system);
        server.shutdown().await;
    }
    assert_eq!(found[0], found[1], "after a restart");
    assert_ne!(found[0], found[2], "of another store");
}

#[tokio::test]
async fn kube_clients_find_what_they_expect() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(options(&folder)).await.unwrap();
    let api = events(&server).await;
    let created = api
        .create(&PostParams::default(), &event("web.1"))
        .await
        .unwrap();
    let version = created.metadata.resource_version.unwrap();
    let watched = api
        .watch(&WatchParams::default().timeout(60), &version)
        .await
        .unwrap();
    let mut watched = pin!(watched);

    let patch = json!({"count": 2});
    api.patch("web.1", &PatchParams::default(), &Patch::Strategic(&patch))
        .await
        .unwrap();
    api.patch(
        "web.1",
        &PatchParams::default(),
        &Patch::Merge(json!({"message": "again"})),
    )
    .await
    .unwrap();
    for _ in 0..2 {
        let change = tokio::time::timeout(PATIENCE, watched.try_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert!(matches!(change, WatchEvent::Modified(_)), "{change:?}");
    }
    let list = api
        .list(
            &ListParams::default()
                .fields("involvedObject.name=web")
                .limit(10),
        )
        .await
        .unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(
        (list.items[0].count, list.items[0].message.as_deref()),
        (Some(2), Some("again"))
    );
    api.delete("web.1", &DeleteParams::default()).await.unwrap();
    let gone = api.get("web.1").await.unwrap_err();
    assert!(matches!(gone, kube::Error::Api(status) if status.is_not_found()));

    server.shutdown().await;
    // The watch shows the delete, and then ends cleanly.
    let rest: Vec<_> = tokio::time::timeout(PATIENCE, watched.collect::<Vec<_>>())
        .await
        .unwrap();
    assert!(
        matches!(&rest[..], [Ok(WatchEvent::Deleted(_))]),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_streaming_watcher_initialises() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(options(&folder)).await.unwrap();
    let api = events(&server).await;
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &event(name))
            .await
            .unwrap();
    }
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut watching = pin!(watcher(api.clone(), config));
        let mut seen = Vec::new();
        loop {
            match tokio::time::timeout(PATIENCE, watching.next())
                .await
                .unwrap()
                .unwrap()
                .unwrap()
            {
                watcher::Event::Init => {}
                watcher::Event::InitApply(event) => seen.extend(event.metadata.name),
                watcher::Event::InitDone => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, ["a", "b"]);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn who_does_not_trust_or_is_not_known_stays_outside() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(options(&folder)).await.unwrap();
    let mut config = config(server.kubeconfig()).await;
    config.auth_info.token = Some("wrong".to_owned().into());
    let unknown: Api<Event> = Api::all(Client::try_from(config.clone()).unwrap());
    let error = unknown.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 401),
        "{error:?}"
    );
    // With wrong credentials, even paths that are open to all clients are refused.
    let version = Client::try_from(config.clone())
        .unwrap()
        .apiserver_version()
        .await;
    assert!(
        matches!(&version, Err(kube::Error::Api(status)) if status.code == 401),
        "{version:?}"
    );
    config.root_cert = None;
    let distrusting: Api<Event> = Api::all(Client::try_from(config).unwrap());
    assert!(!matches!(
        distrusting.list(&ListParams::default()).await.unwrap_err(),
        kube::Error::Api(_)
    ));
    server.shutdown().await;
}

/// On a store with real writes, patches overtake each other. A patch without a resourceVersion is
/// applied again; one with a resourceVersion is refused.
#[tokio::test(flavor = "multi_thread")]
async fn patches_that_race_are_all_applied() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(options(&folder)).await.unwrap();
    let events = events(&server).await;
    let first = events
        .create(&PostParams::default(), &event("web.1"))
        .await
        .unwrap();
    let patches = (0..16).map(|number| {
        let label = json!({"metadata": {"labels": {format!("l{number}"): "x"}}});
        let events = events.clone();
        tokio::spawn(async move {
            let parameters = PatchParams::default();
            events
                .patch("web.1", &parameters, &Patch::Merge(label))
                .await
        })
    });
    for patched in futures::future::join_all(patches).await {
        patched.unwrap().unwrap();
    }
    let labels = events.get("web.1").await.unwrap().metadata.labels;
    assert_eq!(labels.map(|labels| labels.len()), Some(16));

    let version = first.metadata.resource_version;
    let old = json!({"metadata": {"resourceVersion": version, "labels": {"old": "x"}}});
    let error = events
        .patch("web.1", &PatchParams::default(), &Patch::Merge(old))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409),
        "{error:?}"
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_folder_has_one_server_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(options(&folder)).await.unwrap();
    let second = start(options(&folder)).await.unwrap_err();
    assert!(matches!(second, StartError::Store(_)), "{second}");
    server.shutdown().await;
    start(options(&folder)).await.unwrap().shutdown().await;
}

/// Without the option there is no own token: it is not created, an existing one is not accepted,
/// and clients do not get it.
#[tokio::test]
async fn without_an_admin_token_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let token = async |server: &Running| {
        let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
        Kubeconfig::from_yaml(&text).unwrap().auth_infos[0]
            .auth_info
            .as_ref()
            .and_then(|user| user.token.clone())
    };
    let none = || {
        let mut options = options(&folder);
        options.admin_token = false;
        options
    };
    let code = async |config: Config| {
        let client = Client::try_from(config).unwrap();
        let listed = Api::<Event>::all(client).list(&ListParams::default()).await;
        match listed {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    };

    let server = start(none()).await.unwrap();
    assert!(token(&server).await.is_none());
    assert!(!folder.path().join("data/tokens.csv").exists());
    assert_eq!(code(config(server.kubeconfig()).await).await, 401);
    server.shutdown().await;

    let server = start(options(&folder)).await.unwrap();
    let made = token(&server).await.expect("a token");
    assert_eq!(code(config(server.kubeconfig()).await).await, 200);
    server.shutdown().await;

    // The kubeconfig still has address and certificate: clients add their credentials.
    let server = start(none()).await.unwrap();
    assert!(token(&server).await.is_none());
    let mut with_token = config(server.kubeconfig()).await;
    with_token.auth_info.token = Some(made);
    assert_eq!(code(with_token).await, 401);
    server.shutdown().await;
}
