//! The state machine that follows one source.
//!
//! ```text
//!            ┌────────────── failed: wait, then ask again ◀──────────────┐
//!            ▼                                                            │
//!        Asking ── known, and not behind us ──▶ Watching ── closed ───▶ Asking
//!            │                                     │
//!            ├── not known¹, or went back ┐        └── forgotten (410) ─┐
//!            │                            ▼                             │
//!            │                         Listing ◀──────────────────────────┘
//!            └── another cluster: refused, asked again now and then
//! ```
//! ¹ At the first contact, if only later writes are to be kept, the watch begins at once.
//!
//! Before each watch, the source is asked for its identity and resourceVersion. So another cluster
//! at the address is detected before any of its events is kept, and so is a source that went back
//! to an earlier state. A source without an identity, and with a certificate of none of the earlier
//! authorities, may be another cluster or the same. It is listed, with a gap that says why. A new
//! epoch begins only if its version is also less than before. If it is the same cluster, none of
//! its events is duplicated; if it is another one, its events have other uids. Observed events are
//! committed together with the position after them, and the machine continues from that position
//! only after the commit. A gap is reported when the list that ends it is complete, and only if the
//! source has forgotten the versions in between, or may be another one.
//!
//! kube-apiserver sends no bookmarks in a watch of events, while its version grows with every
//! object of the cluster. So a watch that sends nothing counts as having reached the version that
//! the source stated before it. Otherwise the source would forget the position of a quiet cluster,
//! although nothing was missed. For this, a silent watch is replaced after some minutes.

use tidings_history::{Cause, Gap};

use crate::follow::backoff::Backoff;
use crate::keep::coverage::{Position, Unswept, cluster_gap};

/// Options for following. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Events per page of a list.
    pub(crate) page: u32,
    /// The first and the longest delay before a failed request is repeated.
    pub(crate) retry: (i64, i64),
    /// The interval in which another cluster at the address is asked for its identity again.
    pub(crate) refused: i64,
    /// A gap begins this much before the last observation, since the source rounds times down to
    /// seconds, and clocks differ a little.
    pub(crate) slack: i64,
    /// Whether nothing is listed at the first contact. Existing events are then kept only if they
    /// are written again.
    pub(crate) from_now: bool,
    /// The selectors of the followed events. An event that is not in a list has ended only if the
    /// previous list had the same selectors.
    pub(crate) selection: String,
    /// Texts that identify the authorities of the source's certificate; empty if they are not
    /// known.
    pub(crate) authorities: Vec<String>,
}

/// If a source forgets what follows a list within this time, the delays before the next lists grow:
/// every list would be useless.
const SETTLED: i64 = 60_000;

/// The longest delay that a source may ask for: it remembers changes for minutes only.
const RETRY_AFTER_MAX: i64 = 60_000;

/// The message about a source that may be another one.
const DOUBTFUL: &str = "it may be another cluster: other authorities than before verify its \
                        certificate, and the uid of kube-system cannot be compared";

/// The longest time for which known sources keep an event. It is longer if a list has an older
/// event.
const LIFE_MIN: i64 = 25 * 3_600_000;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask for the source's identity, and for a list of one event, which has its version.
    Ask,
    /// Read a page of the list.
    List {
        /// The continue token; `None` begins a list.
        token: Option<String>,
        /// Maximum events of the page.
        limit: u32,
    },
    /// Watch changes after this version.
    Watch {
        /// The version.
        after: u64,
    },
    /// Wait until this time, and then ask again.
    Wait {
        /// In milliseconds since 1970.
        until: i64,
    },
}

/// Why a request to the source failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The source has forgotten the version (410).
    Expired,
    /// The source has not reached the version: it went back.
    FromTheFuture,
    /// The source does not know the user (401).
    Unauthorized(String),
    /// The request is not allowed (403).
    Forbidden(String),
    /// The source does not serve the path (404).
    NotFound(String),
    /// The source does not understand the request, such as its field selector (400).
    BadRequest(String),
    /// A page of the list has too many bytes.
    TooLarge,
    /// Any other failure: the source is unreachable or busy, or its answer cannot be understood.
    Other {
        why: String,
        /// The delay that the source asks for, in milliseconds; a minute at most is granted.
        retry_after: Option<i64>,
    },
}

