//! Retention: changed rules are applied to existing events.
//!
//! The time at which an event expires is written with its newest version. When the rules change,
//! every record gets the time of the new rules, once, in the background.
//!
//! Invariant: the store has the name of the rules only if they were applied to everything, and
//! everything was written by them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use tidings_api::codec;
use tidings_history::{Outlook, OutlookPage, Retention};
use tidings_store::{
    Expected, Fault, HOUR_MILLIS, ListRequest, NewRecord, ReadError, Record, Store, UnixMillis,
    Write, WriteError,
};

use crate::keep::coverage::{Applied, EndedByRules, RetentionPolicy};
use crate::keep::index::index;
use crate::keep::json::{json, parse};
use crate::keep::keys;
use crate::keep::versions::{KeepError, Keeper, counts_from, is_of_others, later};
use crate::version::record;

/// Number of records that are read per page.
const PAGE: usize = 500;
/// Maximum events that one request about rules examines: about half a second of work.
pub(crate) const EXAMINED_MAX: usize = 100_000;
/// Maximum attempts to change a page while others write to it.
const TRIES: u32 = 16;

/// The result of applying rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether some records were left out, because they have expired only by a clock that is not
    /// believed yet.
    pub(crate) waits: bool,
    /// Number of events that expired at once.
    pub(crate) ended: u64,
    /// Number of events that were examined.
    pub(crate) events: u64,
}

/// Gives every record the expiry of the rules, unless these rules were applied before. On a full
/// disk, only expired records are deleted, and an error is returned.
pub(crate) async fn apply_rules(keeper: &Keeper, rules: &str) -> Result<Outcome, KeepError> {
    let key = Bytes::from_static(keys::RETENTION);
    let mut outcome = Outcome::default();
    let former = keeper.store.get(key.clone()).await?;
    if former
        .as_ref()
        .is_some_and(|found| found.value == rules.as_bytes())
    {
        return Ok(outcome);
    }
    if !is_clock_believed(keeper) {
        // The store hides records that have expired by such a clock, so they would be skipped.
        outcome.waits = true;
        return Ok(outcome);
    }
    if former.is_some() {
        // If the process ends before the new rules are applied, neither these nor the former ones
        // hold for everything.
        let forget = vec![Write::delete(key.clone())];
        keeper.store.write_all(forget).await?;
    }
    let mut refused = None;
    // Events come first: older versions that become a chunk meanwhile get their event's expiry.
    apply_behind(keeper, b"", keys::BEFORE_EVENTS, &mut refused, &mut outcome).await?;
    apply_behind(keeper, keys::CHUNKS, b"", &mut refused, &mut outcome).await?;
    if let Some(error) = refused {
        return Err(error.into());
    }
    if outcome.waits {
        return Ok(outcome);
    }
    let applied = Applied {
        since: keeper.clock.now().0,
    };
    let writes = vec![
        Write::put(key, NewRecord::new(rules.to_owned())),
        Write::put(keys::RETAINED, NewRecord::new(json(&applied))),
    ];
    keeper.store.write_all(writes).await?;
    Ok(outcome)
}

/// Whether what has expired by the clock may end.
pub(super) fn is_clock_believed(keeper: &Keeper) -> bool {
    let ahead = keeper
        .clock
        .now()
        .0
        .saturating_sub(keeper.store.confirmed().0);
    ahead <= HOUR_MILLIS
}

/// Prepares writes by a policy that may not be applied yet: until that is decided, what is written
/// ends late. The name of the former rules is forgotten, so that these are applied to it, too, if
/// they come back.
pub(crate) async fn hold(keeper: &Keeper) -> Result<(), KeepError> {
    let key = Bytes::from_static(keys::RETENTION);
    let former = keeper.store.get(key.clone()).await?;
    let rules = &keeper.policy().text;
    if former
        .as_ref()
        .is_some_and(|found| found.value == rules.as_bytes())
    {
        return Ok(());
    }
    keeper.set_held(true);
    if former.is_some() {
        keeper.store.write_all(vec![Write::delete(key)]).await?;
    }
    Ok(())
}

/// Returns whether all records have the expiry of these rules.
pub(super) async fn is_applied(keeper: &Keeper, rules: &str) -> Result<bool, ReadError> {
    let found = keeper
        .store
        .get(Bytes::from_static(keys::RETENTION))
        .await?;
    Ok(found.is_some_and(|found| found.value == rules.as_bytes()))
}

