//! Events with different TTLs, from an hour to years, with a manual clock: lists, `kubectl get` and
//! watches just before and at each expiry, and the size on disk.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware;
use http::{HeaderValue, header};
use serde_json::Value;
use tempfile::TempDir;
use tidings_server::{ApiOptions, RetentionRules, router};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_testing::programs;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::support::{START, Server, Watching, event, events};

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;
/// Days of a year.
const YEAR: i64 = 365;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Timeout of kubectl on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The steps of the clock: hours in the first 90 days, then days.
const STEP: i64 = 12;
const LONG_STEP: i64 = 30;

/// Columns: a reason, its type, the interval of its events and their TTL, in hours.
const KINDS: [(&str, &str, i64, i64); 5] = [
    ("Pulled", "Normal", 12, 1),
    ("Scheduled", "Normal", 24, 14 * 24),
    ("BackOff", "Warning", 36, 90 * 24),
    // The server's default TTL, because no rule matches.
    ("Killing", "Normal", 60, 48),
    // The first rule that matches a warning.
    ("Rebooted", "Warning", 15 * 24, 3 * YEAR * 24),
];

const RULES: &str = "rules:
- {reason: Pulled, ttl: 1h}
- {reason: Rebooted, ttl: 1095d}
- {type: Warning, ttl: 90d}
- {reason: Scheduled, ttl: 14d}
";

struct Months {
    server: Server,
    watch: Watching,
    /// The live events, each with its expiry.
    alive: BTreeMap<String, i64>,
    now: i64,
    /// The number of moments at which events expired.
    ends: usize,
    /// The maximum of bytes on disk.
    most: u64,
    _folder: TempDir,
}

impl Months {
    async fn begin(event_ttl: Duration, retention: RetentionRules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(UnixMillis(START));
        let mut stored = EmbeddedOptions::default();
        stored.clock = Arc::new(clock.clone());
        stored.expire_by_itself = false;
        stored.free_space_min = 0;
        stored.segment_bytes = 64 << 10;
        let store = Arc::new(EmbeddedStore::open(folder.path(), stored).unwrap());
        let mut options = ApiOptions::default();
        options.event_ttl = event_ttl;
        options.retention = retention;
        // The watch must outlive the months.
        options.request_timeout = Duration::from_secs(u64::from(u32::MAX));
        let server = Server::over(store, clock, options);
        let path = format!("{}?watch=true&timeoutSeconds=100000000", events("shop"));
        let watch = server.watch(&path).await;
        Self {
            server,
            watch,
            alive: BTreeMap::new(),
            now: START,
            ends: 0,
            most: 0,
            _folder: folder,
        }
    }

    async fn record(&mut self, reason: &str, event_type: &str, hours: i64) {
        let name = format!("{}.{}", reason.to_lowercase(), (self.now - START) / HOUR);
        let mut new = event("shop", &name);
        new["reason"] = reason.into();
        new["type"] = event_type.into();
        self.server.post(&events("shop"), &new).await.expect(201);
        assert_eq!(self.line().await, format!("ADDED {name}"));
        self.alive.insert(name, self.now + hours * HOUR);
    }

    /// Moves the clock to `time`, and checks each expiry on the way. At some of them kubectl lists,
    /// too.
    async fn pass_until(&mut self, time: i64, kubectl: Option<&Kubectl>) {
        while let Some(end) = self.next_end().filter(|end| *end <= time) {
            self.see_end(end).await;
            if let Some(kubectl) = kubectl
                && self.ends.is_multiple_of(100)
            {
                self.check_kubectl(kubectl).await;
            }
        }
        self.move_to(time).await;
    }

    fn next_end(&self) -> Option<i64> {
        self.alive.values().min().copied()
    }

    /// A second before its expiry an event exists. Then the watch shows its end, and it can no
    /// longer be read.
    async fn see_end(&mut self, end: i64) {
        let (over, alive): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.alive)
            .into_iter()
            .partition(|(_, its)| *its <= end);
        self.move_to(end - SECOND).await;
        self.check_each(&over, 200).await;
        self.check_number(over.len() + alive.len()).await;

