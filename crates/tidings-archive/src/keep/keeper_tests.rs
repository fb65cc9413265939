//! Observations that come again change nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_store::Store;
use tidings_store::clock::SystemClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};

use super::keeper::{Keeper, Observation};
use super::position::Position;

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
        let kept = keeper.keep(observations, "", &mut position, None);
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
        // The longest, of which the second moves the first out of its way.
        named(900, 20),
        named(900, 50),
        observation(2, false),
    ];
    let kept = keeper.keep(&observations, "", &mut position, None);
    kept.await.unwrap();
    assert_eq!(position.versions, 3);
    keeper.store.close().await;
}
