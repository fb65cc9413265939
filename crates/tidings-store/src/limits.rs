//! Limits on keys, values, indexes and commits, and the checks before a write.

use crate::{Index, NewRecord, WriteError};

/// Maximum length of a key, in bytes. A namespace (63), a slash and a name (253) need 317.
pub const KEY_LEN_MAX: usize = 1024;

/// Maximum length of a value, in bytes. It equals etcd's default limit for a request.
pub const VALUE_LEN_MAX: usize = 1_572_864;

/// Maximum sum of the lengths of an [`Index`]'s strings, in bytes. Kubernetes' own limits on these
/// fields stay far below.
pub const INDEX_LEN_MAX: usize = 4096;

/// Maximum writes of one commit.
pub const WRITES_MAX: usize = 4096;

/// Maximum bytes of the records of one commit, as stored: keys, values and indexes, compressed.
pub const COMMIT_LEN_MAX: usize = 32 << 20;

/// Refuses an empty key, and key, value or index above the limits.
pub(crate) fn check_size(key: &[u8], record: Option<&NewRecord>) -> Result<(), WriteError> {
    let check = |what, len, max| {
        if len > max {
            Err(WriteError::TooLarge { what, len, max })
        } else {
            Ok(())
        }
    };
    if key.is_empty() {
        return Err(WriteError::EmptyKey);
    }
    check("the key", key.len(), KEY_LEN_MAX)?;
    let Some(NewRecord { value, index, .. }) = record else {
        return Ok(());
    };
    check("the value", value.len(), VALUE_LEN_MAX)?;
    check("the index", index_len(index), INDEX_LEN_MAX)
}

/// Refuses a commit whose stored bytes are above the limit.
pub(crate) fn check_commit(len: usize) -> Result<(), WriteError> {
    if len > COMMIT_LEN_MAX {
        return Err(WriteError::TooLarge {
            what: "the commit",
            len,
            max: COMMIT_LEN_MAX,
        });
    }
    Ok(())
}

/// The sum of the lengths of an index's strings.
pub(crate) fn index_len(index: &Index) -> usize {
    index.object_uid.len()
        + index.object_kind.len()
        + index.object_namespace.len()
        + index.object_name.len()
        + index.reason.len()
        + index.event_type.len()
}
