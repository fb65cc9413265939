//! The `tidings` command.

mod clock;
mod commands;
mod table;

use std::process::ExitCode;

/// Many allocations for a request are freed by another thread, that of the store. glibc's allocator
/// is slow at that, and others keep freed memory for a thread that may not allocate again; see
/// docs/adr/0007.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Linux may back memory with pages of two megabytes, of which a small server uses only parts.
    // Where this cannot be disabled, the server works nevertheless.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let args = std::env::args_os().collect();
    Box::pin(commands::run(commands::parse(args))).await
}