/// The state that is shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not followed.
    NotFollowed,
    /// Not reached yet.
    Starting,
    /// All events are being read.
    Listing,
    /// Changes are being watched.
    Watching,
    /// The source cannot be reached.
    Unreachable,
    /// The source does not allow to list or watch.
    Forbidden,
    /// Another cluster answers.
    OtherCluster,
    /// The archive cannot write.
    StorageFailed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotFollowed => "not followed",
            Self::Starting => "starting",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Unreachable => "unreachable",
            Self::Forbidden => "forbidden",
            Self::OtherCluster => "other cluster",
            Self::StorageFailed => "storage failed",
        }
    }
}

/// The position and marks that are committed with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) position: Position,
    pub(crate) gap: Option<Gap>,
    /// If the events are from the list that ends a gap: when it was requested. Events that are not
    /// in it have ended.
    pub(crate) listed_at: Option<i64>,
    /// From now on, events that ended during a gap have to be found.
    pub(crate) unswept: Option<Unswept>,
}

impl Commit {
    fn of(position: Position) -> Self {
        Self {
            position,
            gap: None,
            listed_at: None,
            unswept: None,
        }
    }
}

/// The source's answer to [`Step::Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The uid of the namespace `kube-system`, if the follower may read it.
    pub(crate) identity: Option<String>,
    /// When the request was sent, in milliseconds since 1970. The version includes everything that
    /// was written before.
    pub(crate) asked: i64,
    /// Its current version.
    pub(crate) version: u64,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the list.
    pub(crate) version: u64,
    /// The continue token, if there are more pages.
    pub(crate) token: Option<String>,
    /// When the oldest event of the page was last seen.
    pub(crate) oldest: Option<i64>,
    /// Whether the page has an event whose name cannot be read. An event that is not in the list
    /// may be this one.
    pub(crate) has_unnamed: bool,
}

/// The times of a list's first page. The state of the list is from between them.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// When it was requested: versions written before are in the list, unless they were replaced.
    asked: i64,
    /// When it arrived: versions written from then on are in the watch that follows.
    answered: i64,
    version: u64,
    /// When the oldest of its events was last seen.
    oldest: i64,
    /// Whether one of its pages has an event whose name cannot be read.
    has_unnamed: bool,
}

/// The version that the source stated on another connection than the watch, and when it was asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: i64,
    version: u64,
    /// It was asked before the watch was opened, and the watch has sent nothing since.
    is_before_all: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Asking,
    Listing {
        token: Option<String>,
        /// The list's first page, once it has arrived.
        begun: Option<Begun>,
    },
    Watching,
    /// Waits until this time, and then asks again.
    Waiting(i64),
}

/// Whether a source whose identity cannot be compared may be another one: none of its authorities
/// is among the earlier ones. When authorities are replaced, usually both are in use for some time.
fn may_be_another(position: &Position, answer: &Answer, authorities: &[String]) -> bool {
    let is_known = position.identity.is_some() && answer.identity.is_some();
    let former = &position.authorities;
    let is_any_left = former.iter().any(|former| authorities.contains(former));
    !(is_known || former.is_empty() || authorities.is_empty() || is_any_left)
}

/// The state machine for one selection of one source.
#[derive(Debug)]
pub(crate) struct Follower {
    rules: Rules,
    namespace: String,
    /// The position in the store; `None` if there is none.
    position: Option<Position>,
    phase: Phase,
    state: State,
    /// The error, if there is one.
    why: Option<String>,
    /// The source went back, and this is not committed yet. The next request may find that it has
    /// caught up.
    went_back: bool,
    /// Whether the last commit failed. This is reported until a commit succeeds.
    unwritten: bool,
    /// Whether part of the current list may have been read before.
    repeats: bool,
    /// What the source stated; `None` once the watch has sent everything that was written before
    /// that.
    asked: Option<Asked>,
    /// The first failure since the source was last followed.
    trouble: Option<Cause>,
    /// When the latest list was complete.
    listed_at: Option<i64>,
    retry: Backoff,
    /// Delays of lists that would be useless.
    relist: Backoff,
    /// Maximum events of the next page.
    page: u32,
    random: fastrand::Rng,
}

impl Follower {
    /// Continues from the stored position.
    pub(crate) fn new(
        rules: Rules,
        namespace: String,
        position: Option<Position>,
        random: fastrand::Rng,
    ) -> Self {
        Self {
            trouble: position.is_some().then_some(Cause::Absent),
            repeats: position.is_some(),
            position,
            namespace,
            phase: Phase::Asking,
            state: State::Starting,
            why: None,
            went_back: false,
            asked: None,
            listed_at: None,
            unwritten: false,
            retry: Backoff::new(rules.retry.0, rules.retry.1),
            relist: Backoff::new(rules.retry.0, rules.retry.1),
            page: rules.page,
            rules,
            random,
        }
    }

