//! Descriptions of values, made by the server's decoder. The store itself knows only bytes.

use std::sync::Arc;

use crate::{Index, UnixMillis};

/// The index values and the expiry that a decoder found in a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The index values; the default if the value cannot be decoded.
    pub index: Index,
    /// The time of expiry, if the value states it exactly. `None` means that the lease decides.
    pub expires_at: Option<UnixMillis>,
}

/// The server's decoder, which describes a value of any writer. It must be fast: the store calls it
/// for every record that it reads.
pub type Describe = Arc<dyn Fn(&[u8]) -> Description + Send + Sync>;
