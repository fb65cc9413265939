//! The rollup of a file: how many of its versions have the same namespace, kind of object, hour,
//! reason and type. `docs/archive-format.md` promises its columns as it does those of the file.
//!
//! Invariants: a rollup follows from the rows of its file; its counts add up to the file's number
//! of rows; no two of its rows count the same; its texts are cut off at [`ROLLUP_TEXT_MAX`] bytes,
//! because authors of events choose them. Memory: the counts of one kind of object in one
//! namespace, at most [`ROLLUP_ALL_ROWS_MAX`] rows, a row group, and the compressed file.

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::EnabledStatistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use tidings_core::floor_char_boundary;

use super::bounds::{
    GROUP_BYTES_MAX, ROLLUP_ALL_ROWS_MAX, ROLLUP_ROWS_MAX as GROUP_ROWS_MAX, ROLLUP_TEXT_MAX,
    ROLLUP_TEXTS_MAX,
};
use super::columns::{self, Column, Value};
use super::end::{self, FileError, Kind};
use super::pieces::Pieces;
use super::read::Chunks;
use super::write::write_group;
use crate::row::Row;

const HOUR_MICROS: i64 = 3_600_000_000;

/// One row of a rollup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    cluster: Arc<str>,
    namespace: Arc<str>,
    kind: Arc<str>,
    /// The hour in which the events were last seen, in microseconds since 1970.
    hour: Option<i64>,
    reason: Arc<str>,
    kind_of_event: Arc<str>,
    versions: u64,
}

impl Counted {
    /// Returns whether a text is longer than those of today's rollups.
    fn is_long(&self) -> bool {
        let texts = [
            &self.namespace,
            &self.kind,
            &self.reason,
            &self.kind_of_event,
        ];
        texts.iter().any(|text| text.len() > ROLLUP_TEXT_MAX)
    }
}

/// The hour, reason and type that a row counts.
type Key = (Option<i64>, Arc<str>, Arc<str>);

/// The counts of rows by cluster, namespace and kind, and by key.
type Totals = BTreeMap<([Arc<str>; 3], Key), u64>;

const fn column(name: &'static str, value: Value<Counted>) -> Column<Counted> {
    Column::new(name, value).few()
}

/// All columns of a rollup.
const COLUMNS: [Column<Counted>; 7] = [
    column("cluster", Value::Text(|row| &row.cluster)),
    column("namespace", Value::Text(|row| &row.namespace)),
    column("kind", Value::Text(|row| &row.kind)),
    column("hour", Value::MaybeTime(|row| row.hour)),
    column("reason", Value::Text(|row| &row.reason)),
    column("type", Value::Text(|row| &row.kind_of_event)),
    column("versions", Value::Number(|row| row.versions)),
];

/// Places of the columns.
const CLUSTER: usize = 0;
const NAMESPACE: usize = 1;
const KIND: usize = 2;
const HOUR: usize = 3;
const REASON: usize = 4;
const TYPE: usize = 5;
const VERSIONS: usize = 6;

/// A rollup that is being made.
pub(crate) struct Rollup {
    file: SerializedFileWriter<Vec<u8>>,
    /// Cluster, namespace and kind of the rows counted now.
    of: [Arc<str>; 3],
    counts: BTreeMap<Key, u64>,
    /// All reasons and types, and how many bytes these have.
    texts: HashSet<Arc<str>>,
    texts_bytes: usize,
    /// Number of the rollup's rows so far, including those of the current kind.
    all: usize,
    rows: Vec<Counted>,
    /// Total bytes of the texts of `rows`.
    bytes: usize,
}

/// The kind of files that are rollups.
const ROLLUP: Kind = Kind {
    rows_max: GROUP_ROWS_MAX,
    schema,
    other_columns: || FileError::Rollup,
};

/// Returns the schema of a rollup.
pub(super) fn schema() -> Result<TypePtr, ParquetError> {
    columns::schema_of("rollup", &COLUMNS)
}

