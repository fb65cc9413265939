//! A cache of the counts of remaining events, for lists that are read page by page.
//!
//! Events are counted for the first page only, because counting again for each page would make a
//! list's cost the square of its length. A continue token is kube-apiserver's own and has no field
//! for the count, so it is cached here, for the lists last read. An unknown count, as after a
//! restart, is made again.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Maximum cached counts; each takes some hundred bytes.
const LISTS_MAX: usize = 1024;

/// The counts of remaining events, by list and continue token.
#[derive(Debug, Default)]
pub(crate) struct Remaining(Mutex<VecDeque<Left>>);

#[derive(Debug)]
struct Left {
    prefix: Vec<u8>,
    token: String,
    count: u64,
}

impl Remaining {
    /// Caches the number of records after a continue token, in the list of a prefix.
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
