//! The store on etcd beside other programs, behind TLS and authentication, and with an etcd that
//! does not answer.

#![cfg(feature = "etcd")]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod cluster;
mod gateway;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tidings_store::clock::{Clock, ManualClock, SystemClock};
use tidings_store::etcd::{Description, EtcdOptions, EtcdStore, OpenError, TlsFiles};
use tidings_store::{
    Change, Fault, Index, ListRequest, NewRecord, ObjectSelector, Store, UnixMillis, Watch,
    WatchError, WriteError,
};
use tidings_testing::copy_folder;
use tidings_testing::etcd::{Cluster, Member};

const START: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

/// Maximum time to wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value is the uid of the object it is about.
fn describe(value: &[u8]) -> Description {
    Description {
        index: Index {
            object_uid: String::from_utf8_lossy(value).into_owned(),
            ..Index::default()
        },
        expires_at: None,
    }
}

fn options(cluster: &Cluster) -> EtcdOptions {
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.compaction_interval = None;
    options
}

async fn open(options: EtcdOptions, clock: impl Clock) -> EtcdStore {
    let store = EtcdStore::open(options, Arc::new(clock), Arc::new(describe));
    store.await.unwrap()
}

async fn error_of_opening(options: EtcdOptions) -> String {
    let opened = EtcdStore::open(options, Arc::new(SystemClock), Arc::new(describe)).await;
    opened.err().expect("it cannot be opened").to_string()
}

fn record(value: &str, expires_at: i64) -> NewRecord {
    NewRecord::new(value.to_owned()).expires_at(UnixMillis(expires_at))
}

/// A number of next changes, in one batch or several.
async fn next(watch: &mut dyn Watch, count: usize) -> Vec<Arc<Change>> {
    let mut changes = Vec::new();
    while changes.len() < count {
        changes.extend(watch.next().await.unwrap());
    }
    assert_eq!(changes.len(), count);
    changes
}

#[tokio::test]
async fn records_lie_where_kube_apiserver_looks_for_them() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    let store = open(options(&cluster), ManualClock::at(UnixMillis(START))).await;
    let value = "k8s\0 and any bytes";
    for number in 0..1001 {
        let key = format!("default/web.{number}");
        let created = store.create(key.into(), record(value, START + HOUR)).await;
        created.unwrap();
    }
    let at = |number: u64| {
        let key = format!("/registry/events/default/web.{number}");
        gateway::read(url, &key).unwrap()
    };
    let (stored, lease) = at(0);
    assert_eq!(stored, value.as_bytes());
    assert_eq!(gateway::life(url, &lease).0, 3660);
    assert_eq!(at(999).1, lease, "a thousand share a lease");
    assert_ne!(at(1000).1, lease, "and no more");
}

#[tokio::test]
async fn what_kube_apiserver_writes_is_read_found_watched_and_expires() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    let store = open(options(&cluster), SystemClock).await;
    let first = store.revision();
    let mut watch = store.watch(Bytes::new(), first).await.unwrap();
    let lease = gateway::grant(url, 3);
    gateway::put(url, "/registry/events/default/theirs", "uid-1", &lease);
    gateway::put(url, "/registry/pods/default/other", "uid-1", "0");
    let change = next(&mut *watch, 1).await.remove(0);
    assert_eq!(change.key(), "default/theirs");
    let end = change.record().unwrap().expires_at.unwrap();
    let left = end.0 - SystemClock.now().0;
    assert!((1..=3000).contains(&left), "{left} ms");

    let found = store.get("default/theirs".into()).await.unwrap().unwrap();
    assert_eq!(Some(&found), change.record());
    let object = ListRequest::default().object(ObjectSelector::Uid("uid-1".into()));
    let page = store.list(object).await.unwrap();
    assert_eq!(page.records, std::slice::from_ref(&found));

    let change = next(&mut *watch, 1).await.remove(0);
    let Change::Delete {
        previous, expired, ..
    } = &*change
    else {
        panic!("{change:?}");
    };
    assert_eq!((previous, *expired), (&found, true));
    // Its history from etcd is the same, although the lease is gone.
    let late = open(options(&cluster), SystemClock).await;
    let mut replay = late.watch(Bytes::new(), first).await.unwrap();
    let again = next(&mut *replay, 2).await;
    assert_eq!(again[0].key(), "default/theirs");
    assert!(matches!(&*again[1], Change::Delete { expired: true, .. }));
}

