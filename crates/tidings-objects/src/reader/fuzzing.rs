//! Entry points of the fuzz targets into the reader.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::folder::Folder;
use crate::place::Place;
use crate::reader::pending::changes;
use crate::reader::pending::tail::Heard;
use crate::reader::scan::Footer;
use crate::reader::scan::columns::{self, Want};
use crate::reader::scan::leaf;
use crate::reader::scan::{Counters, Fetch, Remote, Shared};

/// Reads all columns of a file by its index of pages.
pub(crate) async fn file(bytes: Bytes, rows: u64) {
    let len = bytes.len() as u64;
    let path = Path::from("file");
    let Ok(footer) = Footer::of(&bytes, len, rows) else {
        return;
    };
    let footer = Arc::new(footer);
    let fetch = Fetch {
        shared: Arc::new(Shared::new(Arc::new(InMemory::new()), 1 << 20, 1)),
        counters: Arc::new(Counters::default()),
    };
    for (group, of_group) in footer.groups.iter().enumerate() {
        for leaf in leaf::ALL {
            if let Some(filter) = footer.filter(group, leaf) {
                let filter = bytes.slice(filter.start as usize..filter.end as usize);
                let _ = columns::may_have(&path, Some(&filter), &["a"]);
            }
        }
        // All rows, and then only the last.
        for rows in [
            vec![0..of_group.rows],
            vec![of_group.rows - 1..of_group.rows],
        ] {
            let want = Want {
                file: Remote {
                    path: path.clone(),
                    len,
                    checksum: String::new(),
                    id: 1,
                    held: Some(bytes.clone()),
                },
                footer: Arc::clone(&footer),
                group,
                rows,
            };
            for leaf in leaf::ALL {
                let _ = columns::read_each(&fetch, vec![want.clone()], &[leaf]).await;
            }
        }
    }
}

/// Reads an answer with pending versions, and makes the changes for watchers from it.
pub(crate) fn waiting(bytes: Bytes) {
    let cluster: Arc<str> = "prod".into();
    let place = Place::of(Arc::new(InMemory::new()), "memory:");
    let folder = Folder::new(&place, &cluster);
    if let Ok(heard) = Heard::read(&folder, &cluster, bytes) {
        let parts = heard.part.into_iter().map(|part| (1, part));
        changes::read(&cluster, parts.collect()).expect("what was read once is read again");
    }
}
