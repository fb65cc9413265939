//! Several writes in one commit: all or none.

use super::*;
use crate::{Change, UnixMillis};

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
