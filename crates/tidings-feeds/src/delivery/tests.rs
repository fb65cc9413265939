//! Deliveries to receivers that reject, refuse, fail and recover.

use proptest::prelude::*;
use tidings_store::UnixMillis;

use super::*;
use crate::record::RecordBody;

/// A version as delivered records are, whose id is its number.
fn version(id: usize) -> Record {
    let version = tidings_history::Version {
        uid: "u".into(),
        epoch: 0,
        number: 1,
        observed_at: UnixMillis(0),
        event: crate::testing::event("web", 1),
    };
    let id = id.to_string();
    Record {
        id,
        ..Record::version(version, 1).unwrap()
    }
}

fn records(number: usize) -> Vec<Record> {
    let records = (0..number).map(|id| Record {
        id: id.to_string(),
        body: RecordBody::Test {
            at: UnixMillis(0),
            text: String::new(),
        },
    });
    records.collect()
}

/// Delivers to a receiver that judges requests by the ids in them; a test record has none.
/// Returns the ids of delivered and of dead records, and how many requests there were.
fn deliver(
    delivery: &mut Delivery,
    mut judge: impl FnMut(&[usize]) -> Verdict,
) -> (Vec<usize>, Vec<usize>, usize) {
    let (mut delivered, mut dead) = (Vec::new(), Vec::new());
    for requests in 0..2000 {
        let ids: Vec<usize> = match delivery.next() {
            None => return (delivered, dead, requests),
            Some(Request::Test) => Vec::new(),
            Some(Request::Records(part)) => part.iter().map(|it| it.id.parse().unwrap()).collect(),
        };
        let verdict = judge(&ids);
        if verdict == Verdict::Delivered {
            delivered.extend(&ids);
        }
        let step = delivery.handle(judged(verdict), 0);
        let ids = step.dead.iter().map(|it| it.0.id.parse::<usize>().unwrap());
        dead.extend(ids);
    }
    panic!("{delivery:?}");
}

fn judged(verdict: Verdict) -> Reply {
    Reply::Judged(verdict, None)
}

#[test]
fn a_record_that_spoils_each_request_is_dead_and_no_other() {
    let why = || "no".to_owned();
    let verdicts = [
        (Verdict::Rejected(why()), 9),
        (Verdict::TooLarge, 9),
        (Verdict::Refused(why()), 20),
        (Verdict::Retry(why()), 80),
    ];
    for (verdict, requests_max) in verdicts {
        let mut delivery = Delivery::new(records(8), usize::MAX, Experience::default());
        let (delivered, dead, requests) = deliver(&mut delivery, |ids| {
            if ids.contains(&5) {
                verdict.clone()
            } else {
                Verdict::Delivered
            }
        });
        assert_eq!(delivered, [0, 1, 2, 3, 4, 6, 7], "{verdict:?}");
        assert_eq!(dead, [5], "{verdict:?}");
        assert!(requests <= requests_max, "{verdict:?}: {requests} requests");
    }
}

/// A receiver may fail with each of many records, of which others are between.
#[test]
fn retries_are_few_once_they_were_in_vain() {
    let mut former = Experience::default();
    let mut send = |bad: &[usize]| {
        let mut delivery = Delivery::new(records(8), usize::MAX, former);
        let (delivered, dead, requests) = deliver(&mut delivery, |ids| {
            if ids.iter().any(|id| bad.contains(id)) {
                Verdict::Retry("500".to_owned())
            } else {
                Verdict::Delivered
            }
        });
        let good = (0..8).filter(|id| !bad.contains(id));
        assert_eq!((delivered, dead), (good.collect(), bad.to_vec()));
        former = delivery.experience();
        requests
    };
    assert!((30..=80).contains(&send(&[2, 5])));
    for _ in 0..3 {
        assert!(send(&[2, 5]) <= 26);
        // A good batch between.
        send(&[]);
    }
    for _ in 0..RECORDS_AFTER_DEATH / 8 {
        send(&[]);
    }
    assert!((30..=80).contains(&send(&[2, 5])));
}

/// A receiver of single records gets a test record only if it may take none.
#[test]
fn a_rejected_record_after_a_taken_one_is_dead_without_a_test_record() {
    let rejected = || Verdict::Rejected("400".to_owned());
    let taken = || Verdict::Delivered;
    // Records in a request, and each request's verdict with whether a test record comes next.
    for (max, verdicts, tested) in [
        (1, vec![taken(), rejected()], [false, false].as_slice()),
        (1, vec![taken(), Verdict::TooLarge], &[false, false]),
        // It may take none any more.
        (
            1,
            vec![taken(), rejected(), rejected()],
            &[false, false, true],
        ),
        (1, vec![rejected()], &[true]),
        (2, vec![taken(), rejected()], &[false, true]),
    ] {
        let mut former = Experience::default();
        for (verdict, is_tested) in verdicts.iter().zip(tested) {
            let mut delivery = Delivery::new(records(1), max, former);
            assert!(matches!(delivery.next(), Some(Request::Records(_))));
            let step = delivery.handle(judged(verdict.clone()), 0);
            let is_rejected = *verdict != Verdict::Delivered;
            assert_eq!(step.dead.len(), usize::from(is_rejected && !is_tested));
            let next = delivery.next();
            assert_eq!(
                matches!(next, Some(Request::Test)),
                *is_tested,
                "{verdicts:?}"
            );
            former = delivery.experience();
        }
    }
}

