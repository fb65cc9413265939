//! Events whose name was used again. The younger event has the name, and the older (elder) one has
//! a name that ends with its uid.
//!
//! Invariant: an event has one name in the store, even if an export has it under another.

use bytes::Bytes;
use tidings_api::codec;
use tidings_store::{KEY_LEN_MAX, ReadError};

use super::batch::Batch;
use super::keeper::Keeper;
use crate::keep::index::index;
use crate::keep::keys;

impl Keeper {
    /// Returns the elder's name under which this event is kept, if it is.
    pub(in crate::keep) async fn elder_of(
        &self,
        [namespace, name, uid]: [&str; 3],
        batch: &mut Batch,
    ) -> Result<Option<String>, ReadError> {
        for elder in keys::elder_names(name, uid) {
            let key = keys::event(namespace, &elder);
            if self.uid_at(&key, batch).await? == Some(uid) {
                return Ok(Some(elder));
            }
            batch.leave_out_absent(&key);
        }
        Ok(None)
    }

    /// Returns an elder's name that no other event has; `None` if all are taken, as an attacker
    /// could do.
    pub(in crate::keep) async fn free_name(
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

    /// Returns the key that the event of an export has here. Its name may have been used again
    /// since an earlier import, here or at the origin of the export.
    pub(in crate::keep) async fn key_here(
        &self,
        key: &Bytes,
        uid: &str,
        batch: &mut Batch,
    ) -> Result<Option<Bytes>, ReadError> {
        if self.uid_at(key, batch).await? == Some(uid) {
            return Ok(Some(key.clone()));
        }
        // An event without a uid is identified by its key.
        if uid.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(key);
        let (namespace, name) = text.split_once('/').unwrap_or_default();
        if let Some(elder) = self.elder_of([namespace, name, uid], batch).await? {
            return Ok(Some(keys::event(namespace, &elder)));
        }
        if let Some(before) = keys::before_elder(key, uid)
            && self.uid_at(&before, batch).await? == Some(uid)
        {
            return Ok(Some(before));
        }
        Ok(None)
    }

    /// The uid of the event under a key.
    async fn uid_at<'a>(
        &self,
        key: &Bytes,
        batch: &'a mut Batch,
    ) -> Result<Option<&'a str>, ReadError> {
        let record = self.slot(key, batch).await?.record.as_ref();
        Ok(record.map(|record| &*record.newest.uid))
    }

    /// Gives the event with a name another one, so that a younger event can have it. Returns
    /// `false` if all other names are taken.
    pub(in crate::keep) async fn move_elder(
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

    /// Moves the event under a key to another name.
    pub(in crate::keep) async fn rename(
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
        // Its chunks do not move, because their keys have the uid and not the name.
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
