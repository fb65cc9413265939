//! The durations of requests, and their percentiles.

use std::time::Duration;

/// The durations of requests.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds a duration.
    pub fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// Adds all durations of another value.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The number of durations.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of milliseconds that this part (0 to 1) of the durations did not exceed; 0
    /// without durations.
    pub fn percentile_ms(&mut self, part: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else {
            return 0.;
        };
        let place = (last as f64 * part.clamp(0., 1.)).round() as usize;
        let (_, at, _) = self.0.select_nth_unstable(place.min(last));
        at.as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile_ms(0.5).to_bits(), 0f64.to_bits());
        for milliseconds in (0..=100).rev() {
            latencies.push(Duration::from_millis(milliseconds));
        }
        for (part, expected) in [(0., 0.), (0.5, 50.), (0.99, 99.), (1., 100.)] {
            assert!((latencies.percentile_ms(part) - expected).abs() < 1e-9);
        }
    }
}