/// A wrong configuration and an outage are no fault of records, however long they last.
#[test]
fn no_record_is_dead_while_the_receiver_takes_none() {
    let why = || "no".to_owned();
    let rejected = |ids: &[usize]| vec![Outcome::Rejected(why()); ids.len().max(1)];
    for number in 0..6 {
        let mut delivery = Delivery::new(records(8), usize::MAX, Experience::default());
        let (mut failures, mut has_recovered) = (0, false);
        let (delivered, dead, _) = deliver(&mut delivery, |ids| {
            failures += 1;
            // Records that were rejected one by one are not sent again after a test record.
            has_recovered |= failures > 500 && (number % 3 != 1 || !ids.is_empty());
            match number {
                _ if has_recovered => Verdict::Delivered,
                0 => Verdict::Rejected(why()),
                1 => Verdict::Items(rejected(ids)),
                2 => Verdict::Refused(why()),
                3 => Verdict::Retry(why()),
                5 => Verdict::TooLarge,
                _ => {
                    let mut outcomes = rejected(ids);
                    outcomes[0] = Outcome::Retry(why());
                    Verdict::Items(outcomes)
                }
            }
        });
        assert_eq!(delivered, (0..8).collect::<Vec<_>>(), "{number}");
        assert!(dead.is_empty(), "{number}: {dead:?}");
    }
}

/// The receiver may recover between the failure of a record and the test record.
#[test]
fn a_record_is_sent_once_more_after_a_test_record() {
    let mut delivery = Delivery::new(records(1), 1, Experience::default());
    let mut has_recovered = false;
    let (delivered, dead, _) = deliver(&mut delivery, |ids| {
        has_recovered |= ids.is_empty();
        if has_recovered {
            Verdict::Delivered
        } else {
            Verdict::Retry("503".to_owned())
        }
    });
    assert_eq!((delivered, dead), (vec![0], vec![]));
}

#[test]
fn waits_grow_and_are_not_shorter_than_the_receiver_asks() {
    let mut delivery = Delivery::new(records(1), 1, Experience::default());
    let retry = || Verdict::Retry("503".to_owned());
    let waits = |delivery: &mut Delivery, asked: Option<u64>| {
        let reply = Reply::Judged(retry(), asked.map(Duration::from_secs));
        match delivery.handle(reply, 0).next {
            Next::Retry(wait, _) => wait.as_millis(),
            other => panic!("{other:?}"),
        }
    };
    let found: Vec<_> = [None, None, Some(7), Some(9000)]
        .into_iter()
        .map(|asked| waits(&mut delivery, asked))
        .collect();
    assert_eq!(found, [500, 1000, 7000, 300_000]);
    for _ in 0..20 {
        assert!(waits(&mut delivery, None) <= 60_000);
    }
}

/// A test record may be taken where records are not: a limit can be one of bytes.
#[test]
fn a_busy_receiver_gets_the_same_records_after_each_wait_and_at_last_single_ones() {
    let mut delivery = Delivery::new(records(8), usize::MAX, Experience::default());
    let mut asked = Duration::from_secs(7);
    for number in 0..200 {
        let Some(Request::Records(part)) = delivery.next() else {
            panic!("{delivery:?}");
        };
        assert_eq!(part.len(), (8_usize >> (number / 8).min(3)), "{number}");
        let number_of = part.len();
        let why = || "429".to_owned();
        let verdict = if number % 2 == 0 {
            Verdict::Busy(why())
        } else {
            Verdict::Items(vec![Outcome::Busy(why()); number_of])
        };
        let step = delivery.handle(Reply::Judged(verdict, Some(asked)), 0);
        assert!(step.dead.is_empty());
        // Smaller requests are no reason to send them sooner.
        let Next::Retry(wait, _) = step.next else {
            panic!("{step:?}");
        };
        assert!(wait >= asked, "{number}");
        asked = wait;
    }
    let (delivered, dead, _) = deliver(&mut delivery, |_| Verdict::Delivered);
    assert_eq!((delivered, dead), ((0..8).collect(), vec![]));
}

#[test]
fn a_failed_request_is_followed_by_a_wait_whatever_comes_next() {
    let mut delivery = Delivery::new(records(8), usize::MAX, Experience::default());
    let asked = Duration::from_secs(7);
    let mut dead = 0;
    while let Some(request) = delivery.next() {
        let (verdict, is_test) = match request {
            Request::Test => (Verdict::Delivered, true),
            Request::Records(_) => (Verdict::Retry("500".to_owned()), false),
        };
        let step = delivery.handle(Reply::Judged(verdict, Some(asked)), 0);
        dead += step.dead.len();
        let waits = matches!(step.next, Next::Retry(wait, _) if wait >= asked);
        assert!(is_test || waits || !step.dead.is_empty(), "{delivery:?}");
    }
    assert_eq!(dead, 8);
}

