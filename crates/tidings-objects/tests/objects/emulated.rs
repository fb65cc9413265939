//! What an archive needs of the storages of clouds, tested on emulators of Azure and Google. Also
//! the encryption that is requested of S3, and the requests for credentials. Tests of what an
//! archive does with a storage use folders and S3.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
};
use tidings_objects::{Place, SealOptions, check, newest};
use tidings_testing::emulators::Cloud;

use super::faults::{a_copy_races, any_request_has_a_fault};
use super::storage::{Storage, store_of};
use super::world::World;

/// Creates an object unless it exists. Returns whether it was created; panics on any other failure.
async fn create(store: &dyn ObjectStore, path: &Path, bytes: &'static str) -> bool {
    let payload = PutPayload::from_static(bytes.as_bytes());
    match store.put_opts(path, payload, PutMode::Create.into()).await {
        Ok(_) => true,
        Err(Error::AlreadyExists { .. }) => false,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// The paths of the listed objects.
async fn paths(store: &dyn ObjectStore, folder: &str, after: Option<&str>) -> BTreeSet<String> {
    let folder = Path::from(folder);
    let listed = match after {
        Some(after) => store.list_with_offset(Some(&folder), &Path::from(after)),
        None => store.list(Some(&folder)),
    };
    let listed: Vec<ObjectMeta> = listed.try_collect().await.unwrap();
    let paths = listed.iter().map(|found| found.location.to_string());
    paths.collect()
}

/// If several requests create one object at the same time, exactly one succeeds.
#[tokio::test]
async fn an_object_is_created_once() {
    const TEXTS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for storage in Storage::all() {
        let store = storage.store();
        for number in 0..5 {
            let path = Path::from(format!("archive/manifests/{number}.json"));
            let each = TEXTS.map(|text| create(&*store, &path, text));
            let created = join_all(each).await;
            let by: Vec<_> = (0..TEXTS.len()).filter(|at| created[*at]).collect();
            assert_eq!(by.len(), 1, "{}: {created:?}", storage.url());
            assert!(!create(&*store, &path, "late").await);
            let kept = store.get(&path).await.unwrap().bytes().await.unwrap();
            assert_eq!(kept, TEXTS[by[0]]);
        }
    }
}

#[tokio::test]
async fn ranges_are_of_the_object_and_say_its_length() {
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let bytes = Bytes::from(bytes);
    for storage in Storage::all() {
        let (store, url) = (storage.store(), storage.url());
        let path = Path::from("archive/events/1.parquet");
        store.put(&path, bytes.clone().into()).await.unwrap();
        for range in [0..1, 8..4096, 399_992..400_000, 0..400_000] {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range.clone())),
                ..GetOptions::default()
            };
            let got = store.get_opts(&path, options).await.unwrap();
            assert_eq!(got.meta.size, 400_000, "{url} {range:?}");
            let got = got.bytes().await.unwrap();
            let range = range.start as usize..range.end as usize;
            assert_eq!(got, bytes.slice(range), "{url}");
        }
        let absent = Path::from("archive/events/2.parquet");
        let error = store.get_range(&absent, 0..1).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{url}: {error}");
    }
}

