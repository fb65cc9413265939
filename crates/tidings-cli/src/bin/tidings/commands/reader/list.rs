//! Lists events: all at once, to be sorted, or page by page, where memory must not grow with their
//! number.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use jiff::{SignedDuration, Timestamp};
use tidings_cli::event::{self, Event};
use tidings_cli::filter::Filter;

use super::super::cluster::CommandError;
use super::page::{FIELD_SELECTOR, Listed, PAGE, Page, Reader, is_reached};

/// How much earlier than the newest sealed event a newly sealed event was last seen, at most, as a
/// rule.
const SEALED_LATER: SignedDuration = SignedDuration::from_hours(1);
/// How often a list that expires while it is read is begun again without having returned a new
/// event.
const EXPIRED_MAX: u32 = 5;

/// Events read beyond the requested number. A server sorts by the bare last-seen time; within the
/// second of the earliest requested event, our [order](Event::order) is another.
const BEYOND: usize = 20;

/// Events on the first page of a list since a time. A server that does not list the last seen first
/// answers with other events, which are dropped.
const FIRST: usize = 50;

/// Why a list failed.
pub(super) enum Unlisted {
    Request(kube::Error),
    /// There are more events than may be held in memory.
    TooMany,
}

impl From<kube::Error> for Unlisted {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

/// A page of a scan.
pub(crate) struct Scanned {
    /// The selected events that no earlier page returned.
    pub(crate) events: Vec<Event>,
    /// The number of events read for this page.
    pub(crate) read: usize,
    /// The number of events to read in all, if the server reports it.
    pub(crate) total: Option<u64>,
    /// Whether the list can be continued after a key, as far as it was read.
    pub(crate) is_by_key: bool,
}

/// The state of a scan: its order, and the events it has returned.
struct Order {
    /// Events up to this key were returned before the present list began.
    behind: Option<String>,
    /// The key of the last event read from the present list.
    last: Option<String>,
    /// Whether keys have always increased. A sealed archive lists by object, so a key does not show
    /// which events were returned.
    is_by_key: bool,
}

impl Order {
    fn behind(key: Option<String>) -> Self {
        Self {
            behind: key,
            last: None,
            is_by_key: true,
        }
    }

    /// Begins the list again, after the events that were returned.
    fn begin_again(&mut self) {
        let reached = self.last.take();
        self.behind = self.behind.take().max(reached);
    }

    /// Takes the next event's key; returns whether the event was not returned before.
    fn advance(&mut self, key: String) -> bool {
        self.is_by_key &= self.last.as_ref().is_none_or(|last| *last < key);
        let is_new = self.behind.as_ref().is_none_or(|behind| *behind < key);
        self.last = Some(key);
        is_new
    }

    /// Whether it is unknown which events were returned before.
    fn is_lost(&self) -> bool {
        self.behind.is_some() && !self.is_by_key
    }
}

impl Reader {
    /// Lists the selected events; with `last`, only that number of the last seen. Memory is bounded
    /// by these and a page.
    pub(crate) async fn list(&self, last: Option<usize>) -> Result<Listed, CommandError> {
        let listed = async {
            // The events of one object are found faster than the last seen of all.
            if !self.filter.is_about_one_object() {
                if let Some(last) = last
                    && let Some(listed) = self.newest(last).await?
                {
                    return Ok(listed);
                }
                if let Some(listed) = self.newest_since(last).await? {
                    return Ok(listed);
                }
            }
            self.list_after(None, last).await
        };
        listed.await.map_err(|unlisted| self.failed(unlisted))
    }

    /// Lists no events, for a watch that returns only later ones.
    pub(crate) async fn list_nothing(&self) -> Result<Listed, CommandError> {
        // The revision is that of the whole list, whatever the page contains.
        let page = self.answered(&[("limit", "1")]).await;
        let page = page.map_err(|error| self.failed(error.into()))?;
        Ok(Listed {
            events: Vec::new(),
            revision: page.revision,
            is_sealed: page.is_sealed,
        })
    }

