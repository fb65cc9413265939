//! Events of mixed TTLs through half a year, with a manual clock: lists, `kubectl get` and watches
//! at each expiry, and the size on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidings_server::{ApiOptions, RetentionRules};
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};

use crate::support::{START, Server, Watching, event, events};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The step of the clock, in hours.
const STEP: i64 = 4;

/// A reason, its type, the interval of its events and their TTL, in hours.
const KINDS: [(&str, &str, i64, i64); 4] = [
    ("Pulled", "Normal", 4, 1),
    ("Scheduled", "Normal", 8, 14 * 24),
    ("BackOff", "Warning", 12, 90 * 24),
    // The server's TTL, which no rule changes.
    ("Killing", "Normal", 20, 48),
];

const RULES: &str = "rules:
- {reason: Pulled, ttl: 1h}
- {type: Warning, ttl: 90d}
- {reason: Scheduled, ttl: 14d}
";

struct Months {
    server: Server,
    watch: Watching,
    /// The live events, with their expiry.
    alive: BTreeMap<String, i64>,
    now: i64,
}

impl Months {
    /// Some hours pass: expired events end, which the watch shows.
    async fn pass(&mut self) {
        self.server.clock.advance(STEP * HOUR);
        self.now += STEP * HOUR;
        while self.server.store.expire().await.unwrap() > 0 {}
        let now = self.now;
        let mut ended = Vec::new();
        self.alive.retain(|name, end| {
            let lives = *end > now;
            if !lives {
                ended.push(format!("DELETED {name}"));
            }
            lives
        });
        let mut seen = Vec::new();
        for _ in 0..ended.len() {
            seen.push(self.line().await);
        }
        seen.sort_unstable();
        ended.sort_unstable();
        assert_eq!(seen, ended, "in hour {}", (self.now - START) / HOUR);
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

    /// The next line of the watch, without its resourceVersion.
    async fn line(&mut self) -> String {
        let line = self.watch.line().await;
        line.split_once('@').unwrap().0.to_owned()
    }

    /// Lists, in the form of `kubectl get` and as JSON, have the live events.
    async fn check_lists(&self) {
        let alive: Vec<&String> = self.alive.keys().collect();
        let mut found = Vec::new();
        let list = self.server.get(&events("shop")).await.expect(200);
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        found.extend(list["items"].as_array().unwrap().iter().map(name));
        assert_eq!(found.iter().collect::<Vec<_>>(), alive);
        let table = self.server.get_as(&events("shop"), TABLE).await.expect(200);
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), alive.len());
    }
}

/// `--retention-file` and `--event-ttl` from an hour to 90 days, for half a year.
#[tokio::test]
async fn every_event_ends_in_its_time_for_half_a_year() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(START));
    let mut stored = EmbeddedOptions::default();
    stored.clock = Arc::new(clock.clone());
    stored.expire_by_itself = false;
    stored.free_space_min = 0;
    stored.segment_bytes = 64 << 10;
    let store = Arc::new(EmbeddedStore::open(folder.path(), stored).unwrap());
    let mut options = ApiOptions::default();
    options.event_ttl = std::time::Duration::from_secs(48 * 3600);
    options.retention = RetentionRules::parse(RULES).unwrap();
    // The watch must outlive the months.
    options.request_timeout = std::time::Duration::from_secs(u64::from(u32::MAX));
    let server = Server::over(store, clock, options);
    let path = format!("{}?watch=true&timeoutSeconds=100000000", events("shop"));
    let watch = server.watch(&path).await;
    let mut months = Months {
        server,
        watch,
        alive: BTreeMap::new(),
        now: START,
    };
    let mut most = 0;
    for hour in (0..90 * 24).step_by(STEP as usize) {
        for (reason, event_type, every, hours) in KINDS {
            if hour % every == 0 {
                months.record(reason, event_type, hours).await;
            }
        }
        months.pass().await;
        if hour % (10 * 24) == 0 {
            months.check_lists().await;
        }
        let stats = months.server.store.stats().await.unwrap();
        assert_eq!(stats.records, months.alive.len() as u64);
        assert_eq!(stats.expiry_lag_ms, 0);
        most = most.max(stats.disk_bytes);
    }
    // There are some 250 live events of half a kilobyte.
    assert!(most < 8 << 20, "{most} bytes on disk");
    // The three kinds with a TTL longer than a step, without those that expire just now.
    assert_eq!(months.alive.len(), 179 + 41 + 2);
    while !months.alive.is_empty() {
        months.pass().await;
    }
    assert!(months.now <= START + 180 * DAY);
    months.check_lists().await;
}
