//! Ports for programs that need a port number before they listen.
//!
//! A port that the kernel chose and that was released again may go to another connection or test
//! before the program has it. Then the program fails, rarely and without a message. So these ports
//! are below the kernel's (`ip_local_port_range`).

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A loopback port without a listener, which this process has not returned before.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Consecutive processes begin their search far from each other.
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    loop {
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        assert!(taken < COUNT, "no port from {FIRST} on is free");
        let offset = (start + u32::from(taken)) % u32::from(COUNT);
        let port = FIRST + offset as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
