//! A clock that is ahead hides versions and entries. When it is right again, each is sealed once.

use tidings_store::Store;

use super::{Step, World, observe, seal};

/// After a failed seal and a restart, a clock that is ahead hides the entries that were given. None
/// of them may count as sealed.
#[tokio::test]
async fn entries_that_a_clock_hides_are_sealed_when_it_is_right_again() {
    let mut world = World::new().await;
    world.reopen(true).await;
    for step in [observe(), Step::Fail { bytes: usize::MAX }] {
        world.step(&step).await;
    }
    world.clock.set_by(30 * 86_400_000);
    world.reopen(true).await;
    world.clock.set_by(-30 * 86_400_000);
    world.step(&seal(false)).await;
    assert_eq!(world.sealed, [1]);
    world.keeper.store.close().await;
}

/// A number that was used again would replace the entry that has it.
#[tokio::test]
async fn numbers_of_entries_that_a_clock_hides_are_not_used_again() {
    let mut world = World::new().await;
    world.reopen(true).await;
    world.step(&observe()).await;
    world.clock.set_by(30 * 86_400_000);
    world.reopen(true).await;
    world.step(&Step::Observe(vec![(1, 0)])).await;
    world.clock.set_by(-30 * 86_400_000);
    world.step(&seal(false)).await;
    world.step(&seal(false)).await;
    assert_eq!(world.sealed, [1, 2]);
    world.keeper.store.close().await;
}

/// Sealing does not pass over them: it would not come back to them.
#[tokio::test]
async fn versions_that_a_clock_hides_are_sealed_when_it_is_right_again() {
    // The clock hides the versions alone, or their entries, too.
    for ahead in [3_600_000, 30 * 86_400_000] {
        let mut world = World::new().await;
        world.reopen(true).await;
        world.step(&observe()).await;
        world.clock.set_by(ahead);
        world.step(&Step::Observe(vec![(1, 0)])).await;
        world.step(&seal(false)).await;
        world.clock.set_by(-ahead);
        world.step(&seal(false)).await;
        assert_eq!(world.sealed, [1, 2]);
        world.keeper.store.close().await;
    }
}
