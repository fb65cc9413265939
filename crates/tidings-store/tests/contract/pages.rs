//! Lists that are read page by page while others write: exact, and at the same cost for each page.

use crate::support::{Fixture, about, show};
use tidings_store::{ListRequest, NewRecord, ObjectSelector, ReadError};

/// Reads a list to its end from a request on; `between` may write between its pages.
async fn read_on(
    fixture: &mut Fixture,
    mut request: ListRequest,
    mut between: impl AsyncFnMut(&mut Fixture, usize),
) -> Vec<String> {
    let mut found = Vec::new();
    for number in 0.. {
        let page = fixture.store.list(request.clone()).await.unwrap();
        found.extend(page.records.iter().map(show));
        let Some(last) = page.records.last().filter(|_| page.more) else {
            break;
        };
        request = request.after(last.key.clone()).at(page.revision);
        between(fixture, number).await;
    }
    found
}

/// Twenty records about two pods, and their list.
async fn twenty(fixture: &Fixture) -> Vec<String> {
    let mut list = Vec::new();
    for number in 0..20 {
        let key = format!("a/{number:02}");
        let pod = if number % 4 == 0 { "seldom" } else { "often" };
        let record = NewRecord::new("first").index(about(pod, number));
        fixture
            .store
            .create(key.clone().into(), record)
            .await
            .unwrap();
        list.push(format!("{key}=first"));
    }
    list
}

/// Changes records that are read already and others that are not: updates, deletions, creates, and
/// expiries.
async fn disturb(fixture: &mut Fixture, round: usize) {
    for number in [round, 19 - round] {
        let key = format!("a/{number:02}");
        if let Some(record) = fixture.get(&key).await {
            fixture.update(&key, "second", record.revision).await;
        }
        fixture
            .create(&format!("a/{number:02}{round}"), "new")
            .await;
    }
    if fixture.get("a/10").await.is_some() {
        fixture.delete("a/10").await;
    }
    fixture.create_for(&format!("b/{round}"), "", 5).await;
    fixture.clock.advance(6_000);
    fixture.store.expire().await.unwrap();
}

pub(crate) async fn pages_of_one_list_are_of_one_revision(mut fixture: Fixture) {
    let whole = twenty(&fixture).await;
    let found = read_on(&mut fixture, ListRequest::prefix("a/").limit(3), disturb).await;
    assert_eq!(found, whole);

    // A reopened store has no held lists, but continues them.
    let revision = fixture.store.revision();
    let whole = fixture.list(ListRequest::default().at(revision)).await;
    let request = ListRequest::default().at(revision).limit(4);
    let found = read_on(&mut fixture, request, async |fixture, round| {
        disturb(fixture, round + 7).await;
        fixture.restart().await;
    });
    assert_eq!(found.await, whole);
}

pub(crate) async fn pages_of_one_object_are_of_one_revision(mut fixture: Fixture) {
    let whole = twenty(&fixture).await;
    for (pod, is_its) in [("seldom", true), ("often", false)] {
        let expected: Vec<_> = (0..20)
            .filter(|number| (number % 4 == 0) == is_its)
            .map(|number| whole[number].clone())
            .collect();
        let object = ObjectSelector::Uid(format!("uid-of-{pod}"));
        let request = ListRequest::default().object(object).limit(2);
        if is_its {
            let found = read_on(&mut fixture, request, async |_, _| {}).await;
            assert_eq!(found, expected);
        } else {
            assert_eq!(read_on(&mut fixture, request, disturb).await, expected);
        }
    }
}

/// Number of changes that a store undid for lists.
async fn taken_back(fixture: &Fixture) -> u64 {
    fixture.store.stats().await.unwrap().changes_undone
}

pub(crate) async fn a_page_costs_no_more_by_what_was_written_since(mut fixture: Fixture) {
    let whole = twenty(&fixture).await;
    let many = async |fixture: &mut Fixture, round: usize| {
        for number in 0..100 {
            fixture.create(&format!("c/{round}/{number}"), "").await;
        }
    };
    let request = ListRequest::prefix("a/").limit(4);
    let found = read_on(&mut fixture, request.clone(), many).await;
    assert_eq!((found, taken_back(&fixture).await), (whole.clone(), 0));

    // The snapshot of an idle list is released, and the list can still be continued.
    let found = read_on(&mut fixture, request, async |fixture, round| {
        if round == 1 {
            fixture.create("d", "").await;
            fixture.clock.advance(61_000);
            fixture.store.expire().await.unwrap();
        }
    });
    assert_eq!(found.await, whole);
    let stats = fixture.store.stats().await.unwrap();
    assert_eq!(stats.list_snapshots, 0);
    if fixture.backend.holds_snapshots() {
        assert!(stats.changes_undone > 0, "it was read by the other way");
    }
}

pub(crate) async fn a_list_of_forgotten_revisions_ends(fixture: Fixture) {
    twenty(&fixture).await;
    let page = fixture.store.list(ListRequest::default().limit(3)).await;
    let page = page.unwrap();
    let latest = fixture.create("b", "").await;
    fixture.store.compact(latest).await.unwrap();
    let request = ListRequest::default().after("a/02").at(page.revision);
    let error = fixture.store.list(request).await.unwrap_err();
    assert!(matches!(error, ReadError::Compacted { requested, .. } if requested == page.revision));
    fixture.store.expire().await.unwrap();
    assert_eq!(fixture.store.stats().await.unwrap().list_snapshots, 0);
}
