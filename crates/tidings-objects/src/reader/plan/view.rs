//! One state of an archive: a manifest with some of the pending versions after it.
//!
//! It reads parts of their files.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_pb::api::core::v1::Event;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use tidings_api::codec;
use tidings_store::{Index, Record, Revision};
use xxhash_rust::xxh3::xxh3_128;

use super::selection::Selection;
use crate::file::bounds::{END_BYTES_MAX, GROUP_ROWS_MAX};
use crate::folder::Folder;
use crate::manifest::{File, Manifest};
use crate::reader::fault::Fault;
use crate::reader::keys::names::{self, Order};
use crate::reader::keys::{Position, borrowed};
use crate::reader::pending::tail::{self, Tail};
use crate::reader::scan::Footer;
use crate::reader::scan::Runs;
use crate::reader::scan::columns::{self, Rows, Want};
use crate::reader::scan::leaf::{self, Leaf};
use crate::reader::scan::{Fetch, Held, Key, Remote};

/// Bytes of a file's end that are fetched at first, plus [`END_OF_GROUP`] for each row group.
const END: u64 = 16 << 10;
const END_OF_GROUP: u64 = 8 << 10;
/// A file's end that is longer than this is read with a permit for long ends.
const END_LONG: u64 = 1 << 20;
/// About the bytes of memory that a file of a manifest takes.
const FILE_BYTES: u64 = 1_500;
/// Number of files that are opened at once.
pub(in crate::reader) const SOURCES_AT_ONCE: usize = 16;
/// Row groups whose rows are read together, with the ends of their files.
pub(in crate::reader) const GROUPS_TOGETHER: usize = 32;
/// Rows of a row group, for a first guess of the length of the end.
const GROUP_ROWS: u64 = GROUP_ROWS_MAX as u64;

/// One state of an archive; see the module documentation.
pub(in crate::reader) struct View {
    named: Arc<Named>,
    tail: Tail,
    pub(in crate::reader) fetch: Fetch,
}

/// A manifest, and where its files are.
pub(in crate::reader) struct Named {
    manifest: Manifest,
    files: Vec<Remote>,
    rollups: Vec<Option<Remote>>,
}

impl Named {
    pub(in crate::reader) fn new(folder: &Folder, manifest: Manifest) -> Self {
        let remote = |path: &str, len, checksum: &str| {
            let path = folder.path(path);
            Remote {
                id: xxh3_128(path.as_ref().as_bytes()),
                len,
                checksum: checksum.to_owned(),
                path,
                held: None,
            }
        };
        let files = manifest.files.iter();
        let rollups = files.clone().map(|file| {
            let rollup = file.rollup.as_ref()?;
            Some(remote(&rollup.path, rollup.bytes, &rollup.checksum))
        });
        let files = files.map(|file| remote(&file.path, file.bytes, &file.checksum));
        Self {
            files: files.collect(),
            rollups: rollups.collect(),
            manifest,
        }
    }

    pub(in crate::reader) fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// Where a version is: a file, a row group and a row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reader) struct At {
    pub(in crate::reader) file: usize,
    pub(in crate::reader) group: usize,
    pub(in crate::reader) row: usize,
}

/// A file, with the row groups in which a read may find something. It does not hold the end of the
/// file, because there may be as many as files: only the cache has a bound.
pub(in crate::reader) struct Source {
    pub(in crate::reader) file: usize,
    pub(in crate::reader) groups: Vec<usize>,
}

/// Values of rows of a row group, and for which wanted rows they are. A pair is the number of a
/// wanted row, and the index of its values.
pub(in crate::reader) type OfGroup<const N: usize> = ([columns::Values; N], Vec<(usize, usize)>);

/// A version of an event to be returned, and the name it is shown under.
#[derive(Clone, Debug)]
pub(in crate::reader) struct Pick {
    pub(in crate::reader) position: Position,
    pub(in crate::reader) shown: String,
    pub(in crate::reader) order: Order,
    pub(in crate::reader) at: At,
}

impl View {
    /// Makes a view of a manifest with the pending versions after it.
    pub(in crate::reader) fn new(named: Arc<Named>, tail: Tail, fetch: Fetch) -> Self {
        Self { named, tail, fetch }
    }

