//! Versions that wait to be sealed are shown after the sealed ones: each version once, whatever is
//! sealed meanwhile, and whether or not the archive that has them answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tidings_api::codec;
use tidings_archive::{Cluster, ClusterOptions};
use tidings_objects::{
    HearError, Place, ReadOptions, Reader, SealOptions, SealedCluster, Sealer, Waiting,
    WaitingSource, newest,
};
use tidings_store::clock::Clock;
use tidings_store::{BoxFuture, ListRequest, ReadError, WatchError};

use super::history::History;
use super::reading::{compare, listed, observe, seal, shown};
use super::storage::Storage;
use super::world::World;

/// The archive that follows the cluster. It is opened for each request, or runs until it is ended.
struct Hot {
    folder: Mutex<PathBuf>,
    options: ClusterOptions,
    is_down: AtomicBool,
    running: Mutex<Option<Waiting>>,
}

impl Hot {
    fn of(world: &World) -> Arc<Self> {
        Arc::new(Self {
            folder: Mutex::new(world.path().to_owned()),
            options: world.options("prod"),
            is_down: AtomicBool::new(false),
            running: Mutex::default(),
        })
    }

    /// Opens the archive, which runs from now on.
    async fn start(&self, world: &World) -> Cluster {
        let cluster = world.open().await;
        *self.running.lock() = Some(Waiting::of(&cluster));
        cluster
    }

    async fn end(&self, cluster: Cluster) {
        *self.running.lock() = None;
        cluster.close().await;
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    fn set_folder(&self, folder: &Path) {
        folder.clone_into(&mut self.folder.lock());
    }
}

impl WaitingSource for Hot {
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        Box::pin(async move {
            if self.is_down.load(Ordering::Relaxed) {
                return Err("connection refused".into());
            }
            let running = self.running.lock().clone();
            if let Some(running) = running {
                let file = running.file(from, to).await;
                return Ok(file.unwrap().map(Bytes::from));
            }
            let folder = self.folder.lock().clone();
            let cluster = Cluster::open_kept(&folder, self.options.clone()).await;
            let cluster = cluster.unwrap();
            let file = Waiting::of(&cluster).file(from, to).await;
            cluster.close().await;
            Ok(file.unwrap().map(Bytes::from))
        })
    }
}

async fn read_with(place: &Place, hot: &Arc<Hot>, options: ReadOptions) -> SealedCluster {
    let reader = Reader::new(place.clone(), options);
    let hot = Arc::clone(hot) as Arc<dyn WaitingSource>;
    reader.open_with("prod", Some(hot)).await.unwrap()
}

async fn read(place: &Place, hot: &Arc<Hot>) -> SealedCluster {
    read_with(place, hot, ReadOptions::default()).await
}

/// A reader of what is sealed, which knows nothing of the versions that wait.
async fn sealed_only(place: &Place) -> SealedCluster {
    let reader = Reader::new(place.clone(), ReadOptions::default());
    reader.open_with("prod", None).await.unwrap()
}

/// A cluster whose first versions are sealed.
async fn begun(seed: u64, versions: usize) -> (Storage, Place, World, History) {
    let storage = Storage::folder();
    let place = storage.place();
    let (mut world, mut history) = (World::new(), History::new(seed));
    observe(&mut world, &mut history, versions).await;
    seal(&world, &place).await;
    (storage, place, world, history)
}

/// Seals what a running archive has, in parts of about this number of bytes.
async fn seal_running(world: &World, place: &Place, cluster: &Cluster, part_bytes: usize) {
    let mut options = SealOptions::default();
    options.part_bytes = part_bytes;
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let sealed = Sealer::new(place, cluster, clock, options).seal().await;
    assert_ne!(sealed.unwrap().versions, 0);
}

/// The number of versions that are shown.
async fn versions(sealed: &SealedCluster) -> u64 {
    sealed.store().stats().await.unwrap().records
}

