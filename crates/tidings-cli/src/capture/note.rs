//! What reading changed in an event.

use std::fmt;

/// What reading changed in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Note {
    /// Bytes, halves of surrogates, or lines of other programs in it.
    Repaired,
    /// Its only time was `metadata.creationTimestamp`.
    CreationTime,
    /// It had no time that can be read.
    NoTime,
    /// A time that is none.
    TimeLost,
    /// A time finer than the field can be written.
    TimeCut,
    /// It had no name.
    Unnamed,
    /// Owners, finalizers, or a deletion in another cluster.
    Owners,
}

/// A clause that fits after a number of events.
impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Repaired => {
                "repaired, as damaged characters became U+FFFD and lines of other programs were cut out"
            }
            Self::CreationTime => {
                "with no time but metadata.creationTimestamp, which became firstTimestamp and lastTimestamp"
            }
            Self::NoTime => "without any time",
            Self::TimeLost => "with a time that is not RFC 3339, which was left out",
            Self::TimeCut => {
                "with a time cut to whole seconds, or to microseconds where it is eventTime or of a series"
            }
            Self::Unnamed => "without a name, which got one made of the content",
            Self::Owners => {
                "with owners, finalizers or a deletion of another cluster, which were left out"
            }
        })
    }
}
