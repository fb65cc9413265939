//! Three members, killed and restarted in turn under writers and a watcher: acknowledged writes are
//! those that the watcher saw and that are stored; refused writes do not exist; unknown ones were
//! done once or not at all.
//!
//! `TIDINGS_ETCD_FAULT_SECONDS` sets the duration (default 15; the long form is 120).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidings_store::clock::{Clock, SystemClock};
use tidings_store::etcd::{Description, EtcdOptions, EtcdStore};
use tidings_store::{
    Change, Fault, ListRequest, NewRecord, Revision, Store, UnixMillis, Watch, WriteError,
};
use tidings_testing::etcd::Cluster;

const WRITERS: usize = 4;

/// A writer's view of its writes. A write is identified by its value, which is unique.
#[derive(Default)]
struct Account {
    acknowledged: BTreeMap<String, Revision>,
    deleted: BTreeMap<String, Revision>,
    refused: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

impl Account {
    /// Notes the outcome of a put. Returns whether it was done.
    fn note(&mut self, value: String, result: &Result<Revision, WriteError>) -> Option<Revision> {
        match result {
            Ok(revision) => {
                self.acknowledged.insert(value, *revision);
                return Some(*revision);
            }
            Err(WriteError::Fault(Fault::Unknown(_))) => {
                self.unknown.insert(value);
            }
            Err(_) => {
                self.refused.insert(value);
            }
        }
        None
    }
}

fn record(value: &str) -> NewRecord {
    let end = SystemClock.now().0 + 3_600_000;
    NewRecord::new(value.to_owned()).expires_at(UnixMillis(end))
}

/// Creates, updates and deletes its own records until told to stop.
async fn write(store: Arc<EtcdStore>, writer: usize, stop: Arc<AtomicBool>) -> Account {
    let mut account = Account::default();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = Bytes::from(format!("w{writer}/{number:08}"));
        let value = format!("w{writer}/{number}/created");
        let created = store.create(key.clone(), record(&value)).await;
        let Some(revision) = account.note(value, &created) else {
            continue;
        };
        let value = format!("w{writer}/{number}/updated");
        let updated = store.update(key.clone(), record(&value), revision).await;
        let Some(revision) = account.note(value.clone(), &updated) else {
            continue;
        };
        if number % 3 == 0
            && let Ok(deleted) = store.delete(key, Some(revision)).await
        {
            account.deleted.insert(value, deleted.revision);
        }
    }
    account
}

