//! What it costs to look for new manifests.

use super::history::History;
use super::reading::{judged, observe, read, seal};
use super::storage::Storage;
use super::world::World;

/// A reader looks once a minute by default. The listing shows whether a manifest is new.
#[tokio::test]
async fn a_reader_sends_one_request_at_each_look_while_nothing_is_new() {
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(5);
        observe(&mut world, &mut history, 20).await;
        seal(&world, &place).await;
        let sealed = read(&place).await;
        sealed.look().await.unwrap();
        let before = sealed.requests().requests;
        store.asked();
        for _ in 0..5 {
            sealed.look().await.unwrap();
        }
        assert_eq!(store.asked(), 5);
        assert_eq!(sealed.requests().requests, before + 5);
        // A new manifest is read, once.
        let versions = sealed.store().stats().await.unwrap().records;
        observe(&mut world, &mut history, 20).await;
        seal(&world, &place).await;
        sealed.look().await.unwrap();
        assert!(sealed.store().stats().await.unwrap().records > versions);
        store.asked();
        sealed.look().await.unwrap();
        assert_eq!(store.asked(), 1);
    }
}