/// A listing may also have objects before the place where it begins: Azurite does not support such
/// a place, and Azure only in later versions of its API.
#[tokio::test]
async fn listings_have_what_is_there_and_what_was_deleted_is_not() {
    for storage in Storage::all() {
        let (store, url) = (storage.store(), storage.url());
        for path in ["archive/m/1", "archive/m/2", "archive/m/3", "archive/mm/4"] {
            assert!(create(&*store, &Path::from(path), "x").await, "{url}");
        }
        let all = ["archive/m/1", "archive/m/2", "archive/m/3"].map(str::to_owned);
        let listed = paths(&*store, "archive/m", None).await;
        assert_eq!(listed, BTreeSet::from(all), "{url}");
        let later = paths(&*store, "archive/m", Some("archive/m/2")).await;
        assert!(later.contains("archive/m/3"), "{url}: {later:?}");
        assert!(later.is_subset(&listed), "{url}: {later:?}");
        let root = Path::from("archive");
        let folders = store.list_with_delimiter(Some(&root)).await.unwrap();
        let folders = folders.common_prefixes.iter().map(ToString::to_string);
        let folders: Vec<_> = folders.collect();
        assert_eq!(folders, ["archive/m", "archive/mm"], "{url}");
        let path = Path::from("archive/m/1");
        store.delete(&path).await.unwrap();
        // S3 reports success for deleting an object that does not exist.
        match store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => panic!("{url}: {error}"),
        }
        let listed = paths(&*store, "archive/m", None).await;
        assert_eq!(listed.len(), 2, "{url}: {listed:?}");
        assert!(paths(&*store, "archive/none", None).await.is_empty());
        // After a deletion, the object can be created again.
        assert!(create(&*store, &path, "y").await, "{url}");
    }
}

/// The URL's prefix of object names is used as it is, and not decoded.
#[tokio::test]
async fn prefixes_are_taken_as_they_are() {
    for storage in Storage::clouds() {
        let bucket = storage.url().replace("/archive", "");
        for prefix in [
            "a/b",
            "my%20archive/50%25",
            "a b/ü~+&=;[x]",
            "x%2Fy",
            "100%",
        ] {
            let place = storage.open(&format!("{bucket}/{prefix}"));
            let mut world = World::new();
            for _ in 0..2 {
                world.observe(5).await;
                let sealed = world.seal(&place, SealOptions::default()).await;
                sealed.unwrap();
            }
            world.check(&place).await;
            let clusters = place.clusters().await.unwrap();
            assert_eq!(clusters, ["prod"], "{bucket}/{prefix}");
            let checked = check(&place, "prod").await.unwrap();
            assert_eq!(checked.leavings, 0);
        }
    }
}

/// A check reports a file whose bytes are not those of the manifest, and a file that is missing.
#[tokio::test]
async fn damage_in_a_cloud_is_found() {
    for storage in Storage::clouds() {
        let (place, store) = (storage.place(), storage.store());
        let mut world = World::new();
        world.observe(10).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        let manifest = newest(&place, "prod").await.unwrap();
        let path = Path::from(format!("archive/prod/{}", manifest.files[0].path));
        let whole = store.get(&path).await.unwrap().bytes().await.unwrap();
        let cut = whole.slice(..whole.len() - 1);
        store.put(&path, cut.into()).await.unwrap();
        let problems = check(&place, "prod").await.unwrap().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("its bytes"), "{problems:?}");
        store.delete(&path).await.unwrap();
        let problems = check(&place, "prod").await.unwrap().problems;
        assert!(problems[0].contains("not there"), "{problems:?}");
        store.put(&path, whole.into()).await.unwrap();
        world.check(&place).await;
    }
}

#[tokio::test]
async fn a_copy_of_a_data_folder_races_with_it_on_azure() {
    if let Some(storage) = Storage::emulated(Cloud::Azure) {
        a_copy_races(storage, 6).await;
    }
}

#[tokio::test]
async fn a_copy_of_a_data_folder_races_with_it_on_google() {
    if let Some(storage) = Storage::emulated(Cloud::Google) {
        a_copy_races(storage, 6).await;
    }
}

#[tokio::test]
async fn any_request_to_azure_has_a_fault() {
    if let Some(storage) = Storage::emulated(Cloud::Azure) {
        // Each request to Azurite takes milliseconds, so only every 31st gets a fault.
        any_request_has_a_fault(storage, 31).await;
    }
}

#[tokio::test]
async fn any_request_to_google_has_a_fault() {
    if let Some(storage) = Storage::emulated(Cloud::Google) {
        any_request_has_a_fault(storage, 11).await;
    }
}

