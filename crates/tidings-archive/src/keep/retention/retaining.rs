//! The task that applies the policy of retention and the quota of a followed cluster.
//!
//! Invariant: a policy that would end a large part of everything is logged with its numbers, and is
//! applied only after [`HOLD`], so that a mistake in a file can be undone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_history::{HeldRules, Outlook};
use tidings_store::{Fault, UnixMillis, WriteError};
use tokio::sync::watch;

use super::quota::Quota;
use super::rules::{self, Outcome};
use super::shared_quota::Share;
use crate::keep::coverage::RetentionPolicy;
use crate::keep::versions::{KeepError, Keeper};

/// The interval in which the quota is checked, and failed work is tried again.
pub(crate) const LOOK: Duration = Duration::from_secs(30);
/// Delay before a policy is applied that would end a large part of all events.
const HOLD: Duration = Duration::from_secs(600);
/// A policy ends a large part if that is this part of the events, unless they are few.
const LARGE: u64 = 10;
const LARGE_MIN: u64 = 10;

/// The task that applies the policy and the quota.
pub(crate) struct Retaining {
    pub(crate) name: String,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) policy: watch::Receiver<Arc<RetentionPolicy>>,
    pub(crate) quota: Option<u64>,
    /// The cluster's part in a shared quota.
    pub(crate) share: Option<Share>,
    /// Pause until space may have been released.
    pub(crate) pause: Duration,
}

impl Retaining {
    pub(crate) async fn run(mut self) {
        let share = self.share.take();
        // Both at once: on a full disk the rules cannot be applied until the quota has made room.
        tokio::join!(self.apply_policies(), self.keep_quota(share));
    }

