//! The description of a value. The store knows only bytes; the server's decoder knows the rest.

use std::sync::Arc;

use crate::{Index, UnixMillis};

/// The description of a value, by which the store finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its index values; the default for a value that cannot be decoded.
    pub index: Index,
    /// When it expires, if the value itself states it exactly. `None` leaves it to the lease.
    pub expires_at: Option<UnixMillis>,
}

/// Describes a value of any writer: the server's decoder. It must be quick; it is called for every
/// record read.
pub type Describe = Arc<dyn Fn(&[u8]) -> Description + Send + Sync>;
