//! Events of which the name was used again: the younger one has it, and the elder one is under a
//! name that ends with its uid.
//!
//! Invariant: an event is under one name, also if an export says that it was under another one.

use bytes::Bytes;
use tidings_api::codec;
use tidings_store::{KEY_LEN_MAX, ReadError};

use super::index::index;
use super::keeper::{Batch, Keeper};
use super::keys;

impl Keeper {
    /// The name of an elder under which an event is kept, if it is.
    pub(super) async fn elder_of(
        &self,
        [namespace, name, uid]: [&str; 3],
        batch: &mut Batch,
    ) -> Result<Option<String>, ReadError> {
        for elder in keys::elder_names(name, uid) {
            let key = keys::event(namespace, &elder);
            if self.is_at(&key, uid, batch).await? {
                return Ok(Some(elder));
            }
            batch.leave_out_absent(&key);
        }
        Ok(None)
    }

    /// A name of an elder that no other event has; `None` if all are taken, as by an attacker.
    pub(super) async fn free_name(
        &self,
        [namespace, name, uid]: [&str; 3],
        batch: &mut Batch,
    ) -> Result<Option<String>, ReadError> {
        for elder in keys::elder_names(name, uid) {
            let key = keys::event(namespace, &elder);
            let is_free =
                key.len() <= KEY_LEN_MAX && self.slot(&key, batch).await?.record.is_none();
            if is_free {
                return Ok(Some(elder));
            }
        }
        Ok(None)
    }

    /// The key of an event that an export has under some key. Its name may have been used again
    /// since a former import, here or where the export is from.
    pub(super) async fn key_here(
        &self,
        key: &Bytes,
        uid: &str,
        batch: &mut Batch,
    ) -> Result<Option<Bytes>, ReadError> {
        if self.is_at(key, uid, batch).await? {
            return Ok(Some(key.clone()));
        }
        // Without a uid, an event is known by its key.
        if uid.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(key);
        let (namespace, name) = text.split_once('/').unwrap_or_default();
        if let Some(elder) = self.elder_of([namespace, name, uid], batch).await? {
            return Ok(Some(keys::event(namespace, &elder)));
        }
        if let Some(before) = keys::before_elder(key, uid)
            && self.is_at(&before, uid, batch).await?
        {
            return Ok(Some(before));
        }
        Ok(None)
    }

    async fn is_at(&self, key: &Bytes, uid: &str, batch: &mut Batch) -> Result<bool, ReadError> {
        let record = self.slot(key, batch).await?.record.as_ref();
        Ok(record.is_some_and(|record| *record.newest.uid == *uid))
    }

    /// Makes room for an event whose name another one has. `false`: that one has nowhere to go.
    pub(super) async fn move_elder(
        &self,
        namespace: &str,
        name: &str,
        batch: &mut Batch,
    ) -> Result<bool, ReadError> {
        let key = keys::event(namespace, name);
        let Some(record) = self.slot(&key, batch).await?.record.as_ref() else {
            return Ok(true);
        };
        let uid = record.newest.uid.to_string();
        let Some(elder) = self.free_name([namespace, name, &uid], batch).await? else {
            return Ok(false);
        };
        self.rename(&key, namespace, elder, batch).await?;
        Ok(true)
    }

    /// Keeps the event under a key under another name from now on.
    pub(super) async fn rename(
        &self,
        key: &Bytes,
        namespace: &str,
        name: String,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let slot = self.slot(key, batch).await?;
        let Some(record) = slot.record.take() else {
            return Ok(());
        };
        slot.is_changed = true;
        let expires_at = slot.expires_at;
        let Ok(mut event) = codec::decode_stored(&record.newest.event, 0) else {
            return Ok(());
        };
        let renamed_to = keys::event(namespace, &name);
        event.metadata.get_or_insert_default().name = Some(name);
        let index = index(&event);
        let expires_at = expires_at.unwrap_or_else(|| self.end(&event));
        // Its chunks are under its uid, independent of its name.
        let id = keys::id(&record.newest.uid, key);
        let renamed = codec::encode_stored(&mut event);
        batch.bytes += renamed.len();
        let Ok((record, chunk)) = record.renamed(renamed) else {
            return Ok(());
        };
        if let Some(chunk) = chunk {
            batch.chunk(&id, chunk, expires_at);
        }
        let slot = self.slot(&renamed_to, batch).await?;
        slot.change(record, index, expires_at);
        Ok(())
    }
}
