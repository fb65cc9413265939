//! Folders that a program used which knew no cursor: nothing of them is lost, or sealed unseen.

use super::*;

/// A former program read versions, and could not seal them before the process ended. It noted no
/// cursor.
#[tokio::test]
async fn what_a_former_program_did_not_seal_is_sealed() {
    let packed = include_bytes!("../../../../tests/formats/feed-1.bin");
    let mut world = World::new().await;
    world.keeper.store.close().await;
    world.folder = temporary();
    unpack_folder(packed, world.folder.path());
    world.reopen(true).await;
    // One version is sealed, three were read, and one waits.
    let unsealed = world.unsealed();
    assert_eq!(unsealed.waiting(), Some(4));
    unsealed.sealed(1).await.unwrap();
    let part = unsealed.next(usize::MAX).await.unwrap().unwrap();
    let mut numbers: Vec<_> = part.versions.iter().map(|it| it.number).collect();
    numbers.sort_unstable();
    assert_eq!((numbers, part.gone, part.through), (vec![2, 3, 4, 5], 0, 4));
    // They may be sealed, and are told with all of their versions.
    assert_eq!(told(&world, 0).await, None);
    let (mut versions, through) = told(&world, 1).await.unwrap();
    versions.sort_unstable();
    assert_eq!((versions, through), (vec![2, 3, 4, 5], 4));
    unsealed.sealed(4).await.unwrap();
    drop(unsealed);
    world.reopen(true).await;
    assert_eq!(world.unsealed().waiting(), Some(0));
    world.keeper.store.close().await;
}

/// The first entry that waits may come after one that expired, or that was never written. Readers
/// know only what is sealed.
#[tokio::test]
async fn a_cursor_begins_no_later_than_what_a_former_program_gave() {
    let mut world = World::new().await;
    world.reopen(true).await;
    for _ in 0..3 {
        world.step(&observe()).await;
        world.step(&seal(false)).await;
    }
    world.step(&observe()).await;
    world.step(&observe()).await;
    let store = Arc::clone(&world.keeper.store);
    for number in 0..4 {
        // Entries of former seals are not there.
        let _ = store.delete(keys::unsealed(number), None).await;
    }
    store
        .delete(Bytes::from_static(keys::FEED), None)
        .await
        .unwrap();
    drop(store);
    world.reopen(true).await;
    assert_eq!(told(&world, 3).await, Some((vec![5], 5)));
    world.unsealed().sealed(3).await.unwrap();
    // Its number is given again, and what has it is not sealed.
    world.clock.advance(2 * 3_600_000);
    world.keeper.store.expire().await.unwrap();
    world.reopen(true).await;
    world.step(&observe()).await;
    let part = world.unsealed().next(usize::MAX).await.unwrap().unwrap();
    let numbers: Vec<_> = part.versions.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [6]);
    world.keeper.store.close().await;
}

/// The numbers begin again at zero, behind which the stored cursor would hide entries.
#[tokio::test]
async fn a_cursor_is_not_believed_after_a_former_program_began_anew() {
    let mut world = World::new().await;
    world.reopen(true).await;
    for _ in 0..3 {
        world.step(&observe()).await;
        world.step(&seal(false)).await;
    }
    let store = Arc::clone(&world.keeper.store);
    let entry = store.list(ListRequest::prefix(keys::UNSEALED)).await;
    let entry = entry.unwrap().records.remove(0);
    store.delete(entry.key, None).await.unwrap();
    let mark = NewRecord::new("3");
    let again = NewRecord::new(entry.value);
    let writes = vec![
        Write::put(keys::unsealed(0), again),
        Write::put(keys::SEALED, mark),
    ];
    store.write_all(writes).await.unwrap();
    drop(store);
    world.reopen(true).await;
    let part = world.unsealed().next(usize::MAX).await.unwrap().unwrap();
    assert_eq!(part.versions.len(), 1);
    world.keeper.store.close().await;
}