#[tokio::test]
async fn what_waits_is_read_as_if_it_were_sealed() {
    let (_storage, place, mut world, mut history) = begun(11, 100).await;
    let sealed = read(&place, &Hot::of(&world)).await;
    let mut before = sealed.store().revision();
    for round in 0..15 {
        observe(&mut world, &mut history, 30).await;
        match round {
            // There is a newer manifest, and the feed still has the entries before it.
            3 | 7 => drop(seal(&world, &place).await),
            // The reader already knows the newer manifest.
            5 => {
                seal(&world, &place).await;
                sealed.look().await.unwrap();
            }
            _ => {}
        }
        sealed.hear().await.unwrap();
        assert_eq!(versions(&sealed).await, world.observed, "{round}");
        let revision = sealed.store().revision();
        assert!(revision > before, "{round}: {revision} follows {before}");
        before = revision;
        // In these rounds one part waits, none, or several, some of which were merged.
        if [0, 3, 14].contains(&round) {
            compare(&world, &sealed).await;
        }
    }
    // There is nothing new.
    sealed.hear().await.unwrap();
    assert_eq!(sealed.store().revision(), before);
    assert_eq!(sealed.heard().unwrap().failure, None);
    sealed.look().await.unwrap();
    sealed.hear().await.unwrap();
    let waiting = world.observed - newest(&place, "prod").await.unwrap().rows();
    assert_eq!(sealed.heard().unwrap().versions, waiting);
}

/// A seal ends between entries that the reader received together.
#[tokio::test]
async fn what_is_shown_of_what_waits_is_parted_where_it_is_sealed() {
    for is_down in [false, true] {
        let (_storage, place, mut world, mut history) = begun(12, 30).await;
        observe(&mut world, &mut history, 30).await;
        let before = world.copy();
        observe(&mut world, &mut history, 30).await;
        let hot = Hot::of(&world);
        let sealed = read(&place, &hot).await;
        sealed.hear().await.unwrap();
        // This copy of the data folder is from before the last entries.
        seal(&before, &place).await;
        hot.set_down(is_down);
        sealed.look().await.unwrap();
        compare(&world, &sealed).await;
        let shown = newest(&place, "prod").await.unwrap().number;
        let is_shown = sealed.store().revision() >> 24 == shown;
        assert_eq!(is_shown, !is_down, "what waits was shown before");
        hot.set_down(false);
        sealed.look().await.unwrap();
        sealed.hear().await.unwrap();
        assert_eq!(sealed.store().revision() >> 24, shown);
        compare(&world, &sealed).await;
    }
}

#[tokio::test]
async fn an_archive_that_does_not_answer_is_said_and_waited_for() {
    let (_storage, place, mut world, mut history) = begun(13, 50).await;
    let hot = Hot::of(&world);
    let sealed = read(&place, &hot).await;
    observe(&mut world, &mut history, 50).await;
    hot.set_down(true);
    let error = sealed.hear().await.unwrap_err().to_string();
    assert_eq!(error, "connection refused");
    assert_eq!(sealed.heard().unwrap().failure, Some(error));
    // The sealed versions are still served.
    assert_eq!(versions(&sealed).await, 50);
    hot.set_down(false);
    sealed.hear().await.unwrap();
    assert_eq!(sealed.heard().unwrap().failure, None);
    compare(&world, &sealed).await;
    // The versions that waited are still shown, and will be sealed at some time.
    hot.set_down(true);
    observe(&mut world, &mut history, 50).await;
    assert!(sealed.hear().await.is_err());
    assert_eq!(versions(&sealed).await, 100);
    seal(&world, &place).await;
    sealed.look().await.unwrap();
    compare(&world, &sealed).await;
}

/// The numbers of one journal have no meaning for another.
#[tokio::test]
async fn what_waits_elsewhere_is_not_shown() {
    let storage = Storage::folder();
    let place = storage.place();
    let (mut former, mut new) = (World::new(), World::new());
    let mut history = History::new(14);
    for _ in 0..2 {
        observe(&mut former, &mut history, 30).await;
        seal(&former, &place).await;
    }
    observe(&mut former, &mut history, 30).await;
    let hot = Hot::of(&former);
    let sealed = read(&place, &hot).await;
    sealed.hear().await.unwrap();
    assert_eq!(versions(&sealed).await, 90);

    // Another data folder takes the place, and observed what came later.
    assert!(new.take_over(&place).await.unwrap());
    sealed.look().await.unwrap();
    assert_eq!(versions(&sealed).await, 60);
    // The former folder no longer has the first entries of its own feed.
    let error = sealed.hear().await.unwrap_err();
    assert!(matches!(error, HearError::Behind), "{error}");
    // A third folder still has all entries of its journal.
    let mut other = World::new();
    observe(&mut other, &mut history, 10).await;
    hot.set_folder(other.path());
    let error = sealed.hear().await.unwrap_err();
    assert!(matches!(error, HearError::Foreign { .. }), "{error}");
    assert_eq!(versions(&sealed).await, 60);
    hot.set_folder(new.path());
    observe(&mut new, &mut history, 20).await;
    sealed.hear().await.unwrap();
    assert_eq!(versions(&sealed).await, 80);
    seal(&new, &place).await;
    observe(&mut new, &mut history, 20).await;
    sealed.hear().await.unwrap();
    assert_eq!(versions(&sealed).await, 100);

    // A folder restored from an old copy has fewer versions than are sealed.
    let old = World::new();
    hot.set_folder(old.path());
    assert!(sealed.hear().await.is_err());
    assert_eq!(versions(&sealed).await, 100);
}