    /// Makes a view of the same manifest with other pending versions.
    pub(in crate::reader) fn with(&self, tail: Tail) -> Self {
        Self::new(Arc::clone(&self.named), tail, self.fetch.clone())
    }

    pub(in crate::reader) fn manifest(&self) -> &Manifest {
        &self.named.manifest
    }

    pub(in crate::reader) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns about the bytes of its manifest; 0 if `other` has the same one.
    pub(in crate::reader) fn bytes_beside(&self, other: &Self) -> u64 {
        let is_same = Arc::ptr_eq(&self.named, &other.named);
        let files = if is_same { 0 } else { self.named.files.len() };
        files as u64 * FILE_BYTES
    }

    /// Returns the revision, which stands for what the view shows, and is the same at every reader.
    pub(in crate::reader) fn revision(&self) -> Revision {
        tail::revision(self.manifest().number, self.tail.entries())
    }

    /// Returns all files: those of the manifest, and those with pending versions.
    pub(in crate::reader) fn files(&self) -> impl Iterator<Item = &File> {
        let waiting = self.tail.parts().iter().map(|part| &part.file);
        self.manifest().files.iter().chain(waiting)
    }

    /// Returns what is known of a file, by its number.
    fn described(&self, file: usize) -> Option<&File> {
        let files = &self.manifest().files;
        let waiting = || {
            let part = self.tail.parts().get(file - files.len());
            part.map(|part| &part.file)
        };
        files.get(file).or_else(waiting)
    }

    /// Returns the number of versions.
    pub(in crate::reader) fn count_of_versions(&self) -> u64 {
        self.manifest().rows() + self.tail.rows()
    }

    pub(in crate::reader) fn file(&self, file: usize) -> Result<&Remote, Fault> {
        let files = &self.named.files;
        let waiting = || {
            let part = self.tail.parts().get(file - files.len());
            part.map(|part| &part.remote)
        };
        let found = files.get(file).or_else(waiting);
        found.ok_or(Fault::Unknown("a file is not of this manifest"))
    }

    /// Returns the rollup of a file, if it has one.
    pub(in crate::reader) fn rollup(&self, file: usize) -> Option<&Remote> {
        self.named.rollups.get(file)?.as_ref()
    }

    /// Reads the metadata of a file, through the cache.
    pub(in crate::reader) async fn footer(&self, file: usize) -> Result<Arc<Footer>, Fault> {
        let remote = self.file(file)?;
        let key = Key::Footer(remote.id);
        if let Some(Held::Footer(footer)) = self.fetch.held(key) {
            return Ok(footer);
        }
        let rows = self.described(file).map_or(0, |file| file.rows);
        let mut len = END + END_OF_GROUP * rows.div_ceil(GROUP_ROWS);
        let footer = loop {
            let from = remote.len.saturating_sub(len);
            let range = from..remote.len;
            // The semaphore is never closed.
            let _turn = if len > END_LONG {
                self.fetch.shared.ends.acquire().await.ok()
            } else {
                None
            };
            let end = self
                .fetch
                .ranges(remote, std::slice::from_ref(&range))
                .await?;
            let end = end.into_iter().next().unwrap_or_default();
            match Footer::of(&end, remote.len, rows) {
                Ok(footer) => break footer,
                Err(ParquetError::NeedMoreData(needed))
                    if from > 0 && needed <= END_BYTES_MAX && needed as u64 > len =>
                {
                    len = needed as u64;
                }
                Err(error) => return Err(Fault::parquet(&remote.path, &error)),
            }
        };
        let footer = Arc::new(footer);
        self.fetch.hold(key, Held::Footer(Arc::clone(&footer)));
        Ok(footer)
    }

    /// Returns where selected events may be. It uses the statistics and, if the object's name is
    /// known, the bloom filters of names.
    pub(in crate::reader) async fn sources(
        &self,
        selection: &Selection,
    ) -> Result<Vec<Source>, Fault> {
        let files = self.files().enumerate();
        let files = files.filter(|(_, file)| selection.may_be_in(file));
        let sources = files.map(|(file, _)| self.source(file, selection).boxed());
        let sources: Vec<_> = sources.collect();
        let sources = stream::iter(sources).buffered(SOURCES_AT_ONCE);
        let mut sources: Vec<Source> = sources.try_collect().await?;
        sources.retain(|source| !source.groups.is_empty());
        Ok(sources)
    }

