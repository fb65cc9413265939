//! tidings-store
