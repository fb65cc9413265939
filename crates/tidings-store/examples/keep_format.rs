//! Makes a small store of today's format in one file, for tests of the future to open.
//!
//! ```text
//! cargo run -p tidings-store --example keep_format -- crates/tidings-store/tests/formats
//! ```
//!
//! The file is named after the format. Run it once for each format, with the last version that
//! writes it, and never again: a file that is made anew keeps nothing.

#[path = "../tests/support/fixture.rs"]
mod fixture;

use std::error::Error;
use std::fs;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(1).ok_or("usage: keep_format FOLDER")?;
    let folder = tempfile::tempdir()?;
    let store = fixture::open(folder.path(), fixture::MADE_AT)?;
    fixture::fill(&store).await?;
    // Packed while it is open, as a crash would leave it.
    let packed = fixture::pack(folder.path())?;
    let format = fs::read_to_string(folder.path().join("FORMAT"))?;
    let number = format
        .split_whitespace()
        .last()
        .ok_or("FORMAT names no format")?;
    fs::create_dir_all(&target)?;
    let file = Path::new(&target).join(format!("{number}.zst"));
    fs::File::create_new(&file)
        .map_err(|error| format!("{} is kept already, or: {error}", file.display()))?;
    fs::write(&file, &packed)?;
    #[expect(clippy::print_stdout, reason = "what a command has to say")]
    {
        println!("{}: {} bytes", file.display(), packed.len());
    }
    Ok(())
}