        self.alive = alive;
        self.move_to(end).await;
        let mut seen = Vec::new();
        for _ in 0..over.len() {
            seen.push(self.line().await);
        }
        seen.sort_unstable();
        let expected: Vec<_> = over.keys().map(|name| format!("DELETED {name}")).collect();
        assert_eq!(seen, expected, "in hour {}", (end - START) / HOUR);
        self.check_each(&over, 404).await;
        self.check_number(self.alive.len()).await;
        self.check_list().await;
        self.ends += 1;
    }

    async fn move_to(&mut self, time: i64) {
        self.server.clock.advance(time - self.now);
        self.now = time;
        while self.server.store.expire().await.unwrap() > 0 {}
    }

    /// The next line of the watch, without its resourceVersion.
    async fn line(&mut self) -> String {
        let line = self.watch.line().await;
        line.split_once('@').unwrap().0.to_owned()
    }

    /// Requests each event by name, and checks the status code.
    async fn check_each(&self, some: &BTreeMap<String, i64>, code: u16) {
        for name in some.keys() {
            let path = format!("{}/{name}", events("shop"));
            let got = self.server.get(&path).await;
            assert_eq!(got.code.as_u16(), code, "{name}");
        }
    }

    /// Checks that the store has this many events, recorded each expiry in time, and takes little
    /// space.
    async fn check_number(&mut self, alive: usize) {
        let stats = self.server.store.stats().await.unwrap();
        assert_eq!(stats.records, alive as u64);
        assert_eq!(stats.expiry_lag_ms, 0);
        self.most = self.most.max(stats.disk_bytes);
    }

    /// Checks that a list, alternately as JSON and in the form of `kubectl get`, has the live
    /// events.
    async fn check_list(&self) {
        let (accept, items, name) = if self.ends.is_multiple_of(2) {
            ("application/json", "items", "/metadata/name")
        } else {
            (TABLE, "rows", "/object/metadata/name")
        };
        let list = self.server.get_as(&events("shop"), accept).await;
        let list = list.expect(200);
        let found = list[items].as_array().unwrap().iter();
        let found = found.map(|item| item.pointer(name).and_then(Value::as_str).unwrap());
        let alive = self.alive.keys().map(String::as_str);
        assert_eq!(found.collect::<Vec<_>>(), alive.collect::<Vec<_>>());
    }

    /// Checks that kubectl's names and rows are those of the live events.
    async fn check_kubectl(&self, kubectl: &Kubectl) {
        let names = kubectl.run(&["get", "events", "-o", "name"]).await;
        let names: Vec<_> = names.lines().collect();
        let alive: Vec<_> = self.alive.keys().map(|it| format!("event/{it}")).collect();
        assert_eq!(names, alive);
        let rows = kubectl.run(&["get", "events", "--no-headers"]).await;
        assert_eq!(rows.lines().count(), alive.len());
    }
}

/// An unmodified kubectl that uses a server over HTTP.
struct Kubectl {
    program: PathBuf,
    /// The folder of kubectl's kubeconfig and cache.
    folder: TempDir,
}

impl Kubectl {
    /// Starts kubectl's server; `None` if there is no kubectl.
    async fn of(server: &Server) -> Option<Self> {
        let program = programs::kubectl()?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // kubectl sends no credentials without TLS.
        let routes = router(Arc::clone(&server.api));
        let routes = routes.layer(middleware::map_request(with_credentials));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let kubeconfig = format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: months, cluster: {{server: 'http://{address}'}}}}]