    pub(crate) fn state(&self) -> (State, Option<&str>) {
        (self.state, self.why.as_deref())
    }

    pub(crate) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Returns the next step.
    pub(crate) fn step(&self) -> Step {
        match &self.phase {
            Phase::Asking => Step::Ask,
            Phase::Listing { token, .. } => Step::List {
                token: token.clone(),
                limit: self.page,
            },
            Phase::Watching => {
                let version = self.position.as_ref().and_then(|position| position.version);
                match version {
                    Some(after) => Step::Watch { after },
                    None => Step::Ask,
                }
            }
            Phase::Waiting(until) => Step::Wait { until: *until },
        }
    }

    /// Continues after a wait.
    pub(crate) fn waited(&mut self, now: i64) {
        if matches!(self.phase, Phase::Waiting(until) if until <= now) {
            self.phase = Phase::Asking;
        }
    }

    /// Takes the source's answer with its identity and version. The result must be committed.
    pub(crate) fn answered(&mut self, now: i64, answer: Answer) -> Option<Commit> {
        self.asked = Some(Asked {
            at: answer.asked,
            version: answer.version,
            is_before_all: true,
        });
        let Some(position) = &self.position else {
            let mut position = Position {
                identity: answer.identity,
                since: now,
                complete_until: now,
                selection: self.rules.selection.clone(),
                authorities: self.rules.authorities.clone(),
                ..Position::default()
            };
            if self.rules.from_now {
                position.version = Some(answer.version);
                position.latest = answer.version;
                self.phase = Phase::Watching;
            } else {
                self.list();
            }
            return Some(Commit::of(position));
        };
        if let (Some(known), Some(found)) = (&position.identity, &answer.identity)
            && known != found
        {
            self.why = Some(format!(
                "another cluster answers: its kube-system has the uid {found}, not {known}"
            ));
            self.state = State::OtherCluster;
            self.trouble = Some(Cause::OtherCluster);
            self.phase = Phase::Waiting(now.saturating_add(self.rules.refused));
            return None;
        }
        let is_doubtful = may_be_another(position, &answer, &self.rules.authorities);
        let mut position = position.clone();
        position.complete_until = position.complete_until.min(now);
        // Events that only the new selectors select were not followed before; they are covered from
        // their first list on. Until that is complete, the position keeps the former selectors, so
        // that no list in between is used to find ends: it does not have all kept events.
        let is_other = position.selection != self.rules.selection;
        if is_other {
            position = Position {
                version: None,
                cause: None,
                since: now,
                complete_until: now,
                ..position
            };
        }
        let learned = position.identity.is_none() && answer.identity.is_some();
        position.identity = position.identity.or(answer.identity);
        let authorities = &self.rules.authorities;
        let are_others = !authorities.is_empty() && position.authorities != *authorities;
        if are_others {
            position.authorities.clone_from(authorities);
        }
        self.went_back |= answer.version < position.latest;
        if self.went_back {
            position.epoch = position.epoch.saturating_add(1);
            position.latest = 0;
        }
        if is_doubtful {
            let commit = self.begin_anew(position, Cause::OtherCluster);
            if !self.unwritten {
                self.why = Some(DOUBTFUL.into());
            }
            return Some(commit);
        }
        if self.went_back {
            return Some(self.begin_anew(position, Cause::Rewound));
        }
        match position.version {
            Some(_) => self.phase = Phase::Watching,
            // The last list was incomplete, or the selectors are new.
            None => self.list(),
        }
        // After a failed commit, another is tried before anything more is read.
        (is_other || learned || are_others || self.unwritten).then(|| Commit::of(position))
    }

    /// Lists a source that went back to an earlier state, or that may be another one.
    fn begin_anew(&mut self, mut position: Position, cause: Cause) -> Commit {
        // If a list was incomplete, its reason is reported when the next list is complete.
        if position.version.take().is_some() {
            position.cause = Some(cause);
        }
        self.list();
        Commit::of(position)
    }

    fn list(&mut self) {
        self.phase = Phase::Listing {
            token: None,
            begun: None,
        };
        self.enter(State::Listing);
    }

    /// Enters a state, which ends every other error, unless commits fail.
    fn enter(&mut self, state: State) {
        if !self.unwritten {
            self.state = state;
            self.why = None;
        }
    }