    /// Lists the last seen events since the filter's `since`, from a server that lists the last
    /// seen first. Earlier events are not read. `None` if there is no such time or order.
    async fn newest_since(&self, last: Option<usize>) -> Result<Option<Listed>, Unlisted> {
        let Some(since) = self.filter.since else {
            return Ok(None);
        };
        let since = since.to_string();
        let mut events = Vec::new();
        let Some(first) = self.newest_from(&since, None).await? else {
            return Ok(None);
        };
        let revision = first.revision.clone();
        let is_sealed = first.is_sealed;
        let begun = Begun::of(&first);
        let mut next = Some(first);
        let mut is_rest = false;
        while let Some(page) = next.take() {
            let reached = page.events.last().and_then(Event::last_seen);
            let wanted = page.events.into_iter();
            events.extend(wanted.filter(|event| self.filter.selects(event)));
            if last.is_none() && events.len() > self.events_max {
                return Err(Unlisted::TooMany);
            }
            let is_enough = last.is_some_and(|last| {
                let is_rest = std::mem::replace(&mut is_rest, events.len() >= last);
                if events.len() < last {
                    return false;
                }
                event::sort(&mut events);
                is_rest || !is_within_second(&events, last, reached)
            });
            if let Some(token) = page.next.filter(|_| !is_enough) {
                next = self.newest_from(&since, Some(&token)).await?;
            }
        }
        self.add_seen_meanwhile(&since, &begun, &mut events).await?;
        if last.is_none() && events.len() > self.events_max {
            return Err(Unlisted::TooMany);
        }
        if let Some(last) = last {
            keep_last(&mut events, last);
        }
        Ok(Some(Listed {
            events,
            revision,
            is_sealed,
        }))
    }

