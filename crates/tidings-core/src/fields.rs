//! The fields of an event as data, for both API versions.
//!
//! Each field has its names, number and type, and the rules for writing and merging it. The rows
//! are in `fields/rows.rs`, and nowhere else. A field that is added there is read and written in
//! every form.

mod rows;

/// An object type in one API version.
#[derive(Debug)]
pub struct Type {
    /// The name of the Go struct.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Whether managers own it as a whole (`x-kubernetes-map-type: atomic`), not field by field.
    pub atomic: bool,
    /// The fields in the order of JSON.
    pub fields: &'static [Field],
    /// The fields in the order of protobuf.
    pub by_number: &'static [Field],
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The text `,"name":`, so that writing it is one copy.
    member: &'static str,
    /// The field's number in protobuf.
    pub number: u32,
    /// The number of the same field in core/v1, the stored version.
    pub stored: u32,
    /// The type of the field's value.
    pub kind: Kind,
    /// The rule for when the field is written.
    pub rule: Rule,
    /// A description in one sentence.
    pub what: &'static str,
}

/// The type of a field's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A boolean that may be unset.
    Bool,
    /// A time in whole seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// A map of strings.
    Map,
    /// A set of strings.
    Set,
    /// Any JSON value.
    Json,
    /// An object.
    Object(&'static Type),
    /// A list of objects. Items merge by the named key field; without one, the list is owned as a
    /// whole.
    List(&'static Type, Option<&'static str>),
}

/// The rule for when a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The field is always written, and OpenAPI declares it required.
    Required,
    /// The field is always written; if it is empty, as `""`, `{}` or `null`.
    Always,
    /// The field is written unless it is empty.
    Omitted,
    /// The field is written if it is set, even to the zero value.
    Pointer,
}

impl Type {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name() == name)
    }

    /// The field at a path of names, through objects.
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&'static Field> {
        let (last, way) = path.split_last()?;
        let mut around = self;
        for name in way {
            around = match around.field(name.as_ref())?.kind {
                Kind::Object(inner) => inner,
                _ => return None,
            };
        }
        around.field(last.as_ref())
    }

    /// The number of the field with this name; 0 if there is no such field.
    pub const fn number(&self, name: &str) -> u32 {
        let mut at = 0;
        while at < self.fields.len() {
            if is_name(self.fields[at].member.as_bytes(), name.as_bytes()) {
                return self.fields[at].number;
            }
            at += 1;
        }
        0
    }
}

/// Whether a member in the form of [`Field::member`] has this name.
const fn is_name(member: &[u8], name: &[u8]) -> bool {
    if member.len() != name.len() + 4 {
        return false;
    }
    let mut at = 0;
    while at < name.len() {
        if member[at + 2] != name[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl Field {
    #[doc(hidden)]
    pub const fn new(
        member: &'static str,
        [number, stored]: [u32; 2],
        kind: Kind,
        rule: Rule,
        what: &'static str,
    ) -> Self {
        Self {
            member,
            number,
            stored,
            kind,
            rule,
            what,
        }
    }

    /// The field's name in JSON.
    #[inline]
    pub fn name(&self) -> &'static str {
        let member = self.member;
        member.get(2..member.len() - 2).unwrap_or_default()
    }

    /// The text `,"name":`, as it follows another member.
    #[inline]
    pub fn member(&self) -> &'static str {
        self.member
    }

    /// Whether the field is written even if it is empty.
    #[inline]
    pub fn is_always_there(&self) -> bool {
        matches!(self.rule, Rule::Required | Rule::Always)
    }
}

#[doc(hidden)]
pub const fn by_number<const N: usize>(rows: &[Field]) -> [Field; N] {
    let mut sorted = [rows[0]; N];
    let mut filled = 0;
    while filled < N {
        let mut place = filled;
        while place > 0 && sorted[place - 1].number > rows[filled].number {
            sorted[place] = sorted[place - 1];
            place -= 1;
        }
        sorted[place] = rows[filled];
        filled += 1;
    }
    sorted
}

/// The fields in the order of JSON. The rows are in the order of core/v1's JSON. If a message has
/// numbers of its own, its JSON is in the order of these numbers.
#[doc(hidden)]
pub const fn in_order(rows: &'static [Field], by_number: &'static [Field]) -> &'static [Field] {
    let mut at = 0;
    while at < rows.len() {
        if rows[at].number != rows[at].stored {
            return by_number;
        }
        at += 1;
    }
    rows
}

/// The types of `v1`.
pub mod core_v1 {
    crate::event_types!(crate::field_tables, core);
}

/// The types of `events.k8s.io/v1`.
pub mod events_v1 {
    crate::event_types!(crate::field_tables, events);
}
