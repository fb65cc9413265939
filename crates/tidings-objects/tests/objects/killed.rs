//! A writer that is killed at any step loses and duplicates no version, and leaves no file behind
//! for good. The steps: sealing in several parts, merging, deleting, and a new data folder that
//! takes the place of a lost one.

use tidings_objects::{Place, SealError, newest};

use super::sampled::sampled;
use super::storage::Storage;
use super::unsure::{Fault, Plan, Unsure};
use super::world::{World, sum_of};

/// So small that versions which are observed together are sealed as a part of their own.
const PART_BYTES: usize = 1;

/// A storage with an archive, the data folder that writes it, and the new one that will take its
/// place.
struct Run {
    storage: Storage,
    former: World,
    new: World,
}

impl Run {
    /// With the next seal there are eight files to merge.
    async fn begin(storage: Storage) -> Self {
        let (mut former, new) = (World::new(), World::new());
        for _ in 0..6 {
            former.observe(5).await;
            former.seal_late(&storage.place(), 1 << 20).await.unwrap();
        }
        former.observe(6).await;
        former.observe(6).await;
        Self {
            storage,
            former,
            new,
        }
    }

    /// Copies of everything, as a process leaves it that has ended.
    fn copy(&self) -> Self {
        Self {
            storage: self.storage.copy(),
            former: self.former.copy(),
            new: self.new.copy(),
        }
    }

    /// Makes all steps, or those that are left.
    async fn work(&mut self, place: &Place) {
        match self.former.seal_late(place, PART_BYTES).await {
            // The new folder has already taken its place.
            Ok(_) | Err(SealError::Foreign { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        self.new.take_over(place).await.unwrap();
        if self.new.observed == 0 {
            self.new.observed = self.former.observed;
            self.new.observe(5).await;
            self.new.observe(5).await;
        }
        self.new.seal_late(place, PART_BYTES).await.unwrap();
    }
}

/// Kills the writer at every step, or at every `one_of`th.
async fn killed_at(storage: Storage, one_of: usize) {
    let begun = Run::begin(storage).await;
    let mut run = begun.copy();
    let (all, place) = Unsure::new(&run.storage, Plan::None);
    run.work(&place).await;
    let manifest = newest(&run.storage.place(), "prod").await.unwrap();
    let sum = sum_of(&manifest);
    run.new.check_sum(&run.storage, sum).await;
    let levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
    assert!(levels.contains(&1) && manifest.number > 12, "{levels:?}");
    let steps = all.requests();
    assert!(steps > 40, "there were only {steps} steps");
    for at in sampled((0..steps).step_by(one_of)) {
        for done in [false, true] {
            let mut run = begun.copy();
            let (unsure, place) = Unsure::new(&run.storage, Plan::At(at, Fault::End { done }));
            tokio::select! {
                () = unsure.ended() => {}
                () = run.work(&place) => panic!("there was no step {at}"),
            }
            run.former.ended().await;
            run.new.ended().await;
            let (former, new) = (run.former.copy(), run.new.copy());
            (run.former, run.new) = (former, new);
            let place = run.storage.place();
            run.work(&place).await;
            run.new.check_sum(&run.storage, sum).await;
        }
    }
}

#[tokio::test]
async fn in_a_folder() {
    killed_at(Storage::folder(), 1).await;
}

/// The steps are the same as in a folder, but take longer.
#[tokio::test]
async fn on_s3() {
    killed_at(Storage::s3(), 5).await;
}
