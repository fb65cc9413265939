//! The supervisor of an archive's clusters: which are opened, connected to, followed anew and
//! closed, and when a refused one is tried again.
//!
//! ```text
//!  wanted ─▶ connect ─▶ open ─▶ followed ─▶ setting or files change ─▶ connect ─▶ close, open
//!               │         │                                             │
//!               └─────────┴─────▶ refused ◀─────────────────────────────┘
//!                  tried again after six looks, or at once if the setting or files change
//! ```
//!
//! The supervisor has no clock, network or files. The program calls [`Supervisor::look`] at
//! intervals. A [`Connector`] connects to clusters and opens them, and a [`Host`] serves them.
//!
//! Invariants:
//! - A cluster is open at most once, and closed before it is opened again.
//! - A followed cluster is closed for a change only after the new connection was made: the files
//!   might have been half written.
//! - The shared quota is in force only after each wanted cluster was opened or refused.

mod attempts;
mod connector;
mod former_names;
mod refusals;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::keep::retention::SharedQuota;
use attempts::{Attempts, Outcome};
use connector::Target;
use refusals::Refusals;

pub use attempts::{Ended, OPENED_AT_ONCE};
pub use connector::{Connector, Host, Refusal, Setting};
pub use former_names::{FormerNameError, check_former_names};

/// Keeps the wanted clusters of an archive open and followed.
pub struct Supervisor<C: Connector> {
    connector: Arc<C>,
    quota: Option<Arc<SharedQuota>>,
    wanted: Vec<C::Setting>,
    /// The open clusters, and what they were connected with.
    followed: BTreeMap<String, (Target<C::Setting>, C::Cluster)>,
    refused: Refusals<C::Setting>,
    attempts: Attempts<C>,
}

impl<C: Connector> Supervisor<C> {
    /// Begins to connect to the wanted clusters and to open them. `quota` is the quota that the
    /// clusters share. Needs a tokio runtime.
    pub fn new(
        connector: Arc<C>,
        quota: Option<Arc<SharedQuota>>,
        wanted: Vec<C::Setting>,
    ) -> Self {
        let mut supervisor = Self {
            attempts: Attempts::new(Arc::clone(&connector)),
            connector,
            quota,
            wanted,
            followed: BTreeMap::new(),
            refused: Refusals::default(),
        };
        for target in supervisor.targets() {
            supervisor.open(target, None);
        }
        supervisor
    }

    /// Returns the wanted clusters with the present hashes of their files.
    fn targets(&self) -> Vec<Target<C::Setting>> {
        let files = self.connector.files(&self.wanted);
        let targets = self.wanted.iter().cloned().zip(files);
        targets
            .map(|(setting, files)| Target { setting, files })
            .collect()
    }

    /// Returns the settings of the wanted clusters.
    pub fn wanted(&self) -> &[C::Setting] {
        &self.wanted
    }

    /// Replaces the settings of the wanted clusters, for the next look.
    pub fn want(&mut self, wanted: Vec<C::Setting>) {
        self.wanted = wanted;
    }

    /// Returns the open clusters with their settings, by name.
    pub fn clusters(&self) -> impl Iterator<Item = (&C::Setting, &C::Cluster)> {
        let followed = self.followed.values();
        followed.map(|(target, cluster)| (&target.setting, cluster))
    }

    /// Returns the wanted clusters that are not open, and why they were refused; `None` for those
    /// that are still being opened.
    pub fn missing(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let names = self.wanted.iter().map(Setting::name);
        let missing = names.filter(|name| !self.followed.contains_key(*name));
        missing.map(|name| (name, self.refused.why(name)))
    }