    /// Takes a page, with the times of its request and its arrival. The result must be committed
    /// with its events.
    pub(crate) fn listed(&mut self, (asked, answered): (i64, i64), page: Page) -> Option<Commit> {
        let Phase::Listing { begun, .. } = &self.phase else {
            return None;
        };
        let mut position = self.position.clone()?;
        position.latest = position.latest.max(page.version);
        let mut begun = begun.unwrap_or(Begun {
            asked,
            answered,
            version: page.version,
            oldest: asked,
            has_unnamed: false,
        });
        begun.oldest = begun.oldest.min(page.oldest.unwrap_or(asked));
        begun.has_unnamed |= page.has_unnamed;
        let looks_for_ends = position.selection == self.rules.selection
            && (position.cause.is_some() || self.repeats);
        let listed_at = looks_for_ends.then_some(begun.asked);
        if let Some(token) = page.token {
            self.phase = Phase::Listing {
                token: Some(token),
                begun: Some(begun),
            };
            return Some(Commit {
                listed_at,
                ..Commit::of(position)
            });
        }
        let gap = position.cause.map(|cause| {
            let from = position.complete_until.min(begun.asked);
            // The gap includes versions that were replaced while the answer was on its way.
            cluster_gap(from, begun.answered, cause).of(&self.namespace)
        });
        let life = (2 * (begun.asked - begun.oldest)).max(LIFE_MIN);
        let looked_for = listed_at.filter(|_| !begun.has_unnamed);
        let unswept = looked_for.map(|listed_at| Unswept {
            listed_at,
            version: begun.version,
            not_before: position.complete_until.min(listed_at),
            since: position.complete_until.min(listed_at).saturating_sub(life),
        });
        self.repeats = false;
        self.listed_at = Some(answered);
        // The source may have gone back while the list was read.
        self.phase = Phase::Asking;
        Some(Commit {
            position: Position {
                version: Some(begun.version),
                // From before the first list only the last versions are known.
                since: if gap.is_none() {
                    begun.answered
                } else {
                    position.since
                },
                complete_until: begun.asked.saturating_sub(self.rules.slack),
                cause: None,
                selection: self.rules.selection.clone(),
                ..position
            },
            gap,
            listed_at,
            unswept,
        })
    }

    /// Notes that a watch is open. Its first message may still be an error, for example that the
    /// source has forgotten the version.
    pub(crate) fn opened(&mut self) {
        self.enter(State::Watching);
    }

    /// Notes that a watch has sent something, or was open for a while, so that there is no error.
    pub(crate) fn alive(&mut self) {
        self.retry.reset();
        self.page = self.rules.page;
        self.enter(State::Watching);
        self.trouble = None;
    }

    /// Whether a watch that has sent this version has sent everything that the source had when it
    /// was last asked. What it sends from then on was written just now.
    pub(crate) fn is_level(&self, version: u64) -> bool {
        self.asked.is_none_or(|asked| version >= asked.version)
    }

    /// Takes changes up to a version from the watch. The last of them was written no later than
    /// `written`, if that is known. The result must be committed with them.
    pub(crate) fn watched(
        &mut self,
        now: i64,
        written: Option<i64>,
        version: u64,
    ) -> Option<Commit> {
        if !matches!(self.phase, Phase::Watching) {
            return None;
        }
        let position = self.position.clone()?;
        self.alive();
        let mut complete = written;
        if let Some(asked) = self.asked {
            // A watch sends versions in order.
            self.asked = if self.is_level(version) {
                complete = complete.max(Some(asked.at));
                None
            } else {
                Some(Asked {
                    is_before_all: false,
                    ..asked
                })
            };
        }
        Some(self.reached(position, now, complete, version))
    }

    /// Notes that the watch has sent nothing for a while, although the source answers. It stated
    /// this version when it was asked at this time. The result must be committed.
    ///
    /// A source sends at once what was written before the watch was opened. If it has sent nothing,
    /// there is nothing up to the version that it stated before. This is assumed only of a
    /// connection on which the answer to the request has just arrived. A connection that has been
    /// open for longer may have died meanwhile. So later silences of the same watch show nothing,
    /// nor do those of a watch that has sent only a part. What arrives after a silence does,
    /// because versions come in order.
    pub(crate) fn silent(&mut self, now: i64, (at, version): (i64, u64)) -> Option<Commit> {
        if !matches!(self.phase, Phase::Watching) {
            return None;
        }
        let position = self.position.clone()?;
        self.alive();
        let before_all = self.asked.take_if(|asked| asked.is_before_all);
        self.asked.get_or_insert(Asked {
            at,
            version,
            is_before_all: false,
        });
        let asked = before_all?;
        Some(self.reached(position, now, Some(asked.at), asked.version))
    }

