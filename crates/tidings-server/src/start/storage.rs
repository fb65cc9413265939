//! The choice of a server's store: the embedded one in its data folder, or etcd.

use std::path::Path;
use std::sync::Arc;

use tidings_store::Store;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
#[cfg(feature = "etcd")]
use tidings_store::etcd::{Description, EtcdOptions, EtcdStore};

use crate::start::error::StartError;
use crate::start::private::create_private_dir;

/// Where a server keeps its events.
#[derive(Clone)]
#[non_exhaustive]
pub enum Storage {
    /// In its data folder.
    Embedded(EmbeddedOptions),
    /// In etcd, in kube-apiserver's layout, so that both can serve the same etcd (feature `etcd`).
    #[cfg(feature = "etcd")]
    Etcd(EtcdOptions),
}

impl Default for Storage {
    /// The embedded store with its default options.
    fn default() -> Self {
        Self::Embedded(EmbeddedOptions::default())
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(_) => formatter.debug_tuple("Embedded").finish_non_exhaustive(),
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => formatter.debug_tuple("Etcd").field(options).finish(),
        }
    }
}

impl Storage {
    /// Opens the store. It must be called within a tokio runtime.
    #[cfg_attr(
        not(feature = "etcd"),
        expect(clippy::unused_async, reason = "only etcd has to be waited for")
    )]
    pub(crate) async fn open(self, data_dir: &Path) -> Result<Arc<dyn Store>, StartError> {
        match self {
            Self::Embedded(options) => {
                // No other user of the machine may read the events, even if the data folder existed
                // before.
                let folder = data_dir.join("store");
                private_dir(&folder)?;
                Ok(Arc::new(EmbeddedStore::open(folder, options)?))
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => {
                let clock = Arc::new(tidings_store::clock::SystemClock);
                let store = EtcdStore::open(options, clock, Arc::new(describe)).await?;
                Ok(Arc::new(store))
            }
        }
    }
}

/// Describes a stored value to the store on etcd, which knows only bytes: pass it to
/// [`EtcdStore::open`](tidings_store::etcd::EtcdStore::open). A value that is not an event can be
/// found by its key only.
#[cfg(feature = "etcd")]
pub fn describe(value: &[u8]) -> Description {
    let value = bytes::Bytes::copy_from_slice(value);
    let index = tidings_api::codec::decode_stored(&value, 0)
        .map(|event| crate::api::write::index(&event))
        .unwrap_or_default();
    Description {
        index,
        // The expiry is that of the lease.
        expires_at: None,
    }
}

pub(crate) fn private_dir(path: &Path) -> Result<(), StartError> {
    create_private_dir(path).map_err(StartError::file(path))
}