#[tokio::test]
async fn a_list_continues_as_it_was_while_more_waits_and_is_sealed() {
    let (_storage, place, mut world, mut history) = begun(15, 40).await;
    observe(&mut world, &mut history, 40).await;
    let hot = Hot::of(&world);
    let sealed = read(&place, &hot).await;
    sealed.hear().await.unwrap();
    let cold = sealed.store();
    let begin = async || {
        let all = listed(&*cold, &ListRequest::default(), 500).await;
        let first = cold.list(ListRequest::default().limit(5)).await.unwrap();
        assert_eq!(first.records, all[..5]);
        let rest = ListRequest::default().at(first.revision);
        let rest = rest.after(first.records[4].key.clone()).limit(500);
        (all, rest)
    };
    // What the list shows is sealed before its next page is read.
    let (all, rest) = begin().await;
    observe(&mut world, &mut history, 20).await;
    seal(&world, &place).await;
    sealed.hear().await.unwrap();
    let page = cold.list(rest).await.unwrap();
    assert_eq!(page.records, all[5..]);

    observe(&mut world, &mut history, 20).await;
    sealed.hear().await.unwrap();
    let (all, rest) = begin().await;
    let continues = |sealed: SealedCluster| {
        let (rest, all) = (rest.clone(), all.clone());
        async move {
            let page = sealed.store().list(rest).await?;
            assert_eq!(page.records, all[5..]);
            Ok::<_, ReadError>(())
        }
    };
    // More versions wait. This reader knows what the list showed, and another reader asks the
    // archive.
    observe(&mut world, &mut history, 40).await;
    sealed.hear().await.unwrap();
    assert_ne!(listed(&*cold, &ListRequest::default(), 500).await, all);
    continues(sealed.clone()).await.unwrap();
    continues(read(&place, &hot).await).await.unwrap();
    // A reader that knows no archive to ask cannot continue the list.
    let reader = Reader::new(place.clone(), ReadOptions::default());
    let without = reader.open("prod").await.unwrap();
    let error = continues(without).await.unwrap_err();
    assert!(matches!(error, ReadError::Compacted { .. }), "{error}");
    // After the seal, only the reader that showed it knows it.
    seal(&world, &place).await;
    sealed.hear().await.unwrap();
    continues(sealed.clone()).await.unwrap();
    let error = continues(read(&place, &hot).await).await.unwrap_err();
    assert!(matches!(error, ReadError::Compacted { .. }), "{error}");
    compare(&world, &sealed).await;
    let later = ListRequest::default().at(cold.revision() + (1 << 30));
    let error = cold.list(later.limit(1)).await.unwrap_err();
    assert!(matches!(error, ReadError::Future { .. }), "{error}");
}

#[tokio::test]
async fn what_is_held_of_what_waits_is_bounded() {
    let (_storage, place, mut world, mut history) = begun(16, 20).await;
    let mut options = ReadOptions::default();
    options.waiting_bytes = 20_000;
    let sealed = read_with(&place, &Hot::of(&world), options).await;
    for _ in 0..3 {
        observe(&mut world, &mut history, 40).await;
        drop(sealed.hear().await);
    }
    let error = sealed.hear().await.unwrap_err();
    assert!(matches!(error, HearError::Full { .. }), "{error}");
    let known = versions(&sealed).await;
    assert!((60..world.observed).contains(&known), "{known}");
    let page = listed(&*sealed.store(), &ListRequest::default(), 500).await;
    assert!(!shown(&page).is_empty());
    world.seal(&place, SealOptions::default()).await.unwrap();
    sealed.look().await.unwrap();
    observe(&mut world, &mut history, 10).await;
    sealed.hear().await.unwrap();
    compare(&world, &sealed).await;
}