/// Returns what a policy would end at once: by rule, and by namespace.
pub(super) async fn outlook_of(
    keeper: &Keeper,
    policy: &RetentionPolicy,
) -> Result<[Outlook; 2], ReadError> {
    let rules = |_: &Bytes, event: &Event| ((policy.keep_for)(event), (policy.rule_of)(event));
    let (mut by_rule, mut by_namespace) = (Outlook::default(), Outlook::default());
    let all = (Bytes::from_static(keys::BEFORE_EVENTS), usize::MAX);
    examine(keeper, all, rules, |namespace, rule, is_over| {
        by_rule.add(rule, is_over);
        by_namespace.add(namespace, is_over);
    })
    .await?;
    Ok([by_rule, by_namespace])
}

/// Reads at most `max` events from a place on, in whole pages, and counts those that would end at
/// once by these rules, which get the stored and the decoded event. An event that cannot be read is
/// left out.
pub(crate) async fn outlook(
    keeper: &Keeper,
    (place, max): (Option<String>, usize),
    rules: impl Fn(&Bytes, &Event) -> (Duration, Arc<str>),
) -> Result<OutlookPage, ReadError> {
    let mut outlook = Outlook::default();
    let begin = Bytes::from_static(keys::BEFORE_EVENTS);
    // Keys before those of events are the archive's own.
    let place = place.map(Bytes::from).unwrap_or_default().max(begin);
    let page = (place, max);
    let more = examine(keeper, page, rules, |_, rule, is_over| {
        outlook.add(rule, is_over);
    })
    .await?;
    let more = more.map(|key| String::from_utf8_lossy(&key).into_owned());
    Ok(OutlookPage { outlook, more })
}

/// Reads at most `max` events behind a key, in whole pages, and calls `add` with the namespace of
/// each, its rule, and whether it would end at once. Returns the key of the last one if there may
/// be more.
async fn examine(
    keeper: &Keeper,
    (mut after, max): (Bytes, usize),
    rules: impl Fn(&Bytes, &Event) -> (Duration, Arc<str>),
    mut add: impl FnMut(&str, &str, bool),
) -> Result<Option<Bytes>, ReadError> {
    // A clock that is behind will be put right.
    let believed = UnixMillis(keeper.believed().unwrap_or(i64::MIN));
    let now = keeper.clock.now().max(keeper.now()).max(believed);
    let mut examined = 0;
    loop {
        if examined >= max {
            return Ok(Some(after));
        }
        let request = ListRequest::default().limit(PAGE).after(after);
        let records = keeper.store.list(request).await?.records;
        let Some(last) = records.last() else {
            return Ok(None);
        };
        examined += records.len();
        after = last.key.clone();
        for found in &records {
            let Some((record, event)) = read(found) else {
                continue;
            };
            let (keep_for, rule) = rules(&record.newest.event, &event);
            let end = later(counts_from(&record, &event), keep_for);
            add(&keys::namespace(&found.key), &rule, end <= now);
        }
    }
}

/// Decodes a record and its newest version; `None` if it is damaged.
fn read(found: &Record) -> Option<(record::Record, Event)> {
    let record = record::Record::decode(&found.value).ok()?;
    let event = codec::decode_stored(&record.newest.event, 0).ok()?;
    Some((record, event))
}

/// Returns the rules in force, for coverage; `None` if they are not known, as where nothing is
/// followed.
pub(crate) async fn retention(keeper: &Keeper) -> Result<Option<Retention>, ReadError> {
    let policy = keeper.policy();
    let Some(lives) = policy.lives.filter(|_| keeper.is_followed()) else {
        return Ok(None);
    };
    let get = |key| keeper.store.get(Bytes::from_static(key));
    let is_applied = is_applied(keeper, &policy.text).await?;
    let mut since = None;
    if is_applied && let Some(found) = get(keys::RETAINED).await? {
        let applied: Applied = parse(&found.value)?;
        since = Some(UnixMillis(applied.since));
    }
    Ok(Some(Retention {
        shortest: lives.shortest,
        longest: lives.longest,
        event_ttl: lives.otherwise,
        rules: lives.rules,
        applied: is_applied,
        since,
        mirrors_deletions: keeper.mirror_deletions,
        held: keeper.held_rules.get(),
    }))
}

