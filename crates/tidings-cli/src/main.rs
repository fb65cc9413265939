//! The `tidings` command.

mod clock;
mod commands;
mod table;

use std::process::ExitCode;

/// Much of what a server allocates for a request is freed by another thread, the store's; glibc's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // mimalloc asks for memory in pieces of two megabytes, of which a small server uses a little each: a third of its memory.
    // A system that cannot be told otherwise is as good as one that was.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let args = std::env::args_os().collect();
    commands::run(commands::parse(args)).await
}
