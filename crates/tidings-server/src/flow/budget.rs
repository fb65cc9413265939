//! The memory budget of answers, from before they are read until their last byte is sent.
//!
//! A request takes a share before it reads: the most that it may hold. It gives parts of the share
//! back as it learns that it needs less. It gives back the rest when the last byte of its answer
//! was handed to the system, or its client has disconnected. Invariants:
//!
//! - The shares of a pool never exceed the pool.
//! - A request that waits for a share holds none, so requests cannot block each other for ever. A
//!   request that needs more than it has gives its share back first, and reads again.
//! - Waiting requests are served in order of arrival, for a bounded time. The queue is bounded,
//!   too.
//! - Each user's shares of a pool are bounded. A further request waits for that user's other
//!   requests.
//!
//! There are several pools, so that large answers and clients that do not read delay no small
//! answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::metrics::{Counters, Label, Text};

/// The unit of shares, in bytes.
const UNIT: usize = 1024;

/// The pools of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// Answers that are usually small: one event, the first page of a list.
    Small,
    /// Large answers: long lists, archive exports, pending versions. Also long bodies.
    Large,
    /// Views and exports of the timeline.
    Views,
    /// Messages of watches and live streams. Their clients may be slow for hours.
    Streams,
}

impl Pool {
    const ALL: [Self; 4] = [Self::Small, Self::Large, Self::Views, Self::Streams];

    fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Views => "views",
            Self::Streams => "streams",
        }
    }

    /// Maximum bytes of all shares of the pool together.
    pub(crate) fn bytes_max(self) -> usize {
        match self {
            Self::Small | Self::Large => 36 << 20,
            Self::Views => 72 << 20,
            Self::Streams => 32 << 20,
        }
    }

    /// Maximum bytes of one user's shares of the pool together. It leaves room for a share of
    /// another user. A larger share is the user's only one.
    pub(crate) fn user_bytes_max(self) -> usize {
        match self {
            Self::Small => 18 << 20,
            // Two views, or one with a page beside it. They leave room for a view of another user.
            Self::Views => 48 << 20,
            Self::Large | Self::Streams => 24 << 20,
        }
    }
}

/// The reason why a request got no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The queue has its maximum of waiting requests.
    QueueFull,
    TimeOut,
}

impl NoRoom {
    fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// The state of one pool.
#[derive(Debug)]
struct Room {
    free: Arc<Semaphore>,
    /// Units of all shares of the pool together.
    units: usize,
    waiting: AtomicUsize,
    waiting_units: AtomicUsize,
    waiting_max: usize,
}

/// The memory budget; see the module documentation.
#[derive(Debug)]
pub(crate) struct Budget {
    rooms: [Room; 4],
    /// The users who hold a share or wait for one, by name.
    users: Mutex<HashMap<Box<str>, Weak<Parts>>>,
    wait: Duration,
    refused: Counters<[Label; 2]>,
}

impl Budget {
    /// A budget with at most `waiting_max` waiting requests for each pool, for `wait` at most.
    pub(crate) fn new(waiting_max: usize, wait: Duration) -> Self {
        let room = |pool: Pool| Room {
            free: Arc::new(Semaphore::new(pool.bytes_max() / UNIT)),
            units: pool.bytes_max() / UNIT,
            waiting: AtomicUsize::new(0),
            waiting_units: AtomicUsize::new(0),
            waiting_max: match pool {
                // As many as there are connections, because each waits only with its own stream.
                Pool::Streams => usize::MAX,
                Pool::Small | Pool::Large | Pool::Views => waiting_max,
            },
        };
        let refused = Counters::new(
            "tidings_answer_memory_refused_total",
            "Answers that got no memory, by reason.",
        );
        // All series are created here, so that each exists before its first count.
        for pool in Pool::ALL {
            for why in [NoRoom::QueueFull, NoRoom::TimeOut] {
                refused.of([("pool", pool.name()), ("reason", why.name())]);
            }
        }
        Self {
            rooms: Pool::ALL.map(room),
            users: Mutex::default(),
            wait,
            refused,
        }
    }

