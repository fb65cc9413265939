//! kube-rs's watcher and reflector, and a watch that always continues at its position, while the
//! server is killed, connections are cut and history is compacted. At the end they must agree with
//! the store.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Event;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::reflector::{self, ObjectRef, Store, reflector};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;
use tidings_store::Store as _;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_testing::process::Process;
use tidings_testing::serving::{config, event};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delay before another attempt while there is no server.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
const WRITERS: usize = 4;
/// Writes acknowledged between two faults.
const ENOUGH: usize = 60;

/// A server that is killed and restarted, with the same folder and port.
struct Server {
    folder: TempDir,
    port: u16,
    process: Option<Process>,
}

impl Server {
    fn start() -> Self {
        let mut server = Self {
            folder: tempfile::tempdir().unwrap(),
            port: 0,
            process: None,
        };
        server.start_again();
        let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let (_, behind) = text.split_once("server: https://127.0.0.1:").unwrap();
        server.port = behind.lines().next().unwrap().trim().parse().unwrap();
        server
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn start_again(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command
            .args(["serve", "--secure-port", &self.port.to_string()])
            .arg("--data-dir")
            .arg(self.folder.path())
            .stderr(Stdio::null());
        let (process, line) = Process::start_and_hear(&mut command).unwrap();
        self.process = Some(process);
        assert!(!line.is_empty(), "it did not start");
    }

    /// Kills the server.
    fn kill(&mut self) {
        self.process = None;
    }

    /// The server's events, reached through a port.
    async fn events(&self, port: u16) -> Api<Event> {
        let mut config = config(&self.kubeconfig()).await;
        config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
        Api::namespaced(Client::try_from(config).unwrap(), "shop")
    }
}

/// A proxy between watchers and the server. It can cut all connections, or accept none.
struct Proxy {
    port: u16,
    accepts: Arc<AtomicBool>,
    cut: watch::Sender<()>,
}

impl Proxy {
    async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepts = Arc::new(AtomicBool::new(true));
        let cut = watch::Sender::new(());
        let (accepting, cuts) = (Arc::clone(&accepts), cut.subscribe());
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                if !accepting.load(Ordering::Acquire) {
                    continue;
                }
                let mut cuts = cuts.clone();
                // Earlier cuts do not affect a new connection.
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await else {
                        return;
                    };
                    let passing = tokio::io::copy_bidirectional(&mut client, &mut server);
                    tokio::select! {
                        // Both sides see the end of the connection in either case.
                        _ = passing => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { port, accepts, cut }
    }

    fn cut(&self) {
        self.cut.send_replace(());
    }
}

/// Tasks that create, patch and delete events until they are stopped, whatever happens to the
/// server.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
    acknowledged: mpsc::UnboundedReceiver<u64>,
    /// The resourceVersions of acknowledged writes.
    versions: BTreeSet<u64>,
}

