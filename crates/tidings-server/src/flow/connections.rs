//! Places for connections, and the choice of the connection that ends if no place is left.
//!
//! A connection is a *stranger* until a request on it has had valid credentials. Invariants:
//!
//! - The number of connections never exceeds the number of places. A connection that was told to
//!   end keeps its place until it has ended.
//! - Strangers may have at most nine tenths of the places, and so may connections with credentials.
//!   So idle strangers cannot shut out clients, and clients cannot shut out probes, which have no
//!   credentials.
//! - If no place is left, a new connection replaces a stranger of the peer with the most strangers:
//!   the oldest without an open request, or else the oldest. So strangers of one peer displace each
//!   other first. A connection with credentials is never ended for another one. If their places are
//!   all taken, a further connection with credentials stays a stranger.
//! - The same rules apply to the connections of one peer address, if these are limited.
//!
//! Other things that a peer's connections hold are counted here, too: the heads of its requests,
//! and its logins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::connection_counters::{ConnectionMetrics, Ending};

/// One in this many places is reserved for connections with credentials, and one for strangers.
const KEPT: usize = 10;

/// Maximum bytes of strangers' request heads, while their credentials are being checked.
const HEADS_BYTES_MAX: usize = 64 << 20;
/// Maximum of these bytes for one peer.
const PEER_HEADS_BYTES_MAX: usize = HEADS_BYTES_MAX / 4;

/// A peer: the [`network`] of a host.
type Peer = IpAddr;

/// The network of a host: the IPv4 address itself, or the /64 network of IPv6. A host can use all
/// addresses of such a network.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// The order in which strangers are ended: those without an open request first, then by age.
type Rank = (bool, u64);

/// The places for connections.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    /// Maximum connections with credentials, and also maximum strangers.
    kind_max: usize,
    /// Maximum connections of one peer; 0 means no limit.
    peer_max: usize,
    taken: Mutex<Taken>,
    /// Notifies that a place is free.
    left: Notify,
    pub(crate) metrics: ConnectionMetrics,
}

#[derive(Debug, Default)]
struct Taken {
    /// The number of the next new connection.
    next: u64,
    /// Number of connections with credentials.
    authenticated: usize,
    /// Connections without credentials.
    strangers: BTreeMap<Rank, Arc<Visitor>>,
    /// Peers with strangers, sorted by the number of their strangers, then by rank. The stranger of
    /// the last one is ended next.
    crowds: BTreeSet<(usize, Reverse<Rank>)>,
    /// Number of connections that were told to end and still hold their places.
    leaving: usize,
    /// Bytes of strangers' request heads whose credentials are being checked.
    heads: usize,
    peers: HashMap<Peer, OfPeer>,
}

#[derive(Debug, Default)]
struct OfPeer {
    /// Number of all connections of the peer.
    count: usize,
    strangers: BTreeSet<Rank>,
    leaving: usize,
    heads: usize,
    /// Number of logins to the timeline that are not answered.
    logins: usize,
}

enum Entry {
    Admitted(Arc<Visitor>),
    /// A place will be free: a connection was told to end.
    Wait,
    /// Connections with credentials hold all of the peer's places.
    Refused,
}

impl Connections {
    /// `max` places, of which one peer may have `peer_max`; 0 means no limit for a peer.
    pub(crate) fn new(max: usize, peer_max: usize) -> Self {
        let max = max.max(1);
        let kept = max.div_ceil(KEPT).min(max - 1);
        Self {
            max,
            kind_max: max - kept,
            peer_max,
            taken: Mutex::default(),
            left: Notify::new(),
            metrics: ConnectionMetrics::default(),
        }
    }

