//! Randomness for uids, suffixes of generated names, tokens, and the lifetimes of watches.

use std::cell::RefCell;

/// Bytes requested from the system at a time, because a call takes longer than everything else that
/// is done for a uid.
const POOL_LEN: usize = 512;

/// Random bytes of one thread that are not used yet.
struct Pool {
    bytes: [u8; POOL_LEN],
    taken: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const {
        RefCell::new(Pool { bytes: [0; POOL_LEN], taken: POOL_LEN })
    };
}

impl Pool {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], getrandom::Error> {
        if POOL_LEN - self.taken < N {
            getrandom::fill(&mut self.bytes)?;
            self.taken = 0;
        }
        let mut bytes = [0; N];
        // Used bytes are not kept.
        let mut rest = self.bytes.iter_mut().skip(self.taken);
        bytes.fill_with(|| rest.next().map(std::mem::take).unwrap_or_default());
        self.taken += N;
        Ok(bytes)
    }
}

/// The characters of generated suffixes: no vowels, so no words.
const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    const { assert!(N <= POOL_LEN) };
    POOL.with_borrow_mut(Pool::take)
}

/// A version 4 UUID.
pub(crate) fn uuid() -> Result<String, getrandom::Error> {
    Ok(uuid_of(bytes()?, 4))
}

/// The UUID of this version made of these bytes, except for the bits that the version determines.
pub(crate) fn uuid_of(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        push_hex(*byte, &mut text);
    }
    text
}

/// The suffix of a generated name.
pub(crate) fn name_suffix() -> Result<String, getrandom::Error> {
    let words: [u8; 5] = bytes()?;
    // The slight bias towards the first letters does not matter: a taken name is tried again.
    Ok(words
        .iter()
        .filter_map(|byte| NAME_ALPHABET.get(usize::from(byte % 27)))
        .map(|byte| char::from(*byte))
        .collect())
}

/// A token that cannot be guessed: 256 bits.
pub(crate) fn token() -> Result<String, getrandom::Error> {
    let mut text = String::with_capacity(64);
    for byte in bytes::<32>()? {
        push_hex(byte, &mut text);
    }
    Ok(text)
}

fn push_hex(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.extend([byte >> 4, byte & 15].map(|nibble| char::from(DIGITS[usize::from(nibble)])));
}

/// A number between 0 and 1; one half if the system returns no randomness.
pub(crate) fn fraction() -> f64 {
    bytes::<4>().map_or(0.5, |bytes| {
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuids_have_their_form() {
        let uuid = super::uuid().unwrap();
        let lens: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lens, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert_ne!(uuid, super::uuid().unwrap());
    }

    #[test]
    fn nothing_is_given_twice() {
        let tokens: std::collections::BTreeSet<_> =
            (0..1000).map(|_| super::token().unwrap()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| token.len() == 64));
    }
}