    /// Adds events that were seen again while the pages were read, and so moved to a page that had
    /// been read already.
    async fn add_seen_meanwhile(
        &self,
        since: &str,
        begun: &Begun,
        events: &mut Vec<Event>,
    ) -> Result<(), Unlisted> {
        let mut known: HashSet<_> = events.iter().map(Event::key).collect();
        let mut next = None;
        loop {
            let Some(page) = self.newest_from(since, next.as_deref()).await? else {
                return Ok(());
            };
            let mut is_new = false;
            for event in page.events {
                let is_later = begun.may_be_before(&event);
                is_new |= is_later;
                if is_later && self.filter.selects(&event) && known.insert(event.key()) {
                    events.push(event);
                }
            }
            next = page.next.filter(|_| is_new);
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Requests a page of the last seen events since a time, if the server supports that order.
    async fn newest_from(&self, since: &str, token: Option<&str>) -> kube::Result<Option<Page>> {
        let limit = if token.is_some() { PAGE } else { FIRST };
        self.newest_up_to(limit, since, token).await
    }

    async fn newest_up_to(
        &self,
        limit: usize,
        since: &str,
        token: Option<&str>,
    ) -> kube::Result<Option<Page>> {
        let limit = limit.to_string();
        let until = self.seen_before.map(|until| until.to_string());
        let until = until.unwrap_or_default();
        let page = self
            .answered(&[
                ("limit", &limit),
                ("order", "newest"),
                ("since", since),
                ("until", &until),
                ("continue", token.unwrap_or_default()),
            ])
            .await?;
        Ok(Some(page).filter(|page| page.is_newest_first))
    }

    pub(super) fn failed(&self, unlisted: Unlisted) -> CommandError {
        match unlisted {
            Unlisted::Request(error) => CommandError::request("read events", self.rbac, error),
            Unlisted::TooMany => CommandError::TooMany {
                max: self.events_max,
            },
        }
    }

    /// Lists the `last` last seen events, from a server that lists the last seen first, if a page
    /// or two are enough. A page may have fewer events than requested although there are more,
    /// because the server filters.
    async fn newest(&self, last: usize) -> Result<Option<Listed>, Unlisted> {
        if last > PAGE {
            return Ok(None);
        }
        // A server without this order is asked for a few events only.
        for limit in [(last + BEYOND).min(PAGE), PAGE] {
            let mut page = self.newest_page(limit, "").await?;
            if !page.is_newest_first {
                return Ok(None);
            }
            let revision = page.revision;
            let is_sealed = page.is_sealed;
            let mut events = Vec::new();
            let mut is_rest = false;
            loop {
                let is_short = page.events.len() < limit;
                let is_before = |event: &Event| {
                    let since = self.filter.since;
                    since.is_some_and(|since| event.last_seen() < Some(since))
                };
                let reaches_back = page.events.last().is_some_and(is_before);
                let reached = page.events.last().and_then(Event::last_seen);
                let wanted = page.events.into_iter();
                events.extend(wanted.filter(|event| self.filter.selects(event)));
                let is_enough = events.len() >= last;
                if is_enough {
                    event::sort(&mut events);
                }
                if is_enough && !is_rest && is_within_second(&events, last, reached) {
                    // One page of the rest of that second. If the second has more events, they are
                    // cut by the bare times.
                    is_rest = true;
                    if let Some(token) = &page.next {
                        page = self.newest_page(PAGE, token).await?;
                        continue;
                    }
                }
                if page.next.is_none() || reaches_back || is_enough {
                    keep_last(&mut events, last);
                    return Ok(Some(Listed {
                        events,
                        revision,
                        is_sealed,
                    }));
                }
                let Some(token) = page.next.filter(|_| is_short) else {
                    break;
                };
                page = self.newest_page(limit, &token).await?;
            }
        }
        Ok(None)
    }

    /// Lists the selected events written after a revision. Lists all if the server has not reached
    /// that revision, or if the events are sealed and have other numbers.
    pub(super) async fn list_after(
        &self,
        after: Option<u64>,
        last: Option<usize>,
    ) -> Result<Listed, Unlisted> {
        let mut expired = 0;
        loop {
            match self.list_once(after, last).await {
                Err(Unlisted::Request(error)) if is_expired(&error) && expired < EXPIRED_MAX => {
                    expired += 1;
                }
                listed => return listed,
            }
        }
    }

    async fn list_once(
        &self,
        mut after: Option<u64>,
        last: Option<usize>,
    ) -> Result<Listed, Unlisted> {
        let mut events = Vec::new();
        let mut next: Option<String> = None;
        let mut revision = String::new();
        let mut is_sealed = false;
        loop {
            let page = self.page(next.as_deref()).await?;
            is_sealed |= page.is_sealed;
            if revision.is_empty() {
                revision = page.revision;
                let latest: Option<u64> = revision.parse().ok();
                let is_known = |after: &u64| !is_sealed && is_reached(*after, latest);
                after = after.filter(is_known);
            }
            events.extend(page.events.into_iter().filter(|event| {
                (after.is_none() || event.revision() > after) && self.filter.selects(event)
            }));
            match last {
                Some(last) if events.len() > last.saturating_mul(2).saturating_add(PAGE) => {
                    keep_last(&mut events, last);
                }
                None if events.len() > self.events_max => return Err(Unlisted::TooMany),
                _ => {}
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        if let Some(last) = last {
            keep_last(&mut events, last);
        }
        Ok(Listed {
            events,
            revision,
            is_sealed,
        })
    }

    /// Passes every selected event to `take` once, page by page in the server's order, beginning
    /// after a [key](Event::key).
    ///
    /// If the server forgets the list's revision, the list is begun again and the returned events
    /// are skipped.
    ///
    /// # Errors
    /// The errors of the server and of `take`, and a list that must be continued after a key but is
    /// not in the order of keys.
    pub(crate) async fn scan(
        &self,
        behind: Option<String>,
        mut take: impl FnMut(Scanned) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let is_continued = behind.is_some();
        let mut order = Order::behind(behind);
        let mut expired = 0;
        let mut next: Option<String> = None;
        loop {
            let page = match self.page(next.as_deref()).await {
                Ok(page) => page,
                Err(error) if is_expired(&error) && order.is_by_key && expired < EXPIRED_MAX => {
                    expired += 1;
                    next = None;
                    order.begin_again();
                    continue;
                }
                Err(error) => return Err(self.failed(error.into())),
            };
            order.is_by_key &= !page.is_sealed;
            let is_first = next.is_none();
            let read = page.events.len();
            let mut events = Vec::with_capacity(read);
            for event in page.events {
                if !order.advance(event.key()) {
                    continue;
                }
                expired = 0;
                if self.filter.selects(&event) {
                    events.push(event);
                }
            }
            if order.is_lost() {
                return Err(unordered(is_continued));
            }
            take(Scanned {
                events,
                read,
                total: page
                    .remaining
                    .filter(|_| is_first)
                    .map(|remaining| remaining.saturating_add(read as u64)),
                is_by_key: order.is_by_key,
            })?;
            next = page.next;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Passes every selected event that was last seen at or after a time to `take` once, the last
    /// seen first. Earlier events are not read. Returns false, and passes nothing, if the server
    /// does not list in this order.
    ///
    /// An event that is seen again meanwhile moves to a page before those that were read. These are
    /// read again in the end; a hash of each event that was passed tells which ones are missing.
    pub(crate) async fn scan_since(
        &self,
        since: Timestamp,
        mut take: impl FnMut(&Event),
    ) -> Result<bool, CommandError> {
        let scan = async {
            // The events of one object are found faster in another way.
            if self.filter.is_about_one_object() {
                return Ok(false);
            }
            let since = since.to_string();
            let Some(first) = self.newest_from(&since, None).await? else {
                return Ok(false);
            };
            let begun = Begun::of(&first);
            let (hashes, mut passed) = (RandomState::new(), HashSet::new());
            let mut pass = |event: &Event| {
                if self.filter.selects(event) && passed.insert(hashes.hash_one(event.key())) {
                    take(event);
                }
            };
            let mut next = Some(first);
            while let Some(page) = next.take() {
                page.events.iter().for_each(&mut pass);
                if let Some(token) = page.next {
                    next = self.newest_from(&since, Some(&token)).await?;
                }
            }
            let mut token = None;
            while let Some(page) = self.newest_from(&since, token.as_deref()).await? {
                let mut is_later = false;
                for event in page
                    .events
                    .iter()
                    .filter(|event| begun.may_be_before(event))
                {
                    is_later = true;
                    pass(event);
                }
                token = page.next.filter(|_| is_later);
                if token.is_none() {
                    break;
                }
            }
            Ok(true)
        };
        scan.await.map_err(|error| self.failed(error))
    }

    /// Whether the server has an event, selected or not, that was last seen before a time. `None`
    /// if it does not list the last seen first.
    pub(crate) async fn has_older(&self, moment: Timestamp) -> Result<Option<bool>, CommandError> {
        let all = Self {
            filter: Filter::default(),
            seen_before: Some(moment),
            ..self.clone()
        };
        let mut token: Option<String> = None;
        loop {
            let page = all.newest_up_to(1, "", token.as_deref()).await;
            let Some(page) = page.map_err(|error| self.failed(error.into()))? else {
                return Ok(None);
            };
            token = page.next;
            if !page.events.is_empty() || token.is_none() {
                return Ok(Some(!page.events.is_empty()));
            }
        }
    }

    /// Requests a page of the list in the order of keys, and filters what the server could not.
    async fn page(&self, next: Option<&str>) -> kube::Result<Page> {
        self.answered(&[
            (FIELD_SELECTOR, &self.filter.field_selector()),
            ("limit", &PAGE.to_string()),
            ("continue", next.unwrap_or_default()),
        ])
        .await
    }

    /// Requests a page of the last seen events, unfiltered, if the server supports that order.
    async fn newest_page(&self, limit: usize, token: &str) -> kube::Result<Page> {
        self.answered(&[
            ("limit", &limit.to_string()),
            ("order", "newest"),
            ("continue", token),
        ])
        .await
    }
}

/// The start of a list of last seen events, by which later events are recognised.
struct Begun {
    revision: Option<u64>,
    /// For sealed events: when the newest one was last seen.
    newest: Option<Timestamp>,
}

impl Begun {
    fn of(first: &Page) -> Self {
        let newest = first.events.first().and_then(Event::last_seen);
        Self {
            revision: first.revision.parse().ok(),
            newest: newest.filter(|_| first.is_sealed),
        }
    }

    /// Whether an event may have moved to a page before those that were read.
    fn may_be_before(&self, event: &Event) -> bool {
        match self.newest {
            // The event was sealed meanwhile, some time after it was observed.
            Some(newest) => event.last_seen() >= newest.checked_sub(SEALED_LATER).ok(),
            None => event.revision() > self.revision,
        }
    }
}

/// The error for a list that must be continued after a key and is not in the order of keys.
fn unordered(is_continued: bool) -> CommandError {
    if is_continued {
        let why = "continue behind the last event: the server's list is not in the order of \
                   names; export again without --resume";
        CommandError::Usage(why.to_owned())
    } else {
        CommandError::Unreadable {
            what: "read events".to_owned(),
            why: "a list that was begun again is not in the order of names".to_owned(),
        }
    }
}

fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

/// Whether the earliest of the requested last events was seen in the second that was `reached`.
/// More events of that second may be unread, and come before it. `events` are sorted.
fn is_within_second(events: &[Event], last: usize, reached: Option<Timestamp>) -> bool {
    let earliest = events.len().checked_sub(last).and_then(|at| events.get(at));
    let second = |time: Timestamp| time.as_nanosecond().div_euclid(1_000_000_000);
    let earliest = earliest.and_then(Event::last_seen).map(second);
    earliest.is_some() && earliest == reached.map(second)
}

/// Keeps the last seen events.
fn keep_last(events: &mut Vec<Event>, last: usize) {
    if events.len() > last {
        event::sort(events);
        events.drain(..events.len() - last);
    }
}
