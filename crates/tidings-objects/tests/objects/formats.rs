//! Data folders and buckets of every earlier form. The version of the program that had the form
//! wrote them, and this version opens them.
//!
//! Before a form changes, its last version writes the file, as for the formats of tidings-store.
//! Its name begins with the form of manifests:
//!
//! ```text
//! KEEP_FORMAT=1-cursor cargo test -p tidings-objects --test objects formats
//! ```
//!
//! - `1.zst` is the form of 2026-11-26 (75e11199), whose sealer had no cursor.
//! - `1-cursor.zst` is that of 2026-11-29, with that cursor.
//!
//! The file is a zstd frame with a folder: `data` is the data folder of a cluster, `bucket` has
//! what was sealed, and `waiting.parquet` has what waited then, as `/waiting` returned it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_api::codec;
use tidings_history::{Cause, History as _};
use tidings_objects::{
    Place, ReadOptions, Reader, SealOptions, Waiting, WaitingSource, check, newest,
};
use tidings_store::clock::Clock;
use tidings_store::{BoxFuture, ListRequest};
use tidings_testing::{copy_folder, pack_folder, unpack_folder};

use super::history::History;
use super::reading::{compare, id, listed};
use super::storage::temporary;
use super::world::World;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");

/// Number of versions that are observed together.
const TOGETHER: usize = 12;
/// How often versions are sealed, before the last ones, which wait.
const SEALS: usize = 10;
/// The round at which the epoch changes.
const REWOUND: usize = 5;

/// Everything that was observed, in this order: times, and lines of an export. After the second
/// round an event was deleted, and is not observed any more.
fn observed() -> Vec<(i64, Vec<Value>)> {
    let mut history = History::new(33);
    let mut gone = None;
    let together = (0..=SEALS).map(|number| {
        let mut versions: Vec<Value> = (0..TOGETHER).map(|_| history.next()).collect();
        let first = &versions[0]["event"]["metadata"]["uid"];
        let gone = gone.get_or_insert_with(|| first.clone());
        versions.retain(|version| number < 2 || version["event"]["metadata"]["uid"] != *gone);
        if number >= REWOUND {
            for version in &mut versions {
                let metadata = &mut version["event"]["metadata"];
                let at: u64 = text(&metadata["resourceVersion"]).parse().unwrap();
                metadata["resourceVersion"] = (at - 90).to_string().into();
                version["epoch"] = 1.into();
            }
        }
        (history.time, versions)
    });
    together.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The uid and the key of the deleted event.
fn deleted() -> (String, Bytes) {
    let first = &observed()[0].1[0];
    let (namespace, name) = (text(&first["namespace"]), text(&first["name"]));
    let uid = text(&first["event"]["metadata"]["uid"]);
    (uid, format!("{namespace}/{name}").into())
}

/// The expected messages by uid, epoch and number, without those of the deleted event.
fn expected() -> BTreeMap<(String, u64, u64), String> {
    let (gone, _) = deleted();
    let all = observed().into_iter().flat_map(|(_, versions)| versions);
    let all = all.map(|version| {
        let (event, text) = (&version["event"], |it: &Value| {
            it.as_str().unwrap().to_owned()
        });
        let metadata = &event["metadata"];
        let number = text(&metadata["resourceVersion"]).parse().unwrap();
        let epoch = version["epoch"].as_u64().unwrap();
        (
            (text(&metadata["uid"]), epoch, number),
            text(&event["message"]),
        )
    });
    all.filter(|((uid, ..), _)| *uid != gone).collect()
}

/// The position and the gap of the cluster.
fn covered(until: i64) -> [Value; 2] {
    let time = |millis| {
        jiff::Timestamp::from_millisecond(millis)
            .unwrap()
            .to_string()
    };
    let began = observed()[0].0;
    let followed = json!([{
        "namespace": "", "identity": "uid-of-kube-system", "since": time(began - 3_600_000),
        "completeUntil": time(until), "resourceVersion": "4000", "latestResourceVersion": "4001",
        "epoch": 1, "versions": 100, "selection": "",
    }]);
    let gaps = json!([
        {"from": time(began - 2000), "to": time(began - 1000), "cause": "absent", "namespace": ""},
        {"from": time(began + 1), "to": time(began + 2), "cause": "rewound", "namespace": ""},
    ]);
    [followed, gaps]
}

/// Writes the folders of the current form.
async fn fill(folder: &Path) {
    let bucket = folder.join("bucket");
    let place = Place::create(&format!("file://{}", bucket.display())).unwrap();
    let mut world = World::new();
    let options = SealOptions::default();
    for (number, (time, versions)) in observed().into_iter().enumerate() {
        world.clock.advance(time + 1 - world.clock.now().0);
        world.import_with(covered(time), &versions).await;
        if number < SEALS {
            world.seal(&place, options).await.unwrap();
        }
        if number == 1 {
            world.delete(&deleted().1).await;
        }
    }
    let cluster = world.open().await;
    let from = newest(&place, "prod").await.unwrap().sealed_through;
    let waiting = Waiting::of(&cluster).file(from, None).await;
    std::fs::write(folder.join("waiting.parquet"), waiting.unwrap().unwrap()).unwrap();
    cluster.close().await;
    copy_folder(world.path(), &folder.join("data"));
}

/// The answer of `/waiting` that was kept with a form.
struct Answered(Bytes);

impl WaitingSource for Answered {
    fn waiting(&self, _: u64, _: Option<u64>) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }
}

