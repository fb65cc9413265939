//! The kinds of the values in Parquet's own metadata, as the Parquet crate reads them. The crate
//! does not look at the kind that the bytes state.
//!
//! The crate skips all other fields, by the kind that the bytes state.

/// The kind of a value.
#[derive(Debug)]
pub(super) enum Kind {
    /// A truth value.
    Truth,
    /// Numbers of 8, 16, 32 and 64 bits. Enumerations have 32.
    Byte,
    Short,
    Int,
    Long,
    /// A floating-point number.
    Double,
    /// A text or bytes.
    Bytes,
    /// A list of values of one kind.
    List(&'static Self),
    /// A structure.
    Fields(&'static Struct),
}

/// The fields of a structure, by their numbers.
pub(super) type Struct = [(i16, Kind)];

impl Kind {
    /// Returns whether this is the number of the kind in the bytes.
    pub(super) fn is(&self, wire: u8) -> bool {
        match self {
            Self::Truth => matches!(wire, 1 | 2),
            Self::Byte => wire == 3,
            Self::Short => wire == 4,
            Self::Int => wire == 5,
            Self::Long => wire == 6,
            Self::Double => wire == 7,
            Self::Bytes => wire == 8,
            Self::List(_) => wire == 9,
            Self::Fields(_) => wire == 12,
        }
    }
}

use Kind::{Byte, Bytes, Double, Fields, Int, List, Long, Short, Truth};

const NONE: &Struct = &[];
const NOTHING: Kind = Fields(NONE);

/// The end of a file.
pub(super) const FILE: &Struct = &[
    (1, Int),
    (2, List(&Fields(ELEMENT))),
    (3, Long),
    (4, List(&Fields(GROUP))),
    (5, List(&Fields(PAIR))),
    (6, Bytes),
    (7, List(&Fields(ORDER))),
    (8, Fields(NONE)),
    (9, Bytes),
];

/// An element of the schema.
const ELEMENT: &Struct = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Bytes),
    (5, Int),
    (6, Int),
    (7, Int),
    (8, Int),
    (9, Int),
    (10, Fields(LOGICAL)),
];

/// What the values of a column mean.
const LOGICAL: &Struct = &[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Fields(&[(1, Int), (2, Int)])),
    (6, NOTHING),
    (7, Fields(TIME)),
    (8, Fields(TIME)),
    (10, Fields(&[(1, Byte), (2, Truth)])),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
    (16, Fields(&[(1, Byte)])),
    (17, Fields(&[(1, Bytes)])),
    (18, Fields(&[(1, Bytes), (2, Int)])),
    (19, NOTHING),
];

const TIME: &Struct = &[
    (1, Truth),
    (2, Fields(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)])),
];

const GROUP: &Struct = &[
    (1, List(&Fields(CHUNK))),
    (2, Long),
    (3, Long),
    (4, List(&Fields(&[(1, Int), (2, Truth), (3, Truth)]))),
    (5, Long),
    (6, Long),
    (7, Short),
];

const CHUNK: &Struct = &[
    (1, Bytes),
    (2, Long),
    (3, Fields(COLUMN)),
    (4, Long),
    (5, Int),
    (6, Long),
    (7, Int),
    (8, Fields(NONE)),
    (9, Bytes),
];

const COLUMN: &Struct = &[
    (1, Int),
    (2, List(&Int)),
    (3, List(&Bytes)),
    (4, Int),
    (5, Long),
    (6, Long),
    (7, Long),
    (8, List(&Fields(PAIR))),
    (9, Long),
    (10, Long),
    (11, Long),
    (12, Fields(STATISTICS)),
    (13, List(&Fields(&[(1, Int), (2, Int), (3, Int)]))),
    (14, Long),
    (15, Int),
    (16, Fields(&[(1, Long), (2, List(&Long)), (3, List(&Long))])),
    (17, Fields(&[(1, Fields(BOX)), (2, List(&Int))])),
];

const STATISTICS: &Struct = &[
    (1, Bytes),
    (2, Bytes),
    (3, Long),
    (4, Long),
    (5, Bytes),
    (6, Bytes),
    (7, Truth),
    (8, Truth),
    (9, Long),
];

const BOX: &Struct = &[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
];

const PAIR: &Struct = &[(1, Bytes), (2, Bytes)];
const ORDER: &Struct = &[(1, NOTHING), (2, NOTHING)];

/// The header of a page.
pub(super) const PAGE: &Struct = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Fields(DATA)),
    (6, NOTHING),
    (7, Fields(&[(1, Int), (2, Int), (3, Truth)])),
    (8, Fields(DATA_V2)),
];

const DATA: &Struct = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Fields(STATISTICS)),
];

const DATA_V2: &Struct = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Truth),
    (8, Fields(STATISTICS)),
];

/// Where the pages of a column are.
pub(super) const PAGES: &Struct = &[
    (1, List(&Fields(&[(1, Long), (2, Int), (3, Long)]))),
    (2, List(&Long)),
];

/// The header of a bloom filter.
pub(super) const FILTER: &Struct = &[
    (1, Int),
    (2, Fields(&[(1, NOTHING)])),
    (3, Fields(&[(1, NOTHING)])),
    (4, Fields(&[(1, NOTHING)])),
];