/// A client may resume its watch at any reader, with a number from another reader or from the
/// cluster.
#[tokio::test]
async fn a_watch_goes_on_at_any_reader_that_can_say_what_is_new() {
    let (_storage, place, mut world, mut history) = begun(18, 40).await;
    let hot = Hot::of(&world);
    let (one, other) = (read(&place, &hot).await, read(&place, &hot).await);
    observe(&mut world, &mut history, 20).await;
    one.hear().await.unwrap();
    let begun = one.store().revision();
    let watch =
        async |sealed: &SealedCluster, after: u64| sealed.store().watch(Bytes::new(), after).await;
    let mut here = watch(&one, begun).await.unwrap();
    observe(&mut world, &mut history, 20).await;
    // This reader does not know the state that the watch begins at, and the archive has a later one
    // by now.
    let mut there = watch(&other, begun).await.unwrap();
    one.hear().await.unwrap();
    let told = here.next().await.unwrap();
    assert_eq!(there.next().await.unwrap(), told);
    let reached = told.last().unwrap().revision();
    assert_eq!([here.revision(), there.revision()], [reached; 2]);

    // A watch is resumed at the last change, and at one several steps earlier.
    observe(&mut world, &mut history, 5).await;
    other.hear().await.unwrap();
    let told = there.next().await.unwrap();
    let mut resumed = watch(&other, reached).await.unwrap();
    assert_eq!(resumed.next().await.unwrap(), told);
    let mut resumed = watch(&other, begun).await.unwrap();
    let all = resumed.next().await.unwrap();
    let keys: BTreeSet<_> = told.iter().map(|change| change.key().clone()).collect();
    let later: BTreeSet<_> = all.iter().map(|change| change.key().clone()).collect();
    assert!(keys.is_subset(&later) && keys.len() < later.len());

    // These numbers are not states of this archive.
    let newest = other.store().revision();
    // The last ones are of manifests that do not exist yet.
    let next = 1 << 24;
    for number in [
        1,
        105,
        newest + 1000,
        newest + (1 << 40),
        1 << 62,
        newest + next,
        newest + next - 1,
        newest + 3 * next - 20,
    ] {
        let refused = watch(&other, number).await.err().unwrap();
        assert!(matches!(refused, WatchError::Compacted { .. }), "{refused}");
    }
    let store = other.store();
    assert!(store.is_own(1) && store.is_own(newest) && !store.is_own((1 << 62) + 7));

    // The watch continues when everything that was shown is sealed, also at a reader that did not
    // show it.
    hot.set_down(true);
    let third = read(&place, &hot).await;
    assert!(watch(&third, begun).await.is_err());
    hot.set_down(false);
    let last = other.store().revision();
    seal(&world, &place).await;
    other.look().await.unwrap();
    observe(&mut world, &mut history, 5).await;
    other.hear().await.unwrap();
    let told = there.next().await.unwrap();
    let mut resumed = watch(&other, last).await.unwrap();
    assert_eq!(resumed.next().await.unwrap(), told);
    assert!(watch(&third, last).await.is_ok());
}

/// The page sends its requests to any reader, with the position of one that has read a later
/// manifest.
#[tokio::test]
async fn a_watch_begins_where_another_reader_has_seen_more_sealed() {
    let (_storage, place, mut world, mut history) = begun(19, 40).await;
    let (one, other) = (sealed_only(&place).await, sealed_only(&place).await);
    observe(&mut world, &mut history, 20).await;
    seal(&world, &place).await;
    one.look().await.unwrap();
    let ahead = one.store().revision();
    assert!(ahead > other.store().revision());
    let watch = other.store().watch(Bytes::new(), ahead).await.unwrap();
    assert_eq!(watch.revision(), ahead);
    assert_eq!(other.store().revision(), ahead);
}

/// The event is in no file, so a watcher to whom it was shown would not learn that it was deleted.
#[tokio::test]
async fn a_watch_ends_when_what_was_shown_is_deleted_before_it_is_sealed() {
    for is_deleted in [false, true] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut world = World::new();
        world.observe(2).await;
        seal(&world, &place).await;
        let sealed = read(&place, &Hot::of(&world)).await;
        world.observe(2).await;
        sealed.hear().await.unwrap();
        assert_eq!(versions(&sealed).await, 4);
        let shown = sealed.store().revision();
        if is_deleted {
            world.delete(b"shop/web-3.3").await;
        }
        seal(&world, &place).await;
        sealed.look().await.unwrap();
        assert_eq!(versions(&sealed).await, 4 - u64::from(is_deleted));
        let watch = sealed.store().watch(Bytes::new(), shown).await;
        match watch {
            Ok(watch) => assert!(!is_deleted, "it continues from {}", watch.revision()),
            Err(error) => {
                assert!(matches!(error, WatchError::Compacted { .. }), "{error}");
                assert!(is_deleted);
            }
        }
    }
}