    /// Waits for a place, which is free once a connection that was told to end has ended. `None` if
    /// the peer has too many connections already.
    pub(crate) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = network(address);
        loop {
            // Registered before the check, so that no notification is missed.
            let left = self.left.notified();
            let entry = self.try_enter(peer);
            match entry {
                Entry::Admitted(visitor) => return Some(Place(visitor)),
                Entry::Wait => left.await,
                Entry::Refused => {
                    self.metrics.ended(Ending::PeerLimit);
                    return None;
                }
            }
        }
    }

    fn try_enter(self: &Arc<Self>, peer: Peer) -> Entry {
        let mut taken = self.taken.lock();
        let taken = &mut *taken;
        if let Some(of_peer) = taken.peers.get(&peer)
            && self.peer_max > 0
            && of_peer.count >= self.peer_max
        {
            let oldest = of_peer.strangers.first().copied();
            return match (of_peer.leaving, oldest) {
                (0, None) => Entry::Refused,
                (0, Some(rank)) => {
                    taken.end(rank);
                    Entry::Wait
                }
                _ => Entry::Wait,
            };
        }
        let strangers = taken.strangers.len() + taken.leaving;
        if strangers >= self.kind_max || strangers + taken.authenticated >= self.max {
            if taken.leaving == 0
                && let Some(&(_, Reverse(rank))) = taken.crowds.last()
            {
                taken.end(rank);
            }
            return Entry::Wait;
        }
        let visitor = Arc::new(Visitor {
            number: taken.next,
            peer,
            connections: Arc::clone(self),
            authenticated: AtomicBool::new(false),
            unproven: AtomicUsize::new(0),
            placed: AtomicBool::new(false),
            leave: Notify::new(),
        });
        taken.next += 1;
        taken.peers.entry(peer).or_default().count += 1;
        taken.insert((false, visitor.number), &visitor);
        Entry::Admitted(visitor)
    }

    /// The number of connections with and without credentials.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let taken = self.taken.lock();
        (taken.authenticated, taken.strangers.len() + taken.leaving)
    }
}

impl OfPeer {
    /// The peer's number of strangers, and the rank of the first one to end.
    fn crowd(&self) -> Option<(usize, Reverse<Rank>)> {
        let first = self.strangers.first()?;
        Some((self.strangers.len(), Reverse(*first)))
    }
}

impl Taken {
    /// Changes the strangers of a peer, and its position among the crowds.
    fn change(&mut self, peer: Peer, change: impl FnOnce(&mut BTreeSet<Rank>) -> bool) {
        if let Some(of_peer) = self.peers.get_mut(&peer) {
            if let Some(before) = of_peer.crowd() {
                self.crowds.remove(&before);
            }
            change(&mut of_peer.strangers);
            self.crowds.extend(of_peer.crowd());
        }
    }

    fn insert(&mut self, rank: Rank, visitor: &Arc<Visitor>) {
        self.change(visitor.peer, |strangers| strangers.insert(rank));
        self.strangers.insert(rank, Arc::clone(visitor));
    }

    fn remove(&mut self, rank: Rank) -> Option<Arc<Visitor>> {
        let visitor = self.strangers.remove(&rank)?;
        self.change(visitor.peer, |strangers| strangers.remove(&rank));
        Some(visitor)
    }

    /// Removes a connection from the strangers, whatever its rank. `None` if it is not a stranger.
    fn take(&mut self, number: u64) -> Option<Arc<Visitor>> {
        self.remove((false, number))
            .or_else(|| self.remove((true, number)))
    }

    /// Forgets a peer without connections, heads and logins.
    fn tidy(&mut self, peer: Peer) {
        let nothing = |of_peer: &OfPeer| of_peer.count + of_peer.heads + of_peer.logins == 0;
        if self.peers.get(&peer).is_some_and(nothing) {
            self.peers.remove(&peer);
        }
    }

    /// Tells a stranger to end.
    fn end(&mut self, rank: Rank) {
        if let Some(visitor) = self.remove(rank) {
            self.leaving += 1;
            if let Some(of_peer) = self.peers.get_mut(&visitor.peer) {
                of_peer.leaving += 1;
            }
            visitor.leave.notify_one();
        }
    }
}

/// A connection's place, which is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Visitor>);

impl Place {
    pub(crate) fn visitor(&self) -> &Arc<Visitor> {
        &self.0
    }

    /// Resolves when the place is needed for another connection.
    pub(crate) async fn needed(&self) {
        self.0.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let visitor = &self.0;
        {
            let mut taken = visitor.connections.taken.lock();
            // From now on it counts as neither client nor stranger, whatever credentials its
            // requests have.
            let placed = visitor.placed.swap(false, Ordering::Relaxed);
            let was_leaving = !placed && taken.take(visitor.number).is_none();
            taken.authenticated -= usize::from(placed);
            taken.leaving -= usize::from(was_leaving);
            if let Some(of_peer) = taken.peers.get_mut(&visitor.peer) {
                of_peer.leaving -= usize::from(was_leaving);
                of_peer.count -= 1;
            }
            taken.tidy(visitor.peer);
        }
        visitor.connections.left.notify_waiters();
    }
}