#[tokio::test]
async fn a_life_is_not_lengthened_by_a_lease_that_is() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    let clock = ManualClock::at(UnixMillis(START));
    let store = open(options(&cluster), clock.clone()).await;
    store
        .create("ours".into(), record("u", START + HOUR))
        .await
        .unwrap();
    let theirs = gateway::grant(url, 600);
    gateway::put(url, "/registry/events/theirs", "u", &theirs);
    let end = async |store: &EtcdStore, key: &'static str| {
        let record = store.get(key.into()).await.unwrap();
        record.map(|record| record.expires_at.unwrap().0 - START)
    };
    assert_eq!(
        end(&store, "ours").await,
        Some(HOUR),
        "exact in the process that wrote it"
    );
    let first_seen = end(&store, "theirs").await.unwrap();
    assert!((500_000..=600_000).contains(&first_seen), "{first_seen}");

    // A new leader restarts every lease; a client can do the same to one.
    let (_, ours) = gateway::read(url, "/registry/events/ours").unwrap();
    clock.advance(300_000);
    for lease in [&ours, &theirs] {
        gateway::call(url, "lease/keepalive", &json!({ "ID": lease }));
    }
    let other = open(options(&cluster), clock.clone()).await;
    assert_eq!(end(&store, "theirs").await, Some(first_seen));
    let by_lease = end(&other, "ours").await.unwrap();
    assert_eq!(
        by_lease,
        HOUR + 60_000,
        "the end the lease was granted with"
    );
    clock.advance(first_seen - 300_000);
    assert_eq!(end(&store, "theirs").await, None);

    clock.advance(HOUR - first_seen);
    assert_eq!(end(&store, "ours").await, None);
    assert!(
        gateway::read(url, "/registry/events/ours").is_some(),
        "etcd still has it"
    );
    // No write sees it either, and its key is free.
    let delete = store.delete("ours".into(), None).await;
    assert!(matches!(delete, Err(WriteError::NotFound)));
    let created = store
        .create("ours".into(), record("v", START + 2 * HOUR))
        .await;
    assert!(created.is_ok());
}

#[tokio::test]
async fn a_revision_is_never_told_in_parts() {
    const KEYS: usize = 400;
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    let store = open(options(&cluster), ManualClock::at(UnixMillis(START))).await;
    let first = store.revision();
    // More than fits in one message of etcd.
    let value = "v".repeat(20_000);
    let lease = gateway::grant(url, 600);
    for number in 0..KEYS {
        gateway::put(url, &format!("/registry/events/{number}"), &value, &lease);
    }
    let mut live = store.watch(Bytes::new(), first).await.unwrap();
    let mut puts = 0;
    while puts < KEYS {
        puts += live.next().await.unwrap().len();
    }
    gateway::call(url, "lease/revoke", &json!({ "ID": lease }));
    let late = open(options(&cluster), ManualClock::at(UnixMillis(START))).await;
    let after_puts = live.revision();
    let replay = late.watch(Bytes::new(), after_puts).await.unwrap();
    for mut watch in [live, replay] {
        let deleted = watch.next().await.unwrap();
        assert_eq!(deleted.len(), KEYS);
        let revision = deleted[0].revision();
        assert!(deleted.iter().all(|it| it.revision() == revision));
        assert_eq!(watch.revision(), revision);
    }
}

/// Whether an etcd is asked for progress. Debian's is not: its answers may overtake events.
fn is_asked_for_progress(url: &str) -> bool {
    let status = gateway::call(url, "maintenance/status", &json!({}));
    let version = status["version"].as_str().unwrap_or_default();
    !version.starts_with("3.4")
}

/// A watch after an older revision than the store has in memory needs no change to catch up, and
/// has no stream of its own from then on.
#[tokio::test]
async fn an_older_watch_catches_up_while_nothing_changes() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    if !is_asked_for_progress(url) {
        return;
    }
    gateway::put(url, "/registry/events/a", "uid-1", "0");
    let clock = ManualClock::at(UnixMillis(START));
    let first = open(options(&cluster), clock.clone()).await.revision();
    for number in 0..5 {
        gateway::put(url, &format!("/registry/pods/{number}"), "", "0");
    }
    let late = open(options(&cluster), clock).await;
    assert_eq!(late.revision(), first + 5);
    let mut watch = late.watch(Bytes::new(), first).await.unwrap();
    let catch_up = async {
        while watch.revision() < first + 5 {
            let waited = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
            assert!(waited.is_err(), "other keys are not reported");
        }
    };
    let caught_up = tokio::time::timeout(PATIENCE, catch_up).await;
    assert!(caught_up.is_ok(), "at {}", watch.revision());
}

