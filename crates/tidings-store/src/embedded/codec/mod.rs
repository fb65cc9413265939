//! Bytes that the log and the index have in common: versions, their ends, the state, and bodies
//! compressed with shared dictionaries.
//!
//! Invariant: nothing here knows where bytes are stored. Decoders take any bytes, and return an
//! error for those that no encoder here writes.
//!
//! From outside: [`Codec`] compresses and decompresses bodies; [`State`] and [`Swept`] are part of
//! every commit; the modules [`version`] and [`varint`] have the other encodings; [`dictionaries`]
//! stores the dictionaries.

mod compression;
pub(super) mod dictionaries;
mod sample;
mod state;
pub(super) mod varint;
pub(super) mod version;

pub(super) use compression::{Codec, PackedBody, packed_len};
pub(super) use state::{COUNTED_MAX, State, Swept};
