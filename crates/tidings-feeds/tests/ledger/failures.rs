//! Failures of the archive's store, which cost a feed time and nothing else.

use tidings_history::{
    Capabilities, Coverage, Cursor, CursorName, CursorStatus, Feed, FeedError, Following, History,
    Start, Versions,
};
use tidings_store::{BoxFuture, Fault, ReadError};

use super::*;

/// A feed and a history of which the first calls fail.
struct Failing<F, H> {
    feed: F,
    history: H,
    /// How many cursors of the feed `hook` are not opened, and how many reads of the coverage fail.
    left: [AtomicI64; 2],
    /// Held while no skip goes on.
    skip: tokio::sync::Mutex<()>,
}

impl<F, H> Failing<F, H> {
    fn fails(&self, which: usize) -> bool {
        self.left[which].fetch_sub(1, Ordering::Relaxed) > 0
    }
}

impl<F: Feed, H: History> Feed for Failing<F, H> {
    fn cursor(
        &self,
        name: CursorName,
        start: Start,
    ) -> BoxFuture<'_, Result<Box<dyn Cursor>, FeedError>> {
        if name.as_str() == "feed-hook" && self.fails(0) {
            return Box::pin(async { Err(FeedError::TooMany) });
        }
        self.feed.cursor(name, start)
    }

    fn cursors(&self) -> BoxFuture<'_, Result<Vec<CursorStatus>, FeedError>> {
        self.feed.cursors()
    }

    fn skip(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>> {
        Box::pin(async move {
            let _held = self.skip.lock().await;
            self.feed.skip(name).await
        })
    }

    fn remove(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>> {
        self.feed.remove(name)
    }
}

impl<F: Feed, H: History> History for Failing<F, H> {
    fn capabilities(&self) -> Capabilities {
        self.history.capabilities()
    }

    fn following(&self) -> Following {
        self.history.following()
    }

    fn versions(
        &self,
        key: bytes::Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        self.history.versions(key, after, limit)
    }

    fn coverage(&self, namespace: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        if self.fails(1) {
            return Box::pin(async { Err(Fault::Corrupt("a count".to_owned()).into()) });
        }
        self.history.coverage(namespace)
    }
}

/// Neither a cursor that is not opened nor a cluster whose identity is not read at first costs a
/// version, or the other feed anything.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_tried_again_and_nothing_is_lost() {
    let (received, port) = Received::listen(43);
    let (mut world, no_feeds) = World::start(43, |_| Vec::new()).await;
    let failing = Arc::new(Failing {
        feed: world.cluster.feed(),
        history: world.cluster.history(),
        left: [AtomicI64::new(2), AtomicI64::new(2)],
        skip: tokio::sync::Mutex::default(),
    });
    let clock: Arc<dyn Clock> = Arc::clone(&world.clock) as _;
    let feeds = Feeds::new(world.dead.clone(), clock);
    let mut hook = webhook("hook", port);
    hook.from = tidings_feeds::From::Oldest;
    let file = world.folder.path().join("lines.jsonl");
    feeds.configure(vec![hook, lines(&file)]).await;
    let (feed, history) = (Arc::clone(&failing), Arc::clone(&failing));
    feeds.start("prod", feed, history).await;
    assert_eq!(World::status(&feeds, "hook").await.state, State::Retrying);
    for number in 0..3 {
        world.write(&format!("web.{number}")).await;
    }
    for feed in ["lines", "hook"] {
        assert_eq!(world.settled(&feeds, feed).await.totals.delivered, 3);
    }
    let found: BTreeSet<_> = received.ids().into_iter().collect();
    let written: BTreeSet<_> = world.written.versions.values().flatten().cloned().collect();
    assert_eq!(found, written);
    // A skip delays no other change, and its feed does not run meanwhile.
    let held = failing.skip.lock().await;
    let of_skip = feeds.clone();
    let skip = tokio::spawn(async move { of_skip.skip("lines").await });
    let is_ended = async || World::status(&feeds, "lines").await.state == State::Retrying;
    until(async || is_ended().await.then_some(())).await;
    let other = tokio::time::timeout(PATIENCE, feeds.stop("other")).await;
    other.unwrap();
    feeds.resume().await;
    assert!(is_ended().await);
    drop(held);
    skip.await.unwrap().unwrap();
    world.write("web.3").await;
    assert_eq!(world.settled(&feeds, "lines").await.totals.delivered, 4);
    feeds.stop_all().await;
    world.close(no_feeds).await;
}