#[tokio::test]
async fn writes_of_others_move_watches_and_index_along() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let url = &cluster.endpoints()[0];
    if !is_asked_for_progress(url) {
        return;
    }
    let store = open(options(&cluster), ManualClock::at(UnixMillis(START))).await;
    let created = store
        .create("a".into(), record("uid-1", START + HOUR))
        .await
        .unwrap();
    let mut watch = store.watch(Bytes::new(), created).await.unwrap();
    for number in 0..5 {
        gateway::put(url, &format!("/registry/pods/{number}"), "", "0");
    }
    // The list by object makes the index catch up, and with it all watchers.
    let object = ListRequest::default().object(ObjectSelector::Uid("uid-1".into()));
    while watch.revision() < created + 5 {
        let page = store.list(object.clone()).await.unwrap();
        assert_eq!(page.records.len(), 1);
        let waited = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
        assert!(waited.is_err(), "other keys are not reported");
    }
    assert_eq!(watch.revision(), created + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_does_not_answer_leaves_writes_unknown_and_reads_failed_in_time() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let mut options = options(&cluster);
    // With a timeout for the start of etcd; the tested store has none.
    let patient = open(options.clone(), ManualClock::at(UnixMillis(START))).await;
    options.attempt_timeout = Duration::from_millis(200);
    options.request_timeout = Duration::from_millis(600);
    let store = open(options, ManualClock::at(UnixMillis(START))).await;
    let first = store
        .create("a".into(), record("1", START + HOUR))
        .await
        .unwrap();
    let mut watch = store.watch(Bytes::new(), first).await.unwrap();
    cluster.members[0].signal("STOP");
    let created = store.create("b".into(), record("1", START + HOUR)).await;
    let updated = store
        .update("a".into(), record("2", START + HOUR), first)
        .await;
    let read = store.get("a".into()).await;
    cluster.members[0].signal("CONT");
    for unknown in [created, updated] {
        assert!(
            matches!(unknown, Err(WriteError::Fault(Fault::Unknown(_)))),
            "{unknown:?}"
        );
    }
    let message = read.unwrap_err().to_string();
    assert!(message.ends_with("no answer in time"), "{message}");

    // When etcd continues, it may still process them, the update in several copies, before or after
    // later requests: none is done twice.
    patient
        .create("c".into(), record("end", START + HOUR))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&Bytes::from("c")) {
        let changes = watch.next().await.unwrap();
        seen.extend(changes.iter().map(|change| change.key().clone()));
    }
    for key in ["a", "b"] {
        let times = seen.iter().filter(|seen| *seen == key).count();
        assert!(times <= 1, "{key} was done {times} times");
    }
}