#[test]
fn a_receiver_that_is_too_busy_for_a_test_record_does_not_refuse() {
    let mut delivery = Delivery::new(records(1), 1, Experience::default());
    delivery.handle(judged(Verdict::Rejected("400".to_owned())), 0);
    assert!(matches!(delivery.next(), Some(Request::Test)));
    let asked = Duration::from_secs(7);
    let busy = Verdict::Busy("429".to_owned());
    let step = delivery.handle(Reply::Judged(busy, Some(asked)), 0);
    assert!(matches!(step.next, Next::Retry(wait, _) if wait >= asked));
}

/// A partial success of OTLP has a number and no names, and its request must not be sent again.
#[test]
fn records_of_which_some_were_rejected_are_kept_and_only_the_rejected_ones_count() {
    let mut delivery = Delivery::new(
        (0..8).map(version).collect(),
        usize::MAX,
        Experience::default(),
    );
    let partly = Verdict::PartlyRejected(3, "3 of 8".to_owned());
    let step = delivery.handle(judged(partly), 0);
    let cause = DeadCause::PossiblyRejected;
    assert_eq!(step.delivered, 5);
    assert_eq!(step.dead_versions, BTreeMap::from([(cause, 3)]));
    let dead: Vec<_> = step
        .dead
        .iter()
        .map(|(it, cause, _)| (it.id.as_str(), *cause))
        .collect();
    let ids = ["0", "1", "2", "3", "4", "5", "6", "7"];
    assert_eq!(dead, ids.map(|id| (id, cause)));
    assert!(delivery.next().is_none(), "{delivery:?}");
    // Gaps and skips may be among the rejected records.
    let mut delivery = Delivery::new(
        [records(3), vec![version(3)]].concat(),
        usize::MAX,
        Experience::default(),
    );
    let step = delivery.handle(judged(Verdict::PartlyRejected(3, String::new())), 0);
    assert_eq!((step.delivered, &step.dead_versions[&cause]), (0, &1));
}

proptest! {
    /// Whatever the receiver answers, each record ends once, and those of one request that are
    /// sent again are sent in their order.
    #[test]
    fn each_record_ends_once(
        number in 0_usize..20,
        max in 1_usize..9,
        answers in prop::collection::vec((0_u8..9, any::<u64>()), 0..60),
    ) {
        let mut delivery = Delivery::new(records(number), max, Experience::default());
        let mut ended = Vec::new();
        let good = std::iter::repeat((0, 0));
        for (answer, random) in answers.into_iter().chain(good) {
            let part = match delivery.next() {
                None => break,
                Some(Request::Records(part)) => part,
                Some(Request::Test) => {
                    let is_taken = judged(Verdict::Delivered);
                    let is_refused = judged(Verdict::Refused(String::new()));
                    let reply = if answer == 0 { is_taken } else { is_refused };
                    let step = delivery.handle(reply, random);
                    let dead = step.dead.iter().map(|it| it.0.id.parse::<usize>().unwrap());
                    ended.extend(dead);
                    continue;
                }
            };
            let ids: Vec<usize> = part.iter().map(|it| it.id.parse().unwrap()).collect();
            prop_assert!(ids.is_sorted() && ids.len() <= max);
            let why = || "no".to_owned();
            let outcome = |at: usize| match (random >> (at % 32 * 2)) & 3 {
                0 => Outcome::Rejected(why()),
                1 => Outcome::Retry(why()),
                2 => Outcome::Busy(why()),
                _ => Outcome::Delivered,
            };
            let reply = match answer {
                0 => judged(Verdict::Delivered),
                1 => judged(Verdict::Retry(why())),
                2 => judged(Verdict::Refused(why())),
                3 => judged(Verdict::TooLarge),
                4 => judged(Verdict::Rejected(why())),
                7 => judged(Verdict::Busy(why())),
                8 => judged(Verdict::PartlyRejected(random % 9, why())),
                5 => judged(Verdict::Items((0..ids.len()).map(outcome).collect())),
                _ => Reply::Unencodable(vec![(0, why()), (ids.len() - 1, why())]),
            };
            match &reply {
                Reply::Judged(Verdict::Delivered, _) => ended.extend(&ids),
                Reply::Judged(Verdict::Items(outcomes), _) => {
                    let all = ids.iter().zip(outcomes);
                    ended.extend(all.filter(|it| *it.1 == Outcome::Delivered).map(|it| it.0));
                }
                _ => {}
            }
            let step = delivery.handle(reply, random);
            let dead = step.dead.iter().map(|(record, ..)| record.id.parse::<usize>().unwrap());
            ended.extend(dead);
        }
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..number).collect::<Vec<_>>());
    }
}
