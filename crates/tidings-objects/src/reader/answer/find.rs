//! Finds one event by its name, and the versions of one event.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tidings_history::{Version, Versions};
use tidings_store::{Record, UnixMillis};

use super::list::slices;
use crate::reader::fault::Fault;
use crate::reader::keys::names::{self, Order};
use crate::reader::keys::{Position, borrowed};
use crate::reader::plan::Objects;
use crate::reader::plan::Selection;
use crate::reader::plan::{At, Pick, SOURCES_AT_ONCE, Source, View};
use crate::reader::scan::columns;
use crate::reader::scan::leaf;

/// Bytes at which a page of versions ends: an answer is made from the whole page at once.
const VERSIONS_BYTES_MAX: usize = 1 << 20;
/// Number of versions whose bytes are read at once.
const VERSIONS_AT_ONCE: usize = 64;

/// The newest version of an event found so far.
struct Newest {
    base: String,
    uid: String,
    order: Order,
    at: At,
}

/// Keeps the newest version of each event.
fn keep(newest: &mut BTreeMap<(String, String), Newest>, found: Newest) {
    let id = (found.base.clone(), found.uid.clone());
    if newest
        .get(&id)
        .is_none_or(|known| known.order < found.order)
    {
        newest.insert(id, found);
    }
}

impl View {
    /// Finds the event that has a name. That is the youngest event of this name, or a predecessor
    /// whose shown name (with the beginning of its uid) this is.
    pub(in crate::reader) async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Pick>, Fault> {
        let parts = names::parts(name);
        let base = parts.map(|(base, _)| base);
        let wanted: Vec<&str> = std::iter::once(name).chain(base).collect();
        let found = self.named(namespace, &wanted).await?;
        let youngest = |base: &str| {
            let of_name = found.iter().filter(|it| it.base == base);
            of_name.max_by_key(|it| it.order)
        };
        let by_part = || {
            let (base, part) = parts?;
            let young = youngest(base)?;
            let is_elder = |it: &&Newest| {
                it.base == base && it.uid != young.uid && names::is_of(&it.uid, part)
            };
            found.iter().filter(is_elder).min_by_key(|it| it.order)
        };
        let Some(newest) = youngest(name).or_else(by_part) else {
            return Ok(None);
        };
        let at = newest.at;
        let footer = self.footer(at.file).await?;
        let runs = self.runs(at.file, &footer, at.group).await?;
        let position = Position {
            place: runs.place(runs.of_row(at.row)).map(str::to_owned),
            base: newest.base.clone(),
            uid: newest.uid.clone(),
        };
        Ok(Some(Pick {
            position,
            shown: name.to_owned(),
            order: newest.order,
            at: newest.at,
        }))
    }

    /// Reads the record of the event that has a name.
    pub(in crate::reader) async fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Record>, Fault> {
        let Some(pick) = self.find(namespace, name).await? else {
            return Ok(None);
        };
        let records = self.records(&[pick], &Selection::default()).await?;
        Ok(records.into_iter().next())
    }

    /// Finds the newest versions of all events in a namespace that have one of the wanted names. A
    /// name counts if an event has it, or had it at its source.
    async fn named(&self, namespace: &str, wanted: &[&str]) -> Result<Vec<Newest>, Fault> {
        let selection = Selection::new(Some(namespace.to_owned()), None);
        let sources = self.sources(&selection).await?;
        let sources = sources.into_iter();
        let found = sources.map(|source| self.named_in(source, namespace, wanted).boxed());
        let found: Vec<_> = found.collect();
        let mut found = stream::iter(found).buffered(SOURCES_AT_ONCE);
        let mut newest = BTreeMap::new();
        while let Some(found) = found.try_next().await? {
            for found in found {
                keep(&mut newest, found);
            }
        }
        Ok(newest.into_values().collect())
    }