    fn room(&self, pool: Pool) -> &Room {
        of_pool(&self.rooms, pool)
    }

    /// The parts of the pools that a user may hold.
    pub(crate) fn parts_of(&self, user: &str) -> Arc<Parts> {
        let mut users = self.users.lock();
        if let Some(parts) = users.get(user).and_then(Weak::upgrade) {
            return parts;
        }
        // Removes users who hold nothing. Done when the map is full, so each removal is paid for by
        // an insertion.
        if users.len() == users.capacity() {
            users.retain(|_, parts| parts.strong_count() > 0);
        }
        let parts = Arc::new(Parts::default());
        users.insert(user.into(), Arc::downgrade(&parts));
        parts
    }

    /// Takes a share for a user, or waits for it. A share is no larger than its pool. Dropping the
    /// future leaves the queue.
    ///
    /// # Errors
    ///
    /// The queue is full, or the wait was too long.
    pub(crate) async fn take(
        &self,
        pool: Pool,
        bytes: usize,
        user: &Arc<Parts>,
    ) -> Result<Share, NoRoom> {
        if let Some(share) = self.try_take(pool, bytes, user) {
            return Ok(share);
        }
        let taken = self.wait(pool, bytes, user).await;
        taken.inspect_err(|why| {
            let labels = [("pool", pool.name()), ("reason", why.name())];
            self.refused.of(labels).add(1);
        })
    }

    async fn wait(&self, pool: Pool, bytes: usize, user: &Arc<Parts>) -> Result<Share, NoRoom> {
        let room = self.room(pool);
        let units = room.units_of(bytes);
        let _waiting = Waiting::begin(room, units as usize)?;
        let acquired = async {
            // First within the user's part: only requests of different users then wait for each
            // other in the pool.
            let part = Arc::clone(user.free(pool)).acquire_many_owned(part_of(pool, units));
            let part = part.await?;
            let permit = Arc::clone(&room.free).acquire_many_owned(units).await?;
            Ok::<_, AcquireError>((permit, part))
        };
        match tokio::time::timeout(self.wait, acquired).await {
            Ok(Ok((permit, part))) => Ok(Share::new(permit, part, user)),
            // The semaphores are never closed.
            Ok(Err(_)) | Err(_) => Err(NoRoom::TimeOut),
        }
    }

    /// Takes a share if it is free at once and no other request waits for it.
    pub(crate) fn try_take(&self, pool: Pool, bytes: usize, user: &Arc<Parts>) -> Option<Share> {
        let room = self.room(pool);
        let units = room.units_of(bytes);
        // While requests wait, this cannot succeed, because the first of them gets all that is
        // released.
        let part = Arc::clone(user.free(pool)).try_acquire_many_owned(part_of(pool, units));
        let part = part.ok()?;
        let permit = Arc::clone(&room.free).try_acquire_many_owned(units).ok()?;
        Some(Share::new(permit, part, user))
    }