async fn opens(packed: &[u8]) {
    let folder = temporary();
    let packed = zstd::stream::decode_all(packed).unwrap();
    unpack_folder(&packed, folder.path());
    let mut world = World::new();
    copy_folder(&folder.path().join("data"), world.path());
    let (last, pending) = observed().pop().unwrap();
    let pending = pending.len() as u64;
    world.clock.advance(last + 1 - world.clock.now().0);
    let expected = expected();
    world.observed = expected.len() as u64;
    let bucket = folder.path().join("bucket");
    let place = Place::open(&format!("file://{}", bucket.display())).unwrap();

    // The data folder has every version, the coverage, and what waits.
    let cluster = world.open().await;
    let mut found = BTreeMap::new();
    for record in listed(&*cluster.store(), &ListRequest::default(), 500).await {
        let (namespace, name) = id(&record);
        let key = format!("{namespace}/{name}").into();
        let versions = cluster.history().versions(key, None, 500).await;
        for version in versions.unwrap().unwrap().versions {
            let event = codec::decode_stored(&version.event, version.number).unwrap();
            let uid = event.metadata.unwrap().uid.unwrap();
            found.insert((uid, version.number), event.message.unwrap());
        }
    }
    let all = expected.iter();
    let all = all.map(|((uid, _, number), message)| ((uid.clone(), *number), message.clone()));
    assert_eq!(found, all.collect());
    let coverage = cluster.history().coverage(None).await.unwrap();
    let [followed] = &coverage.followed[..] else {
        panic!("{:?}", coverage.followed);
    };
    assert_eq!(
        (
            &*followed.namespace,
            followed.progress.unwrap().resource_version,
            followed.epoch
        ),
        ("", Some(4000), 1)
    );
    assert_eq!(followed.complete_until.0, last);
    let causes: Vec<_> = coverage.gaps.iter().map(|gap| gap.cause).collect();
    assert_eq!(causes, [Cause::Absent, Cause::Rewound]);
    assert_eq!(cluster.unsealed().waiting(), Some(pending));
    cluster.close().await;

    // The bucket has what was sealed, and the kept answer has what waited.
    let checked = check(&place, "prod").await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    let manifest = checked.manifest;
    assert_eq!(checked.rows + pending, world.observed);
    assert_eq!((manifest.form, manifest.gone), (1, 0));
    assert!(manifest.forgotten > 0 && manifest.gaps == coverage.gaps);
    let levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
    assert_eq!(levels, [1, 0, 0]);
    assert!(manifest.files.iter().all(|file| file.rollup.is_some()));
    let answered = std::fs::read(folder.path().join("waiting.parquet")).unwrap();
    let answered = Arc::new(Answered(answered.into()));
    let reader = Reader::new(place.clone(), ReadOptions::default());
    let sealed = reader.open_with("prod", Some(answered)).await.unwrap();
    sealed.hear().await.unwrap();
    assert_eq!(
        sealed.store().stats().await.unwrap().records,
        world.observed
    );
    compare(&world, &sealed).await;

    // This program continues the archive.
    let done = world.seal(&place, SealOptions::default()).await.unwrap();
    assert_eq!(done.versions, pending);
    world.check(&place).await;
}

#[tokio::test]
async fn every_form_that_is_kept_opens() {
    let files = std::fs::read_dir(KEPT).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        opens(&std::fs::read(&file).unwrap()).await;
    }
}

/// The current form can be read. With `KEEP_FORMAT` it is written to a file of that name.
#[tokio::test]
async fn todays_form_can_be_kept() {
    let folder = temporary();
    fill(folder.path()).await;
    let packed = zstd::bulk::compress(&pack_folder(folder.path()), 19).unwrap();
    assert!(packed.len() < 100_000, "{} bytes", packed.len());
    opens(&packed).await;
    if let Ok(name) = std::env::var("KEEP_FORMAT") {
        let file = Path::new(KEPT).join(format!("{name}.zst"));
        let mut file = std::fs::File::create_new(&file)
            .unwrap_or_else(|error| panic!("{} is kept already, or: {error}", file.display()));
        file.write_all(&packed).unwrap();
    }
}