    /// Applies the policy, and each further one. A newer policy interrupts the work for an older
    /// one.
    async fn apply_policies(&self) {
        let mut policies = self.policy.clone();
        loop {
            let policy = Arc::clone(&policies.borrow_and_update());
            let applying = async {
                self.bring_into_force(&policy).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = applying => {}
                changed = policies.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    /// Sets and applies a policy, after [`HOLD`] if it would end a large part of all events.
    async fn bring_into_force(&self, policy: &Arc<RetentionPolicy>) {
        let cluster = &self.name;
        let mut announced = 0;
        self.keeper.held_rules.set(None);
        loop {
            let wait = match self.attempt(policy, &mut announced).await {
                Ok(None) => return,
                Ok(Some(wait)) => wait,
                Err(error) => {
                    tracing::warn!(cluster, %error, "changed rules are not applied yet");
                    match error {
                        // What has expired was deleted. There is room once its space is released.
                        KeepError::Write(WriteError::Fault(Fault::NoSpace)) => self.pause.max(LOOK),
                        _ => LOOK,
                    }
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Sets and applies a policy, or returns the time until the next attempt. Directly before, all
    /// events are examined: if a large part would end, and more than twice as many as were
    /// `announced`, the policy is held.
    async fn attempt(
        &self,
        policy: &Arc<RetentionPolicy>,
        announced: &mut u64,
    ) -> Result<Option<Duration>, KeepError> {
        let (cluster, keeper) = (&self.name, &self.keeper);
        if !rules::is_applied(keeper, &policy.text).await? {
            if !rules::is_clock_believed(keeper) {
                let why = "the clock is not believed yet";
                tracing::info!(cluster, why, "changed rules are not applied yet");
                return Ok(Some(LOOK));
            }
            let [by_rule, by_namespace] = rules::outlook_of(keeper, policy).await?;
            let ended = by_rule.ended();
            if is_large(&by_rule, &by_namespace) && ended > announced.saturating_mul(2) {
                self.announce(&by_rule);
                *announced = ended;
                let hold = i64::try_from(HOLD.as_millis()).unwrap_or(i64::MAX);
                keeper.held_rules.set(Some(HeldRules {
                    until: UnixMillis(keeper.clock.now().0.saturating_add(hold)),
                    ended,
                    events: by_rule.events(),
                }));
                return Ok(Some(HOLD));
            }
        }
        keeper.set_policy(Arc::clone(policy));
        keeper.set_held(false);
        keeper.held_rules.set(None);
        let Outcome {
            ended,
            events,
            waits,
        } = rules::apply_rules(keeper, &policy.text).await?;
        if ended > 0 {
            tracing::warn!(
                cluster,
                ended,
                events,
                "events expired at once because the rules of retention changed"
            );
        }
        Ok(waits.then_some(LOOK))
    }

    /// Logs what a policy would end.
    fn announce(&self, outlook: &Outlook) {
        let by_rule = outlook.by_rule.iter().filter(|(_, found)| found.ended > 0);
        let by_rule = by_rule.map(|(rule, found)| format!("{rule}: {}", found.ended));
        let by_rule = by_rule.collect::<Vec<_>>().join(", ");
        tracing::error!(
            cluster = self.name,
            ended = outlook.ended(),
            events = outlook.events(),
            by_rule,
            "the changed rules of retention would end a tenth or more of all events, or of those \
             of a rule or a namespace: they come into force in ten minutes, unless they are \
             changed again"
        );
    }

    async fn keep_quota(&self, share: Option<Share>) {
        let cluster = &self.name;
        if self.quota.is_none() && share.is_none() {
            return;
        }
        let mut kept = Quota::new(self.quota.unwrap_or(u64::MAX)).with(share);
        loop {
            match kept.keep(&self.keeper).await {
                Ok(true) => tracing::info!(
                    cluster,
                    quota = self.keeper.counters.quota.load(Ordering::Relaxed),
                    "events are deleted, as the quota is reached: those observed first of the namespaces that take most"
                ),
                Ok(false) => {}
                Err(error) => tracing::warn!(cluster, %error, "the quota is not kept yet"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether a policy ends a tenth of all events, or of those of a rule or of a namespace.
fn is_large(by_rule: &Outlook, by_namespace: &Outlook) -> bool {
    let is_large = |ended: u64, all: u64| ended >= LARGE_MIN && ended >= all / LARGE;
    let mut parts = by_rule
        .by_rule
        .values()
        .chain(by_namespace.by_rule.values());
    is_large(by_rule.ended(), by_rule.events())
        || parts.any(|part| is_large(part.ended, part.events))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidings_store::Store;
    use tidings_store::clock::Clock;

    use super::super::rules_tests::{HOUR, Kept, days};
    use super::*;

    fn policy(text: &str, warnings: u32) -> Arc<RetentionPolicy> {
        let mut policy = RetentionPolicy::new(days(Arc::new(Mutex::new(warnings))));
        policy.text = text.into();
        policy.rule_of = Arc::new(|event| event.r#type().into());
        Arc::new(policy)
    }

    /// A file with `1d` for `30d` would end everything at its next read.
    #[tokio::test]
    async fn rules_that_end_a_large_part_wait_for_ten_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
        // Half of the events are warnings.
        kept.observe(100).await;
        kept.clock.advance(48 * HOUR);
        let keeper = Arc::new(kept.keeper);
        let (_sender, receiver) = watch::channel(policy("30d", 30));
        let retaining = Retaining {
            name: "prod".into(),
            keeper: Arc::clone(&keeper),
            policy: receiver,
            quota: None,
            share: None,
            pause: LOOK,
        };
        let attempt = async |policy, announced: &mut u64| {
            let wait = retaining.attempt(policy, announced).await.unwrap();
            let ended = rules::ended_by_rules(&keeper).await.unwrap();
            (wait, ended.events)
        };
        let (long, short) = (policy("30d", 30), policy("1d", 1));
        assert_eq!(attempt(&long, &mut 0).await, (None, 0));
        assert_eq!(attempt(&short, &mut 0).await, (Some(HOLD), 0));
        let held = keeper.held_rules.get().unwrap();
        assert_eq!((held.ended, held.events), (50, 100));
        assert_eq!(held.until.0 - kept.clock.now().0, 600_000);
        // Until then, the former rules are in force.
        assert!(rules::is_applied(&keeper, "30d").await.unwrap());
        assert_eq!(attempt(&long, &mut 0).await, (None, 0));
        assert_eq!(keeper.held_rules.get(), None);
        // What is over by a clock that is ahead is not seen, so nothing is decided.
        kept.clock.set_by(500 * 24 * HOUR);
        let mut announced = 0;
        assert_eq!(attempt(&short, &mut announced).await, (Some(LOOK), 0));
        kept.clock.set_by(-500 * 24 * HOUR);
        assert_eq!(attempt(&short, &mut announced).await, (Some(HOLD), 0));
        assert_eq!(attempt(&short, &mut announced).await, (None, 50));
        let ended = rules::ended_by_rules(&keeper).await.unwrap();
        assert_eq!(ended.by_rule["Warning"], 50);
        // By a clock that is behind, nothing is over, but it will be put right.
        keeper.believe(kept.clock.now());
        kept.clock.set_by(-500 * 24 * HOUR);
        let mut hour = RetentionPolicy::new(Arc::new(|_| Duration::from_secs(3_600)));
        hour.text = "1h".into();
        assert_eq!(attempt(&Arc::new(hour), &mut 0).await, (Some(HOLD), 50));
        keeper.store.close().await;
    }

    /// After a start the former rules are not known, but may come back.
    #[tokio::test]
    async fn what_is_written_before_rules_are_applied_has_the_times_of_those_that_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
        kept.observe(4).await;
        rules::apply_rules(&kept.keeper, "30d").await.unwrap();
        kept.keeper.set_policy(policy("1d", 1));
        rules::hold(&kept.keeper).await.unwrap();
        kept.observe(4).await;
        // The archive is stopped for long.
        kept.clock.advance(5 * 24 * HOUR);
        kept.keeper.store.expire().await.unwrap();
        kept.keeper.set_policy(policy("30d", 30));
        kept.keeper.set_held(false);
        rules::apply_rules(&kept.keeper, "30d").await.unwrap();
        let list = tidings_store::ListRequest::prefix("shop/");
        let mut ends: Vec<i64> = Vec::new();
        for found in kept.keeper.store.list(list).await.unwrap().records {
            ends.push((found.expires_at.unwrap().0 - kept.clock.now().0) / HOUR / 24);
        }
        ends.sort_unstable();
        // Half of the events are warnings, which have 30 days; the others have 7.
        assert_eq!(ends, [2, 2, 2, 2, 25, 25, 25, 25]);
        kept.keeper.store.close().await;
    }

    #[test]
    fn a_tenth_of_a_rule_or_of_a_namespace_is_a_large_part() {
        let outlook = |parts: &[(u64, u64)]| {
            let mut outlook = Outlook::default();
            for (number, (ended, events)) in parts.iter().enumerate() {
                for at in 0..*events {
                    outlook.add(&number.to_string(), at < *ended);
                }
            }
            outlook
        };
        for (by_rule, by_namespace, expected) in [
            (vec![(9, 10)], vec![(9, 10)], false),
            (vec![(10, 100)], vec![(10, 100)], true),
            (vec![(10, 120)], vec![(10, 120)], false),
            (vec![(0, 900), (90, 100)], vec![(90, 1_000)], true),
            (vec![(90, 1_000)], vec![(0, 900), (90, 100)], true),
            (vec![(6, 50), (6, 50)], vec![(6, 50), (6, 50)], true),
        ] {
            let is = is_large(&outlook(&by_rule), &outlook(&by_namespace));
            assert_eq!(is, expected, "{by_rule:?} {by_namespace:?}");
        }
    }
}
