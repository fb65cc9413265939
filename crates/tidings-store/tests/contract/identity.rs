//! The identity of a store does not change, and is not a record.

use tidings_store::ListRequest;

use crate::support::{Fixture, next_changes};

pub(crate) async fn an_identity_stays_with_the_data(mut fixture: Fixture) {
    let first = fixture.store.identity("one".into()).await.unwrap();
    if first.is_none() {
        // A store in memory keeps nothing.
        return;
    }
    assert_eq!(first.as_deref(), Some("one"));
    let revision = fixture.create("a", "1").await;
    for _ in 0..2 {
        let found = fixture.store.identity("another".into()).await.unwrap();
        assert_eq!(found, first);
        fixture.restart().await;
    }
    assert_eq!(fixture.list(ListRequest::default()).await, ["a=1"]);
    let changes = next_changes(&mut *fixture.watch("", revision - 1).await, 1).await;
    assert_eq!(changes[0].revision(), revision);
}
