//! Repeated observations change nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_store::clock::{ManualClock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, Store, UnixMillis};

use super::keeper::{Keeper, Observation, With};
use super::position::{Position, Unswept};
use super::{keys, sweep};
use crate::version::record::Gone;

fn observation(version: u64, is_gone: bool) -> Observation {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some("web.1".into()),
            namespace: Some("shop".into()),
            uid: Some("uid-1".into()),
            ..ObjectMeta::default()
        }),
        count: i32::try_from(version).ok(),
        ..Event::default()
    };
    Observation {
        event,
        version,
        is_gone,
    }
}

#[tokio::test]
async fn versions_that_are_observed_again_are_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(SystemClock), keep_for, false);
    let mut position = Position::default();
    let observed = [1, 2, 3].map(|version| observation(version, false));
    let ended = [observation(4, true)];
    for observations in [&observed[..], &ended, &observed, &ended, &observed[1..]] {
        let kept = keeper.keep(observations, "", &mut position, With::default());
        kept.await.unwrap();
    }
    assert_eq!(position.versions, 3);
    let found = keeper
        .store
        .get("shop/web.1".into())
        .await
        .unwrap()
        .unwrap();
    let record = crate::version::record::Record::decode(&found.value).unwrap();
    let numbers = record.versions().map(|version| version.unwrap().0.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(record.gone.map(|gone| gone.number), Some(4));
    keeper.store.close().await;
}

fn keeper(folder: &std::path::Path, mirrors: bool) -> (Keeper, ManualClock) {
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    let store = EmbeddedStore::open(folder, options).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(clock.clone()), keep_for, mirrors);
    (keeper, clock)
}

/// Enough versions that some are in chunks.
async fn keep_many(keeper: &Keeper, position: &mut Position) {
    let many = (1..200).map(|version| observation(version, false));
    let many: Vec<_> = many.collect();
    let kept = keeper.keep(&many, "", position, With::default());
    kept.await.unwrap();
    let chunks = keeper.store.list(ListRequest::prefix(keys::CHUNKS)).await;
    assert!(!chunks.unwrap().records.is_empty());
}

/// Keys of events and chunks.
async fn left(keeper: &Keeper) -> Vec<String> {
    let all = keeper.store.list(ListRequest::default()).await.unwrap();
    let keys = all.records.iter();
    let keys = keys.map(|record| String::from_utf8_lossy(&record.key).into_owned());
    keys.filter(|key| !key.starts_with("\0position")).collect()
}

#[tokio::test]
async fn where_deletions_are_mirrored_no_older_version_is_left_of_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let (keeper, _) = keeper(folder.path(), true);
    let mut position = Position::default();
    keep_many(&keeper, &mut position).await;
    // Its last version would become a chunk, too.
    let last: Vec<_> = (200..260)
        .map(|version| observation(version, false))
        .collect();
    let ended = observation(300, true);
    let batch: Vec<_> = last.into_iter().chain([ended]).collect();
    let kept = keeper.keep(&batch, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(left(&keeper).await, [""; 0]);
    keeper.store.close().await;
}

/// An event in the list after a gap exists; one that is not in it has ended between two times.
#[tokio::test]
async fn ends_that_came_while_nothing_was_followed_are_found_by_the_next_list() {
    for mirrors in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, clock) = keeper(folder.path(), mirrors);
        let mut position = Position::default();
        let named = |name: &str, uid: &str| {
            let mut observation = observation(7, false);
            let metadata = observation.event.metadata.get_or_insert_default();
            metadata.name = Some(name.into());
            metadata.uid = Some(uid.into());
            observation
        };
        let lives = named("lives", "uid-lives");
        let ended = named("ended", "uid-ended");
        let renewed = named("renewed", "uid-renewed");
        let before = [lives.clone(), ended, renewed];
        let kept = keeper.keep(&before, "", &mut position, With::default());
        kept.await.unwrap();
        let not_before = keeper.clock.now().0;
        clock.advance(2);
        let listed_at = keeper.clock.now().0;
        let unswept = Unswept {
            listed_at,
            version: 50,
            not_before,
            since: 0,
        };
        let with = With {
            gap: None,
            listed_at: Some(listed_at),
            unswept: Some(&unswept),
        };
        let again = named("renewed", "uid-other-renewed");
        let listed = [lives, again];
        let kept = keeper.keep(&listed, "", &mut position, with);
        kept.await.unwrap();
        // The next process does the remaining work.
        assert_eq!(sweep::sweep(&keeper).await.unwrap(), 2);
        assert_eq!(sweep::sweep(&keeper).await.unwrap(), 0);
        let mut found = Vec::new();
        for key in left(&keeper).await {
            let record = keeper.store.get(key.clone().into()).await.unwrap().unwrap();
            let record = crate::version::record::Record::decode(&record.value).unwrap();
            found.push((key, record.gone));
        }
        let gone = Some(Gone {
            number: 50,
            observed_at: listed_at,
            not_before: Some(not_before),
        });
        let mut expected = vec![
            ("shop/lives".to_owned(), None),
            ("shop/renewed".to_owned(), None),
        ];
        if !mirrors {
            expected.insert(0, ("shop/ended".to_owned(), gone));
            expected.push(("shop/renewed.uid-rene".to_owned(), gone));
        }
        assert_eq!(found, expected);
        keeper.store.close().await;
    }
}

#[tokio::test]
async fn an_event_whose_names_are_too_long_for_keys_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(SystemClock), keep_for, false);
    let mut position = Position::default();
    let named = |name_len: usize, uid_len: usize| {
        let mut observation = observation(1, false);
        let metadata = observation.event.metadata.as_mut().unwrap();
        metadata.name = Some("n".repeat(name_len));
        metadata.uid = Some("u".repeat(uid_len));
        observation
    };
    let observations = [
        named(2000, 36),
        named(36, 2000),
        // The longest names, of which the second moves the first to another name.
        named(900, 20),
        named(900, 50),
        observation(2, false),
    ];
    let kept = keeper.keep(&observations, "", &mut position, With::default());
    kept.await.unwrap();
    assert_eq!(position.versions, 3);
    keeper.store.close().await;
}
