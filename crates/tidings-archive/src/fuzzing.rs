//! Readers of bytes from a source and from disk, for the fuzz targets; built only with `--cfg
//! fuzzing`.

use bytes::{Bytes, BytesMut};
use tidings_api::codec::Api;
use tidings_history::StoredGap;

use crate::keep::coverage::Applied;
use crate::keep::coverage::Position;
use crate::keep::json::parse;
use crate::keep::retention::Trimmed;
use crate::source::wire;
use crate::version::delta::{delta, restore};
use crate::version::record::{self, Record};

/// Reads the bytes as a page of a list, as the messages of a watch, and as an error answer.
pub fn answers(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    for api in [Api::Core, Api::Events] {
        let _ = wire::read_list(api, &body);
        let mut sent = BytesMut::from(bytes);
        while let Ok(Some(_)) = wire::take_frame(api, &mut sent) {}
    }
    let _ = wire::read_failure(500, None, &body);
}

/// Reads the bytes as a record of an event's versions, and as the archive's own records. What can
/// be read must be the same after it is written and read again.
pub fn kept(bytes: &[u8]) {
    let value = Bytes::copy_from_slice(bytes);
    if let Ok(record) = Record::decode(&value) {
        assert_eq!(record::event(&value).as_ref(), Ok(&record.newest.event));
        let versions: Vec<_> = record.versions().collect();
        if versions.iter().all(Result::is_ok) {
            assert_eq!(versions.len() as u64, record.count());
        }
        assert_eq!(Record::decode(&record.encode()).as_ref(), Ok(&record));
        let _ = record.renamed(Bytes::new());
    }
    let (newer, older) = bytes.split_at(bytes.len() / 2);
    assert_eq!(restore(newer, &delta(newer, older)).as_deref(), Some(older));
    let _ = restore(newer, older);
    let _ = parse::<Position>(bytes);
    let _ = parse::<StoredGap>(bytes);
    let _ = parse::<Trimmed>(bytes);
    let _ = parse::<Applied>(bytes);
}