impl Rollup {
    pub(crate) fn new() -> Result<Self, ParquetError> {
        let schema = schema()?;
        let builder = columns::builder()?
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let properties = columns::encoded(builder, &COLUMNS)?.build();
        Ok(Self {
            file: SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?,
            of: Default::default(),
            counts: BTreeMap::new(),
            texts: HashSet::new(),
            texts_bytes: 0,
            all: 0,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Returns whether the file has to end here, since the rollup would become too large.
    pub(crate) fn is_full(&self) -> bool {
        self.all >= ROLLUP_ALL_ROWS_MAX
            || self.texts_bytes >= ROLLUP_TEXTS_MAX - ROLLUP_TEXT_MAX * 2
    }

    /// Counts a row of a file; rows have to come in the order of the file.
    pub(crate) fn add(&mut self, row: &Row) -> Result<(), ParquetError> {
        let of = [&*row.cluster, &row.namespace, &row.kind].map(clipped);
        if self.of.each_ref().map(AsRef::as_ref) != of {
            self.end_kind()?;
            self.of = of.map(Arc::from);
        }
        let hour = row
            .last_seen
            .map(|seen| seen.saturating_sub(seen.rem_euclid(HOUR_MICROS)));
        let key = (hour, self.text(&row.reason), self.text(&row.kind_of_event));
        let count = self.counts.entry(key).or_default();
        self.all += usize::from(*count == 0);
        *count += 1;
        Ok(())
    }

    /// Returns a reason or type, of which only one copy is in memory.
    fn text(&mut self, text: &str) -> Arc<str> {
        let text = clipped(text);
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts_bytes += text.len();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// Ends the rollup; returns its bytes.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, ParquetError> {
        self.end_kind()?;
        self.end_group()?;
        self.file.into_inner()
    }

    fn end_kind(&mut self) -> Result<(), ParquetError> {
        for ((hour, reason, kind_of_event), versions) in mem::take(&mut self.counts) {
            let [cluster, namespace, kind] = self.of.clone();
            let texts = [&*namespace, &kind, &reason, &kind_of_event];
            self.bytes += texts.iter().map(|text| text.len()).sum::<usize>();
            self.rows.push(Counted {
                cluster,
                namespace,
                kind,
                hour,
                reason,
                kind_of_event,
                versions,
            });
            if self.rows.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
                self.end_group()?;
            }
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        if !self.rows.is_empty() {
            write_group(&mut self.file, &COLUMNS, &self.rows)?;
        }
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Returns the beginning of a text, as rollups store it.
pub(crate) fn clipped(text: &str) -> &str {
    &text[..floor_char_boundary(text, ROLLUP_TEXT_MAX)]
}

/// A rollup whose metadata was read.
pub(crate) struct Reader {
    meta: ParquetMetaData,
    pieces: Arc<Pieces>,
}

/// The columns of a row group that are needed to count by hour and reason.
pub(crate) struct ByHour {
    /// Microseconds since 1970.
    pub(crate) hours: Vec<Option<i64>>,
    pub(crate) reasons: Vec<ByteArray>,
    pub(crate) versions: Vec<u64>,
}

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Result<Self, FileError> {
        let meta = end::read(&bytes, bytes.len() as u64, ROLLUP)?;
        let pieces = Arc::new(Pieces::whole(bytes));
        Ok(Self { meta, pieces })
    }

    pub(crate) fn groups(&self) -> usize {
        self.meta.num_row_groups()
    }

    /// Returns the number of rows, each of which counts at least one version.
    pub(crate) fn count_of_rows(&self) -> u64 {
        let groups = self.meta.row_groups().iter();
        groups.map(|group| group.num_rows().unsigned_abs()).sum()
    }

    fn chunks(&self, group: usize) -> Result<Chunks<'_>, ParquetError> {
        let group = self.meta.row_groups().get(group).ok_or_else(missing)?;
        let pieces = &self.pieces;
        Ok(Chunks { pieces, group })
    }

    /// Reads the counts of a row group by hour and reason.
    pub(crate) fn hours(&self, group: usize) -> Result<ByHour, ParquetError> {
        hours(&self.chunks(group)?)
    }

    fn rows(&self, group: usize) -> Result<Vec<Counted>, ParquetError> {
        let group = &self.chunks(group)?;
        let ByHour {
            hours,
            reasons,
            versions,
        } = hours(group)?;
        let texts = |leaf| texts(group, leaf);
        let (clusters, namespaces) = (texts(CLUSTER)?, texts(NAMESPACE)?);
        let (kinds, types) = (texts(KIND)?, texts(TYPE)?);
        let rows = (0..versions.len()).map(|row| {
            Ok(Counted {
                cluster: clusters[row].as_utf8()?.into(),
                namespace: namespaces[row].as_utf8()?.into(),
                kind: kinds[row].as_utf8()?.into(),
                hour: hours[row],
                reason: reasons[row].as_utf8()?.into(),
                kind_of_event: types[row].as_utf8()?.into(),
                versions: versions[row],
            })
        });
        rows.collect()
    }

    fn into_rows(self) -> impl Iterator<Item = Result<Counted, ParquetError>> {
        (0..self.groups()).flat_map(move |group| match self.rows(group) {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }
}

fn hours(group: &Chunks<'_>) -> Result<ByHour, ParquetError> {
    let (versions, _) = group.values::<Int64Type>(VERSIONS)?;
    let (hours, defined) = group.values::<Int64Type>(HOUR)?;
    let mut hours = hours.into_iter();
    let hours = defined.into_iter().map(|defined| match defined {
        0 => None,
        _ => hours.next(),
    });
    Ok(ByHour {
        hours: hours.collect(),
        reasons: texts(group, REASON)?,
        versions: versions.into_iter().map(i64::cast_unsigned).collect(),
    })
}

fn texts(group: &Chunks<'_>, leaf: usize) -> Result<Vec<ByteArray>, ParquetError> {
    Ok(group.values::<ByteArrayType>(leaf)?.0)
}

fn missing() -> ParquetError {
    ParquetError::General("rows are missing".into())
}

/// Returns whether two rollups have the same counts. The texts of an early rollup are not cut off;
/// they are cut off before the comparison.
pub(crate) fn is_same(one: &Bytes, other: &Bytes) -> Result<bool, FileError> {
    let rows = |bytes: &Bytes| Reader::new(bytes.clone()).map(Reader::into_rows);
    let (mut rows_of_one, mut rows_of_other) = (rows(one)?, rows(other)?);
    loop {
        match (
            rows_of_one.next().transpose()?,
            rows_of_other.next().transpose()?,
        ) {
            (None, None) => return Ok(true),
            (one, other) if one == other => {}
            (Some(row), Some(_)) if row.is_long() => break,
            _ => return Ok(false),
        }
    }
    Ok(totals(rows(one)?)? == totals(rows(other)?)?)
}

/// Returns the counts of rows, after their texts are cut off.
fn totals(
    rows: impl Iterator<Item = Result<Counted, ParquetError>>,
) -> Result<Totals, ParquetError> {
    let mut totals = Totals::new();
    let clip = |text: &str| -> Arc<str> { clipped(text).into() };
    for row in rows {
        let row = row?;
        let of = [&*row.cluster, &row.namespace, &row.kind].map(clip);
        let key = (row.hour, clip(&row.reason), clip(&row.kind_of_event));
        let total = totals.entry((of, key)).or_default();
        *total = total.saturating_add(row.versions);
        if totals.len() > ROLLUP_ALL_ROWS_MAX {
            return Err(ParquetError::General("it has too many rows".into()));
        }
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = HOUR_MICROS;

    fn row(namespace: &str, reason: &str, last_seen: Option<i64>) -> Row {
        Row {
            cluster: "prod".into(),
            namespace: namespace.into(),
            kind: "Pod".into(),
            name: String::new(),
            observed: 0,
            uid: String::new(),
            event: String::new(),
            epoch: 0,
            version: 0,
            object_uid: String::new(),
            reason: reason.into(),
            kind_of_event: "Normal".into(),
            source: String::new(),
            host: String::new(),
            reporting_controller: String::new(),
            action: String::new(),
            message: String::new(),
            count: None,
            first_seen: None,
            last_seen,
            labels: Vec::new(),
            object: Bytes::new(),
        }
    }

    fn rollup(rows: &[Row]) -> Bytes {
        let mut rollup = Rollup::new().unwrap();
        for row in rows {
            rollup.add(row).unwrap();
        }
        rollup.finish().unwrap().into()
    }

    #[test]
    fn rows_are_counted_by_hour_and_what_they_are_about() {
        let rows = [
            row("a", "Pulled", Some(5 * HOUR)),
            row("a", "Created", Some(5 * HOUR + 1)),
            row("a", "Pulled", Some(6 * HOUR - 1)),
            row("a", "Pulled", Some(6 * HOUR)),
            row("a", "Pulled", None),
            row("b", "Pulled", Some(-1)),
            row("b", "Pulled", Some(i64::MIN)),
        ];
        let rows = Reader::new(rollup(&rows)).unwrap().into_rows();
        let rows = rows.map(|row| {
            let row = row.unwrap();
            assert_eq!((&*row.cluster, &*row.kind), ("prod", "Pod"));
            assert_eq!(&*row.kind_of_event, "Normal");
            (
                row.namespace.to_string(),
                row.reason.to_string(),
                row.hour,
                row.versions,
            )
        });
        let expected = [
            ("a", "Pulled", None, 1),
            ("a", "Created", Some(5 * HOUR), 1),
            ("a", "Pulled", Some(5 * HOUR), 2),
            ("a", "Pulled", Some(6 * HOUR), 1),
            ("b", "Pulled", Some(i64::MIN), 1),
            ("b", "Pulled", Some(-HOUR), 1),
        ];
        let expected = expected.map(|(namespace, reason, hour, versions)| {
            (namespace.to_owned(), reason.to_owned(), hour, versions)
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_compared_is_what_they_say() {
        let many = |reasons: usize| -> Vec<Row> {
            let reasons = 0..reasons;
            let rows = reasons.map(|number| row("a", &number.to_string(), Some(0)));
            rows.collect()
        };
        let some = rollup(&many(GROUP_ROWS_MAX * 2 + 1));
        assert_eq!(Reader::new(some.clone()).unwrap().groups(), 3);
        assert!(is_same(&some, &some).unwrap());
        for other in [
            rollup(&many(GROUP_ROWS_MAX * 2)),
            rollup(&many(GROUP_ROWS_MAX * 2 + 2)),
            rollup(&[row("a", "0", None)]),
            rollup(&[]),
        ] {
            assert!(!is_same(&some, &other).unwrap());
        }
        // The other rollup has as many rows, and one of them has another count, hour or reason.
        let two = |last| rollup(&[row("a", "0", Some(0)), row("a", "0", Some(HOUR)), last]);
        let one = two(row("a", "1", Some(HOUR)));
        for last in [
            row("a", "0", Some(HOUR)),
            row("a", "1", None),
            row("a", "2", Some(HOUR)),
        ] {
            assert!(!is_same(&one, &two(last)).unwrap());
        }
        assert!(is_same(&rollup(&[]), &rollup(&[])).unwrap());
        let not_whole = some.slice(..some.len() - 1);
        assert!(is_same(&not_whole, &some).is_err());
    }

    #[test]
    fn a_file_of_other_columns_is_refused() {
        let bytes = crate::file::write::Writer::new(false).unwrap().finish();
        let refused = Reader::new(bytes.unwrap().into()).map(drop);
        assert!(matches!(refused, Err(FileError::Rollup)), "{refused:?}");
    }

    /// Authors of events choose the reasons. In full, a merge would hold all their bytes, and so
    /// would a reader.
    #[test]
    fn long_reasons_are_cut_off_and_a_rollup_ends_where_it_has_too_many() {
        let long = "ä".repeat(400_000);
        let reasons = ["1", "2", "3"].map(|end| format!("{long}{end}"));
        let rows = reasons.each_ref().map(|reason| row("a", reason, Some(0)));
        let counted = Reader::new(rollup(&rows)).unwrap().into_rows();
        let counted: Vec<Counted> = counted.map(Result::unwrap).collect();
        let [one] = &counted[..] else {
            panic!("{} rows", counted.len());
        };
        assert_eq!((one.reason.len(), one.versions), (ROLLUP_TEXT_MAX, 3));

        let mut rollup = Rollup::new().unwrap();
        let mut held = 0;
        while !rollup.is_full() {
            let reason = format!("{held:0>600}").chars().rev().collect::<String>();
            rollup.add(&row("a", &reason, Some(0))).unwrap();
            held += ROLLUP_TEXT_MAX;
        }
        assert!(held <= ROLLUP_TEXTS_MAX, "{held}");
        let bytes = Bytes::from(rollup.finish().unwrap());
        assert!(Reader::new(bytes).is_ok());

        let mut rollup = Rollup::new().unwrap();
        let mut hours = 0;
        while !rollup.is_full() {
            rollup.add(&row("a", "Pulled", Some(hours * HOUR))).unwrap();
            hours += 1;
        }
        assert_eq!(hours as usize, ROLLUP_ALL_ROWS_MAX);
    }

    /// Rollups of early versions are like this.
    #[test]
    fn a_rollup_with_texts_in_full_says_the_same() {
        let long = "a".repeat(ROLLUP_TEXT_MAX);
        let with = |kinds: [(&str, &str); 3], clip: bool| -> Bytes {
            let rows = kinds.map(|(end, kind_of_event)| {
                let reason = format!("{long}{end}");
                let reason = if clip { clipped(&reason) } else { &reason };
                Counted {
                    cluster: "prod".into(),
                    namespace: "a".into(),
                    kind: "Pod".into(),
                    hour: Some(0),
                    reason: reason.into(),
                    kind_of_event: kind_of_event.into(),
                    versions: 1,
                }
            });
            let mut made = Rollup::new().unwrap();
            made.rows.extend(rows);
            made.finish().unwrap().into()
        };
        let kinds = [("1", "Normal"), ("1", "Warning"), ("2", "Normal")];
        let now = [("1", "Normal"), ("2", "Normal"), ("1", "Warning")];
        let (full, now) = (with(kinds, false), with(now, true));
        assert!(is_same(&full, &now).unwrap());
        let other = [("1", "Normal"), ("1", "Warning"), ("2", "Warning")];
        assert!(!is_same(&with(other, false), &now).unwrap());
    }
}
