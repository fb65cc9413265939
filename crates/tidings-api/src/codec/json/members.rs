//! The members of an object that is written as JSON.

use super::text::write_string;

/// The members of an object being written.
pub struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Members<'_> {
    /// Appends a member that is text.
    pub fn string(&mut self, name: &'static str, value: &str) {
        self.name(name);
        write_string(value, self.out);
    }

    /// A member whose value `write` appends.
    pub fn raw(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        write(self.out);
    }

    /// The members still to come, appended by `write`, which puts a comma before its first if
    /// something is there.
    pub fn rest(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.first = false;
        write(self.out);
    }

    fn name(&mut self, name: &'static str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Appends `{…}` with the members that `fill` adds.
pub fn write_members(out: &mut Vec<u8>, fill: impl FnOnce(&mut Members<'_>)) {
    out.push(b'{');
    fill(&mut Members { out, first: true });
    out.push(b'}');
}
