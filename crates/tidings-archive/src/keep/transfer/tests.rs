//! An export of one store, imported into another, is the same there.

use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_pb::api::core::v1::{Event, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tempfile::TempDir;
use tidings_history::{Cause, ExportPart};
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, Store, UnixMillis};

use super::export;
use super::import::{ImportError, Imported, import_lines};
use crate::keep::coverage::{Position, cluster_gap};
use crate::keep::keys;
use crate::keep::versions::{Keeper, Observation, With};

const START: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

struct Place {
    keeper: Keeper,
    clock: ManualClock,
    position: Position,
    _folder: TempDir,
}

fn place(hours: u64) -> Place {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let clock = ManualClock::at(UnixMillis(START));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.free_space_min = 0;
    let store = Arc::new(EmbeddedStore::open(folder.path(), options).unwrap());
    let keep_for = Arc::new(move |_: &Event| Duration::from_secs(hours * 3600));
    Place {
        keeper: Keeper::new(store, Arc::new(clock.clone()), keep_for, false),
        clock,
        position: Position {
            identity: Some("one".into()),
            since: START,
            ..Position::default()
        },
        _folder: folder,
    }
}

impl Place {
    /// Observes an event with this name, uid and count, or its end if there is no count.
    async fn observe(&mut self, name: &str, uid: &str, count: Option<i32>) {
        self.clock.advance(1_000);
        let version = self.position.latest + 3;
        let event = Event {
            metadata: Some(ObjectMeta {
                name: Some(name.into()),
                namespace: Some("shop".into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            }),
            involved_object: Some(ObjectReference {
                kind: Some("Pod".into()),
                name: Some("web \"0\"".into()),
                ..ObjectReference::default()
            }),
            message: Some(format!("back-off\n{name}")),
            reason: Some("BackOff".into()),
            count,
            last_timestamp: Some(Time {
                seconds: Some(self.clock.now().0 / 1000),
                nanos: None,
            }),
            ..Event::default()
        };
        let observation = Observation {
            event,
            number: version,
            is_gone: count.is_none(),
        };
        self.position.latest = version;
        self.position.version = Some(version);
        self.position.complete_until = self.clock.now().0;
        let (mut position, observations) = (self.position.clone(), [observation]);
        let kept = self
            .keeper
            .keep(&observations, "", &mut position, With::default());
        kept.await.unwrap();
        self.position = position;
    }

    async fn export(&self) -> String {
        self.export_part(&ExportPart::default()).await
    }

    async fn export_part(&self, part: &ExportPart) -> String {
        let head = export::export_head(&self.keeper, "prod", "store-1", part);
        let mut lines = head.await.unwrap();
        let mut next = None;
        loop {
            let page = export::export_page(&self.keeper, next.as_deref(), part);
            let page = page.await.unwrap();
            let page = page.unwrap();
            lines.extend(page.lines);
            next = page.more;
            if next.is_none() {
                return String::from_utf8(lines).unwrap();
            }
        }
    }

    async fn import(&self, lines: &str) -> Result<Imported, ImportError> {
        let mut from = BufReader::new(lines.as_bytes());
        import_lines(&self.keeper, &mut from, &mut |_| {}).await
    }

    /// Returns all records except the one that notes the imported export.
    async fn all(&self) -> Vec<(String, Vec<u8>)> {
        let all = self
            .keeper
            .store
            .list(ListRequest::default())
            .await
            .unwrap();
        let all = all.records.into_iter();
        let all = all.filter(|record| record.key != keys::IMPORTED);
        all.map(|record| {
            let key = String::from_utf8(record.key.to_vec()).unwrap();
            (key, record.value.to_vec())
        })
        .collect()
    }
}

/// An event with many versions, one that ended, one whose name was used again, and a gap.
async fn filled() -> Place {
    let mut place = place(1000);
    place.observe("one", "uid-one", Some(1)).await;
    for count in 1..300 {
        place.observe("many", "uid-many", Some(count)).await;
    }
    place.observe("one", "uid-one", None).await;
    place.observe("two", "uid-two", Some(1)).await;
    place.observe("two", "uid-two", Some(2)).await;
    place.observe("two", "uid-two-again", Some(1)).await;
    let gap = cluster_gap(START + 5_000, START + 7_000, Cause::Compacted);
    let with = With {
        gap: Some(&gap),
        ..With::default()
    };
    let mut position = place.position.clone();
    place
        .keeper
        .keep(&[], "", &mut position, with)
        .await
        .unwrap();
    place
}

/// An incident is handed to a colleague who may read one namespace.
#[tokio::test]
async fn a_part_of_an_export_has_one_namespace_and_one_time_and_can_be_imported() {
    let mut from = filled().await;
    let begun = from.clock.now();
    from.observe("late", "uid-late", Some(1)).await;
    from.observe("late", "uid-late", Some(2)).await;
    let between = from.clock.now();
    from.observe("late", "uid-late", Some(3)).await;
    from.observe("two", "uid-two-again", None).await;
    let part = |namespace: &str, since, until| ExportPart {
        namespace: Some(namespace.to_owned()),
        since,
        until,
    };
    let counts = async |part: ExportPart| {
        let lines = from.export_part(&part).await;
        let of = |kind: &str| lines.matches(&format!(r#""kind":"{kind}""#)).count();
        (of("Version"), of("End"), of("Complete"))
    };
    for (part, expected) in [
        (part("shop", None, None), (1 + 299 + 2 + 1 + 3, 2, 1)),
        (part("shop", Some(between), None), (2 + 1, 1, 1)),
        (
            part("shop", Some(UnixMillis(begun.0 + 1)), Some(between)),
            (2, 0, 1),
        ),
        (part("sho", None, None), (0, 0, 1)),
        (part("shops", None, None), (0, 0, 1)),
    ] {
        assert_eq!(counts(part.clone()).await, expected, "{part:?}");
    }
    for place in ["0/shop/one", "1/shop/one"] {
        let bank = part("bank", None, None);
        let other = export::export_page(&from.keeper, Some(place), &bank);
        assert_eq!(other.await.unwrap(), None, "{place}");
    }
    let lines = from.export_part(&part("shop", Some(between), None)).await;
    let to = place(1000);
    to.clock.advance(HOUR);
    let imported = to.import(&lines).await.unwrap();
    assert_eq!((imported.versions, imported.ends), (3, 1));
    // Following could not continue after a part.
    assert_eq!(to.keeper.position("").await.unwrap(), None);
}

#[tokio::test]
async fn an_export_has_everything_and_an_import_keeps_it_once() {
    let from = filled().await;
    let lines = from.export().await;
    let to = place(1000);
    to.clock.advance(HOUR);
    let first = to.import(&lines).await.unwrap();
    assert_eq!((first.versions, first.ends), (1 + 299 + 2 + 1, 1));
    assert!(first.is_whole);
    assert_eq!(to.export().await.lines().skip(1).collect::<Vec<_>>(), {
        lines.lines().skip(1).collect::<Vec<_>>()
    });
    let all = to.all().await;
    let expected = from.all().await;
    // The versions in chunks may be divided differently.
    let keys = |all: &[(String, Vec<u8>)]| -> Vec<String> {
        let keys = all.iter().map(|(key, _)| key.clone());
        keys.filter(|key| !key.starts_with("\0version/")).collect()
    };
    assert_eq!(keys(&all), keys(&expected));
    // Another import changes nothing, even after a partial one.
    for part in [&lines[..lines.len() / 3], &lines] {
        let again = to.import(part).await.unwrap();
        assert_eq!((again.versions, again.ends), (0, 0));
        assert_eq!(again.is_whole, part.len() == lines.len());
    }
    assert_eq!(to.all().await, all);
}

#[tokio::test]
async fn an_import_continues_where_it_was_cut_off() {
    let from = filled().await;
    let lines = from.export().await;
    for cut in (0..lines.len()).step_by(lines.len() / 7) {
        let to = place(1000);
        match to.import(&lines[..cut]).await {
            Ok(part) => {
                assert!(!part.is_whole);
                // The position is written only at the end of the export.
                assert_eq!(to.keeper.position("").await.unwrap(), None);
            }
            // Here not even the first line is complete.
            Err(ImportError::Line { line: 1, .. }) => {}
            Err(error) => panic!("{cut}: {error}"),
        }
        let rest = to.import(&lines).await.unwrap();
        assert!(rest.is_whole);
        assert_eq!(
            to.keeper.position("").await.unwrap(),
            Some(from.position.clone())
        );
        let whole = to.export().await;
        assert!(whole.lines().skip(1).eq(lines.lines().skip(1)), "{cut}");
    }
}

#[tokio::test]
async fn what_is_followed_or_anothers_is_not_mixed() {
    let mut from = filled().await;
    let lines = from.export().await;
    let followed = filled().await;
    let error = followed.import(&lines).await.unwrap_err();
    assert!(error.to_string().contains("as it was followed"), "{error}");

    let to = place(1000);
    to.import(&lines).await.unwrap();
    let other = lines.replace("store-1", "store-2");
    let error = to.import(&other).await.unwrap_err();
    assert!(error.to_string().contains("another archive"), "{error}");
    // A later export of the same archive adds what is new in it.
    from.observe("many", "uid-many", Some(300)).await;
    from.observe("two", "uid-two-third", Some(1)).await;
    let later = from.export().await;
    let added = to.import(&later).await.unwrap();
    assert_eq!(added.versions, 2);
    assert!(to.export().await.lines().skip(1).eq(later.lines().skip(1)));
    // After that, the earlier export adds nothing, even if only a part of the later one was
    // imported.
    let part = place(1000);
    part.import(&lines).await.unwrap();
    let cut = part.import(&later[..later.len() / 2]).await.unwrap();
    assert!(!cut.is_whole);
    for place in [&to, &part] {
        let before = place.all().await;
        let error = place.import(&lines).await.unwrap_err();
        assert!(error.to_string().contains("from a later export"), "{error}");
        assert_eq!(place.all().await, before);
    }
    assert!(part.import(&later).await.unwrap().is_whole);
    let whole = part.export().await;
    assert!(whole.lines().skip(1).eq(later.lines().skip(1)));
    // The position is not changed if the cluster was followed since.
    let mut position = to.keeper.position("").await.unwrap().unwrap();
    position.latest += 1;
    let kept = to.keeper.keep(&[], "", &mut position, With::default());
    kept.await.unwrap();
    from.observe("many", "uid-many", Some(301)).await;
    let latest = from.export().await;
    let error = to.import(&latest).await.unwrap_err();
    assert!(error.to_string().contains("since the former"), "{error}");
    assert_eq!(to.import(&later).await.unwrap().versions, 0);
}

#[tokio::test]
async fn what_is_over_or_was_deleted_is_not_imported() {
    let from = filled().await;
    let lines = from.export().await;
    // At this time, an hour has passed since the last version was observed.
    let to = place(1);
    to.clock.advance(400_000 + HOUR);
    let imported = to.import(&lines).await.unwrap();
    assert_eq!((imported.versions, imported.over), (0, 303));
    let to = place(1000);
    to.import(&lines).await.unwrap();
    to.keeper.forget("shop/many".into(), None).await.unwrap();
    let again = to.import(&lines).await.unwrap();
    assert_eq!((again.versions, again.forgotten), (0, 299));
}

#[tokio::test]
async fn what_was_deleted_stays_so_where_it_is_imported() {
    let mut from = filled().await;
    let before = from.export().await;
    from.keeper.forget("shop/many".into(), None).await.unwrap();
    let lines = from.export().await;
    let kinds = lines.lines().filter(|line| !line.contains("\"Coverage\""));
    let first = kinds.clone().next().unwrap();
    assert!(
        first.contains("\"Deleted\"") && first.contains("uid-many"),
        "{first}"
    );
    assert!(!lines.contains("\"name\":\"many\",\"epoch\""));
    // The export is imported into a new folder, and into one that had the event.
    let mut to = place(1000);
    let imported = to.import(&lines).await.unwrap();
    assert_eq!(imported.deleted, 1);
    assert!(to.export().await.lines().skip(1).eq(lines.lines().skip(1)));
    let mut known = place(1000);
    known.import(&before).await.unwrap();
    from.observe("three", "uid-three", Some(1)).await;
    let later = from.export().await;
    let imported = known.import(&later).await.unwrap();
    assert_eq!((imported.versions, imported.deleted), (1, 1));
    assert!(
        known
            .export()
            .await
            .lines()
            .skip(1)
            .eq(later.lines().skip(1))
    );
    // The source may still have the deleted event.
    let kept = |place: &Place| place.keeper.counters.forgotten.load(Ordering::Relaxed);
    for place in [&mut to, &mut known] {
        let before = kept(place);
        place.observe("many", "uid-many", Some(400)).await;
        assert_eq!(kept(place), before + 1);
    }
}

/// The keys of events.
async fn events(place: &Place) -> Vec<String> {
    let all = place.all().await.into_iter();
    let all = all.map(|(key, _)| key).filter(|key| !key.starts_with('\0'));
    all.collect()
}

/// Between two exports the event's name was used again, by an event that had ended before the
/// second export.
#[tokio::test]
async fn an_event_that_has_another_name_since_the_former_export_is_kept_once() {
    let mut from = place(1000);
    from.observe("two", "uid-elder", Some(1)).await;
    let before = from.export().await;
    from.observe("two", "uid-younger", Some(1)).await;
    from.keeper.forget("shop/two".into(), None).await.unwrap();
    let later = from.export().await;
    let to = place(1000);
    to.import(&before).await.unwrap();
    let imported = to.import(&later).await.unwrap();
    assert_eq!((imported.versions, imported.seen_before), (0, 1));
    assert_eq!(events(&to).await, ["shop/two.uid-elde"]);
    assert!(to.export().await.lines().skip(1).eq(later.lines().skip(1)));
}

/// As above, but the event's new name was that of another event.
#[tokio::test]
async fn an_event_that_has_another_ones_name_since_the_former_export_does_not_replace_it() {
    let [mut from, mut later] = [place(1000), place(1000)];
    from.observe("two", "uid-elder", Some(1)).await;
    from.observe("two.uid-elde", "uid-other", Some(1)).await;
    later.observe("two", "uid-elder", Some(1)).await;
    later.observe("two", "uid-younger", Some(1)).await;
    later.keeper.forget("shop/two".into(), None).await.unwrap();
    let to = place(1000);
    to.import(&from.export().await).await.unwrap();
    later.clock.advance(1_000);
    let imported = to.import(&later.export().await).await.unwrap();
    assert_eq!((imported.versions, imported.seen_before), (0, 1));
    let expected = ["shop/two.uid-elde", "shop/two.uid-elde.uid-othe"];
    assert_eq!(events(&to).await, expected);
}

/// The event gets an elder's name during the export, after it was exported under its first name.
#[tokio::test]
async fn an_event_that_is_in_an_export_under_two_names_is_kept_once() {
    let mut from = place(1000);
    from.observe("two", "uid-elder", Some(1)).await;
    from.observe("two", "uid-elder", None).await;
    let before = from.export().await;
    from.observe("two", "uid-younger", Some(1)).await;
    let later = from.export().await;
    let again = later.lines().filter(|line| line.contains("uid-elder"));
    let again: Vec<_> = again.collect();
    assert_eq!(again.len(), 2);
    let complete = "{\"kind\":\"Complete\"}";
    assert!(before.contains(complete));
    let both = before.replace(complete, &format!("{}\n{complete}", again.join("\n")));
    let to = place(1000);
    for (versions, ends, seen_before) in [(1, 1, 2), (0, 0, 4)] {
        let imported = to.import(&both).await.unwrap();
        assert_eq!(
            (imported.versions, imported.ends, imported.seen_before),
            (versions, ends, seen_before)
        );
        assert_eq!(events(&to).await, ["shop/two.uid-elde"]);
    }
}

/// The event had got an elder's name before it was deleted.
#[tokio::test]
async fn what_was_deleted_under_another_name_stays_so_where_it_is_imported() {
    let mut from = place(1000);
    from.observe("two", "uid-elder", Some(1)).await;
    let before = from.export().await;
    from.observe("two", "uid-younger", Some(1)).await;
    let elder = "shop/two.uid-elde";
    from.keeper.forget(elder.into(), None).await.unwrap();
    let later = from.export().await;
    let to = place(1000);
    to.import(&before).await.unwrap();
    let imported = to.import(&later).await.unwrap();
    assert_eq!((imported.versions, imported.deleted), (1, 1));
    assert_eq!(events(&to).await, ["shop/two"]);
    assert!(to.export().await.lines().skip(1).eq(later.lines().skip(1)));
}

#[tokio::test]
async fn what_is_no_export_is_refused_by_its_line() {
    let from = filled().await;
    let lines = from.export().await;
    let to = place(1000);
    let wrong = |at: usize, with: &str| {
        let mut all: Vec<_> = lines.lines().collect();
        all[at] = with;
        all.join("\n") + "\n"
    };
    for (text, line, why) in [
        ("{}\n".to_owned(), 1, "not the beginning"),
        (String::new(), 1, "empty"),
        (
            lines.replacen("\"form\":1", "\"form\":9", 1),
            1,
            "the form is 9",
        ),
        (wrong(3, "{}"), 4, "missing field `kind`"),
        (wrong(3, "{\"kind\":\"Version\"}"), 4, "missing field"),
        // These names would lead to other keys.
        (
            lines.replacen("\"shop\"", "\"\\u0000position\"", 1),
            2,
            "cannot be part of a path",
        ),
        (lines.replacen("\"uid-many\"", "\"uid/many\"", 1), 2, "uid"),
        (
            lines.replacen("\"many\"", &format!("\"{}\"", "m".repeat(2000)), 1),
            2,
            "too long",
        ),
    ] {
        let error = to.import(&text).await.unwrap_err().to_string();
        let place = format!("line {line}: ");
        assert!(error.starts_with(&place) && error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn lines_that_are_too_many_for_one_commit_are_kept_in_several() {
    let from = filled().await;
    let lines = from.export().await;
    let number = 4_200;
    let deleted = (0..number).map(|at| {
        format!(
            r#"{{"kind":"Deleted","namespace":"shop","name":"one","uid":"uid-{at}","until":"2030-01-01T00:00:00Z"}}"#
        )
    });
    let mut all = vec![lines.lines().next().unwrap().to_owned()];
    all.extend(deleted);
    all.push(r#"{"kind":"Complete"}"#.to_owned());
    let all = all.join("\n") + "\n";
    let to = place(1000);
    let imported = to.import(&all).await.unwrap();
    assert_eq!((imported.deleted, imported.is_whole), (number, true));
}

/// Otherwise users of the line's namespace would see the data of an event in the other namespace.
#[tokio::test]
async fn an_event_of_another_namespace_than_its_line_is_left_out_and_counted() {
    let exported = filled().await.export().await;
    let whole = place(1000).import(&exported).await.unwrap();
    let (own, other) = (
        r#""namespace":"shop","name":"two""#,
        r#""namespace":"bank","name":"two""#,
    );
    let forged = exported.replacen(own, other, 1);
    let to = place(1000);
    let imported = to.import(&forged).await.unwrap();
    assert_eq!((imported.is_whole, imported.of_another), (true, 1));
    assert_eq!(imported.versions, whole.versions - 1);
    let of_bank = ListRequest::prefix("bank/");
    assert!(
        to.keeper
            .store
            .list(of_bank)
            .await
            .unwrap()
            .records
            .is_empty()
    );
}
