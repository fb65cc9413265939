//! Lists the newest version of each event, in order of objects and names, page by page.
//!
//! Memory: the objects of the wanted row groups of each file, which are cached as well; key columns
//! of some thousand rows; and for one object as many names as the page may have.

use std::collections::BTreeMap;

use tidings_store::{PAGE_BYTES_MAX, Record};

use crate::reader::fault::Fault;
use crate::reader::keys::names::{self, Order};
use crate::reader::keys::{Place, Position, borrowed};
use crate::reader::plan::Selection;
use crate::reader::plan::{At, GROUPS_TOGETHER, Pick, View};
use crate::reader::plan::{Object, Objects};
use crate::reader::scan::columns;
use crate::reader::scan::leaf;

/// Rows whose key columns are read at once.
const ROWS_AT_ONCE: usize = 8192;
/// Maximum number of names of one object that are read at once, if those of a page were not
/// selected.
const NAMES_MAX: usize = 16_384;
/// Events whose bytes are read at once.
const EVENTS_AT_ONCE: usize = 128;

/// A page of a list.
#[derive(Debug, Default)]
pub(in crate::reader) struct Listed {
    pub(in crate::reader) records: Vec<Record>,
    pub(in crate::reader) more: bool,
}

/// The events about one object that were found: the first ones, as many as the page may have.
#[derive(Default)]
struct Events {
    /// The newest version of each event, by name at the source and uid.
    newest: BTreeMap<(String, String), (Order, At)>,
    /// The youngest event of each name.
    youngest: BTreeMap<String, (Order, String)>,
    /// Whether the object has further events.
    is_cut: bool,
}

impl Events {
    /// Adds a version; `after` is the name and uid after which events are wanted.
    fn add(&mut self, version: Keyed, after: Option<(&str, &str)>, max: usize) {
        let Keyed {
            base,
            uid,
            order,
            at,
            ..
        } = version;
        if after.is_some_and(|after| base.as_str() < after.0) {
            return;
        }
        // Events before the position count here too: one of them may be the youngest of its name.
        let young = || (order, uid.clone());
        let youngest = self.youngest.entry(base.clone()).or_insert_with(young);
        if order > youngest.0 {
            *youngest = young();
        }
        if after.is_none_or(|after| (base.as_str(), uid.as_str()) > after) {
            let newest = self.newest.entry((base, uid)).or_insert((order, at));
            if order > newest.0 {
                *newest = (order, at);
            }
        }
        // What is dropped sorts after everything kept, and so do its later versions: it is for a
        // later page.
        if self.newest.len() > max {
            self.newest.pop_last();
            self.is_cut = true;
        }
        if self.youngest.len() > max.saturating_add(1) {
            self.youngest.pop_last();
        }
    }

    fn picks(self, place: &Place) -> Vec<Pick> {
        let mut picks: Vec<Pick> = Vec::new();
        for ((base, uid), (order, at)) in self.newest {
            let youngest = self.youngest.get(&base);
            let is_youngest = youngest.is_none_or(|(_, youngest)| *youngest == uid);
            let shown = if is_youngest {
                base.clone()
            } else {
                names::elder(&base, &uid)
            };
            let place = place.clone();
            picks.push(Pick {
                position: Position { place, base, uid },
                shown,
                order,
                at,
            });
        }
        told_apart(&mut picks);
        picks
    }
}

/// Gives full uids to predecessors whose uids begin alike, except the oldest of them.
fn told_apart(picks: &mut [Pick]) {
    let mut eldest: BTreeMap<String, Order> = BTreeMap::new();
    for pick in picks.iter().filter(|it| it.shown != it.position.base) {
        let order = eldest.entry(pick.shown.clone()).or_insert(pick.order);
        *order = pick.order.min(*order);
    }
    for pick in picks.iter_mut() {
        if eldest
            .get(&pick.shown)
            .is_some_and(|order| *order != pick.order)
        {
            pick.shown = names::elder_in_full(&pick.position.base, &pick.position.uid);
        }
    }
}

