//! Folders that cannot be opened: one that another process has open, one on a read-only disk. Each
//! is refused with a message, and its content does not change.
//!
//! The disk is a tmpfs in the test's own mount namespace, so that root is refused, too. If the
//! system does not allow that, the test reports it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, NewRecord, Store};

use crate::support::show;

const FOLDER: &str = "TIDINGS_STORE_FOLDER";

fn open(folder: &Path) -> Result<EmbeddedStore, String> {
    EmbeddedStore::open(folder, EmbeddedOptions::default()).map_err(|error| error.to_string())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// The command line for running a test of this program from another test.
fn child(name: &str) -> Vec<String> {
    let this = std::env::current_exe().unwrap();
    [
        &*this.to_string_lossy(),
        name,
        "--exact",
        "--ignored",
        "--nocapture",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn given_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

#[test]
fn a_folder_another_process_has_open() {
    let folder = tempfile::tempdir().unwrap();
    let words = child("folders::hold");
    let mut holder = Command::new(&words[0])
        .args(&words[1..])
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "held" {}
    let refused = open(folder.path()).err().unwrap();
    assert_eq!(
        refused,
        format!(
            "the store in {} is in use by another process",
            folder.path().display()
        )
    );
    // It ends with the process in any case.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let store = open(folder.path()).unwrap();
    let listed = block_on(async { store.list(ListRequest::default()).await.unwrap() });
    assert_eq!(listed.records.iter().map(show).collect::<Vec<_>>(), ["a=1"]);
}

/// Holds a store open until it is killed; not a separate test.
#[test]
#[ignore = "run by the test above"]
fn hold() {
    let Some(folder) = given_folder() else { return };
    let store = open(&folder).unwrap();
    block_on(async { store.create("a".into(), NewRecord::new("1")).await }).unwrap();
    println!("\nheld");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_disk_that_may_only_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-ec", script])
            .env(FOLDER, folder.path())
            .output()
    };
    let mount = format!("mount -t tmpfs -o size=200m none \"${FOLDER}\"");
    let remount = |how: &str| format!("mount -o remount,{how} \"${FOLDER}\"");
    if !run(&format!("{mount}; {}", remount("ro"))).is_ok_and(|it| it.status.success()) {
        println!("skipped: mounting a tmpfs in a namespace of one's own is not allowed here");
        return;
    }
    let part = |name: &str| child(name).join(" ");
    let script = [
        mount,
        part("folders::fill"),
        remount("ro"),
        part("folders::refused"),
        remount("rw"),
        part("folders::whole"),
    ];
    let output = run(&script.join("\n")).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(text.matches("1 passed").count(), 3, "{text}");
}

/// The part while it is writable; not a separate test, like the two below.
#[test]
#[ignore = "run by the test above"]
fn fill() {
    let Some(folder) = given_folder() else { return };
    block_on(async {
        let store = open(&folder.join("store")).unwrap();
        for number in 0..100 {
            let record = NewRecord::new(number.to_string());
            store
                .create(format!("{number:03}").into(), record)
                .await
                .unwrap();
        }
        store.close().await;
    });
}

#[test]
#[ignore = "run by the test above"]
fn refused() {
    let Some(folder) = given_folder() else { return };
    for name in ["store", "another"] {
        let message = open(&folder.join(name)).err().unwrap();
        let place = folder.join(name).to_string_lossy().into_owned();
        assert!(message.contains(&place), "{message}");
        assert!(message.contains("Read-only file system"), "{message}");
    }
}

#[test]
#[ignore = "run by the test above"]
fn whole() {
    let Some(folder) = given_folder() else { return };
    block_on(async {
        let store = open(&folder.join("store")).unwrap();
        let page = store.list(ListRequest::default()).await.unwrap();
        assert_eq!(page.records.len(), 100);
        store
            .create("more".into(), NewRecord::new(""))
            .await
            .unwrap();
        store.close().await;
    });
}