/// A connection, as its place sees it. It may outlive the place, in requests that outlive their
/// connection.
#[derive(Debug)]
pub(crate) struct Visitor {
    number: u64,
    peer: Peer,
    connections: Arc<Connections>,
    /// Whether a request has had valid credentials.
    authenticated: AtomicBool,
    /// Number of requests begun since the last valid credentials.
    unproven: AtomicUsize,
    /// Whether it has a place for connections with credentials. Written under the lock of `Taken`.
    placed: AtomicBool,
    leave: Notify,
}

impl Visitor {
    /// Records that a request on the connection had valid credentials. From now on the connection
    /// is not ended for others, if a place for connections with credentials is left. Otherwise a
    /// later request tries again.
    pub(crate) fn authenticate(&self) {
        self.authenticated.store(true, Ordering::Relaxed);
        self.unproven.store(0, Ordering::Relaxed);
        if self.placed.load(Ordering::Relaxed) {
            return;
        }
        let mut taken = self.connections.taken.lock();
        if taken.authenticated < self.connections.kind_max && taken.take(self.number).is_some() {
            taken.authenticated += 1;
            self.placed.store(true, Ordering::Relaxed);
        }
    }

    /// Records that a request had invalid credentials, so the connection is a stranger again.
    pub(crate) fn forget(self: &Arc<Self>) {
        if !self.authenticated.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut taken = self.connections.taken.lock();
        if self.placed.swap(false, Ordering::Relaxed) {
            taken.authenticated -= 1;
            taken.insert((true, self.number), self);
        }
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// Counts a new request. Returns the number of requests since the last valid credentials.
    pub(crate) fn begin_unproven(&self) -> usize {
        self.unproven
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    /// Reserves memory for a request's head while its credentials are checked. `None` if the heads
    /// of all strangers, or of this peer, take too much. A connection with valid credentials always
    /// gets it.
    pub(crate) fn room_for_head(self: &Arc<Self>, bytes: usize) -> Option<HeadRoom> {
        let mut room = HeadRoom {
            visitor: Arc::clone(self),
            bytes: 0,
        };
        if self.is_authenticated() {
            return Some(room);
        }
        let mut taken = self.connections.taken.lock();
        let all = taken.heads.saturating_add(bytes);
        let of_peer = taken.peers.get(&self.peer).map_or(0, |peer| peer.heads);
        let of_peer = of_peer.saturating_add(bytes);
        if all > HEADS_BYTES_MAX || of_peer > PEER_HEADS_BYTES_MAX {
            return None;
        }
        taken.heads = all;
        // The connection may have ended already, and its peer may be forgotten.
        taken.peers.entry(self.peer).or_default().heads = of_peer;
        room.bytes = bytes;
        Some(room)
    }

    /// Counts a login for this peer, with whatever credentials the connection has. `None` if the
    /// peer has `max` logins already.
    pub(crate) fn begin_login(self: &Arc<Self>, max: usize) -> Option<LoginShare> {
        let mut taken = self.connections.taken.lock();
        let of_peer = taken.peers.get(&self.peer).map_or(0, |peer| peer.logins);
        if of_peer >= max {
            return None;
        }
        // The connection may have ended already, and its peer may be forgotten.
        taken.peers.entry(self.peer).or_default().logins = of_peer + 1;
        Some(LoginShare(Arc::clone(self)))
    }

    /// Sets whether the connection has an open request. Calls for one connection must not overlap.
    pub(crate) fn set_busy(&self, busy: bool) {
        if self.placed.load(Ordering::Relaxed) {
            return;
        }
        let mut taken = self.connections.taken.lock();
        if let Some(visitor) = taken.remove((!busy, self.number)) {
            taken.insert((busy, self.number), &visitor);
        }
    }
}

/// The reserved memory of a request's head, released when dropped.
#[derive(Debug)]
pub(crate) struct HeadRoom {
    visitor: Arc<Visitor>,
    bytes: usize,
}

impl Drop for HeadRoom {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.visitor.connections.taken.lock();
        taken.heads -= self.bytes;
        if let Some(of_peer) = taken.peers.get_mut(&self.visitor.peer) {
            of_peer.heads -= self.bytes;
        }
        taken.tidy(self.visitor.peer);
    }
}

/// A login that counts for its peer until this is dropped.
#[derive(Debug)]
pub(crate) struct LoginShare(Arc<Visitor>);

impl Drop for LoginShare {
    fn drop(&mut self) {
        let visitor = &self.0;
        let mut taken = visitor.connections.taken.lock();
        if let Some(of_peer) = taken.peers.get_mut(&visitor.peer) {
            of_peer.logins -= 1;
        }
        taken.tidy(visitor.peer);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";
    const C: &str = "10.0.0.3";

    struct Door(Arc<Connections>);

    impl Door {
        fn new(max: usize, peer_max: usize) -> Self {
            Self(Arc::new(Connections::new(max, peer_max)))
        }

        /// The result of a new connection's attempt to enter.
        fn enter(&self, address: &str) -> Result<Place, &'static str> {
            let address = address.parse().unwrap();
            match self.0.enter(address).now_or_never() {
                Some(Some(place)) => Ok(place),
                Some(None) => Err("refused"),
                None => Err("waits"),
            }
        }

        fn place(&self, address: &str) -> Place {
            self.enter(address).unwrap()
        }

        fn waits(&self, address: &str) -> bool {
            self.enter(address).err() == Some("waits")
        }
    }

