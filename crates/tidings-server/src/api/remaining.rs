//! A cache of the numbers of remaining events of lists that are read page by page.
//!
//! They are counted for the first page alone: to count again for each page would make a list's cost
//! the square of its length. A continue token is kube-apiserver's own and has no field for the
//! count, so it is kept here, for the lists last read. A count that is not known here, as after a
//! restart, is made again.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Maximum lists whose counts are kept; each takes some hundred bytes.
const LISTS_MAX: usize = 1024;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Remaining(Mutex<VecDeque<Left>>);

#[derive(Debug)]
struct Left {
    prefix: Vec<u8>,
    token: String,
    count: u64,
}

impl Remaining {
    /// Keeps how many records come behind a continue token, in the list of a prefix.
    pub(crate) fn keep(&self, prefix: &[u8], token: &str, count: u64) {
        let left = Left {
            prefix: prefix.to_vec(),
            token: token.to_owned(),
            count,
        };
        let mut lists = self.0.lock();
        lists.truncate(LISTS_MAX - 1);
        lists.push_front(left);
    }

    /// The number of records after a continue token.
    pub(crate) fn of(&self, prefix: &[u8], token: &str) -> Option<u64> {
        let lists = self.0.lock();
        let mut lists = lists.iter();
        let left = lists.find(|left| left.token == token && left.prefix == prefix);
        left.map(|left| left.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_last_read_are_known() {
        let remaining = Remaining::default();
        for count in 0..=LISTS_MAX as u64 {
            remaining.keep(b"shop/", &count.to_string(), count);
        }
        assert_eq!(remaining.of(b"shop/", "0"), None);
        assert_eq!(remaining.of(b"shop/", "1"), Some(1));
        assert_eq!(remaining.of(b"", "1"), None);
        assert_eq!(remaining.0.lock().len(), LISTS_MAX);
    }
}