/// Nothing is sealed, because the data folder is older than the archive, or for another reason.
#[tokio::test]
async fn what_was_deleted_is_shown_no_longer_though_nothing_is_sealed() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(2).await;
    seal(&world, &place).await;
    let hot = Hot::of(&world);
    let sealed = read(&place, &hot).await;
    world.observe(20).await;
    let cluster = hot.start(&world).await;
    sealed.hear().await.unwrap();
    let store = sealed.store();
    let all = listed(&*store, &ListRequest::default(), 500).await;
    let first = store.list(ListRequest::default().limit(1)).await.unwrap();
    // What has not changed is still shown.
    for _ in 0..250 {
        sealed.hear().await.unwrap();
    }
    let watch = store.watch(Bytes::new(), first.revision).await;
    assert!(watch.is_ok());
    let key = Bytes::from_static(b"shop/web-3.3");
    let deleted = cluster.store().delete(key.clone(), None).await;
    deleted.unwrap();
    for _ in 0..100 {
        sealed.hear().await.unwrap();
    }
    assert_eq!(store.get(key).await.unwrap(), None);
    let left = listed(&*store, &ListRequest::default(), 500).await;
    assert_eq!(left.len(), all.len() - 1);
    // The deleted event is not in a list that began earlier either.
    let rest = ListRequest::default()
        .at(first.revision)
        .after(first.records[0].key.clone());
    let rest = store.list(rest).await.unwrap().records;
    assert_eq!(rest, left[1..]);
    hot.end(cluster).await;
}

/// The watcher gets the same changes as at a reader that asked before the versions were sealed.
#[tokio::test]
async fn a_watch_continues_when_versions_are_sealed_before_the_reader_asks_for_them() {
    let cases = [false, true].map(|is_heard| [(is_heard, usize::MAX), (is_heard, 1)]);
    for (is_heard, part_bytes) in cases.into_iter().flatten() {
        let (_storage, place, mut world, mut history) = begun(20, 40).await;
        let hot = Hot::of(&world);
        let (late, early) = (read(&place, &hot).await, read(&place, &hot).await);
        observe(&mut world, &mut history, 10).await;
        late.hear().await.unwrap();
        early.hear().await.unwrap();
        let begun = late.store().revision();
        let mut told_late = late.store().watch(Bytes::new(), begun).await.unwrap();
        let mut told_early = early.store().watch(Bytes::new(), begun).await.unwrap();
        for _ in 0..2 {
            observe(&mut world, &mut history, 10).await;
        }
        let cluster = hot.start(&world).await;
        early.hear().await.unwrap();
        // They are sealed with one manifest, or with several.
        seal_running(&world, &place, &cluster, part_bytes).await;
        if is_heard {
            // The reader does not know the newer manifest yet.
            late.hear().await.unwrap();
        }
        late.look().await.unwrap();
        early.look().await.unwrap();
        hot.end(cluster).await;
        let sealed = newest(&place, "prod").await.unwrap().number << 24;
        assert_eq!(late.store().revision(), sealed);
        let told = told_late.next().await.unwrap();
        assert!(!told.is_empty());
        assert_eq!(told, told_early.next().await.unwrap());
        compare(&world, &late).await;
        // Later changes are reported too.
        observe(&mut world, &mut history, 5).await;
        late.hear().await.unwrap();
        early.hear().await.unwrap();
        let told = told_late.next().await.unwrap();
        assert!(told.iter().all(|change| change.revision() > sealed));
        assert_eq!(told, told_early.next().await.unwrap());
    }
}

/// Why a reader does not learn what was sealed before it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hindrance {
    Nothing,
    /// An event was deleted before the others were sealed.
    DeletedBefore,
    /// The event was deleted after that, and before the reader asked.
    DeletedSince,
    /// The archive was restarted.
    Ended,
    NoAnswer,
    /// The request before was not answered.
    NoAnswerBefore,
}

