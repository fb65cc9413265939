//! Leases, shared by many records as in kube-apiserver (`lease_manager.go`).
//!
//! A lease lasts the requested time plus `min(60 s, 5 %)`. It serves further writes as long as its
//! remaining time covers them, at most [`ATTACHED_MAX`] writes. Then another lease is granted.
//! Leases are not kept alive.
//!
//! etcd lets the client choose the number of a lease, so ours contains the end of the lease. etcd
//! restarts every lease when its leader changes. The number stays, so later readers of a record
//! still know its true end.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{Client, LEASE_GRANT, signed};
use super::failure::Failure;
use super::wire;
use crate::UnixMillis;

/// Maximum writes per lease.
const ATTACHED_MAX: u32 = 1000;

/// Maximum leases kept for further writes. More than one helps only if records have different TTLs.
const OPEN_MAX: usize = 64;

/// The longest TTL that etcd grants, in seconds.
const TTL_MAX: i64 = 9_000_000_000;

// Layout of a lease number, from the top: a zero sign bit, 15 bits that mark it as ours, 34 bits of
// Unix seconds, 14 random bits.
const MARK: i64 = 0x2E77;
const END_BITS: u32 = 34;
const RANDOM_BITS: u32 = 14;

/// Makes the number of a lease that ends at this Unix second. It is 0 if the second does not fit in
/// 34 bits; etcd then chooses a number.
fn number(end: i64, random: u64) -> i64 {
    if end < 0 || end >> END_BITS != 0 {
        return 0;
    }
    let random = signed(random & ((1 << RANDOM_BITS) - 1));
    MARK << (END_BITS + RANDOM_BITS) | end << RANDOM_BITS | random
}

/// The end that a lease's number contains; `None` if the number is not one of ours.
pub(super) fn end_of(lease: i64) -> Option<UnixMillis> {
    if lease >> (END_BITS + RANDOM_BITS) != MARK {
        return None;
    }
    let end = (lease >> RANDOM_BITS) & ((1 << END_BITS) - 1);
    Some(UnixMillis(end * 1000))
}

/// A lease that can serve further writes.
struct Open {
    id: i64,
    /// End of the lease in Unix seconds, by the clock when it was granted.
    end: i64,
    /// The earliest monotonic time at which etcd can end the lease, even if the clock is set.
    until: Instant,
    attached: u32,
}

impl Open {
    /// Whether the lease fits a record that lives for `life`. The lease's end must be in the given
    /// range.
    fn serves(&self, (earliest, latest): (i64, i64), now: Instant, life: Duration) -> bool {
        self.attached < ATTACHED_MAX
            && (earliest..=latest).contains(&self.end)
            && self.until.saturating_duration_since(now) >= life
    }
}

/// The earliest and latest end, in Unix seconds, of a lease for a record.
fn bounds(now: UnixMillis, expires_at: UnixMillis, ttl_min: i64) -> (i64, i64) {
    let earliest = expires_at.0.saturating_add(999).div_euclid(1000);
    let now = now.0.div_euclid(1000);
    let ttl = earliest.saturating_sub(now).max(0);
    let latest = earliest
        .saturating_add((ttl / 20).min(60))
        .max(now.saturating_add(ttl_min));
    (earliest, latest)
}

/// The leases that this process has granted and can use again.
pub(super) struct Leases {
    open: Mutex<Vec<Open>>,
    ttl_min: i64,
}

impl Leases {
    pub(super) fn new(ttl_min: Duration) -> Self {
        Self {
            open: Mutex::default(),
            ttl_min: signed(ttl_min.as_secs()).max(1),
        }
    }

    /// Returns a lease that ends with the record or a little later. Most calls reuse a lease; the
    /// others wait for etcd to grant one.
    pub(super) async fn attach(
        &self,
        client: &Client,
        now: UnixMillis,
        expires_at: UnixMillis,
        deadline: Instant,
    ) -> Result<i64, Failure> {
        let (earliest, latest) = bounds(now, expires_at, self.ttl_min);
        let life = expires_at.0.saturating_sub(now.0).max(0).cast_unsigned();
        let life = Duration::from_millis(life);
        let mut open = self.open.lock().await;
        let asked_at = crate::clock::instant();
        if let Some(id) = reuse(&mut open, (earliest, latest), asked_at, life) {
            return Ok(id);
        }
        let ttl = latest
            .saturating_sub(now.0.div_euclid(1000))
            .clamp(1, TTL_MAX);
        let draw = || getrandom::u64().unwrap_or_default();
        let id = grant(client, latest, ttl, deadline, draw).await?;
        let ttl = Duration::from_secs(ttl.cast_unsigned());
        let until = asked_at.checked_add(ttl).unwrap_or(asked_at);
        open.retain(|lease| lease.attached < ATTACHED_MAX && lease.until > asked_at);
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push(Open {
            id,
            end: latest,
            until,
            attached: 1,
        });
        Ok(id)
    }

