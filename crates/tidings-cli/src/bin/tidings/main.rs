//! The `tidings` command.

mod clock;
mod commands;
mod table;

use std::process::ExitCode;

/// Much of what a server allocates for a request is freed by another thread, the store's. glibc's
/// allocator is slow at that, and others keep what was freed so for a thread that may not allocate
/// again; see docs/adr/0007.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // A system may give memory in pieces of two megabytes, of which a small server uses a little
    // each. One that cannot be told otherwise is as good as one that was.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let args = std::env::args_os().collect();
    commands::run(commands::parse(args)).await
}
