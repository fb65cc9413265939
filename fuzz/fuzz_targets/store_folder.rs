//! A folder of the embedded store whose files have valid checksums and any content: it opens and
//! can be read, or opening fails with the reason, without a panic.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore, fuzzing};
use tidings_store::{ListRequest, NewRecord, NewestRequest, Store};
use tokio::runtime::{Builder, Runtime};

/// Makes every kind of read, and writes. Each may fail.
async fn use_store(store: &EmbeddedStore) {
    let newest = NewestRequest { limit: 10, ..NewestRequest::default() };
    let _ = store.newest(newest).await;
    let list = ListRequest { limit: Some(10), ..ListRequest::prefix("") };
    let _ = store.list(list).await;
    let _ = store.get("a/b".into()).await;
    if let Ok(mut watch) = store.watch("".into(), 1).await {
        let _ = futures::FutureExt::now_or_never(watch.next());
    }
    let _ = store.create("a/b".into(), NewRecord::new("value")).await;
    let _ = store.expire().await;
    store.close().await;
}

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.expire_by_itself = false;
    options.cache_bytes = 1 << 20;
    options.free_space_min = 0;
    options
}

fuzz_target!(|input: &[u8]| {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).build().expect("a runtime can be made")
    });
    // In a folder in memory, if there is one: every input makes several files.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("a folder can be made");
    fuzzing::write_folder(folder.path(), input).expect("files can be written");
    runtime.block_on(async {
        if let Ok(store) = EmbeddedStore::open(folder.path(), options()) {
            use_store(&store).await;
        }
    });
});
