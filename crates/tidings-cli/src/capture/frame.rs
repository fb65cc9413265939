//! An open object or array of a JSON document, and the reasons for which a document breaks.

use super::record::DEPTH_MAX;
use super::shape::{Key, Loss, Shape};
use super::window::Cursor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// After the opening bracket.
    First,
    /// After a comma.
    Next,
    Colon,
    Value,
    /// After a value.
    After,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of an object is found out piece by piece"
)]
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) start: Cursor,
    pub(super) is_object: bool,
    pub(super) state: State,
    pub(super) shape: Shape,
    pub(super) key: Key,
    /// Whether the object cannot contain events, so that its content is skipped.
    pub(super) is_passed_over: bool,
    /// Whether the object is within an event. Then it is an event itself only if the text between
    /// the two is missing.
    pub(super) is_in_event: bool,
    /// Whether an event was found in the object.
    pub(super) has_event: bool,
    /// Whether the object is too large, so that its beginning is no longer in memory.
    pub(super) is_too_large: bool,
}

impl Frame {
    /// A frame for an object or array within another one.
    pub(super) fn within(around: Option<&Self>, is_object: bool, start: Cursor) -> Self {
        let is_passed_over = around.is_some_and(|around| {
            around.is_passed_over || around.key == Key::Before || around.shape.is_closed()
        });
        Self {
            start,
            is_object,
            state: State::First,
            shape: Shape::default(),
            key: Key::Other,
            is_passed_over,
            is_in_event: around.is_some_and(|it| it.is_in_event || it.shape.is_event()),
            has_event: false,
            is_too_large: false,
        }
    }

    /// Whether the object is an event, may be one, or is another object of Kubernetes, as far as
    /// it was read.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        let is_known = self.shape.is_typed() || self.shape.is_closed();
        self.is_object && (is_known || self.shape.is_event() || self.shape.loss() == Loss::Event)
    }
}

/// Why a document cannot be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    End,
    LineFeed,
    Unexpected(u8),
    TooDeep,
}

impl Broken {
    pub(super) fn words(self) -> String {
        match self {
            Self::End => "it ends within the event".to_owned(),
            Self::LineFeed => "a line ends within a text".to_owned(),
            Self::Unexpected(byte) if byte.is_ascii_graphic() => {
                format!("{:?} was not expected", char::from(byte))
            }
            Self::Unexpected(byte) => format!("the byte 0x{byte:02x} was not expected"),
            Self::TooDeep => format!("more than {DEPTH_MAX} brackets within each other"),
        }
    }
}
