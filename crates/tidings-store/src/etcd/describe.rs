//! What a value says about itself. The store knows only bytes; the server's decoder tells it the
//! rest.

use std::sync::Arc;

use crate::{Index, UnixMillis};

/// What a value says about itself, for the store to find it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What to find it by; the default for a value that cannot be decoded.
    pub index: Index,
    /// When it ends, if the value itself says so exactly. `None` leaves it to the lease.
    pub expires_at: Option<UnixMillis>,
}

/// Describes a value of any writer: the server's decoder. It must be quick; it is called for every
/// record read.
pub type Describe = Arc<dyn Fn(&[u8]) -> Description + Send + Sync>;