#[tokio::test]
async fn members_that_are_not_there_are_passed_over() {
    let Some(mut cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let mut options = options(&cluster);
    options.endpoints.insert(0, "http://127.0.0.1:1".into());
    let store = open(options.clone(), ManualClock::at(UnixMillis(START))).await;
    let first = store
        .create("a".into(), record("1", START + HOUR))
        .await
        .unwrap();
    let mut watch = store.watch(Bytes::new(), first).await.unwrap();
    // Without a server: certainly refused, in time.
    cluster.members[0].kill();
    options.request_timeout = Duration::from_millis(300);
    let message = error_of_opening(options).await;
    assert!(message.starts_with("etcd cannot be used: "), "{message}");
    cluster.members[0].start();
    assert!(store.get("a".into()).await.unwrap().is_some());
    let second = store
        .create("b".into(), record("2", START + HOUR))
        .await
        .unwrap();
    assert_eq!(next(&mut *watch, 1).await[0].revision(), second);
}

/// Copies a member's data, which it ends for.
fn back_up(member: &mut Member, to: &Path) {
    member.kill();
    copy_folder(member.data(), to);
}

/// Starts a member with other data than it had.
fn restore(member: &mut Member, from: &Path) {
    member.kill();
    std::fs::remove_dir_all(member.data()).unwrap();
    copy_folder(from, member.data());
    member.start();
}

/// It is at an earlier revision than the store has seen, or others have written more since than the
/// store has seen.
#[tokio::test]
async fn an_etcd_that_is_restored_from_a_backup_is_followed_anew() {
    const LOST: usize = 20;
    for others in [0, 2 * LOST] {
        let Some(mut cluster) = Cluster::start(1, &[]) else {
            return;
        };
        let url = cluster.endpoints()[0].clone();
        let folder = tempfile::tempdir().unwrap();
        let (backup, restored) = (folder.path().join("backup"), folder.path().join("restored"));
        gateway::put(&url, "/registry/events/old", "uid-1", "0");
        back_up(&mut cluster.members[0], &backup);
        cluster.members[0].start();
        for number in 0..others {
            let key = format!("/registry/events/other-{number}");
            gateway::put(&url, &key, "uid-1", "0");
        }
        back_up(&mut cluster.members[0], &restored);
        restore(&mut cluster.members[0], &backup);

        let store = open(options(&cluster), ManualClock::at(UnixMillis(START))).await;
        let mut last = 0;
        for number in 0..LOST {
            let key = format!("lost-{number}");
            let created = store.create(key.into(), record("uid-1", START + HOUR));
            last = created.await.unwrap();
        }
        let mut watch = store.watch(Bytes::new(), last - 1).await.unwrap();
        assert_eq!(next(&mut *watch, 1).await[0].revision(), last);

        restore(&mut cluster.members[0], &restored);
        let told = tokio::time::timeout(PATIENCE, watch.next()).await;
        let told = told.expect("the watch ends");
        assert!(
            matches!(&told, Err(WatchError::Compacted { after, .. }) if *after == last),
            "{others}: {told:?}"
        );
        let page = store.list(ListRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 1 + others);
        assert_eq!(page.revision, store.revision());
        assert_eq!(page.revision < last, others == 0);
        // The revisions of the lost records are now those of records without an end.
        let ends: Vec<_> = page.records.iter().map(|it| it.expires_at).collect();
        assert!(ends.iter().all(Option::is_none), "{others}: {ends:?}");
        let object = ListRequest::default().object(ObjectSelector::Uid("uid-1".into()));
        assert_eq!(store.list(object).await.unwrap().records.len(), 1 + others);
        if others == 0 {
            let later = store.watch(Bytes::new(), last).await.err();
            assert!(
                matches!(later, Some(WatchError::Future { .. })),
                "{later:?}"
            );
        }

        // The former lease, which would do, is not in the backup.
        let mut watch = store.watch(Bytes::new(), page.revision).await.unwrap();
        let created = store.create("lost-0".into(), record("uid-2", START + HOUR));
        let created = created.await.unwrap();
        assert!(created > page.revision);
        let change = next(&mut *watch, 1).await.remove(0);
        assert_eq!(
            (change.key(), change.revision()),
            (&Bytes::from("lost-0"), created)
        );
        let end = change.record().unwrap().expires_at;
        assert_eq!(end, Some(UnixMillis(START + HOUR)));
    }
}

/// An authority, and a certificate signed by it for 127.0.0.1, as PEM files in a folder.
fn write_certificates(folder: &Path) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    leaf.extended_key_usages = vec![
        rcgen::ExtendedKeyUsagePurpose::ServerAuth,
        rcgen::ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let leaf_pem = leaf.signed_by(&key, &issuer).unwrap().pem();
    for (name, pem) in [
        ("ca.pem", ca_pem),
        ("cert.pem", leaf_pem),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), pem).unwrap();
    }
}

/// Starts a member with the certificates of a folder, which clients must have, too.
fn start_with_tls(folder: &Path) -> Option<Cluster> {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let arguments = [
        "--client-cert-auth",
        "--trusted-ca-file",
        &path("ca.pem"),
        "--cert-file",
        &path("cert.pem"),
        "--key-file",
        &path("key.pem"),
    ];
    Cluster::start(1, &arguments)
}