    /// Drops a lease that etcd does not know or no longer knows.
    pub(super) async fn forget(&self, id: i64) {
        self.open.lock().await.retain(|lease| lease.id != id);
    }
}

/// Attaches one more write to a lease that serves it, and returns the lease's number.
fn reuse(open: &mut [Open], bounds: (i64, i64), now: Instant, life: Duration) -> Option<i64> {
    let mut open = open.iter_mut();
    let lease = open.find(|lease| lease.serves(bounds, now, life))?;
    lease.attached += 1;
    Some(lease.id)
}

/// Grants a lease whose number has this end and a number from `draw`. Returns the lease's number.
pub(super) async fn grant(
    client: &Client,
    end: i64,
    ttl: i64,
    deadline: Instant,
    mut draw: impl FnMut() -> u64,
) -> Result<i64, Failure> {
    loop {
        let id = number(end, draw());
        let request = wire::LeaseGrantRequest { ttl, id };
        let answer: Result<wire::LeaseGrantResponse, _> =
            client.ask(LEASE_GRANT, request, deadline).await;
        match answer {
            Ok(answer) => return Ok(answer.id),
            // An earlier attempt was done after all, or another process has this number. Draw
            // another number; an unused lease ends by itself.
            Err(failure) if failure.says("lease already exists") => {}
            Err(failure) => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_says_when_its_lease_ends(end in 0..1_i64 << END_BITS, random: u64) {
            let number = number(end, random);
            prop_assert!(number > 0);
            prop_assert_eq!(end_of(number), Some(UnixMillis(end * 1000)));
        }

        #[test]
        fn a_lease_never_ends_before_its_record(
            now in 0..1_i64 << 42,
            ttl in 1..1_i64 << 42,
            ttl_min in 1..10_000_i64,
        ) {
            let expires_at = UnixMillis(now + ttl);
            let (earliest, latest) = bounds(UnixMillis(now), expires_at, ttl_min);
            prop_assert!(earliest * 1000 >= expires_at.0);
            prop_assert!(latest >= earliest);
            let slack = latest * 1000 - expires_at.0;
            prop_assert!(slack <= 61_000 || slack <= ttl_min * 1000, "{} s", slack / 1000);
        }
    }

    #[test]
    fn a_lease_granted_before_the_clock_was_set_back_is_too_short() {
        let granted = crate::clock::instant();
        let lease = Open {
            id: 1,
            end: 1_700_003_660,
            until: granted + Duration::from_secs(3660),
            attached: 1,
        };
        let bounds = (1_700_003_600, 1_700_003_660);
        let hour = Duration::from_secs(3600);
        assert!(lease.serves(bounds, granted, hour));
        let later = granted + Duration::from_secs(60);
        assert!(lease.serves(bounds, later, hour));
        // Ten minutes later the clock, which was set back, shows the same time again.
        let later = granted + Duration::from_secs(600);
        assert!(!lease.serves(bounds, later, hour));
    }

    #[test]
    fn a_lease_serves_a_thousand_writes() {
        let now = crate::clock::instant();
        let mut open = [Open {
            id: 7,
            end: 3660,
            until: now + Duration::from_secs(3660),
            attached: 1,
        }];
        let mut reuse = || reuse(&mut open, (3600, 3660), now, Duration::from_secs(3600));
        assert!((1..1000).all(|_| reuse() == Some(7)));
        assert_eq!(reuse(), None);
    }

    #[test]
    fn an_hour_asks_for_61_minutes_as_kube_apiserver_does() {
        let now = UnixMillis(1_700_000_000_000);
        let (earliest, latest) = bounds(now, UnixMillis(now.0 + 3_600_000), 5);
        assert_eq!(earliest - 1_700_000_000, 3600);
        assert_eq!(latest - 1_700_000_000, 3660);
    }

    #[test]
    fn numbers_etcd_drew_itself_are_not_taken_for_ours() {
        assert_eq!(end_of(0), None);
        assert_eq!(end_of(7_587_862_094_700_123_456), None);
        assert_eq!(number(1 << END_BITS, 1), 0);
        assert_eq!(number(-1, 1), 0);
    }
}