    /// Whether any cluster is being connected to or opened.
    pub fn is_trying(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Waits for the next attempt that ends, forever if none runs. Cancelling the wait loses
    /// nothing.
    pub async fn next(&mut self) -> Ended<C> {
        self.attempts.next().await
    }

    /// Handles an attempt that ended, if its setting is still wanted.
    pub async fn handle(&mut self, ended: Ended<C>, host: &mut impl Host<C>) {
        let wanted = ended.target;
        let wanted = wanted.filter(|target| self.wanted.contains(&target.setting));
        match (ended.outcome, wanted) {
            (Ok(Outcome::Opened(cluster)), Some(target)) => self.serve(target, cluster, host).await,
            (Ok(Outcome::Opened(cluster)), None) => self.connector.close(cluster).await,
            (Ok(Outcome::Connected(source)), Some(target)) => {
                self.remove(target.name(), Some(&target.setting), host)
                    .await;
                self.open(target, Some(source));
            }
            (Err(why), Some(target)) => self.refuse(&target, why, host),
            (Ok(Outcome::Connected(_)) | Err(_), None) => {}
        }
        // The next attempt may begin.
        drop(ended.turn);
    }

    /// Closes the clusters that are not wanted, and begins attempts for those that are missing,
    /// whose setting or files changed, or whose next try is due.
    pub async fn look(&mut self, host: &mut impl Host<C>) {
        let targets = self.targets();
        let names: BTreeSet<&str> = targets.iter().map(Target::name).collect();
        let unwanted = self.followed.keys();
        let unwanted = unwanted.filter(|name| !names.contains(name.as_str()));
        for name in unwanted.cloned().collect::<Vec<_>>() {
            self.remove(&name, None, host).await;
        }
        self.refused.keep(|name| names.contains(name));
        self.attempts.keep(|name| names.contains(name));
        for target in &targets {
            if !self.attempts.has(target) {
                self.look_at(target, host).await;
            }
        }
        self.enforce_quota();
    }

    async fn look_at(&mut self, target: &Target<C::Setting>, host: &mut impl Host<C>) {
        match self.followed.get(target.name()) {
            None if self.refused.count_look(target) => self.open(target.clone(), None),
            Some((former, _)) if !target.differs_from(former) => self.refused.forget(target.name()),
            Some(_) if !target.setting.is_followed() => {
                self.remove(target.name(), Some(&target.setting), host)
                    .await;
                self.open(target.clone(), None);
            }
            Some(_) if self.refused.count_look(target) => self.attempts.connect(target.clone()),
            None | Some(_) => {}
        }
    }

    fn open(&mut self, target: Target<C::Setting>, source: Option<C::Source>) {
        let wanted = self.wanted.iter();
        let wanted = wanted.map(|setting| setting.name().to_owned()).collect();
        self.attempts.open(target, source, wanted);
    }

    async fn serve(
        &mut self,
        target: Target<C::Setting>,
        mut cluster: C::Cluster,
        host: &mut impl Host<C>,
    ) {
        if let Err(why) = host.add(&target.setting, &mut cluster).await {
            self.connector.close(cluster).await;
            return self.refuse(&target, why, host);
        }
        self.refused.forget(target.name());
        let name = target.name().to_owned();
        self.followed.insert(name, (target, cluster));
    }

    async fn remove(&mut self, name: &str, next: Option<&C::Setting>, host: &mut impl Host<C>) {
        let Some((former, _)) = self.followed.get(name) else {
            return;
        };
        host.remove(&former.setting, next).await;
        if let Some((_, cluster)) = self.followed.remove(name) {
            self.connector.close(cluster).await;
        }
    }

    fn refuse(&mut self, target: &Target<C::Setting>, why: Refusal, host: &mut impl Host<C>) {
        let is_new = self.refused.note(target, &why.to_string());
        host.refused(&target.setting, why, is_new);
    }

    /// Closes an open cluster that the host cannot serve. It is tried again like a refused one.
    pub async fn give_up(&mut self, name: &str, why: &str) {
        if let Some((former, cluster)) = self.followed.remove(name) {
            self.refused.note(&former, why);
            self.connector.close(cluster).await;
        }
    }

    /// Puts the shared quota in force once each wanted cluster was opened or refused. Not earlier
    /// than with a look: the program may give up clusters before the first one.
    fn enforce_quota(&self) {
        if let Some(quota) = &self.quota
            && self.missing().all(|(_, refused)| refused.is_some())
        {
            quota.enforce();
        }
    }

    /// Cancels all attempts.
    pub fn cancel(&mut self) {
        self.attempts.keep(|_| false);
    }

    /// Cancels all attempts, and closes all clusters that are open. For one that is being opened,
    /// this waits.
    pub async fn close(mut self) {
        self.cancel();
        for (_, cluster) in self.followed.into_values() {
            self.connector.close(cluster).await;
        }
        for cluster in self.attempts.end().await {
            self.connector.close(cluster).await;
        }
    }
}