    /// Finds these versions in one file.
    async fn named_in(
        &self,
        source: Source,
        namespace: &str,
        wanted: &[&str],
    ) -> Result<Vec<Newest>, Fault> {
        let Source { file, groups } = source;
        let footer = self.footer(file).await?;
        let names = [(leaf::EVENT, wanted)];
        let mut newest = BTreeMap::new();
        for group in self.filtered(file, &footer, groups, &names).await? {
            let runs = self.runs(file, &footer, group).await?;
            let from = runs.seek([namespace, "", ""]);
            let of_namespace = |run: &usize| runs.place(*run)[0] == namespace;
            let to = (from..runs.len()).take_while(of_namespace).last();
            let Some(to) = to else {
                continue;
            };
            let rows = runs.rows(from).start..runs.rows(to).end;
            let first = rows.start;
            let rows = std::iter::once(rows).collect();
            let want = self.want(file, &footer, group, rows)?;
            let mut ats = Vec::new();
            for [events] in columns::read(&self.fetch, vec![want], [leaf::EVENT]).await? {
                let is_wanted = |event: &[u8]| wanted.iter().any(|it| it.as_bytes() == event);
                let rows = events.texts().iter().enumerate();
                let rows = rows.filter(|(_, event)| is_wanted(event.data()));
                ats.extend(rows.map(|(row, _)| At {
                    file,
                    group,
                    row: first + row,
                }));
            }
            for (values, places) in self.rows(&ats, leaf::KEYS).await? {
                for (number, row) in places {
                    let found = self.keyed(0, values.each_ref(), row, ats[number])?;
                    let newer = Newest {
                        base: found.base,
                        uid: found.uid,
                        order: found.order,
                        at: found.at,
                    };
                    keep(&mut newest, newer);
                }
            }
        }
        Ok(newest.into_values().collect())
    }

    /// Reads versions of the event that has a name, the newest first. They come after the version
    /// with revision `after`: at most `limit`, and about a megabyte. `None` if there is no such
    /// event.
    pub(in crate::reader) async fn versions(
        &self,
        namespace: &str,
        name: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Option<Versions>, Fault> {
        let Some(found) = self.find(namespace, name).await? else {
            return Ok(None);
        };
        let Position { place, base, uid } = &found.position;
        let selection = Selection::of_place(borrowed(place));
        let mut objects = Objects::from(self, &selection, selection.lower()).await?;
        // The newest that fit, and one more, which says that there are more.
        let mut newest: BTreeMap<(u64, At), Order> = BTreeMap::new();
        while let Some(object) = objects.next().await? {
            let object = [object];
            for slices in slices(&object) {
                for version in self.keys(&object, &slices, &Selection::default()).await? {
                    let revision = version.order.revision();
                    let is_of_it = version.uid == *uid && version.base == *base;
                    if is_of_it && after.is_none_or(|after| revision < after) {
                        newest.insert((revision, version.at), version.order);
                    }
                    if newest.len() > limit.saturating_add(1) {
                        newest.pop_first();
                    }
                }
            }
        }
        let mut page = Versions::default();
        let newest: Vec<_> = newest.into_iter().rev().collect();
        let uid: Arc<str> = uid.as_str().into();
        let mut bytes = 0;
        for some in newest.chunks(VERSIONS_AT_ONCE) {
            let ats: Vec<At> = some.iter().map(|((_, at), _)| *at).collect();
            let mut events = vec![None; ats.len()];
            for ([objects], places) in self.rows(&ats, [leaf::OBJECT]).await? {
                for (number, row) in places {
                    let event = Bytes::copy_from_slice(objects.text(row));
                    self.event(&found.position, ats[number], &event)?;
                    events[number] = Some(event);
                }
            }
            for (event, ((revision, _), order)) in events.into_iter().zip(some) {
                let Some(event) = event else { continue };
                if page.versions.len() >= limit || bytes >= VERSIONS_BYTES_MAX {
                    return Ok(Some(page));
                }
                bytes += event.len();
                page.versions.push(Version {
                    uid: Arc::clone(&uid),
                    epoch: order.epoch,
                    number: order.version,
                    observed_at: UnixMillis(order.observed.div_euclid(1000)),
                    event,
                });
                page.more = Some(*revision);
            }
        }
        page.more = None;
        Ok(Some(page))
    }
}