#[tokio::test]
async fn a_watch_ends_when_what_was_sealed_before_it_was_asked_for_is_not_known_whole() {
    for hindrance in [
        Hindrance::Nothing,
        Hindrance::DeletedBefore,
        Hindrance::DeletedSince,
        Hindrance::Ended,
        Hindrance::NoAnswer,
        Hindrance::NoAnswerBefore,
    ] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut world = World::new();
        world.observe(2).await;
        seal(&world, &place).await;
        let hot = Hot::of(&world);
        let sealed = read(&place, &hot).await;
        sealed.hear().await.unwrap();
        let begun = sealed.store().revision();
        let mut watch = sealed.store().watch(Bytes::new(), begun).await.unwrap();
        world.observe(2).await;
        let mut cluster = hot.start(&world).await;
        let delete = async |cluster: &Cluster| {
            let key = Bytes::from_static(b"shop/web-3.3");
            cluster.store().delete(key, None).await.unwrap();
        };
        if hindrance == Hindrance::NoAnswerBefore {
            hot.set_down(true);
            assert!(sealed.hear().await.is_err());
            hot.set_down(false);
        }
        if hindrance == Hindrance::DeletedBefore {
            delete(&cluster).await;
        }
        seal_running(&world, &place, &cluster, usize::MAX).await;
        if hindrance == Hindrance::DeletedSince {
            delete(&cluster).await;
        }
        if hindrance == Hindrance::Ended {
            hot.end(cluster).await;
            cluster = hot.start(&world).await;
        }
        hot.set_down(hindrance == Hindrance::NoAnswer);
        sealed.look().await.unwrap();
        hot.end(cluster).await;
        // A list shows the sealed versions, whether or not the watch reports them.
        let shown = newest(&place, "prod").await.unwrap().number << 24;
        assert_eq!(sealed.store().revision(), shown, "{hindrance:?}");
        let told = watch.next().await;
        if matches!(hindrance, Hindrance::Nothing | Hindrance::Ended) {
            assert_eq!(told.unwrap().len(), 2);
            continue;
        }
        let error = told.unwrap_err();
        let is_known = matches!(error, WatchError::Compacted { .. });
        assert!(is_known, "{hindrance:?}: {error}");
    }
}

/// The timeline gets the changes.
#[tokio::test]
async fn what_is_new_of_what_waits_is_told_to_those_who_watch() {
    let (_storage, place, mut world, mut history) = begun(17, 40).await;
    let hot = Hot::of(&world);
    let sealed = read(&place, &hot).await;
    sealed.hear().await.unwrap();
    let store = sealed.store();
    let begun = store.revision();
    let mut all = store.watch(Bytes::new(), begun).await.unwrap();
    let mut some = store.watch("a/".into(), begun).await.unwrap();
    let mut told = BTreeMap::new();
    for round in 0..3 {
        observe(&mut world, &mut history, 30).await;
        sealed.hear().await.unwrap();
        let changes = all.next().await.unwrap();
        assert!(
            changes.iter().all(|it| it.revision() == store.revision()),
            "{round}"
        );
        assert_eq!(all.revision(), store.revision());
        for change in changes {
            let record = change.record().unwrap();
            told.insert(record.key.clone(), record.value.clone());
        }
    }
    let mut of_namespace = BTreeSet::new();
    for change in some.next().await.unwrap() {
        of_namespace.insert(change.key().clone());
    }
    let is_of_namespace = |key: &&Bytes| key.starts_with(b"a/");
    let expected: BTreeSet<_> = told.keys().filter(is_of_namespace).cloned().collect();
    assert_eq!(of_namespace, expected);
    // The changes have the events as a list has them at that time. Events of the list that were not
    // reported are older.
    let listed = listed(&*store, &ListRequest::default(), 500).await;
    let listed: BTreeMap<_, _> = listed.into_iter().map(|it| (it.key, it.value)).collect();
    let nameless = |value: &Bytes| {
        let mut event = codec::decode_stored(value, 0).unwrap();
        event.metadata.as_mut().unwrap().name = None;
        event
    };
    for (key, value) in &told {
        assert_eq!(nameless(&listed[key]), nameless(value));
    }
    assert!(told.len() < listed.len());
    // After a seal the watch goes on.
    seal(&world, &place).await;
    sealed.look().await.unwrap();
    observe(&mut world, &mut history, 5).await;
    sealed.hear().await.unwrap();
    assert!(!all.next().await.unwrap().is_empty());
    // What was sealed before it was shown is reported until the next seal.
    for seals in [1, 2] {
        for _ in 0..seals {
            observe(&mut world, &mut history, 5).await;
            seal(&world, &place).await;
        }
        sealed.look().await.unwrap();
        if seals == 1 {
            assert!(!all.next().await.unwrap().is_empty());
        }
    }
    let error = all.next().await.unwrap_err();
    assert!(matches!(error, WatchError::Compacted { .. }), "{error}");
}
