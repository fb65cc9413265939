//! A sample of written bodies, for training dictionaries.
//!
//! Writers add a body from time to time, without waiting. The distance between samples grows, so a
//! store whose values do not change soon stops training.
//!
//! Bound: one sample, of as many bytes as the store's options say.

use parking_lot::{Condvar, Mutex};

/// Maximum number of bodies in a sample.
const SAMPLE_LEN: usize = 2048;

/// Growth of the distance between two sampled bodies. The first sample takes every body. For each
/// further sample the distance grows by this factor, up to the maximum.
const DISTANCE_GROWTH: u64 = 4;
const DISTANCE_MAX: u64 = 4096;

/// The sample that writers add to.
pub(in crate::embedded) struct Sample(Mutex<State>, Condvar);

struct State {
    bodies: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
    /// One in `distance` bodies is taken.
    distance: u64,
    passed: u64,
    closed: bool,
}

impl Sample {
    /// A sample of at most about this many bytes.
    pub(in crate::embedded) fn new(bytes_max: usize) -> Self {
        Self(
            Mutex::new(State {
                bodies: Vec::new(),
                bytes: 0,
                bytes_max,
                distance: 1,
                passed: 0,
                closed: false,
            }),
            Condvar::new(),
        )
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.bodies.len() >= SAMPLE_LEN || self.bytes >= self.bytes_max
    }
}

impl Sample {
    /// Offers a body to the sample, which may copy it. It is skipped if the lock is taken, because
    /// a sample need not have every body.
    pub(in crate::embedded) fn offer(&self, body: &[u8]) {
        let Some(mut state) = self.0.try_lock() else {
            return;
        };
        state.passed += 1;
        if state.closed || !state.passed.is_multiple_of(state.distance) || state.is_full() {
            return;
        }
        state.bytes += body.len();
        state.bodies.push(body.to_vec());
        if state.is_full() {
            self.1.notify_all();
        }
    }

    /// Waits for a full sample; `None` when the store closes.
    pub(in crate::embedded) fn take(&self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.0.lock();
        self.1
            .wait_while(&mut state, |state| !state.closed && !state.is_full());
        if state.closed {
            return None;
        }
        (state.bytes, state.passed) = (0, 0);
        state.distance = (state.distance * DISTANCE_GROWTH).min(DISTANCE_MAX);
        Some(std::mem::take(&mut state.bodies))
    }

    pub(in crate::embedded) fn close(&self) {
        self.0.lock().closed = true;
        self.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_and_taken_when_full() {
        let sample = Sample::new(1 << 20);
        for number in 0..5000u64 {
            sample.offer(&number.to_be_bytes());
        }
        assert_eq!(sample.take().map(|bodies| bodies.len()), Some(SAMPLE_LEN));
        for number in 0..DISTANCE_GROWTH * SAMPLE_LEN as u64 {
            sample.offer(&number.to_be_bytes());
        }
        let second = sample.take().unwrap();
        assert_eq!(
            (second.len(), &second[0]),
            (SAMPLE_LEN, &3u64.to_be_bytes().to_vec())
        );
        sample.close();
        assert!(sample.take().is_none());
        let sample = Sample::new(100);
        for number in 0..5000u64 {
            sample.offer(&number.to_be_bytes());
        }
        assert_eq!(sample.take().map(|bodies| bodies.len()), Some(13));
    }
}