#[tokio::test]
async fn tls_with_certificates_of_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let Some(cluster) = start_with_tls(folder.path()) else {
        return;
    };
    let mut options = options(&cluster);
    options.tls = Some(TlsFiles {
        ca_file: Some(file("ca.pem")),
        cert_file: Some(file("cert.pem")),
        key_file: Some(file("key.pem")),
    });
    let store = open(options.clone(), ManualClock::at(UnixMillis(START))).await;
    store
        .create("a".into(), record("1", START + HOUR))
        .await
        .unwrap();
    assert!(store.get("a".into()).await.unwrap().is_some());

    options.request_timeout = Duration::from_millis(500);
    options.tls = Some(TlsFiles {
        ca_file: Some(file("ca.pem")),
        ..TlsFiles::default()
    });
    let message = error_of_opening(options.clone()).await;
    assert!(
        message.starts_with("etcd cannot be used: "),
        "without our certificate: {message}"
    );
    options.tls = None;
    let message = error_of_opening(options).await;
    assert!(
        message.starts_with("etcd cannot be used: "),
        "without their authority: {message}"
    );
}

#[tokio::test]
async fn tls_files_that_are_replaced_while_they_are_in_use() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let Some(mut cluster) = start_with_tls(folder.path()) else {
        return;
    };
    let mut options = options(&cluster);
    options.request_timeout = Duration::from_secs(20);
    options.tls = Some(TlsFiles {
        ca_file: Some(file("ca.pem")),
        cert_file: Some(file("cert.pem")),
        key_file: Some(file("key.pem")),
    });
    let store = open(options, ManualClock::at(UnixMillis(START))).await;
    let first = store
        .create("a".into(), record("1", START + HOUR))
        .await
        .unwrap();
    let mut watch = store.watch(Bytes::new(), first).await.unwrap();
    // A different authority: neither side accepts the other's former certificate. In between, the
    // files are not certificates.
    cluster.members[0].kill();
    std::fs::write(file("cert.pem"), "half a fi").unwrap();
    write_certificates(folder.path());
    cluster.members[0].start();
    assert!(store.get("a".into()).await.unwrap().is_some());
    let second = store
        .create("b".into(), record("2", START + HOUR))
        .await
        .unwrap();
    assert_eq!(next(&mut *watch, 1).await[0].revision(), second);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    type Change = fn(&mut EtcdOptions);
    let cases: [(Change, &str); 9] = [
        (
            |it| it.endpoints.clear(),
            "no endpoint is given; at least one etcd URL is needed",
        ),
        (
            |it| it.endpoints = vec!["127.0.0.1:2379".into()],
            "endpoint \"127.0.0.1:2379\" must begin with http:// or https://",
        ),
        (
            |it| it.tls = Some(TlsFiles::default()),
            "endpoint \"http://127.0.0.1:1\" must begin with https://, for TLS files are given",
        ),
        (
            |it| it.prefix.clear(),
            "the prefix is empty; give one such as /registry/events/",
        ),
        (
            |it| it.attempt_timeout = Duration::ZERO,
            "attempt_timeout is zero; it must be longer",
        ),
        (
            |it| it.compaction_interval = Some(Duration::from_millis(1)),
            "compaction_interval is below one second; use None to turn it off",
        ),
        (
            |it| it.history_len_max = 0,
            "history_len_max and history_bytes_max must be above zero",
        ),
        (
            |it| {
                it.endpoints = vec!["https://127.0.0.1:1".into()];
                it.tls = Some(TlsFiles {
                    cert_file: Some("cert.pem".into()),
                    ..TlsFiles::default()
                });
            },
            "cert_file and key_file go together; only one is given",
        ),
        (
            |it| {
                it.endpoints = vec!["https://127.0.0.1:1".into()];
                it.tls = Some(TlsFiles {
                    ca_file: Some("/nowhere/ca.pem".into()),
                    ..TlsFiles::default()
                });
            },
            "cannot read /nowhere/ca.pem: No such file or directory (os error 2)",
        ),
    ];
    for (change, want) in cases {
        let mut options = EtcdOptions::new(["http://127.0.0.1:1"]);
        change(&mut options);
        assert_eq!(error_of_opening(options).await, want);
    }
    let mut options = EtcdOptions::new(["http://127.0.0.1:1"]);
    options.request_timeout = Duration::from_millis(100);
    let opened = EtcdStore::open(options, Arc::new(SystemClock), Arc::new(describe)).await;
    assert!(matches!(opened.err(), Some(OpenError::Etcd(_))));
}