impl Writers {
    fn start(events: &Api<Event>, round: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, acknowledged) = mpsc::unbounded_channel();
        let tasks = (0..WRITERS).map(|writer| {
            let (events, stop, sender) = (events.clone(), Arc::clone(&stop), sender.clone());
            let round = round.to_owned();
            tokio::spawn(async move {
                for number in 0_usize.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    let name = format!("{round}.{writer}.{number}");
                    write(&events, &name, number % 3 == 0, &sender).await;
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            stop,
            acknowledged,
            versions: BTreeSet::new(),
        }
    }

    /// Waits until this number of further writes is acknowledged.
    async fn go_on(&mut self) {
        for _ in 0..ENOUGH {
            let version = tokio::time::timeout(PATIENCE, self.acknowledged.recv()).await;
            self.versions.insert(version.unwrap().unwrap());
        }
    }

    /// Stops the tasks, and returns all acknowledged resourceVersions.
    async fn end(mut self) -> BTreeSet<u64> {
        self.stop.store(true, Ordering::Release);
        for task in self.tasks {
            tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
        }
        while let Some(version) = self.acknowledged.recv().await {
            self.versions.insert(version);
        }
        self.versions
    }
}

/// Creates an event, patches it, and deletes it on request. Each step is repeated until it is
/// acknowledged.
async fn write(
    events: &Api<Event>,
    name: &str,
    delete: bool,
    acknowledged: &mpsc::UnboundedSender<u64>,
) {
    let event = Event {
        count: Some(1),
        ..event(name)
    };
    let tell = |event: &Event| acknowledged.send(version(event)).unwrap();
    loop {
        match events.create(&PostParams::default(), &event).await {
            Ok(event) => break tell(&event),
            // An earlier attempt succeeded, whose answer was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => break,
            Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
    let patch = Patch::Strategic(json!({"count": 2}));
    loop {
        match events.patch(name, &PatchParams::default(), &patch).await {
            Ok(event) => break tell(&event),
            Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
    if !delete {
        return;
    }
    loop {
        match events.delete(name, &DeleteParams::default()).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 404 => break,
            Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
}

fn version(event: &Event) -> u64 {
    let version = event.metadata.resource_version.as_deref();
    version.unwrap().parse().unwrap()
}

type Contents = BTreeMap<String, (u64, Option<i32>)>;

fn contents<'a>(events: impl IntoIterator<Item = &'a Event>) -> Contents {
    let entry = |event: &Event| {
        let name = event.metadata.name.clone().unwrap();
        (name, (version(event), event.count))
    };
    events.into_iter().map(entry).collect()
}

/// The server's list, with its resourceVersion.
async fn listed(events: &Api<Event>) -> (Contents, u64) {
    let list = events.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap().parse().unwrap();
    (contents(&list.items), version)
}

/// A running reflector, and the number of its restarts.
struct Reflected {
    store: Store<Event>,
    begun: Arc<AtomicUsize>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(BETWEEN_TRIES)
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

impl Reflected {
    fn start(events: Api<Event>, config: watcher::Config) -> Self {
        let (store, writer) = reflector::store();
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&begun);
        let (tell, changed) = watch::channel(());
        let stream = reflector(writer, watcher(events, config).backoff(Soon));
        let task = tokio::spawn(stream.for_each(move |event| {
            if matches!(event, Ok(watcher::Event::Init)) {
                counted.fetch_add(1, Ordering::AcqRel);
            }
            tell.send_replace(());
            std::future::ready(())
        }));
        Self {
            store,
            begun,
            changed,
            task,
        }
    }

    /// Waits until the store's content is `expected`.
    async fn comes_to(&mut self, expected: &Contents) {
        let found = |store: &Store<Event>| {
            let state = store.state();
            contents(state.iter().map(|event| &**event))
        };
        let waiting = async {
            while found(&self.store) != *expected {
                self.changed.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            assert_eq!(found(&self.store), *expected);
        }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Acquire)
    }
}

impl Drop for Reflected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the changes after a resourceVersion, always continuing after the last one, and passes
/// each on. Ends with the error that the server sends.
fn follow(events: Api<Event>, after: u64) -> mpsc::UnboundedReceiver<(String, Event)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut after = after.to_string();
        while !sender.is_closed() {
            let parameters = WatchParams::default().timeout(200);
            let Ok(watched) = events.watch(&parameters, &after).await else {
                tokio::time::sleep(BETWEEN_TRIES).await;
                continue;
            };
            let mut watched = std::pin::pin!(watched);
            // An error means a cut connection.
            while let Ok(Some(event)) = watched.try_next().await {
                let (kind, event) = match event {
                    WatchEvent::Added(event) => ("ADDED", event),
                    WatchEvent::Modified(event) => ("MODIFIED", event),
                    WatchEvent::Deleted(event) => ("DELETED", event),
                    WatchEvent::Bookmark(bookmark) => {
                        after = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(_) => return,
                };
                after = version(&event).to_string();
                if sender.send((kind.to_owned(), event)).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_miss_and_double_nothing_through_kills_cuts_and_compaction() {
    let mut server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let (direct, through) = (
        server.events(server.port).await,
        server.events(proxy.port).await,
    );
    let mut before = Writers::start(&direct, "before");
    before.go_on().await;
    before.end().await;
    let (mut replayed, start) = listed(&direct).await;
    let mut followed = follow(through.clone(), start);
    let mut reflected = [
        Reflected::start(through.clone(), watcher::Config::default()),
        Reflected::start(
            through.clone(),
            watcher::Config::default().streaming_lists(),
        ),
    ];
    for reflected in &mut reflected {
        reflected.comes_to(&replayed).await;
    }

    let mut writers = Writers::start(&direct, "on");
    for _ in 0..3 {
        writers.go_on().await;
        proxy.cut();
        writers.go_on().await;
        server.kill();
        server.start_again();
    }
    writers.go_on().await;
    let acknowledged = writers.end().await;
    let (expected, end) = listed(&direct).await;
    let mut seen = BTreeSet::new();
    let mut latest = start;
    while latest < end {
        let next = tokio::time::timeout(PATIENCE, followed.recv()).await;
        let (kind, event) = next
            .unwrap()
            .expect("the watch was told that it is too late");
        let (name, version) = (event.metadata.name.clone().unwrap(), version(&event));
        assert!(
            version > latest,
            "{kind} {name} {version} comes after {latest}"
        );
        latest = version;
        seen.insert(version);
        let was_there = match kind.as_str() {
            "DELETED" => replayed.remove(&name).is_some(),
            _ => replayed
                .insert(name.clone(), (version, event.count))
                .is_some(),
        };
        assert_eq!(was_there, kind != "ADDED", "{kind} {name} {version}");
    }
    assert_eq!(replayed, expected);
    let missed: Vec<_> = acknowledged.difference(&seen).collect();
    assert!(missed.is_empty(), "acknowledged, but not seen: {missed:?}");
    for reflected in &mut reflected {
        reflected.comes_to(&expected).await;
        // A server that is down does not cause a new list.
        assert_eq!(reflected.begun(), 1);
    }
    drop(followed);

    // The watchers are disconnected while history is written and compacted.
    proxy.accepts.store(false, Ordering::Release);
    proxy.cut();
    let mut writers = Writers::start(&direct, "away");
    writers.go_on().await;
    server.kill();
    let folder = server.folder.path().join("store");
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
    store.compact(store.revision()).await.unwrap();
    store.close().await;
    drop(store);
    server.start_again();
    proxy.accepts.store(true, Ordering::Release);
    writers.go_on().await;
    writers.end().await;
    let (expected, _) = listed(&direct).await;
    for reflected in &mut reflected {
        reflected.comes_to(&expected).await;
        assert_eq!(
            reflected.begun(),
            2,
            "only history that is gone makes them list anew"
        );
        let about = ObjectRef::<Event>::new("away.0.1").within("shop");
        assert!(reflected.store.get(&about).is_some());
    }
}