    /// Appends the metrics.
    pub(crate) fn write(&self, text: &mut Text) {
        type Units<'a> = &'a dyn Fn(&Room) -> usize;
        let held = |room: &Room| room.units - room.free.available_permits().min(room.units);
        let waiting = |room: &Room| room.waiting_units.load(Ordering::Relaxed);
        let gauges: [(&str, &str, Units<'_>); 3] = [
            (
                "tidings_answer_memory_held_bytes",
                "Memory reserved for answers that are being made or sent.",
                &held,
            ),
            (
                "tidings_answer_memory_waiting_bytes",
                "Memory that waiting requests need for their answers.",
                &waiting,
            ),
            (
                "tidings_answer_memory_limit_bytes",
                "Maximum memory reserved for answers.",
                &|room| room.units,
            ),
        ];
        for (name, help, units) in gauges {
            text.metric(name, "gauge", help);
            for pool in Pool::ALL {
                let bytes = units(self.room(pool)) * UNIT;
                text.sample(name, &[("pool", pool.name())], bytes);
            }
        }
        text.family(&self.refused);
    }
}

impl Room {
    /// The number of units in a share of this many bytes.
    fn units_of(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT).clamp(1, self.units);
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

/// A request in the queue.
struct Waiting<'a> {
    room: &'a Room,
    units: usize,
}

impl<'a> Waiting<'a> {
    fn begin(room: &'a Room, units: usize) -> Result<Self, NoRoom> {
        let more = |waiting| (waiting < room.waiting_max).then_some(waiting + 1);
        let entered = (room.waiting).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.map_err(|_| NoRoom::QueueFull)?;
        room.waiting_units.fetch_add(units, Ordering::Relaxed);
        Ok(Self { room, units })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.room.waiting.fetch_sub(1, Ordering::Relaxed);
        self.room
            .waiting_units
            .fetch_sub(self.units, Ordering::Relaxed);
    }
}

fn of_pool<T>([small, large, views, streams]: &[T; 4], pool: Pool) -> &T {
    match pool {
        Pool::Small => small,
        Pool::Large => large,
        Pool::Views => views,
        Pool::Streams => streams,
    }
}

/// The free units of a user's part of each pool.
#[derive(Debug)]
pub(crate) struct Parts([Arc<Semaphore>; 4]);

impl Default for Parts {
    fn default() -> Self {
        let part = |pool: Pool| Arc::new(Semaphore::new(pool.user_bytes_max() / UNIT));
        Self(Pool::ALL.map(part))
    }
}

impl Parts {
    fn free(&self, pool: Pool) -> &Arc<Semaphore> {
        of_pool(&self.0, pool)
    }
}

/// The units of a user's part that a share takes, at most the whole part.
fn part_of(pool: Pool, units: u32) -> u32 {
    let max = pool.user_bytes_max() / UNIT;
    units.min(u32::try_from(max).unwrap_or(u32::MAX))
}

/// A share of a pool. It is returned to the pool when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of_pool: OwnedSemaphorePermit,
    of_user: OwnedSemaphorePermit,
    user: Arc<Parts>,
}

impl Share {
    fn new(
        of_pool: OwnedSemaphorePermit,
        of_user: OwnedSemaphorePermit,
        user: &Arc<Parts>,
    ) -> Self {
        let user = Arc::clone(user);
        Self {
            of_pool,
            of_user,
            user,
        }
    }

    /// Returns all but these bytes to the pool.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        for permit in [&mut self.of_pool, &mut self.of_user] {
            let surplus = permit.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(permit.split(surplus));
        }
    }

    /// Wraps bytes so that they hold the share until they are sent.
    pub(crate) fn of(mut self, bytes: Bytes) -> Bytes {
        self.shrink(bytes.len());
        Bytes::from_owner(Owned { bytes, _by: self })
    }
}

/// Bytes together with a value that is released with them.
struct Owned<T> {
    bytes: Bytes,
    _by: T,
}

impl<T> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The share of one request. All parts of its answer hold it together.
#[derive(Clone, Debug)]
pub(crate) struct Held(Option<Arc<Holding>>);

#[derive(Debug)]
struct Holding {
    budget: Arc<Budget>,
    user: Arc<Parts>,
    share: Mutex<Option<Share>>,
    /// Bytes of the answer that were made and are not sent yet.
    unsent: AtomicUsize,
    /// Whether the answer is complete, so that no more bytes are made.
    is_made: AtomicBool,
}

impl Holding {
    /// Once the answer is complete, reduces the share to the bytes not sent yet.
    fn shrink_to_unsent(&self) {
        if self.is_made.load(Ordering::Acquire)
            && let Some(share) = &mut *self.share.lock()
        {
            share.shrink(self.unsent.load(Ordering::Acquire));
        }
    }
}

/// Bytes of an answer, which hold its share together with the others.
struct Unsent {
    bytes: Bytes,
    held: Arc<Holding>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let len = self.bytes.len();
        drop(std::mem::take(&mut self.bytes));
        self.held.unsent.fetch_sub(len, Ordering::AcqRel);
        self.held.shrink_to_unsent();
    }
}

