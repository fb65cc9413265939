//! Tests of several writes in one commit: all or none.

use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::embedded::files::faults::Random;
use crate::{COMMIT_LEN_MAX, Change, UnixMillis};

fn put(key: &'static str, value: &'static str) -> Write {
    Write::put(key, NewRecord::new(value))
}

async fn contents(store: &EmbeddedStore) -> Vec<(Bytes, Bytes)> {
    let page = store.list(ListRequest::default()).await.unwrap();
    let records = page.records.into_iter();
    records.map(|record| (record.key, record.value)).collect()
}

#[tokio::test]
async fn writes_are_done_in_their_order_and_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let first = store.write_all(vec![put("b", "1"), put("a", "1")]).await;
    assert_eq!(first.unwrap(), [2, 3]);
    let mut watch = store.watch(Bytes::new(), 3).await.unwrap();
    let second = vec![
        Write::delete("a").expecting(Expected::At(3)),
        put("b", "2").expecting(Expected::At(2)),
        put("c", "2").expecting(Expected::Absent),
    ];
    assert_eq!(store.write_all(second).await.unwrap(), [4, 5, 6]);
    let changes = watch.next().await.unwrap();
    let deleted = matches!(&*changes[0], Change::Delete { previous, .. } if previous.key == "a");
    assert!(deleted && changes.len() == 3, "{changes:?}");
    let held = contents(&store).await;
    store.close().await;
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let expected = [("b", "2"), ("c", "2")].map(|(key, value)| (key.into(), value.into()));
    assert_eq!(held, expected);
    assert_eq!(contents(&store).await, expected);
}

#[tokio::test]
async fn one_that_cannot_be_done_keeps_the_others_from_being_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let there = store
        .create("there".into(), NewRecord::new("1"))
        .await
        .unwrap();
    let before = (contents(&store).await, store.revision());
    let over = NewRecord::new("").expires_at(UnixMillis(1));
    let cases = [
        (
            put("there", "2").expecting(Expected::Absent),
            "the key already exists at revision 2",
        ),
        (
            put("there", "2").expecting(Expected::At(there + 1)),
            "the key is at revision 2, not at the expected 3",
        ),
        (
            put("absent", "2").expecting(Expected::At(7)),
            "the key does not exist",
        ),
        (Write::delete("absent"), "the key does not exist"),
        (
            Write::delete("there").expecting(Expected::At(7)),
            "the key is at revision 2, not at the expected 7",
        ),
        (
            Write::delete("there").expecting(Expected::Absent),
            "the key already exists at revision 2",
        ),
        (
            put("first", "2"),
            "a key is written more than once in one commit",
        ),
        (put("", "2"), "the key is empty"),
        (Write::put("late", over), "the record would expire"),
    ];
    for (case, why) in cases {
        let writes = vec![put("first", "1"), case, put("last", "1")];
        let error = store.write_all(writes).await.unwrap_err();
        assert!(error.to_string().starts_with(why), "{error} is not {why}");
        assert_eq!((contents(&store).await, store.revision()), before, "{why}");
    }
    let many = vec![put("a", ""); WRITES_MAX + 1];
    let error = store.write_all(many).await.unwrap_err();
    assert!(
        matches!(error, WriteError::TooMany { len: 4097, .. }),
        "{error}"
    );
    assert_eq!(store.write_all(Vec::new()).await.unwrap(), [0; 0]);
}

/// A commit is one frame of the log, and a frame above some length could not be read back.
#[tokio::test]
async fn records_that_are_too_much_for_one_commit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        free_space_min: 0,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(folder.path(), options.clone()).unwrap();
    let created = store.create("a".into(), NewRecord::new("1")).await;
    let before = (contents(&store).await, created.unwrap());
    let mut random = Random(1);
    let noise: Vec<u8> = (0..1 << 17)
        .flat_map(|_| random.next().to_le_bytes())
        .collect();
    let noise = Bytes::from(noise);
    let puts = |count: usize| {
        let put = |number: usize| {
            let record = NewRecord::new(noise.clone());
            Write::put(format!("n/{number:02}"), record)
        };
        (0..count).map(put).collect::<Vec<_>>()
    };
    let error = store.write_all(puts(70)).await.unwrap_err();
    let is_expected = matches!(
        error,
        WriteError::TooLarge {
            what: "the commit",
            max: COMMIT_LEN_MAX,
            ..
        }
    );
    assert!(is_expected, "{error}");
    assert_eq!((contents(&store).await, store.revision()), before);

    // Several commits together, each of which may be as long as the limit.
    let (one, other) = (puts(31), puts(31));
    let (one, other) = futures::join!(store.write_all(one), store.write_all(other));
    one.unwrap();
    other.unwrap();
    store.close().await;
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let contents = contents(&store).await;
    assert_eq!(contents.len(), 32);
    assert!(contents.iter().skip(1).all(|(_, value)| *value == noise));
    store.close().await;
}

/// Compressing records, and looking up and reading what they replace, may take long.
#[tokio::test]
async fn many_writes_are_not_made_ready_in_the_callers_task() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        free_space_min: 0,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let writes = (0..=READY_AT_ONCE_MAX)
        .map(|number| Write::put(number.to_string(), NewRecord::new("1")))
        .collect();
    // While this lock is held, every read waits.
    let (shared, (held, is_held)) = (Arc::clone(&store.shared), mpsc::channel());
    let (polled, is_polled) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        let _engine = shared.engine.write();
        held.send(()).unwrap();
        is_polled.recv_timeout(Duration::from_secs(10)).is_ok()
    });
    is_held.recv().unwrap();
    let mut written = Box::pin(store.write_all(writes));
    assert!(written.as_mut().now_or_never().is_none());
    // The receiver is gone if the caller had to wait for it.
    let _ = polled.send(());
    assert!(holder.join().unwrap(), "the caller's task was held up");
    assert_eq!(written.await.unwrap().len(), READY_AT_ONCE_MAX + 1);
    store.close().await;
}