    fn is_needed(place: &Place) -> bool {
        place.needed().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_idle_stranger_makes_room() {
        let door = Door::new(4, 0);
        let known = door.place(A);
        known.visitor().authenticate();
        let places = [door.place(A), door.place(A), door.place(B)];
        places[0].visitor().set_busy(true);
        assert!(door.waits(B), "a place has to be given back");
        // However often a connection asks, only one stranger makes room for it.
        assert!(door.waits(B));
        let needed = places.each_ref().map(is_needed);
        assert_eq!(needed, [false, true, false]);
        let [busy, second, third] = places;
        drop(second);
        let fourth = door.place(C);
        assert_eq!(door.0.counts(), (1, 3));

        // The request of the first connection has ended, so it is now the oldest idle one, and each
        // peer has one stranger.
        busy.visitor().set_busy(false);
        assert!(door.waits(B));
        let needed = [&busy, &third, &fourth, &known].map(is_needed);
        assert_eq!(needed, [true, false, false, false]);
        // A stranger that was told to end must end, whatever credentials it shows then.
        busy.visitor().authenticate();
        drop(busy);
        assert_eq!(door.0.counts(), (1, 2));
        let fifth = door.place(B);

        // If every stranger has an open request, the oldest one ends.
        for place in [&third, &fourth, &fifth] {
            place.visitor().set_busy(true);
        }
        assert!(door.waits(B));
        assert!(is_needed(&third));
        drop((known, third, fourth, fifth));
        assert_eq!(door.0.counts(), (0, 0));
        assert!(door.0.taken.lock().peers.is_empty());
    }

    #[test]
    fn the_peer_with_the_most_strangers_makes_room() {
        let door = Door::new(10, 0);
        // A client in the middle of its handshake, and older than all others.
        let genuine = door.place(B);
        let mut crowd: Vec<Place> = (0..8).map(|_| door.place(A)).collect();
        for place in &crowd {
            place.visitor().set_busy(true);
        }
        for _ in 0..100 {
            assert!(door.waits(A));
            let needed = crowd.iter().position(is_needed);
            crowd.remove(needed.expect("its own make room"));
            crowd.push(door.place(A));
            assert!(!is_needed(&genuine));
        }
        drop((genuine, crowd));
        assert!(door.0.taken.lock().crowds.is_empty());
    }

    #[test]
    fn credentials_that_are_no_good_any_more_make_a_stranger() {
        let door = Door::new(4, 0);
        let places = [door.place(A), door.place(B), door.place(C)];
        for place in &places {
            place.visitor().set_busy(true);
            place.visitor().authenticate();
        }
        let visitor = places[0].visitor();
        visitor.forget();
        assert!(!visitor.is_authenticated());
        assert_eq!(door.0.counts(), (2, 1));
        visitor.authenticate();
        assert_eq!(door.0.counts(), (3, 0));
        visitor.forget();
        visitor.forget();
        visitor.set_busy(false);
        let _fourth = door.place(A);
        assert!(door.waits(A) && is_needed(&places[0]));
        drop(places);
        assert_eq!(door.0.counts(), (0, 1));
    }

    /// Over HTTP/2, a request may be handled after its connection has ended.
    #[test]
    fn a_request_that_outlives_its_connection_changes_no_count() {
        for is_known in [false, true] {
            let door = Door::new(4, 0);
            let place = door.place(A);
            let visitor = Arc::clone(place.visitor());
            visitor.set_busy(true);
            if is_known {
                visitor.authenticate();
            }
            drop(place);
            visitor.forget();
            visitor.set_busy(false);
            visitor.authenticate();
            visitor.forget();
            visitor.set_busy(true);
            assert_eq!(door.0.counts(), (0, 0), "{is_known}");
            let taken = door.0.taken.lock();
            assert!(taken.strangers.is_empty() && taken.crowds.is_empty());
            assert!(taken.leaving == 0 && taken.peers.is_empty());
        }
    }

    #[test]
    fn each_kind_leaves_places_to_the_other() {
        let door = Door::new(20, 0);
        let strangers: Vec<Place> = (0..18).map(|_| door.place(A)).collect();
        assert!(door.waits(A), "two places are kept");
        drop(strangers);

        let client = || {
            let place = door.place(A);
            place.visitor().authenticate();
            assert!(place.visitor().is_authenticated());
            place
        };
        let clients: Vec<Place> = (0..18).map(|_| client()).collect();
        let more = [client(), client()];
        assert_eq!(door.0.counts(), (18, 2));
        assert!(door.waits(B));
        assert!(is_needed(&more[0]) && !clients.iter().any(is_needed));
        drop(more);
        let probe = door.place(B);
        drop(clients);
        probe.visitor().authenticate();
        assert_eq!(door.0.counts(), (1, 0));

        // A single place is open to connections of both kinds.
        let door = Door::new(1, 0);
        let only = door.place(A);
        only.visitor().authenticate();
        assert!(door.waits(A) && !is_needed(&only));
        drop(only);
        door.place(A);
    }

    #[test]
    fn heads_of_strangers_have_a_bound() {
        const HEAD: usize = 1 << 20;
        let door = Door::new(100, 0);
        let place = |peer: usize| door.place(&format!("10.0.0.{peer}"));
        let mut held = Vec::new();
        let mut fill = |peer| {
            let before = held.len();
            // Every head comes on a new connection: the bound is per peer.
            while let Some(room) = place(peer).visitor().room_for_head(HEAD) {
                held.push(room);
            }
            held.len() - before
        };
        let peers: Vec<usize> = (1..=5).map(&mut fill).collect();
        assert_eq!(peers, [16, 16, 16, 16, 0]);
        let known = place(6);
        known.visitor().authenticate();
        assert!(known.visitor().room_for_head(HEAD).is_some());
        held.pop();
        assert!(place(5).visitor().room_for_head(HEAD).is_some());
        drop((held, known));
        let taken = door.0.taken.lock();
        assert!(taken.heads == 0 && taken.peers.is_empty());
    }

    #[test]
    fn logins_of_a_peer_have_a_bound() {
        let door = Door::new(100, 0);
        // Each login begins on a new connection, which ends while the login still counts.
        let begin = |address: &str| {
            let place = door.place(address);
            place.visitor().begin_login(2)
        };
        let mut logins = [begin(A), begin(A)];
        assert!(logins.iter().all(Option::is_some));
        assert!(begin(A).is_none());
        assert!(begin(B).is_some());
        logins[0].take();
        assert!(begin(A).is_some());
        drop(logins);
        assert!(door.0.taken.lock().peers.is_empty());
    }

    #[test]
    fn a_peer_has_no_more_than_its_share() {
        for [first, same, other] in [
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"],
            ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"],
        ] {
            let door = Door::new(100, 2);
            let client = door.place(first);
            client.visitor().authenticate();
            let stranger = door.place(same);
            let elsewhere = door.place(other);
            assert!(door.waits(same));
            assert!(is_needed(&stranger) && !is_needed(&elsewhere));
            drop(stranger);
            let second = door.place(same);
            second.visitor().authenticate();
            assert_eq!(door.enter(first).err(), Some("refused"));
            drop(client);
            door.place(same);
        }
    }
}
