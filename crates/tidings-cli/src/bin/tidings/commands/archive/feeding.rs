//! `tidings archive --feeds`: the file of feeds, which is read again when it changes, and the feeds
//! at the archive's server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Method, StatusCode};
use tidings_feeds::{FeedOptions, Feeds, ReceiverOptions};
use tidings_server::ServedFeeds;
use tidings_store::BoxFuture;
use tidings_store::clock::SystemClock;

/// The feeds of an archive, and their file.
pub(super) struct Feeding {
    pub(super) feeds: Feeds,
    file: PathBuf,
    data_dir: PathBuf,
    /// The text that was applied, and the one that was read last: a file may be half written, so a
    /// text counts when it is read twice in a row.
    applied: String,
    read: String,
    complaint: String,
    /// Whether a feed writes to standard output.
    pub(super) prints: bool,
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn parse(file: &Path, text: &str, data_dir: &Path) -> Result<Vec<FeedOptions>, String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let feeds = tidings_cli::feeds::parse(text, folder, data_dir);
    feeds.map_err(|why| format!("{}: {why}", file.display()))
}

impl Feeding {
    /// Reads the file. Nothing is delivered before clusters are opened.
    pub(super) async fn open(file: PathBuf, data_dir: &Path) -> Result<Self, String> {
        let applied = read(&file)?;
        let options = parse(&file, &applied, data_dir)?;
        let is_stdout = |feed: &FeedOptions| matches!(feed.receiver, ReceiverOptions::Stdout);
        let prints = options.iter().any(is_stdout);
        let feeds = Feeds::new(data_dir.join("feeds"), Arc::new(SystemClock));
        feeds.configure(options).await;
        Ok(Self {
            feeds,
            file,
            data_dir: data_dir.to_owned(),
            read: applied.clone(),
            applied,
            complaint: String::new(),
            prints,
        })
    }

    /// Reads the file again, and applies it if it changed.
    pub(super) async fn look(&mut self) {
        let text = match read(&self.file) {
            Ok(text) => text,
            Err(why) => return self.complain(why),
        };
        let is_new = text != self.applied && text == self.read;
        self.read = text;
        if !is_new {
            return self.feeds.resume().await;
        }
        match parse(&self.file, &self.read, &self.data_dir) {
            Err(why) => self.complain(why),
            Ok(options) => {
                let feeds = options.len();
                tracing::info!(feeds, "the file of feeds is read again");
                self.feeds.configure(options).await;
                self.applied.clone_from(&self.read);
                self.complaint.clear();
            }
        }
    }

    fn complain(&mut self, why: String) {
        if why != self.complaint {
            tracing::error!(
                error = why,
                "the feeds of the former file are still delivered"
            );
            self.complaint = why;
        }
    }

    pub(super) fn served(&self) -> Arc<dyn ServedFeeds> {
        Arc::new(Served(self.feeds.clone()))
    }
}

struct Served(Feeds);

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

impl ServedFeeds for Served {
    fn answer<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
    ) -> BoxFuture<'a, (StatusCode, Vec<u8>)> {
        Box::pin(self.0.answer(method, path))
    }

    fn event_metrics(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(self.0.event_metrics()))
    }

    fn metrics(&self) -> BoxFuture<'_, String> {
        Box::pin(self.0.metrics())
    }
}
