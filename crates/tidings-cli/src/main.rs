//! The `tidings` command.

mod clock;
mod commands;
mod table;

use std::process::ExitCode;

/// Much of what a server allocates for a request is freed by another thread, the store's; glibc's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args = std::env::args_os().collect();
    commands::run(commands::parse(args)).await
}