contexts: [{{name: months, context: {{cluster: months, namespace: shop}}}}]
current-context: months
"
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        Some(Self { program, folder })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(self.folder.path().join("kubeconfig"))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl; returns its output.
    async fn run(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        let output = spawn_blocking(move || command.output()).await;
        let output = output.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

async fn with_credentials(mut request: Request) -> Request {
    let credentials = HeaderValue::from_static("Bearer s3cret");
    let headers = request.headers_mut();
    headers.insert(header::AUTHORIZATION, credentials);
    request
}

/// A running `kubectl get events --watch`.
struct Watched {
    process: Child,
    /// The output; absent while a line is read.
    output: Option<BufReader<ChildStdout>>,
}

impl Watched {
    fn begin(kubectl: &Kubectl) -> Self {
        let args = ["get", "events", "--watch", "--output-watch-events"];
        let mut command = kubectl.command(&args);
        let mut process = command
            .arg("--no-headers")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = process.stdout.take().map(BufReader::new);
        Self { process, output }
    }

    /// The type of change in the next line, such as `ADDED`.
    async fn next(&mut self) -> String {
        let mut output = self.output.take().unwrap();
        let read = spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (output, line)
        });
        let read = tokio::time::timeout(PATIENCE, read).await;
        let (output, line) = read.expect("kubectl says nothing").unwrap();
        self.output = Some(output);
        let mut words = line.split_whitespace();
        words.next().unwrap_or_default().to_owned()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `--retention-file` and `--event-ttl` from an hour to three years: in small steps for 90 days,
/// then in larger ones for three years and until the last of these events has expired.
#[tokio::test]
async fn every_event_ends_in_its_time_for_years() {
    let rules = RetentionRules::parse(RULES).unwrap();
    let mut months = Months::begin(Duration::from_secs(48 * 3600), rules).await;
    let kubectl = Kubectl::of(&months.server).await;
    let kubectl = kubectl.as_ref();
    for hour in (0..90 * 24).step_by(STEP as usize) {
        for (reason, event_type, every, hours) in KINDS {
            if hour % every == 0 {
                months.record(reason, event_type, hours).await;
            }
        }
        let next = START + (hour + STEP) * HOUR;
        months.pass_until(next, kubectl).await;
    }
    // The events whose TTL is longer than a step, without those that expired before or just now.
    assert_eq!(months.alive.len(), 13 + 59 + 6);
    let mut last = 0;
    for day in (90..3 * YEAR).step_by(LONG_STEP as usize) {
        for (reason, event_type, _, hours) in KINDS {
            months.record(reason, event_type, hours).await;
        }
        last = day;
        let next = START + (day + LONG_STEP) * DAY;
        months.pass_until(next, kubectl).await;
    }
    // The first of the three years have passed.
    assert!(!months.alive.contains_key("rebooted.0"));
    let end = START + (last + 3 * YEAR) * DAY;
    assert_eq!(months.alive.values().max(), Some(&end));
    months.pass_until(end, kubectl).await;
    assert!(months.alive.is_empty());
    months.check_number(0).await;
    months.check_list().await;
    // There were at most about 120 live events of half a kilobyte each.
    let most = months.most;
    assert!(most < 8 << 20, "{most} bytes on disk");
}

/// `--event-ttl` alone, for years, and the expiry in the output of `kubectl get --watch`.
#[tokio::test]
async fn an_event_is_kept_for_the_years_of_the_servers_ttl() {
    const TTL: i64 = 5 * YEAR * 24;
    let ttl = Duration::from_secs((TTL * 3600).unsigned_abs());
    let mut months = Months::begin(ttl, RetentionRules::default()).await;
    months.record("Killing", "Normal", TTL).await;
    let kubectl = Kubectl::of(&months.server).await;
    let mut watched = kubectl.as_ref().map(Watched::begin);
    if let Some(watched) = &mut watched {
        assert_eq!(watched.next().await, "ADDED");
    }
    months
        .pass_until(START + 4 * YEAR * DAY, kubectl.as_ref())
        .await;
    months.check_list().await;
    months.check_number(1).await;
    months
        .pass_until(START + TTL * HOUR, kubectl.as_ref())
        .await;
    assert!(months.alive.is_empty());
    if let Some(kubectl) = &kubectl {
        months.check_kubectl(kubectl).await;
    }
    if let Some(watched) = &mut watched {
        assert_eq!(watched.next().await, "DELETED");
    }
}
