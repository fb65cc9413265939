//! The first inputs of fuzz targets: one of each kind, written by this program.
//!
//! ```text
//! KEEP_SEEDS=1 cargo test -p tidings-objects --test objects seeds
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use tidings_objects::{Filler, Forged, Manifest, SealOptions, Waiting};

use super::storage::Storage;
use super::world::World;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
/// Maximum bytes of an input for `fuzz/run`.
const LEN_MAX: usize = 8192;

/// The inputs, by the names of target and input.
async fn seeds() -> BTreeMap<String, Vec<u8>> {
    let mut seeds = BTreeMap::new();
    let storage = Storage::folder();
    let mut filler = Filler::new(&storage.place(), "prod");
    for level in 0..2_u32 {
        let first = u64::from(level) * 4;
        let versions = (first..first + 4).map(Filler::sample);
        filler.add(level, versions.collect()).await.unwrap();
    }
    let manifest = filler.finish(Timestamp::UNIX_EPOCH).await.unwrap();
    let read = |path: &str| std::fs::read(storage.file(&format!("prod/{path}"))).unwrap();
    let path = format!("manifests/{:020}.json", manifest.number);
    seeds.insert("manifests/filled".to_owned(), read(&path));
    let file = &manifest.files[0];
    seeds.insert("sealed_files/events".to_owned(), read(&file.path));
    let rollup = file.rollup.as_ref().unwrap();
    seeds.insert("sealed_files/rollup".to_owned(), read(&rollup.path));
    for forged in Forged::ALL {
        let (name, file) = (format!("sealed_files/{forged:?}"), forged.file().unwrap());
        // The file with nested fields is too long.
        if file.len() <= LEN_MAX {
            seeds.insert(name.to_lowercase(), file);
        }
    }

    // An archive with a deleted event, removed files, and versions that wait.
    let storage = Storage::folder();
    let mut world = World::new();
    let options = SealOptions::default();
    for _ in 0..2 {
        world.observe(2).await;
        world.seal(&storage.place(), options).await.unwrap();
    }
    world.delete("shop/web-1.1").await;
    world.seal(&storage.place(), options).await.unwrap();
    world.observe(2).await;
    let newest = tidings_objects::newest(&storage.place(), "prod").await;
    let newest = newest.unwrap();
    let path = format!("prod/manifests/{:020}.json", newest.number);
    let sealed = std::fs::read(storage.file(&path)).unwrap();
    seeds.insert("manifests/sealed".to_owned(), sealed);
    let cluster = world.open().await;
    let waiting = Waiting::of(&cluster)
        .file(newest.sealed_through, None)
        .await;
    seeds.insert("waiting/versions".to_owned(), waiting.unwrap().unwrap());
    cluster.close().await;
    seeds
}

/// The stored inputs are as this program writes them, and short enough. With `KEEP_SEEDS` they are
/// written.
#[tokio::test]
async fn targets_begin_with_inputs_of_each_kind() {
    let seeds = seeds().await;
    for (name, bytes) in &seeds {
        let file = Path::new(SEEDS).join(name);
        if std::env::var_os("KEEP_SEEDS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, bytes).unwrap();
        }
        let kept = std::fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(bytes.len() <= LEN_MAX, "{name} has {} bytes", bytes.len());
        if name.starts_with("manifests/") {
            let kept: Manifest = serde_json::from_slice(&kept).unwrap();
            let made: Manifest = serde_json::from_slice(bytes).unwrap();
            assert_eq!((kept.form, kept.rows()), (made.form, made.rows()), "{name}");
        } else {
            let is_file = |bytes: &[u8]| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1");
            assert!(is_file(&kept) && is_file(bytes), "{name}");
        }
    }
}