    /// Returns a commit: everything up to a version is kept, and so is what was written up to a
    /// time, if that is known.
    fn reached(&self, position: Position, now: i64, complete: Option<i64>, version: u64) -> Commit {
        let before = position.complete_until;
        let complete = complete.map(|at| at.min(now).saturating_sub(self.rules.slack));
        let complete_until = match complete {
            // The stored time is from a clock that was ahead.
            Some(complete) if before > now => complete,
            Some(complete) => complete.max(before),
            None => before.min(now),
        };
        Commit::of(Position {
            version: position.version.max(Some(version)),
            latest: position.latest.max(version),
            complete_until,
            ..position
        })
    }

    /// Notes that the watch has ended: the source closes it from time to time, or it is to be
    /// replaced.
    pub(crate) fn closed(&mut self) {
        self.phase = Phase::Asking;
    }

    /// Takes a failed request. The result must be committed.
    pub(crate) fn failed(&mut self, now: i64, failure: Failure) -> Option<Commit> {
        match failure {
            Failure::Expired => return self.expired(now),
            Failure::FromTheFuture => {
                // The source went back. It is asked for its version first.
                self.wait(now, State::Unreachable, Cause::Rewound, None);
                self.why = Some("the source is not at the version that was followed".into());
            }
            Failure::Unauthorized(why) | Failure::Forbidden(why) => {
                self.wait(now, State::Forbidden, Cause::Forbidden, None);
                self.why = Some(why);
            }
            Failure::TooLarge => {
                self.page = (self.page / 2).max(1);
                self.wait(now, State::Listing, Cause::Unreachable, None);
                self.why = Some(format!(
                    "a page of the list was too large; {} now",
                    self.page
                ));
            }
            Failure::NotFound(why) | Failure::BadRequest(why) => {
                self.wait(now, State::Unreachable, Cause::Unreachable, None);
                self.why = Some(why);
            }
            Failure::Other { why, retry_after } => {
                let retry_after = retry_after.map(|asked| asked.min(RETRY_AFTER_MAX));
                self.wait(now, State::Unreachable, Cause::Unreachable, retry_after);
                self.why = Some(why);
            }
        }
        None
    }

    /// Handles that the source has forgotten the versions after the position, or the rest of a
    /// list.
    fn expired(&mut self, now: i64) -> Option<Commit> {
        let position = self.position.clone()?;
        if position.version.is_none() {
            // The list took too long. The next one may be faster.
            self.wait(now, State::Listing, Cause::Compacted, None);
            self.why = Some("the source forgot the version of the list".into());
            return None;
        }
        let cause = self.trouble.take().unwrap_or(Cause::Compacted);
        // Whatever a watch sent in that time, it does not help the next list.
        let lasted = self.listed_at.map(|at| now.saturating_sub(at));
        if lasted.is_some_and(|lasted| lasted < SETTLED) {
            let wait = self.relist.next(&mut self.random);
            self.wait(now, State::Listing, cause, Some(wait));
            self.why = Some("the source forgets what it has just listed".into());
        } else {
            self.relist.reset();
            self.list();
        }
        Some(Commit::of(Position {
            version: None,
            cause: Some(cause),
            complete_until: position.complete_until.min(now),
            ..position
        }))
    }

    fn wait(&mut self, now: i64, state: State, cause: Cause, at_least: Option<i64>) {
        self.trouble.get_or_insert(cause);
        self.repeats = true;
        self.state = state;
        let wait = self.retry.next(&mut self.random);
        let wait = wait.max(at_least.unwrap_or(0));
        self.phase = Phase::Waiting(now.saturating_add(wait));
    }

    /// Takes the position of a successful commit.
    pub(crate) fn committed(&mut self, position: Position) {
        self.went_back = false;
        self.position = Some(position);
        if std::mem::take(&mut self.unwritten) {
            self.enter(match self.phase {
                Phase::Watching => State::Watching,
                _ => State::Listing,
            });
        }
    }

    /// Takes a failed commit. Its events are read again from the stored position.
    pub(crate) fn not_committed(&mut self, now: i64, why: String) {
        self.wait(now, State::StorageFailed, Cause::Storage, None);
        self.unwritten = true;
        self.why = Some(why);
    }
}
