//! A full disk: writes are refused with a clear error, no acknowledged write is lost, and once
//! there is space again the store continues by itself.
//!
//! The disk is a small tmpfs in the test's own namespace. If the system does not allow that, the
//! test reports it.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Fault, ListRequest, NewRecord, Store, WriteError};

const FOLDER: &str = "TIDINGS_STORE_FULL_DISK_FOLDER";
const SIZE: &str = "size=24m";

#[test]
fn a_disk_that_is_really_full() {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o {SIZE} none \"${FOLDER}\"");
    let run = |then: &str| {
        Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                &format!("{mount} && {then}"),
            ])
            .env(FOLDER, folder.path())
            .output()
    };
    if !run("true").is_ok_and(|output| output.status.success()) {
        println!("skipped: mounting a tmpfs in a namespace of one's own is not allowed here");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let child = format!(
        "exec '{}' full_disk::child --exact --ignored --nocapture",
        this.display()
    );
    let output = run(&child).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}

/// The part on that disk; not a separate test.
#[test]
#[ignore = "run by the test above"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(fill(Path::new(&folder)));
}

async fn fill(folder: &Path) {
    // Another program uses half the disk for now.
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![1; 12 << 20]).unwrap();
    // Without the reserve that normally prevents this.
    let mut options = EmbeddedOptions::default();
    options.free_space_min = 0;
    let store = EmbeddedStore::open(folder.join("store"), options.clone()).unwrap();
    let mut acknowledged = Vec::new();
    let mut create = async |store: &EmbeddedStore, number: u32| {
        let key = format!("{number:05}");
        let mut state = number;
        let noise = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let value: Vec<u8> = (0..50_000).map(noise).collect();
        let result = store
            .create(key.clone().into(), NewRecord::new(value))
            .await;
        if result.is_ok() {
            acknowledged.push(key);
        }
        result
    };
    let mut number = 0;
    let error = loop {
        number += 1;
        if let Err(error) = create(&store, number).await {
            break error;
        }
        assert!(number < 1000, "the disk is not filling up");
    };
    let WriteError::Fault(fault) = error else {
        panic!("{error}")
    };
    assert!(
        matches!(fault, Fault::NoSpace | Fault::Unknown(_)),
        "{fault}"
    );

    fs::remove_file(&ballast).unwrap();
    let mut refused = 0;
    loop {
        number += 1;
        match create(&store, number).await {
            Ok(_) => break,
            Err(WriteError::Fault(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        // The engine is reopened once a second.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(refused < 300, "writes do not come back");
    }
    for _ in 0..20 {
        number += 1;
        create(&store, number).await.unwrap();
    }
    store.close().await;
    let store = EmbeddedStore::open(folder.join("store"), options).unwrap();
    let page = store.list(ListRequest::default()).await.unwrap();
    let stored: Vec<_> = page
        .records
        .iter()
        .map(|record| String::from_utf8_lossy(&record.key).into_owned())
        .collect();
    // A write whose outcome was unknown may be there too.
    let missing: Vec<_> = acknowledged
        .iter()
        .filter(|key| !stored.contains(key))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(
        stored.len() <= acknowledged.len() + 1,
        "{} stored, {} acknowledged",
        stored.len(),
        acknowledged.len()
    );
}