    async fn source(&self, file: usize, selection: &Selection) -> Result<Source, Fault> {
        let footer = self.footer(file).await?;
        let groups = footer.groups.iter().enumerate();
        let groups = groups.filter(|(_, group)| selection.may_be_within(group));
        let mut groups: Vec<usize> = groups.map(|(group, _)| group).collect();
        if let Some(name) = selection.name() {
            let wanted: [(_, &[&str]); 1] = [(leaf::NAME, &[name])];
            groups = self.filtered(file, &footer, groups, &wanted).await?;
        }
        Ok(Source { file, groups })
    }

    /// Returns the row groups whose bloom filters may know a wanted value of one of the columns.
    pub(in crate::reader) async fn filtered(
        &self,
        file: usize,
        footer: &Footer,
        groups: Vec<usize>,
        wanted: &[(Leaf, &[&str])],
    ) -> Result<Vec<usize>, Fault> {
        let filters = groups
            .iter()
            .flat_map(|group| wanted.iter().map(|(leaf, _)| footer.filter(*group, *leaf)));
        let filters: Vec<_> = filters.collect();
        let ranges: Vec<_> = filters.iter().flatten().cloned().collect();
        let mut bytes = self
            .fetch
            .ranges(self.file(file)?, &ranges)
            .await?
            .into_iter();
        let filters = filters
            .iter()
            .map(|range| range.as_ref().and_then(|_| bytes.next()));
        let filters: Vec<Option<Bytes>> = filters.collect();
        let path = &self.file(file)?.path;
        let mut may = Vec::new();
        for (group, filters) in groups.into_iter().zip(filters.chunks(wanted.len().max(1))) {
            let mut has = false;
            for (filter, (_, values)) in filters.iter().zip(wanted) {
                has = has || columns::may_have(path, filter.as_ref(), values)?;
            }
            if has {
                may.push(group);
            }
        }
        Ok(may)
    }

    /// Reads the objects of a row group, through the cache.
    pub(in crate::reader) async fn runs(
        &self,
        file: usize,
        footer: &Arc<Footer>,
        group: usize,
    ) -> Result<Arc<Runs>, Fault> {
        let remote = self.file(file)?;
        let key = Key::Runs(remote.id, group);
        if let Some(Held::Runs(runs)) = self.fetch.held(key) {
            return Ok(runs);
        }
        let rows = footer.groups.get(group).map_or(0, |group| group.rows);
        let want = self.want(file, footer, group, std::iter::once(0..rows).collect())?;
        let leaves = [leaf::NAMESPACE, leaf::KIND, leaf::NAME];
        let mut read = columns::read_once(&self.fetch, vec![want], leaves).await?;
        let values = read.pop();
        let texts = values
            .as_ref()
            .map(|all| all.each_ref().map(columns::Values::texts));
        let runs = texts.and_then(|texts: [&[ByteArray]; 3]| Runs::new(texts));
        let runs = runs.ok_or_else(|| Fault::damaged(&remote.path, "its rows are not in order"))?;
        let runs = Arc::new(runs);
        self.fetch.hold(key, Held::Runs(Arc::clone(&runs)));
        Ok(runs)
    }

    pub(in crate::reader) fn want(
        &self,
        file: usize,
        footer: &Arc<Footer>,
        group: usize,
        rows: Rows,
    ) -> Result<Want, Fault> {
        Ok(Want {
            file: self.file(file)?.clone(),
            footer: Arc::clone(footer),
            group,
            rows,
        })
    }