/// Every change up to a revision, in the watch's order.
async fn follow(mut watch: Box<dyn Watch>, until: Revision) -> Vec<Arc<Change>> {
    let mut seen: Vec<Arc<Change>> = Vec::new();
    while seen.last().is_none_or(|change| change.revision() < until) {
        seen.extend(watch.next().await.unwrap());
    }
    seen
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks that changes are in order and each once, and that they are what writers were told.
/// Returns the stored records.
fn check_changes(seen: &[Arc<Change>], accounts: &[Account]) -> BTreeMap<String, String> {
    assert!(seen.is_sorted_by(|one, next| one.revision() < next.revision()));
    let mut puts: BTreeMap<String, Revision> = BTreeMap::new();
    let mut deletes: BTreeMap<String, Revision> = BTreeMap::new();
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    for change in seen {
        let key = text(change.key());
        let held = stored.get(&key).cloned();
        assert_eq!(change.previous().map(|it| text(&it.value)), held);
        if let Some(record) = change.record() {
            let value = text(&record.value);
            assert_eq!(puts.insert(value.clone(), record.revision), None, "doubled");
            stored.insert(key, value);
        } else {
            deletes.insert(held.unwrap(), change.revision());
            stored.remove(&key);
        }
    }
    for account in accounts {
        for (value, revision) in &account.acknowledged {
            assert_eq!(puts.get(value), Some(revision), "{value} was acknowledged");
        }
        for (value, revision) in &account.deleted {
            assert_eq!(
                deletes.get(value),
                Some(revision),
                "the deletion of {value}"
            );
        }
        for value in &account.refused {
            assert_eq!(puts.get(value), None, "{value} was refused");
        }
    }
    let known = |value: &String| {
        accounts.iter().any(|it| {
            it.acknowledged.contains_key(value) || it.unknown.contains(value) || value == "end"
        })
    };
    assert!(
        puts.keys().all(known),
        "nothing that was not written is seen"
    );
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_doubled_or_out_of_order_while_members_die() {
    let Some(mut cluster) = Cluster::start(3, &[]) else {
        return;
    };
    let seconds = std::env::var("TIDINGS_ETCD_FAULT_SECONDS");
    let seconds = seconds.map_or(15, |text| text.parse().unwrap());
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.compaction_interval = None;
    options.attempt_timeout = Duration::from_secs(1);
    options.history_len_max = 5_000_000;
    let describe = Arc::new(|_: &[u8]| Description::default());
    let store = EtcdStore::open(options, Arc::new(SystemClock), describe);
    let store = Arc::new(store.await.unwrap());
    let first = store.revision();
    let watch = store.watch(Bytes::new(), first).await.unwrap();
    let (last, until) = tokio::sync::oneshot::channel();
    let watcher = tokio::spawn(async move {
        let mut watch = watch;
        let mut seen = Vec::new();
        let mut until = until;
        let until = loop {
            tokio::select! {
                biased;
                changes = watch.next() => seen.extend(changes.unwrap()),
                until = &mut until => break until.unwrap(),
            }
        };
        if seen
            .last()
            .is_none_or(|change: &Arc<Change>| change.revision() < until)
        {
            seen.extend(follow(watch, until).await);
        }
        seen
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(Arc::clone(&store), writer, Arc::clone(&stop))))
        .collect();

    // The scenario: a member is down for a second, then all are up for as long.
    let mut kills = 0;
    while kills * 2 < seconds {
        let member = kills % cluster.members.len();
        cluster.members[member].kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.members[member].start();
        tokio::time::sleep(Duration::from_secs(1)).await;
        kills += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let mut accounts = Vec::new();
    for writer in writers {
        accounts.push(writer.await.unwrap());
    }
    let end = store.create("z/end".into(), record("end")).await.unwrap();
    last.send(end).unwrap();
    let seen = watcher.await.unwrap();

    let total = |count: fn(&Account) -> usize| accounts.iter().map(count).sum::<usize>();
    let acknowledged = total(|it| it.acknowledged.len() + it.deleted.len());
    let (refused, unknown) = (total(|it| it.refused.len()), total(|it| it.unknown.len()));
    println!(
        "{kills} kills in {seconds} s: {acknowledged} writes acknowledged, {refused} refused, {unknown} unknown, {} changes seen",
        seen.len()
    );
    assert!(acknowledged > 100, "the writers got somewhere");

    let stored = check_changes(&seen, &accounts);

    // The stored records are those of the watcher, and etcd's own history agrees.
    let listed = store.list(ListRequest::default()).await.unwrap();
    let listed: BTreeMap<_, _> = listed
        .records
        .iter()
        .map(|record| (text(&record.key), text(&record.value)))
        .collect();
    assert_eq!(listed, stored);
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.compaction_interval = None;
    let describe = Arc::new(|_: &[u8]| Description::default());
    let late = EtcdStore::open(options, Arc::new(SystemClock), describe);
    let late = late.await.unwrap();
    let replayed = follow(late.watch(Bytes::new(), first).await.unwrap(), end).await;
    let short = |changes: &[Arc<Change>]| -> Vec<_> {
        let one = |change: &Arc<Change>| (change.revision(), change.key().clone());
        changes.iter().map(one).collect()
    };
    assert_eq!(short(&replayed), short(&seen));
}