impl Held {
    /// The share of a request whose memory is not counted.
    pub(crate) const NOTHING: Self = Self(None);

    pub(crate) fn new(budget: &Arc<Budget>, share: Share) -> Self {
        Self(Some(Arc::new(Holding {
            budget: Arc::clone(budget),
            user: Arc::clone(&share.user),
            share: Mutex::new(Some(share)),
            unsent: AtomicUsize::new(0),
            is_made: AtomicBool::new(false),
        })))
    }

    /// Records that the answer is complete or aborted. From now on it holds only the bytes that its
    /// client has not read, however long that takes.
    pub(crate) fn made(&self) {
        if let Some(held) = &self.0 {
            held.is_made.store(true, Ordering::Release);
            held.shrink_to_unsent();
        }
    }

    /// Returns all but these bytes to the pool.
    pub(crate) fn shrink(&self, bytes: usize) {
        let Some(held) = &self.0 else { return };
        if let Some(share) = &mut *held.share.lock() {
            share.shrink(bytes);
        }
    }

    /// Changes to another share if it is free at once. Returns whether it was.
    pub(crate) fn try_exchange(&self, pool: Pool, bytes: usize) -> bool {
        let Some(held) = &self.0 else { return true };
        let Some(share) = held.budget.try_take(pool, bytes, &held.user) else {
            return false;
        };
        *held.share.lock() = Some(share);
        true
    }

    /// Gives the share back, and waits for another one. The caller must first drop what the request
    /// holds in memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Budget::take`].
    pub(crate) async fn exchange(&self, pool: Pool, bytes: usize) -> Result<(), NoRoom> {
        let Some(held) = &self.0 else { return Ok(()) };
        drop(held.share.lock().take());
        let share = held.budget.take(pool, bytes, &held.user).await?;
        *held.share.lock() = Some(share);
        Ok(())
    }

