//! Changes at the source, and what the archive keeps of them.

use std::path::Path;

use kube::ResourceExt;
use tidings_api::codec;
use tidings_archive::{Cluster, Selection};
use tidings_history::History;
use tidings_testing::free_port;

use crate::support::{Source, follow, names, open, options, until, versions};

fn version(event: &impl ResourceExt) -> u64 {
    event.resource_version().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_is_kept_once_across_restarts_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let [at_source, kept] = ["source", "archive"].map(|name| folder.path().join(name));
    let port = free_port();
    let mut source = Source::start(&at_source, port).await;
    let mut ledger = std::collections::BTreeMap::<String, Vec<u64>>::new();
    for number in 0..20 {
        let event = source.create(&format!("web.{number:02}")).await;
        ledger.insert(event.name_any(), vec![version(&event)]);
    }
    for round in 2..8 {
        // One of these is written before the archive starts, which sees only the last version.
        let archive = open(&kept, &source).await;
        let history = archive.history();
        for (name, versions) in &mut ledger {
            versions.push(version(&source.count(name, round).await));
        }
        let (last, expected) = ledger.last_key_value().unwrap();
        until(async || {
            let found = versions(&history, last).await?;
            (found.first() == expected.last()).then_some(())
        })
        .await;
        archive.close().await;
        // These are written while the source is not followed.
        for (name, versions) in &mut ledger {
            versions.push(version(&source.count(name, 100 + round).await));
        }
        if round % 2 == 0 {
            source.server.shutdown().await;
            source = Source::start(&at_source, port).await;
        }
    }
    let archive = open(&kept, &source).await;
    let history = archive.history();
    for (name, expected) in &ledger {
        until(async || {
            let mut found = versions(&history, name).await?;
            found.reverse();
            (found == *expected).then_some(())
        })
        .await;
    }
    let coverage = history.coverage(None).await.unwrap();
    assert_eq!(coverage.gaps, [], "nothing was missed");
    assert_eq!(coverage.totals.unwrap().events, 20);
    let followed = &coverage.followed[0];
    assert_eq!(followed.progress.unwrap().versions, 20 * 13);
    archive.close().await;
    source.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_behind_the_address_is_refused_until_the_former_one_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, kept] = ["first", "second", "kept"].map(|name| folder.path().join(name));
    let port = free_port();
    let source = Source::start(&first, port).await;
    // The second source has the same certificate and token, like clusters behind one load balancer.
    std::fs::create_dir(&second).unwrap();
    copy(&first.join("pki"), &second.join("pki"));
    std::fs::copy(first.join("tokens.csv"), second.join("tokens.csv")).unwrap();
    source.create("web").await;
    let mut archive = open(&kept, &source).await;
    let history = archive.history();
    until(async || versions(&history, "web").await).await;
    source.server.shutdown().await;

    let other = Source::start(&second, port).await;
    // The second source has more events than the first, so that it does not look like an earlier
    // state of it.
    for number in 0..20 {
        other.create(&format!("foreign.{number}")).await;
    }
    let why = until(async || {
        let following = history.following();
        following.why.filter(|_| following.state == "other cluster")
    })
    .await;
    assert!(why.contains("kube-system"), "{why}");
    // The result is the same after a restart of the archive.
    archive.close().await;
    archive = follow(&kept, &other).await;
    let history = archive.history();
    until(async || (history.following().state == "other cluster").then_some(())).await;
    assert_eq!(names(&*archive.store()).await, ["shop/web"]);
    archive.close().await;
    other.server.shutdown().await;

    let source = Source::start(&first, port).await;
    let counted = source.count("web", 2).await;
    let archive = open(&kept, &source).await;
    let history = archive.history();
    until(async || {
        let found = versions(&history, "web").await?;
        (found.first() == Some(&version(&counted))).then_some(())
    })
    .await;
    assert_eq!(history.coverage(None).await.unwrap().gaps, []);
    archive.close().await;
    source.server.shutdown().await;
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_kept_as_it_was_when_it_is_gone_and_its_name_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&folder.path().join("source"), 0).await;
    let archive = open(&folder.path().join("archive"), &source).await;
    let (history, store) = (archive.history(), archive.store());
    let elder = source.create("web").await;
    let counted = source.count("web", 2).await;
    source.delete("web").await;
    until(async || {
        let versions = history
            .versions("shop/web".into(), None, 9)
            .await
            .unwrap()?;
        versions.ended
    })
    .await;
    let younger = source.create("web").await;
    let short = &elder.uid().unwrap()[..8];
    let elder_name = format!("web.{short}");
    until(async || {
        let names = names(&*store).await;
        (names == ["shop/web".to_owned(), format!("shop/{elder_name}")]).then_some(())
    })
    .await;
    let of = |name: &str| {
        let key = format!("shop/{name}");
        let store = &store;
        async move {
            let record = store.get(key.into()).await.unwrap().unwrap();
            codec::decode_stored(&record.value, 0)
                .unwrap()
                .metadata
                .unwrap()
        }
    };
    let (kept, new) = (of(&elder_name).await, of("web").await);
    assert_eq!(
        (kept.uid(), kept.name()),
        (&*elder.uid().unwrap(), &*elder_name)
    );
    assert_eq!(new.uid(), younger.uid().unwrap());
    let created = elder.creation_timestamp().unwrap().0.as_second();
    assert_eq!(kept.creation_timestamp.unwrap().seconds, Some(created));
    let found = versions(&history, &elder_name).await.unwrap();
    assert_eq!(found, [version(&counted), version(&elder)]);
    assert_eq!(
        versions(&history, "web").await.unwrap(),
        [version(&younger)]
    );
    archive.close().await;
    source.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_here_is_forgotten_in_all_versions_and_not_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&folder.path().join("source"), 0).await;
    let kept = folder.path().join("archive");
    let archive = open(&kept, &source).await;
    source.create("web").await;
    source.create("other").await;
    // These are more versions than fit in one record.
    for count in 1..200 {
        source.count("web", count).await;
    }
    let history = archive.history();
    let all = until(async || {
        versions(&history, "web")
            .await
            .filter(|found| found.len() == 200)
    });
    all.await;
    let store = archive.store();
    assert!(store.stats().await.unwrap().records > 6, "there are chunks");
    store.delete("shop/web".into(), None).await.unwrap();
    assert_eq!(names(&*store).await, ["shop/other"]);
    // The records: the other event; the store's identity, rules, since when they apply, and
    // position; the mark of the deleted event.
    assert_eq!(store.stats().await.unwrap().records, 6);
    source.count("web", 1000).await;
    let last = version(&source.count("other", 2).await);
    until(async || {
        let found = versions(&history, "other").await?;
        (found.first() == Some(&last)).then_some(())
    })
    .await;
    assert_eq!(names(&*store).await, ["shop/other"]);
    archive.close().await;
    source.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_never_answered_is_not_covered() {
    let folder = tempfile::tempdir().unwrap();
    let [at_source, kept] = ["source", "archive"].map(|name| folder.path().join(name));
    let source = Source::start(&at_source, 0).await;
    let of = |namespaces: &[&str]| {
        let mut options = options();
        let namespaces = namespaces.iter().map(|namespace| Selection {
            namespace: Some((*namespace).to_owned()),
            ..Selection::default()
        });
        options.selections = namespaces.collect();
        options
    };
    let opened = Cluster::open(&kept, &source.client, of(&["shop"])).await;
    let archive = opened.unwrap();
    let history = archive.history();
    until(async || (history.following().state == "watching").then_some(())).await;
    let counted = archive.counted_history().await.following();
    assert!(counted.covered_since.is_some());
    archive.close().await;
    source.server.shutdown().await;
    // The source is down when another namespace is followed too.
    let opened = Cluster::open(&kept, &source.client, of(&["shop", "other"])).await;
    let archive = opened.unwrap();
    let history = archive.counted_history().await;
    assert_eq!(history.coverage(None).await.unwrap().followed.len(), 1);
    assert_eq!(history.following().covered_since, None);
    archive.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_followed_from_now_on_is_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let [at_source, kept] = ["source", "archive"].map(|name| folder.path().join(name));
    let source = Source::start(&at_source, free_port()).await;
    for name in ["old", "changed", "ended"] {
        source.create(name).await;
    }
    let mut from_now = options();
    from_now.from_now = true;
    let opened = Cluster::open(&kept, &source.client, from_now).await;
    let archive = opened.unwrap();
    let history = archive.history();
    until(async || (history.following().state == "watching").then_some(())).await;
    let changed = version(&source.count("changed", 2).await);
    source.delete("ended").await;
    let new = version(&source.create("new").await);
    until(async || (versions(&history, "new").await? == [new]).then_some(())).await;
    let store = archive.store();
    assert_eq!(
        names(&*store).await,
        ["shop/changed", "shop/ended", "shop/new"]
    );
    assert_eq!(versions(&history, "changed").await, Some(vec![changed]));
    assert_eq!(history.coverage(None).await.unwrap().gaps, []);
    archive.close().await;
    // From then on the archive continues at its position.
    source.create("meanwhile").await;
    let archive = open(&kept, &source).await;
    let store = archive.store();
    until(async || (names(&*store).await.len() == 4).then_some(())).await;
    assert_eq!(archive.history().coverage(None).await.unwrap().gaps, []);
    archive.close().await;
    source.server.shutdown().await;
}
