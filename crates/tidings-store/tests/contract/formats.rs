//! Stores of every former format, written by their own version and opened by this one.
//!
//! Before the format changes, its last version creates the file, which is named after the format:
//!
//! ```text
//! KEEP_FORMAT=1 cargo test -p tidings-store --test contract formats
//! ```
//!
//! Run it once for each format, and never again: a recreated file proves nothing.

mod kept;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use tidings_store::{CountsRequest, ListRequest, NewestRequest, ObjectSelector, Store};
use tidings_testing::unpack_folder;

use kept::MADE_AT;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");

/// Its content: numbers of the records by key.
fn filled() -> BTreeMap<String, i64> {
    let left = (0..300).filter(|number| number % 11 != 0);
    left.map(|number| {
        let written = if number % 7 == 0 {
            number + 1000
        } else {
            number
        };
        (format!("default/{number:04}"), written)
    })
    .collect()
}

/// `has_reasons`: whether the format has reasons and types.
async fn check(packed: &[u8], has_reasons: bool) {
    let folder = tempfile::tempdir().unwrap();
    let packed = zstd::stream::decode_all(packed).unwrap();
    unpack_folder(&packed, folder.path());
    let expected = filled();
    let store = kept::open(folder.path(), MADE_AT).unwrap();
    let page = store.list(ListRequest::default()).await.unwrap();
    assert_eq!(page.records.len(), expected.len());
    for (found, (key, number)) in page.records.iter().zip(&expected) {
        let record = kept::record(*number);
        assert_eq!(found.key, *key);
        assert_eq!(
            (&found.value, found.expires_at),
            (&record.value, record.expires_at)
        );
    }
    let of_pod = expected.values().filter(|number| *number % 10 == 3).count();
    let by_name = ObjectSelector::Name {
        name: kept::record(3).index.object_name,
        kind: None,
        namespace: None,
    };
    for about in [ObjectSelector::Uid("uid-of-pod-3".into()), by_name] {
        let found = store
            .list(ListRequest::prefix("default/").object(about))
            .await
            .unwrap();
        assert_eq!(found.records.len(), of_pod);
    }
    let newest = NewestRequest {
        limit: 1,
        ..NewestRequest::default()
    };
    let newest = store.newest(newest).await.unwrap();
    let latest = expected.values().max().unwrap();
    assert_eq!(newest.records[0].value, kept::record(*latest).value);

    let of_reason = NewestRequest {
        reason: Some("BackOff".into()),
        limit: 300,
        ..NewestRequest::default()
    };
    let found = store.newest(of_reason).await.unwrap().records.len();
    let all = CountsRequest {
        limit: 300,
        ..CountsRequest::default()
    };
    let counts = store.counts(all).await.unwrap().counts;
    let counted = |is_of: fn(&str) -> bool| {
        let counts = counts.iter().filter(|count| is_of(&count.reason));
        counts.map(|count| count.records as usize).sum::<usize>()
    };
    assert_eq!(counted(|_| true), expected.len());
    let for_it = expected.values().filter(|number| *number % 3 == 1).count();
    let for_it = if has_reasons { for_it } else { 0 };
    assert_eq!(
        (found, counted(|reason| reason == "BackOff")),
        (for_it, for_it)
    );

    // Its history is complete from the first revision to the last, and continues.
    let mut watch = store.watch("".into(), 0).await.unwrap();
    // A store begins at revision 1.
    let mut told = 1;
    while told < page.revision {
        for change in watch.next().await.unwrap() {
            told += 1;
            assert_eq!(change.revision(), told);
        }
    }
    let created = store.create("default/new".into(), kept::record(1)).await;
    assert_eq!(created.unwrap(), page.revision + 1);
    store.close().await;

    // Records expire by a clock years later.
    let store = kept::open(folder.path(), MADE_AT + 100_000_000_000).unwrap();
    store.expire().await.unwrap();
    let page = store.list(ListRequest::default()).await.unwrap();
    let for_ever = expected.values().filter(|number| *number % 5 == 0).count();
    assert_eq!(page.records.len(), for_ever);
    store.close().await;
}

#[tokio::test]
async fn every_format_that_is_kept_opens() {
    let mut files: Vec<_> = fs::read_dir(KEPT)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .collect();
    files.sort();
    for file in files {
        println!("{}", file.display());
        let format = file.file_stem().unwrap().to_str().unwrap();
        let has_reasons = format.parse::<u32>().unwrap() >= 4;
        check(&fs::read(&file).unwrap(), has_reasons).await;
    }
}

/// The current format. With `KEEP_FORMAT` it is kept.
#[tokio::test]
async fn todays_format_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept::open(folder.path(), MADE_AT).unwrap();
    kept::fill(&store).await.unwrap();
    // Packed while it is open, as after a crash.
    let packed = kept::pack(folder.path()).unwrap();
    store.close().await;
    assert!(packed.len() < 200_000, "{} bytes", packed.len());
    let format = fs::read_to_string(folder.path().join("FORMAT")).unwrap();
    let number = format.split_whitespace().last().unwrap();
    check(&packed, true).await;
    if std::env::var_os("KEEP_FORMAT").is_some() {
        let file = Path::new(KEPT).join(format!("{number}.zst"));
        let mut file = fs::File::create_new(&file)
            .unwrap_or_else(|error| panic!("{} is kept already, or: {error}", file.display()));
        file.write_all(&packed).unwrap();
    }
}