    /// Reads columns of single rows, grouped by their row groups.
    pub(in crate::reader) async fn rows<const N: usize>(
        &self,
        ats: &[At],
        leaves: [Leaf; N],
    ) -> Result<Vec<OfGroup<N>>, Fault> {
        let mut order: Vec<usize> = (0..ats.len()).collect();
        order.sort_by_key(|at| ats.get(*at).copied());
        let is_together = |one: &usize, other: &usize| {
            let (one, other) = (ats[*one], ats[*other]);
            (one.file, one.group) == (other.file, other.group)
        };
        let groups: Vec<&[usize]> = order.chunk_by(is_together).collect();
        let mut found = Vec::with_capacity(groups.len());
        for some in groups.chunks(GROUPS_TOGETHER) {
            let mut wants = Vec::new();
            let mut places = Vec::new();
            for group in some {
                let first = ats[group[0]];
                let footer = self.footer(first.file).await?;
                let (rows, of) = rows_of(ats, group);
                wants.push(self.want(first.file, &footer, first.group, rows)?);
                places.push(of);
            }
            let read = columns::read(&self.fetch, wants, leaves).await?;
            found.extend(read.into_iter().zip(places));
        }
        Ok(found)
    }

    /// Reads the records of the given versions, in order, without those not selected.
    pub(in crate::reader) async fn records(
        &self,
        picks: &[Pick],
        selection: &Selection,
    ) -> Result<Vec<Record>, Fault> {
        let ats: Vec<At> = picks.iter().map(|pick| pick.at).collect();
        let mut records: Vec<Option<Record>> = vec![None; picks.len()];
        for ([objects], places) in self.rows(&ats, [leaf::OBJECT]).await? {
            for (number, row) in places {
                let bytes = Bytes::copy_from_slice(objects.text(row));
                if let Some(pick) = picks.get(number) {
                    records[number] = self.record(pick, bytes, selection)?;
                }
            }
        }
        Ok(records.into_iter().flatten().collect())
    }

    fn record(
        &self,
        pick: &Pick,
        value: Bytes,
        selection: &Selection,
    ) -> Result<Option<Record>, Fault> {
        let mut event = self.event(&pick.position, pick.at, &value)?;
        if !selection.selects(&index(&event)) {
            return Ok(None);
        }
        let metadata = event.metadata.get_or_insert_default();
        let value = if metadata.name() == pick.shown {
            value
        } else {
            metadata.name = Some(pick.shown.clone());
            codec::encode_stored(&mut event)
        };
        Ok(Some(Record {
            key: pick.position.key(),
            value,
            revision: pick.order.revision(),
            expires_at: None,
        }))
    }

    /// Decodes an event's bytes, and checks that it is the one that the columns state.
    pub(in crate::reader) fn event(
        &self,
        position: &Position,
        at: At,
        value: &Bytes,
    ) -> Result<Event, Fault> {
        let path = &self.file(at.file)?.path;
        let event = codec::decode_stored(value, 0);
        let event = event.map_err(|why| Fault::damaged(path, why))?;
        let metadata = event.metadata.as_ref();
        let object = event.involved_object.as_ref();
        let found = [
            metadata.map_or("", |it| it.namespace()),
            object.map_or("", |it| it.kind()),
            object.map_or("", |it| it.name()),
        ];
        let uid = metadata.map_or("", |it| it.uid());
        let name = names::base(metadata.map_or("", |it| it.name()), uid);
        let place = borrowed(&position.place);
        if found != place || uid != position.uid || name != position.base {
            return Err(Fault::damaged(
                path,
                "a column does not say what an event says",
            ));
        }
        Ok(event)
    }
}

/// Returns the rows of some versions of a row group, in order, and pairs of a version's number and
/// the index of its row.
fn rows_of(ats: &[At], numbers: &[usize]) -> (Rows, Vec<(usize, usize)>) {
    let (mut rows, mut of): (Rows, Vec<(usize, usize)>) = Default::default();
    let mut count = 0;
    for number in numbers {
        let row = ats[*number].row;
        match rows.last_mut() {
            // The row is wanted twice.
            Some(last) if last.end == row + 1 => {}
            Some(last) if last.end == row => {
                last.end += 1;
                count += 1;
            }
            _ => {
                rows.push(row..row + 1);
                count += 1;
            }
        }
        of.push((*number, count - 1));
    }
    (rows, of)
}

fn index(event: &Event) -> Index {
    let object = event.involved_object.clone().unwrap_or_default();
    Index {
        object_uid: object.uid.unwrap_or_default(),
        object_kind: object.kind.unwrap_or_default(),
        object_namespace: object.namespace.unwrap_or_default(),
        object_name: object.name.unwrap_or_default(),
        ..Index::default()
    }
}