impl View {
    /// Lists the selected events after a position. The page has at most `limit` events, and ends
    /// once their bytes reach [`PAGE_BYTES_MAX`]; without a limit it has all.
    pub(in crate::reader) async fn list(
        &self,
        selection: &Selection,
        after: Option<&Position>,
        limit: Option<usize>,
    ) -> Result<Listed, Fault> {
        let mut after = after.cloned();
        let mut objects = self.objects(selection, after.as_ref()).await?;
        let mut listed = Listed::default();
        let mut bytes = 0;
        let mut names = 0;
        let is_full = |listed: &Listed, bytes: usize| {
            limit.is_some_and(|limit| listed.records.len() >= limit || bytes >= PAGE_BYTES_MAX)
        };
        loop {
            let left = limit.map_or(usize::MAX, |limit| limit - listed.records.len().min(limit));
            let (mut batch, mut rows) = (Vec::new(), 0);
            // Twice the wanted events, as most have one version; what is read beyond the page is
            // read again.
            let enough = left.saturating_add(1).saturating_mul(2).min(ROWS_AT_ONCE);
            while rows < enough
                && batch.len() <= left
                && let Some(object) = objects.next().await?
            {
                rows += object
                    .parts
                    .iter()
                    .map(|part| part.rows.len())
                    .sum::<usize>();
                batch.push(object);
            }
            if batch.is_empty() {
                return Ok(listed);
            }
            let max = left.saturating_add(1).max(names);
            let (picks, is_cut) = self.picks(&batch, selection, after.as_ref(), max).await?;
            let last = picks.last().map(|pick| pick.position.clone());
            let mut picks = picks.chunks(EVENTS_AT_ONCE).peekable();
            while let Some(some) = picks.next() {
                for record in self.records(some, selection).await? {
                    if is_full(&listed, bytes) {
                        listed.more = true;
                        return Ok(listed);
                    }
                    bytes += record.value.len();
                    listed.records.push(record);
                }
                if is_full(&listed, bytes)
                    && (picks.peek().is_some() || is_cut || !objects.is_over())
                {
                    listed.more = true;
                    return Ok(listed);
                }
            }
            if is_cut {
                // Some of the events were not selected, so the page has room for others. The next
                // step reads more names, so that an object is not read many times.
                names = max.saturating_mul(4).min(NAMES_MAX);
                after = last;
                objects = self.objects(selection, after.as_ref()).await?;
            }
        }
    }

    /// Returns the objects from that of a position on.
    async fn objects<'a>(
        &'a self,
        selection: &'a Selection,
        after: Option<&Position>,
    ) -> Result<Objects<'a>, Fault> {
        let from = after.map_or(selection.lower(), |after| {
            borrowed(&after.place).max(selection.lower())
        });
        Objects::from(self, selection, from).await
    }

    /// Returns the events about some objects, in order: of each object the first `max` after the
    /// position. If an object has more, the objects after it are left out, and the result is
    /// `true`.
    async fn picks(
        &self,
        objects: &[Object],
        selection: &Selection,
        after: Option<&Position>,
        max: usize,
    ) -> Result<(Vec<Pick>, bool), Fault> {
        let mut events: Vec<Events> = objects.iter().map(|_| Events::default()).collect();
        for slices in slices(objects) {
            let rows = self.keys(objects, &slices, selection).await?;
            for version in rows {
                let after = after.filter(|after| objects[version.object].place == after.place);
                let after = after.map(|after| (after.base.as_str(), after.uid.as_str()));
                events[version.object].add(version, after, max);
            }
        }
        let mut picks = Vec::new();
        for (object, events) in objects.iter().zip(events) {
            let is_cut = events.is_cut;
            picks.extend(events.picks(&object.place));
            if is_cut {
                return Ok((picks, true));
            }
        }
        Ok((picks, false))
    }

    /// Reads the key columns of some rows.
    pub(in crate::reader) async fn keys(
        &self,
        objects: &[Object],
        slices: &[Slice],
        selection: &Selection,
    ) -> Result<Vec<Keyed>, Fault> {
        // Rows of one row group are read together, whichever objects they are about.
        let mut of_groups: BTreeMap<(usize, usize), Vec<&Slice>> = BTreeMap::new();
        for slice in slices {
            let part = &objects[slice.object].parts[slice.part];
            of_groups
                .entry((part.file, part.group))
                .or_default()
                .push(slice);
        }
        let of_groups: Vec<_> = of_groups.into_iter().collect();
        let mut keyed = Vec::new();
        for some in of_groups.chunks(GROUPS_TOGETHER) {
            let mut wants = Vec::with_capacity(some.len());
            for ((file, group), slices) in some {
                let footer = self.footer(*file).await?;
                let rows = slices.iter().map(|slice| slice.rows.clone()).collect();
                wants.push(self.want(*file, &footer, *group, rows)?);
            }
            let uids = match selection.object_uid() {
                Some(_) => columns::read(&self.fetch, wants.clone(), [leaf::OBJECT_UID]).await?,
                None => Vec::new(),
            };
            let read = columns::read(&self.fetch, wants, leaf::KEYS).await?;
            for (number, (((file, group), slices), values)) in some.iter().zip(&read).enumerate() {
                let rows = slices
                    .iter()
                    .flat_map(|slice| slice.rows.clone().map(|row| (slice.object, row)));
                for (at, (object, row)) in rows.enumerate() {
                    if let (Some(wanted), Some([uids])) = (selection.object_uid(), uids.get(number))
                        && uids.text(at) != wanted.as_bytes()
                    {
                        continue;
                    }
                    let (file, group) = (*file, *group);
                    let at_row = At { file, group, row };
                    keyed.push(self.keyed(object, values.each_ref(), at, at_row)?);
                }
            }
        }
        Ok(keyed)
    }

    /// Makes the keys of row `at` from the values read; `row` says where that row is.
    pub(in crate::reader) fn keyed(
        &self,
        object: usize,
        [uid, event, observed, epoch, version]: [&columns::Values; 5],
        at: usize,
        row: At,
    ) -> Result<Keyed, Fault> {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes);
            text.map_err(|_| match self.file(row.file) {
                Ok(file) => Fault::damaged(&file.path, "a name is no text"),
                Err(fault) => fault,
            })
            .map(str::to_owned)
        };
        let uid = text(uid.text(at))?;
        let event = text(event.text(at))?;
        Ok(Keyed {
            object,
            base: names::base(&event, &uid).to_owned(),
            uid,
            order: Order {
                observed: observed.number(at),
                epoch: epoch.number(at).cast_unsigned(),
                version: version.number(at).cast_unsigned(),
            },
            at: row,
        })
    }
}