    /// Wraps bytes so that they hold the share, together with others, until they are sent.
    pub(crate) fn of(&self, bytes: Bytes) -> Bytes {
        match &self.0 {
            Some(held) => {
                held.unsent.fetch_add(bytes.len(), Ordering::AcqRel);
                let held = Arc::clone(held);
                Bytes::from_owner(Unsent { bytes, held })
            }
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use proptest::prelude::*;
    use tokio::runtime::Builder;

    use super::*;

    const MIB: usize = 1 << 20;
    const WAIT: Duration = Duration::from_secs(15);
    const WAITING_MAX: usize = 4;

    fn budget() -> Arc<Budget> {
        Arc::new(Budget::new(WAITING_MAX, WAIT))
    }

    fn free(budget: &Budget, pool: Pool) -> usize {
        budget.room(pool).free.available_permits() * UNIT
    }

    type Taking = BoxFuture<'static, Result<Share, NoRoom>>;

    fn take(budget: &Arc<Budget>, pool: Pool, bytes: usize, user: &str) -> Taking {
        let (budget, user) = (Arc::clone(budget), budget.parts_of(user));
        async move { budget.take(pool, bytes, &user).await }.boxed()
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A request of a user begins.
        Take(Pool, usize, &'static str),
        /// A request learns that it needs less memory.
        Shrink(usize, usize),
        /// A request is answered.
        GiveBack(usize),
        /// A waiting request is dropped, because its client is gone.
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let pool = prop::sample::select(Pool::ALL.to_vec());
        prop_oneof![
            3 => (pool, 0..120 * MIB, prop::sample::select(vec!["ann", "bob", "eve"]))
                .prop_map(|(pool, bytes, user)| Step::Take(pool, bytes, user)),
            1 => (any::<usize>(), 0..20 * MIB).prop_map(|(at, bytes)| Step::Shrink(at, bytes)),
            2 => any::<usize>().prop_map(Step::GiveBack),
            1 => any::<usize>().prop_map(Step::Leave),
        ]
    }

    type Of = (Pool, &'static str);

    /// Polls all waiting requests in order of arrival. Of those of one pool and user, the first get
    /// their shares.
    fn poll(waiting: &mut Vec<(Of, Taking)>, held: &mut Vec<(Of, Share)>) {
        let mut blocked = Vec::new();
        for (of, mut taking) in std::mem::take(waiting) {
            match (&mut taking).now_or_never() {
                Some(Ok(share)) => {
                    assert!(!blocked.contains(&of), "a later request was first");
                    held.push((of, share));
                }
                Some(Err(why)) => assert_eq!(why, NoRoom::QueueFull),
                None => {
                    blocked.push(of);
                    waiting.push((of, taking));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn shares_never_exceed_their_pool_and_all_is_given_back(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let runtime = Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            let _entered = runtime.enter();
            let budget = budget();
            let mut held: Vec<(Of, Share)> = Vec::new();
            let mut waiting: Vec<(Of, Taking)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(pool, bytes, user) => {
                        waiting.push(((pool, user), take(&budget, pool, bytes, user)));
                    }
                    Step::Shrink(at, bytes) => {
                        let count = held.len().max(1);
                        if let Some((_, share)) = held.get_mut(at % count) {
                            share.shrink(bytes);
                        }
                    }
                    Step::GiveBack(at) if !held.is_empty() => drop(held.remove(at % held.len())),
                    Step::Leave(at) if !waiting.is_empty() => {
                        drop(waiting.remove(at % waiting.len()));
                    }
                    Step::GiveBack(_) | Step::Leave(_) => {}
                }
                poll(&mut waiting, &mut held);
                for pool in Pool::ALL {
                    let units = |share: &Share| share.of_pool.num_permits() * UNIT;
                    let of_pool = |it: &&(Of, Share)| it.0.0 == pool;
                    let shares = || held.iter().filter(of_pool);
                    let sum: usize = shares().map(|(_, share)| units(share)).sum();
                    prop_assert!(sum + free(&budget, pool) <= pool.bytes_max());
                    for user in ["ann", "bob", "eve"] {
                        let own: Vec<_> = shares().filter(|it| it.0.1 == user).collect();
                        let sum: usize = own.iter().map(|(_, share)| units(share)).sum();
                        prop_assert!(own.len() < 2 || sum <= pool.user_bytes_max());
                    }
                    let waits = waiting.iter().filter(|it| it.0.0 == pool).count();
                    prop_assert!(pool == Pool::Streams || waits <= WAITING_MAX);
                    // No request waits beside an empty pool.
                    prop_assert!(sum > 0 || waits == 0);
                }
            }
            // No request waits for longer: it gets its share when those before it have left, or it
            // times out.
            runtime.block_on(tokio::time::sleep(WAIT * 2));
            for (of, taking) in waiting {
                match taking.now_or_never().unwrap() {
                    Ok(share) => held.push((of, share)),
                    Err(why) => prop_assert_eq!(why, NoRoom::TimeOut),
                }
            }
            drop(held);
            for pool in Pool::ALL {
                prop_assert_eq!(free(&budget, pool), pool.bytes_max());
                let room = budget.room(pool);
                prop_assert_eq!(room.waiting_units.load(Ordering::Relaxed), 0);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn small_answers_do_not_wait_for_large_ones_and_clients_that_do_not_read() {
        let budget = budget();
        let mut all = Vec::new();
        for pool in [Pool::Large, Pool::Streams] {
            all.push(take(&budget, pool, usize::MAX, "ann").await.unwrap());
        }
        let mut waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| take(&budget, Pool::Large, MIB, "bob"))
            .collect();
        for taking in &mut waiting {
            assert!(taking.now_or_never().is_none());
        }
        let refused = take(&budget, Pool::Large, MIB, "bob").now_or_never();
        assert_eq!(refused.unwrap().unwrap_err(), NoRoom::QueueFull);
        let eve = budget.parts_of("eve");
        assert!(budget.try_take(Pool::Large, 0, &eve).is_none());
        let small = take(&budget, Pool::Small, MIB, "ann").now_or_never();
        assert!(small.unwrap().is_ok());
        drop(all);
        for taking in waiting {
            assert!(taking.now_or_never().unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_hold_the_share_until_the_last_of_them_is_dropped() {
        let budget = budget();
        let all = Pool::Large.bytes_max();
        let share = take(&budget, Pool::Large, 9 * MIB, "ann").await.unwrap();
        let held = Held::new(&budget, share);
        held.shrink(MIB);
        assert_eq!(free(&budget, Pool::Large), all - MIB);
        let bytes = held.of(Bytes::from_static(b"an event"));
        drop(held);
        let part = bytes.slice(3..);
        drop(bytes);
        assert_eq!(free(&budget, Pool::Large), all - MIB);
        assert_eq!(part, "event");
        drop(part);
        assert_eq!(free(&budget, Pool::Large), all);
        let share = take(&budget, Pool::Streams, MIB, "ann").await.unwrap();
        let message = share.of(Bytes::from_static(b"an event"));
        let all = Pool::Streams.bytes_max();
        assert_eq!(free(&budget, Pool::Streams), all - UNIT);
        drop(message);
        assert_eq!(free(&budget, Pool::Streams), all);
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_more_gives_back_what_it_has_first() {
        let budget = budget();
        let all = Pool::Small.bytes_max();
        let mut both = Vec::new();
        for user in ["ann", "bob"] {
            let share = take(&budget, Pool::Small, all / 2, user).await.unwrap();
            both.push(Held::new(&budget, share));
        }
        // Each needs the whole pool, so they get it one after the other.
        let exchanges = both.into_iter().map(|held| async move {
            let exchanged = held.exchange(Pool::Small, all).await;
            exchanged.map(|()| drop(held))
        });
        let exchanged = futures::future::try_join_all(exchanges).await;
        assert_eq!(exchanged, Ok(vec![(), ()]));
        assert_eq!(free(&budget, Pool::Small), all);
    }

    /// Without a bound for each user, no other user's request could be answered.
    #[tokio::test(start_paused = true)]
    async fn a_user_whose_answers_are_not_read_leaves_room_for_others() {
        let budget = budget();
        for pool in Pool::ALL {
            let mut held = Vec::new();
            while let Some(Ok(share)) = take(&budget, pool, MIB, "eve").now_or_never() {
                held.push(share);
            }
            assert_eq!(held.len() * MIB, pool.user_bytes_max());
            let mut waits = take(&budget, pool, MIB, "eve");
            assert!((&mut waits).now_or_never().is_none());
            let other = take(
                &budget,
                pool,
                pool.bytes_max() - pool.user_bytes_max(),
                "ann",
            );
            assert!(other.now_or_never().unwrap().is_ok());
            held.pop();
            assert!(waits.now_or_never().unwrap().is_ok());
        }
        // Users who hold nothing are forgotten.
        for number in 0..10_000 {
            budget.parts_of(&number.to_string());
        }
        assert!(budget.users.lock().len() < 100);
    }

    /// Formerly the last chunk held the rest of the share, for as long as its client did not read
    /// it.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_made_holds_what_is_not_sent() {
        let budget = budget();
        let all = Pool::Views.bytes_max();
        let share = take(&budget, Pool::Views, 16 * MIB, "ann").await.unwrap();
        let held = Held::new(&budget, share);
        let mut chunks: Vec<_> = (1..=3)
            .map(|kib| held.of(Bytes::from(vec![b'x'; kib * UNIT])))
            .collect();
        chunks.remove(0);
        assert_eq!(free(&budget, Pool::Views), all - 16 * MIB);
        held.made();
        assert_eq!(free(&budget, Pool::Views), all - 5 * UNIT);
        drop(held);
        chunks.remove(0);
        assert_eq!(free(&budget, Pool::Views), all - 3 * UNIT);
        drop(chunks);
        assert_eq!(free(&budget, Pool::Views), all);
    }
}
