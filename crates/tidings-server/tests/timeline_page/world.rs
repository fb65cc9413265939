//! A server with events, and a browser that is logged in to it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use tempfile::TempDir;
use tidings_server::Running;
use tidings_testing::serving;
use tokio::runtime::Runtime;

use tidings_testing::browser::{Browser, Window};

/// One event of the story: seconds before now of its first and last occurrence, count, object,
/// type, reason and message.
pub(crate) type Row<'a> = (i64, i64, i32, &'a str, &'a str, &'a str, &'a str);

pub(crate) const NAMESPACE: &str = "shop";

/// The story: a failed roll-out and its rollback, a node that is lost for a while, and a job.
pub(crate) const STORY: &[Row<'static>] = &[
    (
        3300,
        3300,
        1,
        "Deployment/web",
        "Normal",
        "ScalingReplicaSet",
        "Scaled up replica set web-7d4b9c6f58 to 2",
    ),
    (
        3299,
        3299,
        1,
        "ReplicaSet/web-7d4b9c6f58",
        "Normal",
        "SuccessfulCreate",
        "Created pod: web-7d4b9c6f58-x2x7k",
    ),
    (
        3298,
        3298,
        1,
        "ReplicaSet/web-7d4b9c6f58",
        "Normal",
        "SuccessfulCreate",
        "Created pod: web-7d4b9c6f58-m9qpl",
    ),
    (
        3297,
        3297,
        1,
        "Pod/web-7d4b9c6f58-x2x7k",
        "Normal",
        "Scheduled",
        "Successfully assigned shop/web-7d4b9c6f58-x2x7k to node-1",
    ),
    (
        3290,
        3290,
        1,
        "Pod/web-7d4b9c6f58-x2x7k",
        "Normal",
        "Pulled",
        "Container image \"shop/web:1.28\" already present on machine",
    ),
    (
        3288,
        3288,
        1,
        "Pod/web-7d4b9c6f58-x2x7k",
        "Normal",
        "Started",
        "Started container web",
    ),
    (
        3296,
        3296,
        1,
        "Pod/web-7d4b9c6f58-m9qpl",
        "Normal",
        "Scheduled",
        "Successfully assigned shop/web-7d4b9c6f58-m9qpl to node-2",
    ),
    (
        3287,
        3287,
        1,
        "Pod/web-7d4b9c6f58-m9qpl",
        "Normal",
        "Started",
        "Started container web",
    ),
    (
        2100,
        2100,
        1,
        "Deployment/web",
        "Normal",
        "ScalingReplicaSet",
        "Scaled up replica set web-5c9f7d8b64 to 1",
    ),
    (
        2099,
        2099,
        1,
        "ReplicaSet/web-5c9f7d8b64",
        "Normal",
        "SuccessfulCreate",
        "Created pod: web-5c9f7d8b64-tz4wd",
    ),
    (
        2098,
        2098,
        1,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Normal",
        "Scheduled",
        "Successfully assigned shop/web-5c9f7d8b64-tz4wd to node-1",
    ),
    (
        2090,
        2080,
        2,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Normal",
        "Pulled",
        "Successfully pulled image \"shop/web:1.29\" in 7.8s",
    ),
    (
        2079,
        1500,
        6,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Normal",
        "Started",
        "Started container web",
    ),
    (
        2060,
        920,
        412,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Warning",
        "BackOff",
        "Back-off restarting failed container web in pod web-5c9f7d8b64-tz4wd",
    ),
    (
        2050,
        1000,
        14,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Warning",
        "Unhealthy",
        "Readiness probe failed: HTTP probe failed with statuscode: 500",
    ),
    (
        900,
        900,
        1,
        "Deployment/web",
        "Normal",
        "ScalingReplicaSet",
        "Scaled down replica set web-5c9f7d8b64 to 0 from 1",
    ),
    (
        899,
        899,
        1,
        "ReplicaSet/web-5c9f7d8b64",
        "Normal",
        "SuccessfulDelete",
        "Deleted pod: web-5c9f7d8b64-tz4wd",
    ),
    (
        898,
        898,
        1,
        "Pod/web-5c9f7d8b64-tz4wd",
        "Normal",
        "Killing",
        "Stopping container web",
    ),
    (
        1700,
        1700,
        1,
        "Node/node-2",
        "Normal",
        "NodeNotReady",
        "Node node-2 status is now: NodeNotReady",
    ),
    (
        1695,
        1690,
        2,
        "Pod/web-7d4b9c6f58-m9qpl",
        "Warning",
        "NodeNotReady",
        "Node is not ready",
    ),
    (
        1200,
        1200,
        1,
        "Node/node-2",
        "Normal",
        "NodeReady",
        "Node node-2 status is now: NodeReady",
    ),
    (
        2700,
        300,
        9,
        "CronJob/backup",
        "Normal",
        "SuccessfulCreate",
        "Created job backup-29112",
    ),
    (
        600,
        600,
        1,
        "Job/backup-29112",
        "Normal",
        "SuccessfulCreate",
        "Created pod: backup-29112-c7hvr",
    ),
    (
        598,
        598,
        1,
        "Pod/backup-29112-c7hvr",
        "Normal",
        "Scheduled",
        "Successfully assigned shop/backup-29112-c7hvr to node-1",
    ),
    (
        590,
        200,
        23,
        "Pod/backup-29112-c7hvr",
        "Warning",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"dump\" : secret \"backup-key\" not found",
    ),
    (
        3000,
        100,
        40,
        "HorizontalPodAutoscaler/web",
        "Warning",
        "FailedGetResourceMetric",
        "failed to get cpu utilization: no metrics returned from resource metrics API",
    ),
    (
        2400,
        2400,
        1,
        "PersistentVolumeClaim/data-db-0",
        "Normal",
        "ProvisioningSucceeded",
        "Successfully provisioned volume pvc-2f9c",
    ),
    (
        1650,
        1650,
        1,
        "StatefulSet/db",
        "Normal",
        "SuccessfulCreate",
        "create Pod db-0 in StatefulSet db successful",
    ),
    (
        1640,
        1640,
        1,
        "Pod/db-0",
        "Normal",
        "Started",
        "Started container postgres",
    ),
];