/// What identifies the version in a row.
pub(in crate::reader) struct Keyed {
    pub(in crate::reader) object: usize,
    /// The event's name at the source.
    pub(in crate::reader) base: String,
    pub(in crate::reader) uid: String,
    pub(in crate::reader) order: Order,
    pub(in crate::reader) at: At,
}

/// Some of the rows that one row group has about one object.
pub(in crate::reader) struct Slice {
    object: usize,
    part: usize,
    rows: std::ops::Range<usize>,
}

/// Splits the rows about some objects into parts of about [`ROWS_AT_ONCE`] rows.
pub(in crate::reader) fn slices(objects: &[Object]) -> Vec<Vec<Slice>> {
    let mut all = Vec::new();
    let (mut some, mut left) = (Vec::new(), ROWS_AT_ONCE);
    for (object, it) in objects.iter().enumerate() {
        for (part, it) in it.parts.iter().enumerate() {
            let mut rows = it.rows.clone();
            while !rows.is_empty() {
                let end = rows.end.min(rows.start + left);
                left -= end - rows.start;
                some.push(Slice {
                    object,
                    part,
                    rows: rows.start..end,
                });
                rows.start = end;
                if left == 0 {
                    all.push(std::mem::take(&mut some));
                    left = ROWS_AT_ONCE;
                }
            }
        }
    }
    all.push(some);
    all.retain(|some| !some.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(uid: &str, observed: i64) -> Keyed {
        Keyed {
            object: 0,
            base: "web.1".into(),
            uid: uid.into(),
            order: Order {
                observed,
                epoch: 0,
                version: 1,
            },
            at: At {
                file: 0,
                group: 0,
                row: 0,
            },
        }
    }

    /// Returns the uids and shown names of events that have one name.
    fn shown(versions: Vec<Keyed>) -> Vec<(String, String)> {
        let mut events = Events::default();
        for it in versions {
            events.add(it, None, 10);
        }
        let picks = events.picks(&Place::default());
        let shown = picks.into_iter().map(|it| (it.position.uid, it.shown));
        shown.collect()
    }

    #[test]
    fn events_of_one_name_are_told_apart() {
        let (eldest, elder, young) = ("12345678-a", "12345678-b", "9");
        let versions = vec![version(elder, 2), version(young, 3), version(eldest, 1)];
        let expected = [
            (eldest, "web.1.12345678"),
            (elder, "web.1.12345678-b"),
            (young, "web.1"),
        ];
        let expected = expected.map(|(uid, name)| (uid.to_owned(), name.to_owned()));
        assert_eq!(shown(versions), expected);
    }
}
