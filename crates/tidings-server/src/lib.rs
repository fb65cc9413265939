//! tidings-server