/// Records texts that are copied from now on.
pub(crate) fn watch_clipboard(page: &Browser) {
    page.run(
        "window.copied = '';
        Object.defineProperty(navigator, 'clipboard', { configurable: true, value: {
            writeText: async (text) => { window.copied = text; } } })",
    );
}

/// Opens the page at an address, logs in, and waits for the view.
#[track_caller]
pub(crate) fn enter(page: &Browser, url: &str, token: &str) {
    page.open(url);
    page.until("document.getElementById('login').open");
    log_in(page, token);
    loaded(page);
}

/// Types a token into the login form.
fn log_in(page: &Browser, token: &str) {
    page.run("document.getElementById('token').focus()");
    page.keys(&format!("{token}\u{e007}"));
}

/// Waits until the view is loaded.
#[track_caller]
fn loaded(page: &Browser) {
    page.until("document.documentElement.dataset.loaded");
}

pub(crate) struct World {
    pub(crate) browser: Browser,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    token: String,
    origin: String,
    server: Option<Running>,
    port: u16,
    data: TempDir,
}

impl World {
    /// Starts a server and a browser; `None` if there is no browser.
    pub(crate) fn start(window: Window) -> Option<Self> {
        let browser = Browser::start(window)?;
        let runtime = Runtime::new().unwrap();
        let data = TempDir::new().unwrap();
        let server = runtime.block_on(serving::start(data.path(), 0));
        let client = runtime.block_on(serving::client(server.kubeconfig()));
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let user = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        let token = serde_json::to_value(user).unwrap()["token"]
            .as_str()
            .unwrap()
            .to_owned();
        let port = server.address().port();
        Some(Self {
            browser,
            client,
            runtime,
            token,
            origin: format!("https://localhost:{port}"),
            server: Some(server),
            port,
            data,
        })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn url(&self, query: &str) -> String {
        format!("{}/timeline{query}", self.origin)
    }

    /// Adds the story's events.
    pub(crate) fn tell_story(&self) {
        for row in STORY {
            self.add(row);
        }
    }

    pub(crate) fn add(&self, row: &Row<'_>) {
        self.add_together(&[*row]);
    }

    /// Adds events whose times count from the same moment.
    pub(crate) fn add_together(&self, rows: &[Row<'_>]) {
        let now = Timestamp::now();
        for row in rows {
            self.add_at(now, row);
        }
    }

    fn add_at(
        &self,
        now: Timestamp,
        (first, last, count, object, of_type, reason, message): &Row<'_>,
    ) {
        let (kind, name) = object.split_once('/').unwrap();
        let ago = |seconds: i64| Time(now - SignedDuration::from_secs(seconds));
        let namespace = (kind != "Node").then(|| NAMESPACE.to_owned());
        let component = match kind {
            "Pod" => "kubelet",
            "Node" => "node-controller",
            _ => "controller-manager",
        };
        self.create(Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}.")),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                kind: Some(kind.into()),
                namespace,
                name: Some(name.into()),
                ..ObjectReference::default()
            },
            source: Some(EventSource {
                component: Some(component.into()),
                ..EventSource::default()
            }),
            type_: Some((*of_type).into()),
            reason: Some((*reason).into()),
            message: Some((*message).into()),
            first_timestamp: Some(ago(*first)),
            last_timestamp: Some(ago(*last)),
            count: Some(*count),
            ..Event::default()
        });
    }

    pub(crate) fn create(&self, event: Event) {
        let namespace = match event.involved_object.namespace.as_deref() {
            Some(namespace) => namespace.to_owned(),
            None => "default".to_owned(),
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let created = events.create(&params, &event);
        self.runtime.block_on(created).unwrap();
    }

    /// Opens the page with a query and logs in.
    pub(crate) fn enter(&self, query: &str) {
        enter(&self.browser, &self.url(query), &self.token);
    }

    pub(crate) fn log_in(&self, token: &str) {
        log_in(&self.browser, token);
    }

    /// Opens the page again, with the existing cookie.
    pub(crate) fn open(&self, query: &str) {
        self.browser.open(&self.url(query));
        self.loaded();
    }

    /// Waits until the view is loaded.
    #[track_caller]
    pub(crate) fn loaded(&self) {
        loaded(&self.browser);
    }

    /// Waits until the URL's parameters satisfy a condition, and returns them; the page writes them
    /// with a small delay.
    #[track_caller]
    pub(crate) fn address_until(&self, condition: &str) -> BTreeMap<String, String> {
        self.browser.until(&format!(
            "((q) => {condition})(Object.fromEntries(new URLSearchParams(location.search)))"
        ));
        let all = self
            .browser
            .value("Object.fromEntries(new URLSearchParams(location.search))");
        serde_json::from_value(all).unwrap()
    }

    pub(crate) fn stop_server(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.shutdown());
        }
    }

    /// Starts a server again, on the same port and with the same events.
    pub(crate) fn start_server(&mut self) {
        let started = self
            .runtime
            .block_on(serving::start(self.data.path(), self.port));
        self.server = Some(started);
    }
}