/// Gives the records with a prefix, after a key, the expiry of the rules. What a full disk refuses
/// is left out.
async fn apply_behind(
    keeper: &Keeper,
    prefix: &'static [u8],
    after: &'static [u8],
    refused: &mut Option<WriteError>,
    outcome: &mut Outcome,
) -> Result<(), KeepError> {
    let mut after = Bytes::from_static(after);
    let (mut limit, mut tries) = (PAGE, TRIES);
    loop {
        let request = ListRequest::prefix(prefix)
            .limit(limit)
            .after(after.clone());
        let records = keeper.store.list(request).await?.records;
        let Some(last) = records.last() else {
            return Ok(());
        };
        match apply_to(keeper, &records, refused, outcome).await {
            Ok(()) => {
                after = last.key.clone();
                (limit, tries) = (PAGE, TRIES);
            }
            // A record was written meanwhile. Not every write uses the rules, since an end and a
            // new name do not change the expiry. So the page is read again, with fewer records.
            Err(error) if tries > 0 && is_of_others(&error) => {
                tries -= 1;
                limit = (limit / 2).max(1);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives records that were read the expiry of the rules. Expired ones are deleted in a commit of
/// their own, which a full disk does not refuse.
async fn apply_to(
    keeper: &Keeper,
    records: &[Record],
    refused: &mut Option<WriteError>,
    outcome: &mut Outcome,
) -> Result<(), WriteError> {
    let believed = keeper.store.confirmed();
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for found in records {
        match changed(keeper, found) {
            Some(Changed::Put(write)) => puts.push(write),
            // A clock that is ahead deletes nothing for good.
            Some(Changed::Over { end, .. }) if end > believed => outcome.waits = true,
            Some(Changed::Over { write, rule, .. }) => deletes.push((write, rule)),
            None => {}
        }
    }
    let is_event = |key: &Bytes| !keys::is_own(key);
    outcome.events += records.iter().filter(|found| is_event(&found.key)).count() as u64;
    if !deletes.is_empty() {
        outcome.ended += delete(keeper, deletes).await?;
    }
    if puts.is_empty() || refused.is_some() {
        return Ok(());
    }
    match keeper.store.write_all(puts).await {
        Ok(_) => Ok(()),
        Err(error @ WriteError::Fault(Fault::NoSpace)) => {
            *refused = Some(error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Deletes records that have expired by changed rules. Returns the number of events among them.
async fn delete(
    keeper: &Keeper,
    deletes: Vec<(Write, Option<Arc<str>>)>,
) -> Result<u64, WriteError> {
    let (mut deletes, rules): (Vec<_>, Vec<_>) = deletes.into_iter().unzip();
    let rules: Vec<_> = rules.into_iter().flatten().collect();
    if !rules.is_empty() {
        let mut ended = ended_by_rules(keeper).await.map_err(|error| match error {
            ReadError::Fault(fault) => fault,
            error => Fault::Storage(Arc::new(error)),
        })?;
        for rule in &rules {
            ended.add(rule);
        }
        deletes.push(Write::put(
            keys::ENDED_BY_RULES,
            NewRecord::new(json(&ended)),
        ));
    }
    keeper.store.write_all(deletes).await?;
    Ok(rules.len() as u64)
}

/// Reads the number of events that expired at once when rules were changed, since the folder was
/// made.
pub(crate) async fn ended_by_rules(keeper: &Keeper) -> Result<EndedByRules, ReadError> {
    let found = keeper
        .store
        .get(Bytes::from_static(keys::ENDED_BY_RULES))
        .await?;
    let found = found.map(|found| parse::<EndedByRules>(&found.value));
    Ok(found.transpose()?.unwrap_or_default())
}

/// What the rules change about a record.
enum Changed {
    /// It gets another expiry.
    Put(Write),
    /// It has expired and is deleted.
    Over {
        write: Write,
        end: UnixMillis,
        /// The name of the rule, if the record is that of an event.
        rule: Option<Arc<str>>,
    },
}

/// Returns what gives a record the expiry of the rules; `None` if it has it already.
fn changed(keeper: &Keeper, found: &Record) -> Option<Changed> {
    let (record, event) = read(found)?;
    let end = keeper.end_of(&event, counts_from(&record, &event));
    if found.expires_at == Some(end) {
        return None;
    }
    let is_event = !keys::is_own(&found.key);
    let new = (end > keeper.clock.now()).then(|| {
        let new = NewRecord::new(found.value.clone()).expires_at(end);
        if is_event {
            new.index(index(&event))
        } else {
            new
        }
    });
    let is_over = new.is_none();
    let write = Write {
        key: found.key.clone(),
        record: new,
        expected: Expected::At(found.revision),
    };
    if !is_over {
        return Some(Changed::Put(write));
    }
    let rule = is_event.then(|| (keeper.policy().rule_of)(&event));
    Some(Changed::Over { write, end, rule })
}