/// Answers this number of requests as S3 answers a write. Returns their heads.
fn server_that_hears(requests: usize) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let heads = std::thread::spawn(move || {
        let streams = listener.incoming().take(requests);
        streams.map(|stream| hear(stream.unwrap())).collect()
    });
    (endpoint, heads)
}

/// Reads the head of a request, and answers it.
fn hear(stream: TcpStream) -> String {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    let mut bytes: usize = 0;
    loop {
        let begin = head.len();
        stream.read_line(&mut head).unwrap();
        let line = head[begin..].trim_end();
        if let Some(length) = line.strip_prefix("content-length: ") {
            bytes = length.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0_u8; bytes]).unwrap();
    let answer = "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    head
}

/// The signature also covers each of the encryption headers.
#[tokio::test]
async fn s3_is_asked_to_encrypt_what_is_written_as_the_settings_say() {
    const ENCRYPTION: &str = "x-amz-server-side-encryption";
    const KEY: &str = "arn:aws:kms:eu-central-1:111122223333:key/1";
    type Settings<'a> = &'a [(&'a str, &'a str)];
    let kms = [
        ("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms"),
        ("AWS_SSE_KMS_KEY_ID", KEY),
        ("AWS_SSE_BUCKET_KEY_ENABLED", "true"),
    ];
    let cases: [(Settings<'_>, Settings<'_>); 4] = [
        (&[], &[]),
        (
            &[("AWS_SERVER_SIDE_ENCRYPTION", "AES256")],
            &[("", "AES256")],
        ),
        (&kms[..1], &[("", "aws:kms")]),
        (
            &kms,
            &[
                ("", "aws:kms"),
                ("-aws-kms-key-id", KEY),
                ("-bucket-key-enabled", "true"),
            ],
        ),
    ];
    let (endpoint, heads) = server_that_hears(cases.len());
    for (settings, _) in cases {
        let mut all = vec![
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ];
        all.extend(settings);
        let store = store_of(Place::open_with("s3://events/archive", &all).unwrap());
        assert!(create(&*store, &Path::from("archive/x"), "bytes").await);
    }
    for (head, (_, expected)) in heads.join().unwrap().iter().zip(cases) {
        let asked = head.lines().filter(|line| line.starts_with(ENCRYPTION));
        let asked: BTreeSet<_> = asked.map(str::to_owned).collect();
        let expected = expected.iter();
        let expected = expected.map(|(name, value)| format!("{ENCRYPTION}{name}: {value}"));
        assert_eq!(asked, expected.collect::<BTreeSet<_>>(), "{head}");
        let signed = head.lines().find(|line| line.starts_with("authorization:"));
        let signed = signed.and_then(|line| line.split("SignedHeaders=").nth(1));
        let signed = signed.and_then(|line| line.split(',').next()).unwrap();
        for line in asked {
            let name = line.split(':').next();
            assert!(signed.split(';').any(|it| Some(it) == name), "{signed}");
        }
        assert!(head.contains("\r\nif-none-match: *\r\n"), "{head}");
    }
}

/// Metadata servers use plain HTTP. What the error says about plain HTTP to a storage does not
/// apply to them.
#[tokio::test]
async fn credentials_are_asked_for_by_plain_http() {
    let (endpoint, heads) = server_that_hears(1);
    let identity = format!("{endpoint}/identity");
    let settings = [
        ("AZURE_CREDENTIAL_TYPE", "managed_identity"),
        ("AZURE_MSI_ENDPOINT", identity.as_str()),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
    ];
    let place = Place::open_with("az://container/archive", &settings).unwrap();
    // The answer has no credentials.
    let error = place.clusters().await.unwrap_err().to_string();
    assert!(!error.contains("_ALLOW_HTTP"), "{error}");
    let heads = heads.join().unwrap();
    assert!(heads[0].starts_with("GET /identity?"), "{heads:?}");
}
