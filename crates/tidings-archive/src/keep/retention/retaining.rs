//! The task that applies the policy of retention and the quota of a followed cluster.
//!
//! Invariant: a policy that would end a large part of everything is logged with its numbers, and is
//! applied only after [`HOLD`], so that a mistake in a file can be undone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_history::Outlook;
use tidings_store::{Fault, WriteError};
use tokio::sync::watch;

use super::expiry::is_mass;
use super::quota::Quota;
use super::rules::{self, Outcome};
use super::shared_quota::Share;
use crate::keep::coverage::RetentionPolicy;
use crate::keep::versions::{KeepError, Keeper};

/// The interval in which the quota is checked, and failed work is tried again.
pub(crate) const LOOK: Duration = Duration::from_secs(30);
/// Delay before a policy is applied that would end a large part of all events.
const HOLD: Duration = Duration::from_secs(600);
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
                self.hold(&policy).await;
                self.keeper.set_policy(Arc::clone(&policy));
                self.apply(&policy.text).await;
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

    /// Waits before a policy that would end a large part of all events.
    async fn hold(&self, policy: &RetentionPolicy) {
        loop {
            let cluster = &self.name;
            match rules::outlook_of(&self.keeper, policy).await {
                Ok(outlook) => return tokio::time::sleep(self.delay(&outlook)).await,
                Err(error) => {
                    tracing::warn!(cluster, %error, "it is not known yet what changed rules would end");
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// Returns how long to wait before events end, and logs why.
    fn delay(&self, outlook: &Outlook) -> Duration {
        let cluster = &self.name;
        let (ended, events) = (outlook.ended(), outlook.events());
        if !is_mass(ended, events) {
            return Duration::ZERO;
        }
        let by_rule = outlook.by_rule.iter().filter(|(_, found)| found.ended > 0);
        let by_rule = by_rule.map(|(rule, found)| format!("{rule}: {}", found.ended));
        let by_rule = by_rule.collect::<Vec<_>>().join(", ");
        tracing::error!(
            cluster,
            ended,
            events,
            by_rule,
            "the changed rules of retention would end a tenth or more of all events: they come \
             into force in ten minutes, unless they are changed again"
        );
        HOLD
    }

    async fn apply(&self, rules: &str) {
        let cluster = &self.name;
        loop {
            let wait = match rules::apply_rules(&self.keeper, rules).await {
                Ok(outcome) => {
                    let Outcome { ended, events, .. } = outcome;
                    if ended > 0 {
                        tracing::warn!(
                            cluster,
                            ended,
                            events,
                            "events expired at once because the rules of retention changed"
                        );
                    }
                    if !outcome.waits {
                        return;
                    }
                    let why = "the clock is not believed yet";
                    tracing::info!(cluster, why, "changed rules are not applied yet");
                    LOOK
                }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidings_store::Store;

    use super::super::rules_tests::{HOUR, Kept, days};
    use super::*;

    /// A file with `1d` for `100d` would end everything at its next read.
    #[tokio::test]
    async fn rules_that_end_a_large_part_wait_for_ten_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let warnings = Arc::new(Mutex::new(30));
        let keep_for = days(Arc::clone(&warnings));
        let mut kept = Kept::open(folder.path(), Arc::clone(&keep_for));
        // Half of the events are warnings.
        kept.observe(198).await;
        kept.clock.advance(48 * HOUR);
        let keeper = Arc::new(kept.keeper);
        let policy = |text: &str| {
            let mut policy = RetentionPolicy::new(Arc::clone(&keep_for));
            policy.text = text.into();
            policy.rule_of = Arc::new(|event| event.r#type().into());
            Arc::new(policy)
        };
        let (sender, receiver) = watch::channel(policy("30d"));
        let retaining = Retaining {
            name: "prod".into(),
            keeper: Arc::clone(&keeper),
            policy: receiver,
            quota: None,
            share: None,
            pause: LOOK,
        };
        let delay = async |policy: &RetentionPolicy| {
            let outlook = rules::outlook_of(&keeper, policy).await.unwrap();
            (outlook.ended(), retaining.delay(&outlook))
        };
        assert_eq!(delay(&policy("30d")).await, (0, Duration::ZERO));
        retaining.apply("30d").await;
        *warnings.lock().unwrap() = 1;
        assert_eq!(delay(&policy("1d")).await, (99, Duration::ZERO));
        kept.keeper = Keeper::new(
            Arc::clone(&keeper.store),
            Arc::clone(&keeper.clock),
            keep_for.clone(),
            false,
        );
        *warnings.lock().unwrap() = 30;
        kept.observe(10).await;
        kept.clock.advance(48 * HOUR);
        *warnings.lock().unwrap() = 1;
        let short = policy("1d");
        assert_eq!(delay(&short).await, (104, HOLD));
        // Rules that are applied end nothing.
        assert_eq!(delay(&policy("30d")).await, (0, Duration::ZERO));
        drop(sender);
        keeper.set_policy(short);
        retaining.apply("1d").await;
        let ended = rules::ended_by_rules(&keeper).await.unwrap();
        assert_eq!(ended.by_rule["Warning"], 104);
        assert_eq!(ended.events, 104);
        keeper.store.close().await;
    }
}
