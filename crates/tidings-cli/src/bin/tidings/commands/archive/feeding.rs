//! `tidings archive --feeds`: the file of feeds, which is read again when it changes, and the feeds
//! at the archive's server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Method, StatusCode};
use tidings_feeds::{FeedOptions, Feeds, ReceiverOptions};
use tidings_server::ServedFeeds;
use tidings_store::BoxFuture;
use tidings_store::clock::SystemClock;

use super::clusters::{ClusterError, Reread, text_of, wrong_file};

/// The feeds of an archive, and their file.
pub(super) struct Feeding {
    pub(super) feeds: Feeds,
    file: PathBuf,
    data_dir: PathBuf,
    reread: Reread,
    /// The text that was applied.
    applied: String,
    /// Whether a feed writes to standard output.
    pub(super) prints: bool,
}

fn parse(file: &Path, text: &str, data_dir: &Path) -> Result<Vec<FeedOptions>, ClusterError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    tidings_cli::feeds::parse(text, folder, data_dir).map_err(wrong_file(file))
}

impl Feeding {
    /// Reads the file. Nothing is delivered before clusters are opened.
    pub(super) async fn open(file: PathBuf, data_dir: &Path) -> Result<Self, ClusterError> {
        let applied = text_of(&file)?;
        let options = parse(&file, &applied, data_dir)?;
        let is_stdout = |feed: &FeedOptions| matches!(feed.receiver, ReceiverOptions::Stdout);
        let prints = options.iter().any(is_stdout);
        let feeds = Feeds::new(data_dir.join("feeds"), Arc::new(SystemClock));
        feeds.configure(options).await;
        Ok(Self {
            feeds,
            file,
            data_dir: data_dir.to_owned(),
            reread: Reread::default(),
            applied,
            prints,
        })
    }

    /// Reads the file again, and applies it if it changed.
    pub(super) async fn look(&mut self) {
        let read = self.reread.text(&self.file);
        let changed = read.map(|text| text.filter(|text| *text != self.applied));
        let parsed = changed.and_then(|text| match text {
            Some(text) => Ok(Some((parse(&self.file, &text, &self.data_dir)?, text))),
            None => Ok(None),
        });
        let is_unchanged = matches!(parsed, Ok(None));
        let effect = "the feeds of the former file are still delivered";
        if let Some((options, text)) = self.reread.tell(parsed, effect) {
            let feeds = options.len();
            tracing::info!(feeds, "the file of feeds is read again");
            self.feeds.configure(options).await;
            self.applied = text;
        } else if is_unchanged {
            self.feeds.resume().await;
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
