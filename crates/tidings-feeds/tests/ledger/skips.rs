//! What is counted if a backlog is given up, and if a history is delivered.

use std::sync::atomic::AtomicUsize;

use tidings_history::Feed;

use super::*;

/// Of a receiver that takes one by one, a skip counts those that are left, and at most 20 others. A
/// history is counted apart.
#[tokio::test(flavor = "multi_thread")]
async fn versions_are_delivered_or_skipped_and_a_history_is_neither() {
    const KEPT: u64 = 30;
    /// More than one batch.
    const TAKEN: usize = 23;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let left = Arc::new(AtomicUsize::new(TAKEN));
    let taken = Arc::clone(&left);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The sender may have been killed meanwhile.
            if Received::read(&stream).is_err() {
                continue;
            }
            let take = |left: usize| left.checked_sub(1);
            let status = match taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                Ok(_) => "204 Taken",
                Err(_) => "401 No",
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let hook = move |_: &Path| {
        let mut hook = webhook("hook", port);
        if let ReceiverOptions::Http(connection, form) = &mut hook.receiver {
            // A request that is repeated would be taken twice.
            connection.timeout = PATIENCE;
            *form = Form::Webhook(Webhook::Single);
        }
        vec![hook]
    };
    let (mut world, no_feeds) = World::start(45, hook).await;
    no_feeds.stop_all().await;
    let feed = world.cluster.feed();
    for number in 1..=KEPT {
        world.write(&format!("web.{number}")).await;
        // Each has a commit of its own.
        until(async || {
            let cursors = feed.cursors().await.unwrap();
            cursors.iter().any(|it| it.versions == number).then_some(())
        })
        .await;
    }
    let feeds = world.deliver(hook(world.folder.path())).await;
    until(async || {
        let status = World::status(&feeds, "hook").await;
        (status.state == State::Refused).then_some(())
    })
    .await;
    feeds.skip("hook").await.unwrap();
    left.store(usize::MAX, Ordering::Relaxed);
    let mut late = lines(&world.folder.path().join("lines.jsonl"));
    late.from = tidings_feeds::From::Oldest;
    // The receiver is asked again at once.
    feeds.stop_all().await;
    let all = [hook(world.folder.path()), vec![late]].concat();
    let feeds = world.deliver(all).await;
    let totals = world.settled(&feeds, "hook").await.totals;
    assert_eq!((totals.delivered, totals.skipped), (20, KEPT - 20));
    assert_eq!(world.settled(&feeds, "lines").await.totals.history, KEPT);
    world.write("web.1").await;
    let totals = world.settled(&feeds, "lines").await.totals;
    assert_eq!((totals.delivered, totals.history), (KEPT + 1, KEPT));
    world.close(feeds).await;
}
