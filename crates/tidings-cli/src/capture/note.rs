//! Notes about an event: the changes that were made while it was read.

use std::fmt;

/// A change that was made to an event while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Note {
    /// Invalid bytes, unpaired surrogates, or lines of other programs were removed from it.
    Repaired,
    /// `metadata.creationTimestamp` became its time, because it had no other.
    CreationTime,
    /// The event has no valid time.
    NoTime,
    /// A field that was no valid time was removed.
    TimeLost,
    /// A time was cut to the precision of its field.
    TimeCut,
    /// A name was made for it.
    Unnamed,
    /// Owners, finalizers, or a deletion in another cluster were removed.
    Owners,
    /// Another version of the event was read before.
    OtherVersion,
}

/// A clause that follows a number of events.
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
            Self::OtherVersion => {
                "of which another version was read before; the newest stays"
            }
        })
    }
}
