//! The bounds of the backlogs of named cursors: a cursor that is too far behind moves.
//!
//! Invariants: the write that moves a cursor says what it skipped. What is too old is decided by
//! times that the store believes.

use std::time::Duration;

use tidings_history::{CursorName, Skip};
use tidings_store::UnixMillis;

use crate::keep::error::KeepError;
use crate::keep::feed::Amount;
use crate::keep::feed::{Item, Journal, amount};
use crate::keep::feed::{entries, items};
use crate::keep::keys;
use crate::keep::versions::Keeper;

/// The age of a cursor's oldest pending version beyond which it moves.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Bytes of entries behind which a cursor may be.
pub(crate) const BACKLOG_BYTES_MAX: u64 = 1 << 30;

impl Journal {
    /// Moves the cursors that are too far behind: their oldest pending version is older than a
    /// week, or the entries behind them have more bytes.
    pub(crate) async fn bound(&self, keeper: &Keeper, bytes_max: u64) -> Result<(), KeepError> {
        let names: Vec<_> = self.consumers.lock().keys().cloned().collect();
        let mut has_moved = false;
        for name in names {
            let now = keeper.store.confirmed().0;
            let oldest = now.saturating_sub(i64::try_from(AGE_MAX.as_millis()).unwrap_or(i64::MAX));
            while self.bound_one(keeper, &name, oldest, bytes_max).await? {
                has_moved = true;
            }
        }
        if has_moved {
            self.trim(&keeper.store).await?;
        }
        Ok(())
    }

    /// Moves a cursor to the end, and ends its reading of the history before the feed.
    pub(crate) async fn skip(&self, keeper: &Keeper, name: &CursorName) -> Result<(), KeepError> {
        while self.bound_one(keeper, name, i64::MIN, 0).await? {}
        let mut last = self.stored.lock().await;
        let Some(consumer) = self.consumers.lock().get(name).cloned() else {
            return Ok(());
        };
        let mut next = consumer.stored;
        if let Some(past) = next.history.take() {
            // It is not known how many versions the rest of the history has.
            let skip = Skip {
                from: UnixMillis(past.since.max(0)),
                to: keeper.now(),
                versions: 0,
            };
            let through = next.through;
            next.skip_to(through, skip);
            let write = vec![next.write(name)];
            self.write_with(&keeper.store, &mut last, through, write)
                .await?;
            if let Some(consumer) = self.consumers.lock().get_mut(name) {
                consumer.stored = next;
            }
        }
        drop(last);
        self.trim(&keeper.store).await
    }

    /// Moves a cursor over the entries of one page that are beyond its bounds. Returns whether it
    /// moved.
    async fn bound_one(
        &self,
        keeper: &Keeper,
        name: &CursorName,
        oldest: i64,
        bytes_max: u64,
    ) -> Result<bool, KeepError> {
        let mut last = self.stored.lock().await;
        let Some(consumer) = self.consumers.lock().get(name).cloned() else {
            return Ok(false);
        };
        let mut backlog = self.added().minus(consumer.passed);
        let mut next = consumer.stored;
        let after = keys::before(next.through);
        let page = entries(&keeper.store, after).await?;
        let mut parsed = Vec::with_capacity(page.len());
        for (number, entry) in &page {
            parsed.push((*number, items(&entry.value)?, entry.value.len()));
        }
        // By age: up to the last entry that is too old.
        let mut over = 0;
        if self.is_old(keeper, parsed.iter(), oldest).await? {
            for (at, entry) in parsed.iter().enumerate().rev() {
                if self.is_old(keeper, [entry].into_iter(), oldest).await? {
                    over = at + 1;
                    break;
                }
            }
        }
        let mut passed = Amount::default();
        let (mut from, mut to) = (None, next.at);
        // Numbers without an entry: what had them has expired.
        let mut lost = 0;
        for (at, (number, items, bytes)) in parsed.iter().enumerate() {
            if at >= over && backlog.bytes <= bytes_max {
                break;
            }
            let amount = amount(items, *bytes);
            (passed, backlog) = (passed.plus(amount), backlog.minus(amount));
            if *number > next.through {
                lost += number - next.through;
                from.get_or_insert(next.at);
            }
            if let Some(time) = keeper.time_of(items).await? {
                from.get_or_insert(time);
                to = to.max(time);
            }
            next.through = number + 1;
        }
        if passed == Amount::default() {
            return Ok(false);
        }
        let skip = Skip {
            from: UnixMillis(from.unwrap_or(next.at)),
            to: UnixMillis(to),
            versions: passed.versions.saturating_add(lost),
        };
        let through = next.through;
        next.skip_to(through, skip);
        let versions = skip.versions;
        tracing::warn!(cursor = %name, versions, "a cursor was too far behind: it skips versions");
        let written = self.write_with(&keeper.store, &mut last, through, vec![next.write(name)]);
        written.await?;
        if let Some(consumer) = self.consumers.lock().get_mut(name) {
            consumer.stored = next;
            consumer.passed = consumer.passed.plus(passed);
        }
        Ok(true)
    }

    /// Whether the first of these entries that has a version was observed before a time.
    async fn is_old(
        &self,
        keeper: &Keeper,
        entries: impl Iterator<Item = &(u64, Vec<Item>, usize)>,
        oldest: i64,
    ) -> Result<bool, KeepError> {
        for (_, items, _) in entries {
            if let Some(time) = keeper.time_of(items).await? {
                return Ok(time < oldest);
            }
        }
        Ok(false)
    }
}
